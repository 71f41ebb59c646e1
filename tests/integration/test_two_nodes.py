"""Two nodes: whatever holds a file stays on the node of the data directory."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from tests.fixtures.lean import without_index

BODY = """
    import os, signal, sys, time
    import ray
    from ray.cluster_utils import Cluster
    from perdure.actors import connect
    from perdure.actors.testing import Rule, Say, Script

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=8)
    cluster.wait_for_nodes()
    try:
        with connect(sys.argv[1], address=cluster.address) as runtime:
            here = ray.get_runtime_context().get_node_id()
            agent = runtime.agent("a", model=Script((Rule(None, (Say("ok"),)),)))
            chats = [agent.conversation(f"c{number}") for number in range(6)]
            for chat in chats:
                chat.send("hello")
            print("nodes", len(ray.nodes()), "elsewhere", [c.inspect().node_id for c in chats].count(here) - 6)
            os.kill(chats[0].inspect().pid, signal.SIGKILL)
            print("again", chats[0].inspect().node_id == here, len(chats[0].history()))
            directory = ray.get_actor("directory", runtime.place.namespace)
            print("directory", ray.get(directory.node_id.remote()) == here)
    finally:
        cluster.shutdown()
"""


def test_conversations_and_the_directory_stay_on_the_node_of_the_data_directory(tmp_path: Path) -> None:
    inherited = {key: value for key, value in without_index().items() if not key.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BODY), str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env=inherited,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-3:] == ["nodes 2 elsewhere 0", "again True 2", "directory True"], done.stdout

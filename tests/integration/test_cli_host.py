"""`perdure up`, `down` and `status`: a runtime that outlives the scripts that use it."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from perdure.actors.host_address import wait_until_unserved
from perdure.storage.directory_store import DirectoryStore
from perdure.storage.layout import directory_path

COMMAND = [sys.executable, "-c", "from perdure.actors.cli import main; main()"]
CLIENT = """
import sys
from perdure.actors import connect
with connect(sys.argv[1]) as runtime:
    print(runtime.agent("a").ask("hello"), flush=True)
    sys.stdin.readline()
"""


@pytest.mark.timeout(300)
def test_a_runtime_is_kept_up_between_scripts_until_it_is_told_to_end(perdure_alone, tmp_path):
    data_dir = tmp_path / "data"

    def command(*arguments):
        return perdure_alone("--data-dir", data_dir, *arguments)

    assert command("status")[:2] == (3, f"not served: {data_dir}\n")
    assert command("down")[:2] == (0, f"nothing serves {data_dir}\n")
    assert not data_dir.exists()

    up = subprocess.run([*COMMAND, "up", "--data-dir", str(data_dir)], capture_output=True, text=True, check=False)
    assert (up.returncode, f"connect({str(data_dir)!r})" in up.stdout) == (0, True), up.stderr
    first = json.loads(command("status", "--json")[1])
    assert (first["served"], first["kept"], first["clients"]) == (True, True, [])
    again = json.loads(command("up", "--json")[1])
    assert again == {"data_dir": str(data_dir), "pid": first["pid"], "was_served": True}

    script = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert script.stdout is not None
    assert "embedded model" in script.stdout.readline()
    served = json.loads(command("status", "--json")[1])
    assert (served["clients"], served["live_conversations"]) == ([script.pid], 1)
    status, output, error = command("down")
    assert (status, output) == (1, "")
    assert f"has 1 client (process {script.pid}) attached" in error and "--force" in error
    script.communicate("\n")
    assert script.returncode == 0  # nobody has touched its runtime
    time.sleep(1.5)  # longer than a host without a client stays, unless it is kept
    after = json.loads(command("status", "--json")[1])
    assert (after["pid"], after["kept"], after["live_conversations"]) == (first["pid"], True, 1)

    assert command("down")[:2] == (0, f"ended: process {first['pid']}, with 0 clients attached\n")
    assert wait_until_unserved(data_dir / "run", 0.1)
    assert command("status")[0] == 3
    assert not (data_dir / "run" / "address.json").exists()
    store = DirectoryStore.open(directory_path(data_dir))  # it has been told what the conversation holds
    assert [(record.messages, record.outbox_pending) for record in store.conversations(None, 9, 0)] == [(2, 0)]
    store.close()


@pytest.mark.timeout(300)
def test_a_runtime_is_ended_under_its_scripts_where_that_is_forced_and_what_they_were_told_is_stored(
    perdure_alone, tmp_path
):
    data_dir = tmp_path / "data"
    script = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert script.stdout is not None
    assert "embedded model" in script.stdout.readline()
    pid = json.loads(perdure_alone("--data-dir", data_dir, "status", "--json")[1])["pid"]
    assert perdure_alone("--data-dir", data_dir, "down")[0] == 1
    status, output, _ = perdure_alone("--data-dir", data_dir, "down", "--force")
    assert (status, output) == (0, f"ended: process {pid}, with 1 client (process {script.pid}) attached\n")
    assert wait_until_unserved(data_dir / "run", 0.1)
    script.kill()  # Ray ends it by itself, in its own time
    script.communicate()
    store = DirectoryStore.open(directory_path(data_dir))
    assert [record.messages for record in store.conversations(None, 9, 0)] == [2]
    store.close()

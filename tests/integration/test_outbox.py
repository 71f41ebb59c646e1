"""Messages that follow: delivered beside the turns, through kills and passivation, and to those that come later."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

from perdure.actors.host_address import wait_until_unserved
from tests.fixtures.following import FOLDER, taken

PREAMBLE = """
    import os, re, signal, socket, sys, time, urllib.request
    from pathlib import Path
    from perdure.actors import connect
    from perdure.actors.live_marks import live_conversations, live_folder
    from perdure.actors.testing import Rule, Say, Script
    from tests.fixtures.following import taken

    data_dir, folder = Path(sys.argv[1]), Path(sys.argv[2])
    script = Script((Rule(None, (Say("ok"),)),))

    def settings(*consumers, idle_s=300.0):
        return {
            "outbox": {
                "consumers": [f"{kind}=tests.fixtures.following:{kind.title()}" for kind in consumers],
                "index": False, "max_attempts": 2, "sweep_s": 1.0, "longest_pause_s": 1.0,
            },
            "conversations": {"passivate_after_s": idle_s},
            "ray": {"metrics_port": METRICS_PORT, "metrics_interval_s": 1.0},
        }

    def until(claim, what, timeout_s=90):
        limit = time.monotonic() + timeout_s
        while not claim():
            if time.monotonic() > limit:
                raise SystemExit(f"not within {timeout_s} s: {what}, {live_conversations(live_folder(data_dir))}")
            time.sleep(0.05)

    def free_port():
        with socket.create_server(("127.0.0.1", 0)) as server:
            return server.getsockname()[1]

    METRICS_PORT = free_port()

    def metrics(name):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{METRICS_PORT}/metrics", timeout=10) as page:
                lines = page.read().decode().splitlines()
        except OSError:  # not there yet
            return {}
        found = [line for line in lines if line.startswith(f"ray_perdure_outbox_{name}{{")]
        own = {}
        for line in found:
            tags = re.findall(r'\\b(consumer|outcome)="(\\w+)"', line)
            own[" ".join(value for _, value in tags)] = float(line.rsplit(" ", 1)[1])
        return own

    def texts(name="following"):
        return [text for _, _, text in taken(folder, name)]
"""


def run(body: str, data_dir: Path, folder: Path) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PREAMBLE) + textwrap.dedent(body), str(data_dir), str(folder)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env={**os.environ, FOLDER: str(folder)},
    )
    assert wait_until_unserved(data_dir / "run")
    assert ended.returncode == 0, ended.stderr + ended.stdout
    return ended.stdout


def test_what_cannot_be_taken_is_parked_and_shown_and_a_kill_loses_nothing(tmp_path: Path) -> None:
    run(
        """
        (folder / "following.fault").write_text("poison")
        with connect(data_dir, settings=settings("following")) as runtime:
            chat = runtime.agent("a", model=script).conversation("c")
            for text in ("one", "poison", "two"):
                chat.send(text)
            until(lambda: texts()[-1:] == ["ok"] and len(texts()) == 5, f"the rest goes on: {texts()}")
            assert texts() == ["one", "ok", "ok", "two", "ok"], texts()
            [parked] = chat.inspect().parked
            assert (parked.kind, parked.seq, parked.error) == ("following", 2, "ValueError: cannot take poison"), parked
            assert chat.retry_parked() == 0 and len(chat.inspect().parked) == 1
            (folder / "following.fault").unlink()
            assert chat.retry_parked() == 1 and chat.inspect().parked == ()
            assert texts()[-1] == "poison"

            (folder / "following.fault").write_text("down")
            chat.send("three")
            assert chat.inspect().outbox == {"following": 2}
            until(lambda: metrics("depth_messages") == {"following": 2}, "the depth is seen")
            counted = {"following delivered": 6, "following parked": 1}
            until(lambda: metrics("messages_total") == counted, "the deliveries are counted")
            os.kill(chat.inspect().pid, signal.SIGKILL)
            (folder / "following.fault").unlink()
            until(lambda: texts()[-2:] == ["three", "ok"], f"after the kill: {texts()}")
            until(lambda: chat.inspect().outbox == {"following": 0}, "acknowledged")
        """,
        tmp_path / "data",
        tmp_path,
    )


def test_a_later_consumer_gets_dormant_conversations_from_their_beginning_and_they_stay_dormant(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    run(
        """
        with connect(data_dir) as runtime:
            agent = runtime.agent("a", model=script)
            for name in ("x", "y"):
                agent.conversation(name).send(f"hello from {name}")
        """,
        data_dir,
        tmp_path,
    )
    assert taken(tmp_path, "latecomer") == []
    run(
        """
        with connect(data_dir, settings=settings("latecomer")) as runtime:
            until(lambda: len(texts("latecomer")) == 4, f"all of both: {texts('latecomer')}")
            until(lambda: not live_conversations(live_folder(data_dir)), "dormant again")
            records = runtime.conversations()
            until(lambda: {r.outbox_pending for r in runtime.conversations()} == {0}, "noted")
            until(lambda: runtime.job_runs("outbox-sweep"), "the sweep is told of once it has ended")
            [run, *_] = runtime.job_runs("outbox-sweep")
            print(run.counts)
        """,
        data_dir,
        tmp_path,
    )
    for name in ("x", "y"):
        assert [entry[1:] for entry in taken(tmp_path, "latecomer") if entry[0] == name] == [
            (0, f"hello from {name}"),
            (1, "ok"),
        ]


def test_a_conversation_passivated_with_undelivered_messages_is_swept_when_its_consumer_is_back(tmp_path: Path) -> None:
    run(
        """
        (folder / "following.fault").write_text("down")
        with connect(data_dir, settings=settings("following", idle_s=1.0)) as runtime:
            runtime.agent("a", model=script).conversation("c").send("late")
            until(lambda: [r.outbox_pending for r in runtime.conversations()] == [2], "passivated")
            (folder / "following.fault").unlink()
            until(lambda: texts() == ["late", "ok"], f"swept: {texts()}")
            until(lambda: [r.outbox_pending for r in runtime.conversations()] == [0], "noted")
        """,
        tmp_path / "data",
        tmp_path,
    )


INDEXED = """
    def indexed():
        return {"outbox": {"sweep_s": 1.0}, "ray": {"metrics_port": METRICS_PORT}}

    def found(chat):
        recalled = chat.recall_conversation("Where is the boat?")
        return [hit.message.text for hit in recalled.hits]
"""


def test_messages_are_indexed_again_after_their_indexes_were_deleted_or_made_anew(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    run(
        INDEXED
        + """
    with connect(data_dir, settings=indexed()) as runtime:
        chat = runtime.agent("a", model=script).conversation("x", contact="c:1")
        chat.send("The boat lies in the bay")
        until(lambda: not chat.inspect().outbox["index"], "indexed")
        assert "The boat lies in the bay" in found(chat)
    """,
        data_dir,
        tmp_path,
    )
    shutil.rmtree(data_dir / "indexes")
    run(
        INDEXED
        + """
    with connect(data_dir, settings=indexed()) as runtime:
        other = runtime.agent("a", model=script).conversation("y", contact="c:1")
        other.send("hello")
        until(lambda: "The boat lies in the bay" in found(other), "the dormant one is swept and indexed again")
        until(lambda: not other.inspect().outbox["index"], "indexed")
        runtime.memory_call("reindex_messages", timeout_s=60)
        assert "The boat lies in the bay" not in found(other)
        until(lambda: {"The boat lies in the bay", "hello"} <= set(found(other)), "both are, the live one too")
    """,
        data_dir,
        tmp_path,
    )


def test_a_conversation_that_cannot_be_opened_is_swept_less_and_less_and_leaves_no_process(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    run(
        """
        (folder / "following.fault").write_text("down")
        with connect(data_dir, settings=settings("following")) as runtime:
            runtime.agent("a", model=script).conversation("c").send("late")
        """,
        data_dir,
        tmp_path,
    )
    [file] = (data_dir / "conversations").rglob("*.duckdb")
    file.write_bytes(b"nonsense" * 1000)
    run(
        """
        with connect(data_dir, settings=settings("following")) as runtime:
            until(lambda: [r.sweeps for r in runtime.conversations()][0] >= 3, "tried and postponed")
            until(lambda: not live_conversations(live_folder(data_dir)), "it has no process")
            [first, *_] = runtime.job_runs("outbox-sweep")
            assert '"failed": 1' in first.counts, first
        """,
        data_dir,
        tmp_path,
    )

"""The runtime itself: data directories, addresses, closing, files that cannot be used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import duckdb
import pytest

from perdure.actors import connect
from perdure.actors.host_address import wait_until_unserved
from perdure.actors.ray_environment import ray_temp_dir
from perdure.actors.testing import Rule, Say, Script
from perdure.storage.conversation_store import ConversationStore
from perdure.storage.errors import (
    DataDirectoryError,
    FileCorruptError,
    FileTooNewError,
    InvalidInputError,
    SettingsError,
)
from perdure.storage.layout import conversation_path
from perdure.storage.records import ConversationId, ConversationIdentity
from tests.fixtures.lean import without_index

SAYS_OK = Script((Rule(None, (Say("ok"),)),))


def test_a_ray_client_address_is_refused_with_the_reason(tmp_path):
    with pytest.raises(InvalidInputError, match="streamed replies do not work") as caught:
        connect(tmp_path, address="ray://127.0.0.1:10001")
    assert "address='auto'" in str(caught.value)


def test_a_data_directory_that_cannot_be_made_is_refused_with_the_reason(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataDirectoryError, match="cannot be used as data directory"):
        connect(tmp_path / "file" / "data")


def test_an_unknown_setting_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(SettingsError, match="max_tool_round"):
        connect(tmp_path / "data", settings={"turn": {"max_tool_round": 3}})


def test_a_corrupt_conversation_file_fails_alone_names_itself_and_works_again_once_restored(runtime, name):
    agent = runtime.agent(name, model=SAYS_OK)
    path = conversation_path(runtime.place.data_dir, agent.name, ConversationId("bad"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(50_000))
    bad = agent.conversation("bad")
    for _ in range(2):
        with pytest.raises(FileCorruptError, match=path.name):
            bad.send("Hello", timeout_s=30)
    assert agent.conversation("good").send("Hello").text == "ok"
    path.unlink()
    assert bad.send("Hello").text == "ok"


def test_a_conversation_file_of_a_newer_version_fails_alone_and_is_left_as_it_is(runtime, name, tmp_path):
    from datetime import UTC, datetime

    agent = runtime.agent(name, model=SAYS_OK)
    path = conversation_path(runtime.place.data_dir, agent.name, ConversationId("new"))
    identity = ConversationIdentity(agent=agent.name, conversation_id=ConversationId("new"), contact=None)
    store = ConversationStore.open(path, identity, datetime.now(UTC))
    store.close()
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE OR REPLACE VIEW schema_migrations AS SELECT * FROM"
            " (VALUES (1, '0001_conversation.sql'), (2, '0002_later.sql')) AS kept (version, name)"
        )
    before = path.read_bytes()
    with pytest.raises(FileTooNewError, match="newer version of Perdure"):
        agent.conversation("new").send("Hello", timeout_s=30)
    assert path.read_bytes() == before


def run_script(body: str, data_dir: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {key: value for key, value in without_index().items() if not key.startswith("RAY_")}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(body), str(data_dir), *arguments],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env={**inherited, **variables},
    )


def test_after_a_restart_of_everything_the_next_script_finds_what_the_last_one_was_told(tmp_path, name):
    body = """
        import sys
        from perdure.actors import connect
        from perdure.actors.testing import Rule, Say, Script
        from perdure.storage.errors import RuntimeClosedError
        with connect(sys.argv[1]) as runtime:
            agent = runtime.agent("assistant")
            if sys.argv[2] == "first":
                print(agent.ask("My name is Ana and my favourite language is TypeScript"))
            print(agent.ask("What is my favourite language?"))
            print(len(agent.conversation("default").history()))
        try:
            agent.ask("anyone there?")
        except RuntimeClosedError as error:
            print(error)
        """
    first = run_script(body, tmp_path / "data", "first")
    assert first.returncode == 0, first.stderr
    second = run_script(body, tmp_path / "data", "second")
    assert second.returncode == 0, second.stderr
    lines = second.stdout.splitlines()
    assert "TypeScript" in second.stdout
    assert "6" in lines
    assert "this runtime is closed" in lines[-1]


def test_a_driver_that_is_killed_leaves_its_data_directory_free_and_its_turns_to_be_repeated(tmp_path):
    body = """
        import os, signal, sys
        from perdure.actors import connect
        from perdure.actors.testing import Pause, Rule, Say, Script
        script = Script((Rule("slow", (Pause(30), Say("late"))), Rule(None, (Say("ok"),))))
        runtime = connect(sys.argv[1])
        chat = runtime.agent("a", model=script).conversation("c")
        if sys.argv[2] == "first":
            chat.send("quick", turn_id="t1")
            chat.send.pending("slow", turn_id="t2")
            import time
            while not chat.inspect().open_turns:
                time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGKILL)
        runtime.agent("a", model=Script((Rule(None, (Say("ok"),)),)))
        chat = runtime.agent("a").conversation("c")
        print(chat.send("quick", turn_id="t1").text, chat.send("slow", turn_id="t2").text, len(chat.history()))
        runtime.close()
        """
    first = run_script(body, tmp_path / "data", "first")
    assert first.returncode == -9
    assert wait_until_unserved(tmp_path / "data" / "run")  # sooner, the turn would still be running
    second = run_script(body, tmp_path / "data", "second")
    assert (second.returncode, second.stdout.split()) == (0, ["ok", "ok", "4"]), second.stderr


def test_calls_that_wait_when_the_runtime_closes_are_told_so(tmp_path):
    body = """
        import sys
        from perdure.actors import connect
        from perdure.actors.testing import Pause, Rule, Say, Script
        from perdure.storage.errors import RuntimeClosedError
        runtime = connect(sys.argv[1])
        chat = runtime.agent("a", model=Script((Rule(None, (Pause(20), Say("late"))),))).conversation("c")
        pending = [chat.send.pending("one"), chat.send.pending("two")]
        chat.inspect()
        runtime.close()
        for one in pending:
            try:
                one.result(20)
            except RuntimeClosedError as error:
                print("closed")
        """
    done = run_script(body, tmp_path / "data")
    assert (done.returncode, done.stdout.split()) == (0, ["closed", "closed"]), done.stderr


@pytest.mark.parametrize("ending", ["killed", "forgets"])
def test_a_driver_that_forgets_to_close_or_is_killed_leaves_no_directory_behind(tmp_path, ending):
    body = """
        import os, signal, sys
        from perdure.actors import connect
        runtime = connect(sys.argv[1])
        if sys.argv[2] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        """
    temp = Path(tempfile.mkdtemp(prefix="pd-"))  # short: sockets live below it
    try:
        ended = run_script(body, tmp_path / "data", ending, TMPDIR=str(temp))
        assert ended.returncode == (-9 if ending == "killed" else 0), ended.stderr
        assert wait_until_unserved(tmp_path / "data" / "run")
        assert list(temp.glob("perdure-ray-*")) == []
    finally:
        shutil.rmtree(temp, ignore_errors=True)


def test_what_a_killed_host_left_behind_goes_with_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name, pid in (("perdure-ray-dead", 2**22 + 1), ("perdure-ray-live", os.getpid())):
        (tmp_path / name).mkdir()
        (tmp_path / name / "owner").write_text(str(pid))
    with ray_temp_dir(None) as own:
        assert own.is_dir()
        assert not (tmp_path / "perdure-ray-dead").exists()
        assert (tmp_path / "perdure-ray-live").exists()
    assert not own.exists()


def test_a_script_that_has_imported_ray_first_attaches_all_the_same(tmp_path):
    body = """
        import ray, sys
        from perdure.actors import connect
        with connect(sys.argv[1]) as runtime:
            print(runtime.agent("a").ask("My name is Ana"))
        """
    done = run_script(body, tmp_path / "data")
    assert done.returncode == 0, done.stderr
    assert wait_until_unserved(tmp_path / "data" / "run")


def test_a_script_that_has_started_a_ray_itself_is_told_what_to_do(tmp_path):
    body = """
        import sys
        from perdure.actors import connect
        from perdure.storage.errors import InvalidInputError
        import ray
        ray.init(include_dashboard=False, configure_logging=False, log_to_driver=False)
        try:
            connect(sys.argv[1])
        except InvalidInputError as error:
            print(error)
        """
    done = run_script(body, tmp_path / "data")
    assert "pass address='auto' to run in that Ray" in done.stdout, done.stderr
    assert wait_until_unserved(tmp_path / "data" / "run")


def test_an_address_beside_a_ray_of_ones_own_is_refused(runtime):
    with pytest.raises(InvalidInputError, match="close that runtime first"):
        connect(runtime.place.data_dir, address="auto")

"""`perdure doctor`: what it finds in a data directory that nothing serves, and in one that is served."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure.storage.agent_options import AgentOptions
from perdure.storage.data_directory import DataDirectory
from perdure.storage.directory_records import ConversationNote
from perdure.storage.directory_store import DirectoryStore
from perdure.storage.layout import conversation_path, directory_path, memory_path
from perdure.storage.memory_store import MemoryStore
from perdure.storage.settings import MemorySettings

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def data_dir(tmp_path):
    """A data directory with a conversation whose file is there, that nothing serves."""
    path = DataDirectory.prepare(tmp_path / "data").path
    path.chmod(0o700)
    with_conversation(path, "a", "c", ConversationNote(messages=2, open_turns=0))
    return path


def with_conversation(data_dir: Path, agent, conversation_id, note, *, model=None, has_file=True):
    store = DirectoryStore.open(directory_path(data_dir))
    store.save_agent(name=agent, agent_id=f"id-{agent}", options=AgentOptions(model=model).to_json(), at=NOW)
    record = store.activate_conversation(
        agent=agent, conversation_id=conversation_id, contact=None, node="n", after=0, at=NOW
    )
    store.note_conversation(
        agent=agent, conversation_id=conversation_id, epoch=record.epoch, note=note, next_sweep_at=None, at=NOW
    )
    store.close()
    file = conversation_path(data_dir, agent, conversation_id)
    if has_file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return file


@pytest.fixture
def doctor(perdure_alone, data_dir):
    """The findings by level, each `subject: text`, and the exit status."""

    def run(*arguments):
        status, output, _ = perdure_alone("doctor", "--json", *arguments, "--data-dir", data_dir)
        found = json.loads(output)
        assert all((finding["remedy"] is None) == (finding["level"] == "ok") for finding in found)
        told: dict[str, list[str]] = {level: [] for level in ("ok", "warning", "problem")}
        for finding in found:
            told[finding["level"]].append(f"{finding['subject']}: {finding['text']}")
        return status, told

    return run


def test_all_is_well_without_a_runtime_and_none_is_started(doctor, data_dir, perdure_alone):
    status, told = doctor()
    assert (status, told["warning"], told["problem"]) == (0, [], [])
    for finding in (
        "directory: 1 agent, 1 conversation",
        "conversation files: all 1 are there",
        "python: 3.",
        "embedded model: bge-small-en-v1.5-int8, ",
    ):
        assert any(line.startswith(finding) for line in told["ok"]), finding
    assert sorted(path.name for path in (data_dir / "run").iterdir()) == ["host.lock"]
    status, output, _ = perdure_alone("--data-dir", data_dir, "doctor")
    assert status == 0
    assert all(line.startswith("OK ") for line in output.splitlines())


def test_a_missing_file_is_a_problem_with_its_conversation_and_how_to_put_it_right(doctor, data_dir, perdure_alone):
    file = with_conversation(data_dir, "a", "lost", ConversationNote(messages=2, open_turns=0), has_file=False)
    status, told = doctor()
    assert status == 1
    assert told["problem"] == [f"conversation files: the file of conversation 'lost' of agent 'a' is gone: {file}"]
    _, output, _ = perdure_alone("doctor", "--data-dir", data_dir)
    assert "fix: restore it from a backup" in output


def test_undelivered_and_parked_messages_are_warned_of(doctor, data_dir, monkeypatch):
    note = ConversationNote(messages=9, open_turns=0, outbox_pending=3, outbox_parked=2)
    with_conversation(data_dir, "a", "behind", note)
    monkeypatch.setenv("PERDURE_OUTBOX__CONSUMERS", "following=tests.fixtures.following:Following")
    status, told = doctor()
    assert status == 0
    assert told["warning"] == [
        "outbox: parked in conversation 'behind' of agent 'a': 2 messages",
        "outbox: 3 messages of 1 conversation are undelivered",
    ]


def test_a_consumer_that_cannot_be_imported_is_a_problem(doctor, monkeypatch):
    monkeypatch.setenv("PERDURE_OUTBOX__CONSUMERS", "good=tests.fixtures.following:Following,bad=no.such:thing")
    status, told = doctor()
    assert status == 1
    [found] = told["problem"]
    assert "bad=no.such:thing cannot be loaded (ModuleNotFoundError" in found


def test_a_setting_that_cannot_be_used_is_a_problem_and_those_that_differ_are_named(doctor, monkeypatch):
    monkeypatch.setenv("PERDURE_TURN__MAX_TOOL_ROUNDS", "8")
    assert any("turn.max_tool_rounds = 8" in line for line in doctor()[1]["ok"])
    monkeypatch.setenv("PERDURE_TURN__MAX_TOOL_ROUNDS", "none")
    status, told = doctor()
    assert status == 1
    assert told["problem"][0].startswith("settings: turn.max_tool_rounds: 'none'")


def test_a_key_that_is_not_there_is_warned_of_and_one_that_is_there_is_not_printed(
    doctor, data_dir, perdure_alone, monkeypatch
):
    note = ConversationNote(messages=0, open_turns=0)
    with_conversation(data_dir, "asks", "c", note, model="openai/gpt-4o-mini")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    expected = "agent asks: model openai/gpt-4o-mini; OPENAI_API_KEY is not in this environment"
    assert doctor()[1]["warning"] == [expected]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    assert doctor()[1]["warning"] == []
    assert "very-secret" not in "".join(map(str, perdure_alone("doctor", "--data-dir", data_dir)))


def test_permissions_and_a_mark_of_a_runtime_that_is_gone_are_warned_of(doctor, data_dir):
    data_dir.chmod(0o755)
    (data_dir / "run" / "keep").touch()
    status, told = doctor()
    assert status == 0
    assert ["can be read by every user" in told["warning"][0], "to be kept up" in told["warning"][1]] == [True, True]
    data_dir.chmod(0o777)
    assert "can be changed by other users" in doctor()[1]["warning"][0]


def test_a_directory_that_is_broken_is_a_problem(doctor, data_dir):
    directory_path(data_dir).write_bytes(b"nonsense" * 1000)
    status, told = doctor()
    assert status == 1
    assert told["problem"][0].startswith("directory: it could not be read")


def test_of_memories_that_nothing_serves_the_file_is_read_and_one_that_is_broken_is_a_problem(doctor, data_dir):
    MemoryStore.open(memory_path(data_dir), MemorySettings()).close()
    status, told = doctor()
    assert (status, told["problem"]) == (0, [])
    assert "memory: 0 active, 0 superseded, 0 to be verified; waiting: nothing" in told["ok"]
    memory_path(data_dir).write_bytes(b"nonsense" * 1000)
    status, told = doctor()
    assert status == 1
    [found] = told["problem"]
    assert found.startswith(f"memory: {memory_path(data_dir)}: is no DuckDB database")


def test_a_data_directory_that_is_not_there_is_not_made(perdure_alone, tmp_path):
    status, output, _ = perdure_alone("doctor", "--data-dir", tmp_path / "typo")
    assert status == 0
    assert f"{tmp_path / 'typo'} is not there yet" in output
    assert os.listdir(tmp_path) == []


def test_of_a_served_directory_the_runtime_is_asked(perdure, runtime, name):
    chat = runtime.agent(name).conversation("c")
    chat.send("hello")
    _, output, _ = perdure("doctor", "--data-dir", runtime.place.data_dir, "--json")
    told = {finding["subject"]: finding for finding in json.loads(output)}
    assert told["runtime"]["text"].startswith("process ")
    assert "turn.resume_after_s = 2.0" in told["settings"]["text"]  # as it was started with
    assert told[f"agent {name}"]["level"] == "ok"

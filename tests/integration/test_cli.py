"""The command `perdure`: what it prints, what it leaves behind, and how it ends."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from itertools import islice

import pytest
from rich.console import Console

from perdure.actors.cli.replay import Replay
from perdure.actors.cli.transcript import read_transcript
from perdure.actors.host_address import wait_until_unserved
from tests.locomo import SMALL_LOCOMO, find_locomo

COMMAND = [sys.executable, "-c", "from perdure.actors.cli import main; main()"]


def message_lines(folder, count, *, conversation=None, name="chat.jsonl"):
    path = folder / name
    with path.open("w") as file:
        for number in range(count):
            entry = {"role": "user", "text": f"message {number}", "created_at": "2024-05-08T13:56:00"}
            file.write(json.dumps({**entry, **({"conversation": conversation} if conversation else {})}) + "\n")
    return path


def table(output):
    """The rows of a replay's last table: name, in the file, new, now."""
    found = re.findall(r"^(\S+) +([\d,]+) +([\d,]+) +([\d,]+)$", output, re.MULTILINE)
    return {name: tuple(int(number.replace(",", "")) for number in numbers) for name, *numbers in found}


def test_help_answers_without_loading_ray_litellm_or_duckdb():
    code = (
        "import sys; from perdure.actors.cli import main; sys.argv = ['perdure', '--help']\n"
        "try: main()\n"
        "except SystemExit as ended: print(ended.code)\n"
        "print(sorted({'ray', 'litellm', 'duckdb', 'pydantic'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "demo" in ended.stdout and "doctor" in ended.stdout
    assert ended.stdout.splitlines()[-2:] == ["0", "[]"]


def test_the_version_is_printed(perdure):
    status, output, _ = perdure("--version")
    assert (status, output.split()[0].strip(",")) == (0, "perdure")


def test_a_locomo_file_is_imported_once_with_dates_and_speakers(perdure, runtime, name):
    data_dir = runtime.place.data_dir
    status, output, _ = perdure("--data-dir", data_dir, "replay", SMALL_LOCOMO, "--agent", name)
    assert status == 0, output
    assert table(output) == {"garden": (6, 6, 6), "locomo_small-2": (1, 1, 1)}
    status, output, _ = perdure("replay", SMALL_LOCOMO, "--agent", name, "--data-dir", data_dir)
    assert (status, table(output)) == (0, {"garden": (6, 0, 6), "locomo_small-2": (1, 0, 1)})


def test_interleaved_conversations_keep_their_order_prefix_and_contact(perdure, runtime, name, tmp_path):
    path = tmp_path / "two.jsonl"
    with path.open("w") as file:
        for number in range(420):
            entry = {"role": "user", "text": f"m{number}", "created_at": "2024-05-08T13:56:00"}
            file.write(json.dumps({**entry, "conversation": "ab"[number % 2]}) + "\n")
    command = ("--data-dir", runtime.place.data_dir, "replay", path, "--agent", name, "--conversation", "p")
    assert table(perdure(*command, "--contact", "telegram:1", "--limit", 419)[1]) == {
        "p-a": (210, 210, 210),
        "p-b": (209, 209, 209),
    }
    status, _, error = perdure(*command, "--contact", "telegram:2")
    assert status == 1
    assert "telegram:1" in error
    chat = runtime.agent(name).conversation("p-b", contact="telegram:1")
    assert [message.content for message in chat.history(300)] == [f"m{number}" for number in range(1, 419, 2)]


def test_ctrl_c_ends_an_import_with_a_line_and_the_same_command_completes_it(runtime, name, tmp_path):
    class PressesCtrlC(io.StringIO):
        def write(self, text):
            if text.startswith("600 of 3,000 messages"):
                signal.raise_signal(signal.SIGINT)
            return super().write(text)

    replay = Replay(path=message_lines(tmp_path, 3000), agent=name, data_dir=runtime.place.data_dir)
    first, second = PressesCtrlC(), io.StringIO()
    assert replay.run(Console(file=first, width=200)) is False
    line = first.getvalue().splitlines()[-1]
    [told] = re.findall(r"^Stopped. At least ([\d,]+) of 3,000 messages are stored; the same command again", line)
    stored = int(told.replace(",", ""))
    assert stored == 600
    assert replay.run(Console(file=second, width=200)) is True
    assert table(second.getvalue()) == {"chat": (3000, 3000 - stored, 3000)}


def test_of_a_file_with_a_fault_nothing_is_stored_and_the_error_is_one_line(perdure, runtime, name, tmp_path):
    path = message_lines(tmp_path, 500)
    with path.open("a") as file:
        file.write('{"role": "user", "text": "no time"}\n')
    status, output, error = perdure("--data-dir", tmp_path / "data", "replay", path, "--agent", name)
    assert (status, output) == (1, "")
    assert error == f"perdure: {path}, line 501, created_at: it is missing; give role, text and created_at\n"
    assert not (tmp_path / "data").exists()
    command = ("--data-dir", runtime.place.data_dir, "replay", path, "--agent", name, "--limit", 500)
    status, output, _ = perdure(*command)
    assert (status, table(output)) == (0, {"chat": (500, 500, 500)})


def test_a_second_data_directory_in_one_process_is_one_line_and_no_traceback(perdure, tmp_path):
    status, _, error = perdure("--data-dir", tmp_path / "data", "replay", SMALL_LOCOMO, "--agent", "a")
    assert status == 1
    assert [line.startswith("perdure: ") and "can be to one only" in line for line in error.splitlines()] == [True]
    assert not (tmp_path / "data" / "run" / "host.log").exists()  # nothing was started for it


def test_a_real_locomo_conversation_is_stored_message_by_message(perdure, runtime, name):
    path = find_locomo()
    if path is None:
        pytest.skip("no LoCoMo file; PERDURE_LOCOMO names one")
    command = ("--data-dir", runtime.place.data_dir, "replay", path, "--agent", name, "--limit", 419)
    status, _, error = perdure(*command)
    assert status == 0, error
    [conversation, *others] = {entry.conversation for entry in islice(read_transcript(path, 10**6), 419)}
    assert others == []
    stored = runtime.agent(name).conversation(conversation).history(1000)
    assert [(m.message_id, m.speaker, m.content, m.created_at) for m in stored] == [
        (entry.message.message_id, entry.message.speaker, entry.message.text, entry.message.created_at)
        for entry in islice(read_transcript(path, 10**6), 419)
    ]


@pytest.mark.timeout(300)
def test_the_demonstration_keeps_its_claims_without_key_or_network(tmp_path):
    ray_dir = tempfile.mkdtemp(prefix="pd-", dir="/tmp")
    environment = {
        name: value
        for name, value in os.environ.items()
        if "KEY" not in name and not name.startswith(("RAY_", "PERDURE_"))
    }
    ended = subprocess.run(
        [*COMMAND, "demo", "--data-dir", str(tmp_path / "data")],
        env={**environment, "PERDURE_RAY__TEMP_DIR": ray_dir},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert wait_until_unserved(tmp_path / "data" / "run")
    shutil.rmtree(ray_dir, ignore_errors=True)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    for claim in (
        "SCRIPT",
        "kill -9",
        "exactly once: search_flights, hold_seat",
        "ok  another conversation knows it",
        "ok  what was replaced is found no more",
        "ok  and its history is kept",
        "no tool has run again",
        "ok  it still knows where Ana lives",
    ):
        assert claim in ended.stdout
    assert "memory.duckdb" in ended.stdout
    assert "\x1b" not in ended.stdout  # plain, since it is piped
    assert list((tmp_path / "data").rglob("*.duckdb"))


@pytest.mark.timeout(300)
def test_the_demonstration_fails_when_a_claim_does_not_hold(tmp_path):
    code = (
        "import io, sys\nfrom pathlib import Path\nfrom rich.console import Console\n"
        "from perdure.actors.cli import demo\n"
        "demo.QUESTION = 'What is the capital of Mongolia?'\n"
        "try: demo.run_demo(Path(sys.argv[1]), Console(file=io.StringIO()))\n"
        "except demo.ClaimNotHeldError as error: print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "data")], capture_output=True, text=True, check=False
    )
    assert "the answer quotes what Ana said" in ended.stdout, ended.stderr
    assert wait_until_unserved(tmp_path / "data" / "run")

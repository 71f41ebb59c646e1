"""A conversation's file has one owner: who else opens it is told which file and whose; everybody else asks the owner.

duckdb/duckdb PR#9988 and duckdb/duckdb#17158: a second process cannot open a file that is held, even to read it,
and the error did not say who holds it. frappe/builder PR#644: the lock of a process that was killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from perdure.actors.testing import Rule, Say, Script

pytestmark = pytest.mark.cases

OPEN = """
    import sys
    from datetime import UTC, datetime
    from pathlib import Path
    from perdure.storage.conversation_store import ConversationStore
    from perdure.storage.errors import FileInUseError
    from perdure.storage.records import ConversationIdentity

    identity = ConversationIdentity(agent=sys.argv[2], conversation_id="c")
    try:
        store = ConversationStore.open(Path(sys.argv[1]), identity, datetime.now(UTC))
    except FileInUseError as error:
        print(error)
    else:
        print("opened", store.message_count())
"""
READ = """
    import duckdb, sys

    try:
        duckdb.connect(sys.argv[1], read_only=True)
    except duckdb.IOException as error:
        print(error)
"""
ASK = """
    import sys
    from perdure.actors import connect

    with connect(sys.argv[1]) as runtime:
        chat = runtime.agent(sys.argv[2]).conversation("c")
        print([message.content for message in chat.history()], chat.inspect().pid)
"""


def script(body: str, *arguments: object) -> str:
    """What a script in a process of its own prints."""
    code = "\n".join(line.removeprefix("    ") for line in body.splitlines())
    command = [sys.executable, "-c", code, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.fixture
def chat(runtime, name):
    conversation = runtime.agent(name, model=Script((Rule(None, (Say("ok"),)),))).conversation("c")
    conversation.send("hello", turn_id="1")
    return conversation


def test_a_second_process_is_refused_by_an_error_that_names_the_file_and_its_owner(chat, name):
    owner = chat.inspect()
    said = script(OPEN, owner.file, name)
    assert owner.file in said
    assert f"PID {owner.pid}" in said
    assert "ask it" in said
    assert f"PID {owner.pid}" in script(READ, owner.file)
    assert chat.send("go on", turn_id="2").text == "ok"  # it has not disturbed the owner


def test_another_script_asks_the_owner_instead(runtime, chat, name):
    assert script(ASK, runtime.place.data_dir, name) == f"['hello', 'ok'] {chat.inspect().pid}"


def test_a_killed_owner_leaves_no_lock_and_the_next_one_has_all_that_was_acknowledged(chat, name):
    killed = chat.inspect().pid
    os.kill(killed, signal.SIGKILL)
    assert chat.send("hello", turn_id="1").text == "ok"
    after = chat.inspect()
    assert after.pid != killed
    assert after.messages == 2
    assert f"PID {after.pid}" in script(OPEN, after.file, name)


def test_a_file_whose_owner_has_ended_can_be_opened(runtime, chat, name):
    import ray

    from perdure.actors.placement import ConversationPlace

    file = chat.inspect().file
    where = ConversationPlace(agent=chat.agent.name, conversation_id=chat.conversation_id, contact=None)
    actor: Any = ray.get_actor(where.actor_name, namespace=runtime.place.namespace)
    actor.passivate.options(max_task_retries=0).remote(0.0)
    limit = time.monotonic() + 30
    said = ""
    while not said.startswith("opened") and time.monotonic() < limit:
        said = script(OPEN, file, name)
    assert said == "opened 2"
    assert Path(file).stat().st_size > 0

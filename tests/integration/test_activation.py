"""What an activation may do: never open an empty file in place of one that was stored, never write as an older one."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from perdure.actors.testing import Rule, Say, Script
from perdure.storage.errors import FileMissingError
from perdure.storage.fence import Fence
from perdure.storage.layout import conversation_path

SAYS_OK = Script((Rule(None, (Say("ok"),)),))


def path_of(chat):
    return conversation_path(chat.agent.runtime.place.data_dir, chat.agent.name, chat.conversation_id)


def kill(chat):
    os.kill(chat.inspect().pid, signal.SIGKILL)


def test_a_conversation_whose_file_is_gone_is_refused_until_it_is_put_back(runtime, name):
    chat = runtime.agent(name, model=SAYS_OK).conversation("c")
    chat.send("hello", turn_id="t")
    chat.agent.runtime.directory_call("pid", timeout_s=10)
    path, kept = path_of(chat), path_of(chat).with_suffix(".kept")
    kill(chat)
    path.rename(kept)
    wal, kept_wal = path.with_name(path.name + ".wal"), path.with_suffix(".kept-wal")
    if wal.exists():
        wal.rename(kept_wal)
    with pytest.raises(FileMissingError, match="its file is gone") as refused:
        chat.send("hello", turn_id="t", timeout_s=60)
    assert str(path) in str(refused.value)
    assert not path.exists()
    if kept_wal.exists():
        kept_wal.rename(wal)
    kept.rename(path)
    assert chat.send("hello", turn_id="t").text == "ok"
    assert len(chat.history()) == 2


def test_every_activation_has_a_higher_epoch_and_an_overtaken_one_gives_way_without_an_error(runtime, name):
    chat = runtime.agent(name, model=SAYS_OK).conversation("c")
    chat.send("one")
    epochs = [chat.inspect().epoch]
    kill(chat)
    chat.send("two")
    epochs.append(chat.inspect().epoch)
    Fence(path_of(chat), epochs[-1] + 5).claim()  # as an activation elsewhere would
    assert chat.send("three", turn_id="t3").text == "ok"
    epochs.append(chat.inspect().epoch)
    assert epochs == sorted(set(epochs))
    assert epochs[-1] > epochs[1] + 5
    assert [message.content for message in chat.history()][::2] == ["one", "two", "three"]


def test_a_conversation_opened_by_many_at_once_has_one_process(runtime, name):
    agent = runtime.agent(name, model=SAYS_OK)
    pids, errors = set(), []

    def open_it(number):
        try:
            chat = agent.conversation("shared")
            chat.send(f"from {number}")
            pids.add(chat.inspect().pid)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
            errors.append(error)

    threads = [threading.Thread(target=open_it, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(pids) == 1
    assert len(agent.conversation("shared").history()) == 16


def test_the_directory_knows_all_again_after_its_own_death(runtime, name):
    agent = runtime.agent(name, model=SAYS_OK)
    agent.conversation("c", contact="telegram:1").send("hello")
    before = runtime.conversations(name)
    os.kill(runtime.directory_call("pid", timeout_s=10), signal.SIGKILL)
    time.sleep(0.1)
    assert runtime.conversations(name) == before
    assert agent.conversation("c").send("again").text == "ok"
    assert "telegram:1" in runtime.directory_call("contacts", timeout_s=30)

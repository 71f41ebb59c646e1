"""Of two activations of a conversation only the newer one is acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.storage.conversation_store import ConversationStore
from perdure.storage.errors import FencedError
from perdure.storage.fence import Fence
from tests.fixtures.conversation_file import IDENTITY, a_message, at


def activated(path: Path, epoch: int) -> ConversationStore:
    return ConversationStore.open(path, IDENTITY, at(0), epoch=epoch)


@pytest.fixture
def older(tmp_path: Path) -> Iterator[ConversationStore]:
    store = activated(tmp_path / "c.duckdb", 3)
    yield store
    store.close()


def test_an_older_activation_that_wakes_up_acknowledges_nothing_and_writes_nothing(older: ConversationStore) -> None:
    older.append_messages(messages=[a_message("before")])
    Fence(older.path, 4).claim()
    with pytest.raises(FencedError, match="activation 3 may not write any more: activation 4 has taken over"):
        older.append_messages(messages=[a_message("after")])
    older.close()
    newer = activated(older.path, 4)
    assert [message.message_id for message in newer.head(9)] == ["before"]
    newer.close()


def test_an_activation_overtaken_during_its_commit_does_not_acknowledge_it(
    older: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = older._database._write

    def overtaken(statements: object) -> None:
        write(statements)  # type: ignore[arg-type]
        Fence(older.path, 9).claim()

    monkeypatch.setattr(older._database, "_write", overtaken)
    with pytest.raises(FencedError):
        older.append_messages(messages=[a_message("torn")])


@pytest.mark.parametrize("lost", [False, True], ids=["with its fence", "copied without its fence"])
def test_an_activation_older_than_the_file_is_refused_and_told_the_newest(tmp_path: Path, *, lost: bool) -> None:
    path = tmp_path / "c.duckdb"
    activated(path, 7).close()
    if lost:
        path.with_suffix(".epoch").unlink()
    with pytest.raises(FencedError) as refused:
        activated(path, 6)
    assert (refused.value.epoch, refused.value.newest) == (6, 7)
    activated(path, 8).close()


def test_a_fence_that_is_taken_away_stops_the_writer(older: ConversationStore) -> None:
    older.path.with_suffix(".epoch").unlink()
    with pytest.raises(FencedError, match="its fence is gone"):
        older.append_messages(messages=[a_message("m")])


def test_the_error_is_the_same_on_the_other_side_of_a_process() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(FencedError("f.duckdb", 1, 2)))
    assert (str(error), error.retryable) == (str(FencedError("f.duckdb", 1, 2)), True)

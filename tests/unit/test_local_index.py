"""An index on this process's threads: opened when it is needed, tidied when nothing else is to do."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perdure.jobs import local_index
from perdure.jobs.local_index import LocalIndex
from perdure.storage.errors import IndexDamagedError, IndexUnavailableError
from perdure.storage.index_records import SourceId, TextRow
from perdure.storage.keyword_index import KeywordIndex
from perdure.storage.settings import IndexSettings
from tests.fixtures.index_rows import EVERYTHING, text_row


@dataclass
class Opening:
    """How a keyword index is opened, or why it cannot be."""

    folder: Path
    settings: IndexSettings = field(default_factory=IndexSettings)
    failure: Exception | None = None
    opened: int = 0

    def open(self) -> KeywordIndex:
        self.opened += 1
        if self.failure is not None:
            raise self.failure
        return KeywordIndex.open(self.folder, "memory", self.settings, may_create=True)

    def index(self) -> LocalIndex[TextRow, str]:
        return LocalIndex(self.open, lambda: KeywordIndex.rebuild(self.folder, "memory", self.settings))


@pytest.fixture
def opening(tmp_path: Path) -> Opening:
    return Opening(tmp_path)


async def found(index: LocalIndex[TextRow, str], text: str) -> list[str]:
    return [hit.source for hit in (await index.search(text, EVERYTHING, 9)).hits]


def test_what_fails_to_open_is_tried_again_by_the_next_call(opening: Opening) -> None:
    async def use() -> None:
        index = opening.index()
        opening.failure = IndexUnavailableError("words", "not just now")
        for _ in range(2):
            with pytest.raises(IndexUnavailableError):
                await index.search("dog", EVERYTHING, 9)
        opening.failure = None
        await index.apply([text_row("a", "a dog")], [])
        assert await found(index, "dog") == ["a"]
        assert opening.opened == 3
        index.close()

    asyncio.run(use())


def test_one_that_is_damaged_can_be_made_anew_and_has_another_incarnation(opening: Opening) -> None:
    async def use() -> None:
        index = opening.index()
        await index.apply([text_row("a", "a dog")], [])
        before = await index.flush()
        assert (await index.search("dog", EVERYTHING, 9)).incarnation == before
        opening.failure = IndexDamagedError("words", "nonsense")
        after = await index.rebuild()
        assert after != before
        assert await found(index, "dog") == []
        assert await index.apply([text_row("b", "a dog")], [SourceId("a")]) == after
        assert await index.sources() == [("b", 1)]
        index.close()

    asyncio.run(use())


def test_searches_go_on_beside_writes_and_see_those_that_were_answered(opening: Opening) -> None:
    async def use() -> None:
        index = opening.index()
        for number in range(20):
            await index.apply([text_row(f"s{number}", f"word{number}")], [SourceId(f"s{number - 1}")])
            searches = [found(index, f"word{number}"), found(index, f"word{number - 1}")]
            assert await asyncio.gather(*searches) == [[f"s{number}"], []]
        index.close()

    asyncio.run(use())


def test_it_is_tidied_once_it_is_left_alone(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    opening.settings = IndexSettings(write_batch=1, tidy_commits=3)
    tidied: list[KeywordIndex] = []
    tidy = KeywordIndex.tidy

    def counted(index: KeywordIndex) -> None:
        tidied.append(index)
        tidy(index)

    monkeypatch.setattr(KeywordIndex, "tidy", counted)

    async def use() -> None:
        index = opening.index()
        for number in range(4):
            await index.apply([text_row(f"s{number}", "a dog")], [])
        assert tidied == []
        for _ in range(100):
            if tidied:
                break
            await asyncio.sleep(0.05)
        await index.sources()  # behind the tidying, on the same thread
        assert len(tidied) == 1
        index.close()

    asyncio.run(use())


def test_what_a_keyword_search_would_scan_for_ever_is_indexed_after_a_longer_while(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_index, "LONG_IDLE_S", 0.3)

    async def use() -> None:
        opened = KeywordIndex.open(opening.folder, "memory", opening.settings, may_create=True)
        index: LocalIndex[TextRow, str] = LocalIndex(lambda: opened, lambda: opened)
        await index.apply([text_row("a", "a dog")], [])
        await index.flush()
        assert 0 < opened.untidiness < 1
        for _ in range(100):
            if not opened.untidiness:
                break
            await asyncio.sleep(0.05)
        assert opened.untidiness == 0
        assert await found(index, "dog") == ["a"]
        index.close()

    asyncio.run(use())

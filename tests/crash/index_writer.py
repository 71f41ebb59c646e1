"""Writes to both indexes in a process that is going to be killed, and says what it has flushed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perdure.storage.index_records import EmbeddingSpace, SourceId
from perdure.storage.keyword_index import KeywordIndex
from perdure.storage.settings import IndexSettings
from perdure.storage.vector_index import VectorIndex
from tests.fixtures.index_rows import drawn, text_row, vector_row

SPACE = EmbeddingSpace(model="drawn", dimensions=8)
SETTINGS = IndexSettings(write_batch=1000, tidy_commits=3)
SOURCES = 40
ROUND = 7
"""Rows in one flush."""


def open_both(folder: Path) -> tuple[VectorIndex, KeywordIndex]:
    return (
        VectorIndex.open(folder, "memory", SPACE, SETTINGS, may_create=True),
        KeywordIndex.open(folder, "memory", SETTINGS, may_create=True),
    )


def place(revision: int) -> SourceId:
    """The source that gets this revision: sources are written over and over, in turn."""
    return SourceId(f"m{revision % SOURCES}")


def chunks(revision: int) -> int:
    return 1 + revision % 3


def vectors(revision: int) -> NDArray[np.float32]:
    return drawn(revision, chunks(revision), SPACE.dimensions)


def write(folder: Path, start: int, acknowledge: Callable[[int], None]) -> None:
    """Revisions from `start` on, each of the next source, every fifth of them a deletion."""
    vector_index, keyword_index = open_both(folder)
    revision = start
    while True:
        for _ in range(ROUND):
            source = place(revision)
            if revision % 5 == 0:
                vector_index.delete([source])
                keyword_index.delete([source])
            else:
                vector_index.upsert([vector_row(source, vectors(revision), revision=revision)])
                keyword_index.upsert([text_row(source, f"word{revision} tea", revision=revision)])
            revision += 1
        vector_index.flush()
        keyword_index.flush()
        acknowledge(revision)

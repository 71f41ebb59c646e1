"""The name of the message indexes goes with their tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from perdure.storage.index_records import EmbeddingSpace
from perdure.storage.keyword_index import KeywordIndex
from perdure.storage.message_generation import (
    forget_message_generation,
    message_generation,
    note_message_generation,
)
from perdure.storage.settings import IndexSettings
from perdure.storage.vector_index import VectorIndex


def make_words(folder: Path) -> None:
    KeywordIndex.rebuild(folder, "message", IndexSettings())


def make_vectors(folder: Path) -> None:
    VectorIndex.rebuild(folder, "message", EmbeddingSpace(model="m", dimensions=4), IndexSettings())


def test_there_is_none_before_it_is_noted_nor_after_it_was_forgotten(tmp_path: Path) -> None:
    assert message_generation(tmp_path / "nowhere") is None
    make_words(tmp_path)
    assert message_generation(tmp_path) is None
    note_message_generation(tmp_path, "a1", has_vectors=False)
    assert message_generation(tmp_path) == "a1"
    forget_message_generation(tmp_path)
    forget_message_generation(tmp_path)
    assert message_generation(tmp_path) is None


@pytest.mark.parametrize("lost", ["message_words.lance", "message_vectors.lance"])
def test_it_is_gone_with_a_table_that_was_made(tmp_path: Path, lost: str) -> None:
    make_words(tmp_path)
    make_vectors(tmp_path)
    note_message_generation(tmp_path, "a1", has_vectors=True)
    assert message_generation(tmp_path) == "a1"
    shutil.rmtree(tmp_path / lost)
    assert message_generation(tmp_path) is None


@pytest.mark.parametrize("content", ["", "\n"])
def test_an_empty_name_is_none(tmp_path: Path, content: str) -> None:
    make_words(tmp_path)
    (tmp_path / "message_generation").write_text(content)
    assert not message_generation(tmp_path)

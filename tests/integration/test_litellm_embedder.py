"""The litellm embedder against a real HTTP server on this machine."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from perdure.jobs.embedders import make_embedder
from perdure.jobs.litellm_embedder import LitellmEmbedder
from perdure.storage.errors import ModelError, ModelRequestError, ModelUnavailableError
from perdure.storage.settings import EmbeddingSettings, ModelSettings
from tests.integration.openai_server import EMBEDDING_LENGTH, Drip, Embeddings, Failure, OpenAIServer, Raw

KEY = "sk-embedding-0123456789"


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as server:
        yield server


def made(server: OpenAIServer, *, max_retries: int = 0, timeout_s: float = 20, **settings) -> LitellmEmbedder:
    return LitellmEmbedder(
        EmbeddingSettings(**{"model": "openai/text-embedding-3-small", **settings}),
        ModelSettings(api_base=server.api_base, max_retries=max_retries, timeout_s=timeout_s),
        sleep=lambda _: None,
    )


def asked_texts(server: OpenAIServer) -> list[list[str]]:
    return [request.body["input"] for request in server.requests]


def test_the_settings_choose_the_embedder(server):
    embedder = make_embedder(EmbeddingSettings(model="openai/other", api_base=server.api_base), ModelSettings())
    assert embedder.model == "openai/other"
    assert embedder.dimensions == EMBEDDING_LENGTH
    assert {(request.path, request.body["model"]) for request in server.requests} == {("/v1/embeddings", "other")}


def test_texts_go_in_batches_and_blank_ones_not_at_all(server):
    made(server, batch=2, dimensions=8, max_chars=100).embed_documents(["a", " ", "b", "c" * 300, ""])
    assert asked_texts(server) == [["a", "b"], ["c" * 100]]
    assert [request.body["dimensions"] for request in server.requests] == [8, 8]
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_the_vectors_are_those_of_their_texts_in_whatever_order_they_arrive(server):
    server.will(Embeddings(((3.0, 4.0), (0.0, 2.0)), is_reversed=True))
    found = made(server, dimensions=2).embed_documents(["a", "b"])
    assert np.allclose(found, [[0.6, 0.8], [0.0, 1.0]])


def test_a_long_text_goes_in_chunks_that_overlap_and_leave_nothing_out(server):
    text = "".join(chr(0x4E00 + place) for place in range(1000))
    chunks = made(server, max_chars=400, dimensions=4).embed_chunks(text)
    ((first, second, third),) = asked_texts(server)
    assert first[-50:] == second[:50]
    assert first + second[50:] + third[50:] == text
    assert (chunks.is_whole, len(chunks.vectors)) == (True, 3)


def test_a_failure_that_may_pass_is_tried_again(server):
    server.will(Failure(500), Failure(429, headers={"Retry-After": "1"}))
    assert made(server, max_retries=2, dimensions=4).embed_documents(["a"]).shape == (1, 4)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("action", "kind", "says"),
    [
        (Failure(503), ModelUnavailableError, "it went wrong"),
        (Failure(401, f"bad key {KEY}"), ModelRequestError, "the key was refused"),
        (Failure(413), ModelRequestError, "lower PERDURE_EMBEDDING__MAX_CHARS"),
        (Raw(b"{"), ModelUnavailableError, ""),
        (Raw(b'{"object": "list", "data": []}'), ModelUnavailableError, ""),
        (Embeddings(((1.0, 2.0, 3.0, 4.0),) * 2), ModelUnavailableError, "asked for the vectors of 1 texts, it gave 2"),
        (Embeddings(((float("nan"),) * 4,)), ModelUnavailableError, "unusable"),
        (Embeddings(((1.0, 2.0),)), ModelRequestError, "have 2 dimensions, not 4"),
    ],
)
def test_what_cannot_be_used_is_a_model_error_without_the_key(server, action, kind, says):
    server.will(action)
    with pytest.raises(ModelError) as caught:
        made(server, dimensions=4).embed_queries(["a"])
    assert type(caught.value) is kind
    assert says in str(caught.value)
    assert KEY not in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_an_answer_that_trickles_in_is_cut_off(server):
    server.will(Drip())
    with pytest.raises(ModelUnavailableError, match="no complete answer within"):
        made(server, dimensions=4, timeout_s=0.5).embed_documents(["a"])

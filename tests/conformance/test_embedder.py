"""The embedders of Perdure, each held against what an `Embedder` keeps to."""

from __future__ import annotations

from functools import cache

import pytest

from perdure.jobs.embedded_embedder import EmbeddedEmbedder
from perdure.jobs.embedder import Embedder
from perdure.storage.settings import EmbeddingSettings, ModelSettings
from tests.conformance.embedder import EmbedderConformance
from tests.integration.openai_server import OpenAIServer


@cache
def embedded(_number: int) -> Embedder:
    return EmbeddedEmbedder()


class TestEmbeddedEmbedder(EmbedderConformance):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return embedded(1)

    @pytest.fixture
    def another(self) -> Embedder:
        return embedded(2)


class TestLitellmEmbedder(EmbedderConformance):
    @pytest.fixture
    def server(self, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", "sk-conformance-0123456789")
        with OpenAIServer() as server:
            yield server

    def made(self, server: OpenAIServer) -> Embedder:
        from perdure.jobs.litellm_embedder import LitellmEmbedder

        settings = EmbeddingSettings(model="openai/text-embedding-3-small", batch=3, max_chars=2000)
        return LitellmEmbedder(settings, ModelSettings(api_base=server.api_base, max_retries=0))

    @pytest.fixture
    def embedder(self, server) -> Embedder:
        return self.made(server)

    @pytest.fixture
    def another(self, server) -> Embedder:
        return self.made(server)

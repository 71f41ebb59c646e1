"""Which embedder the settings name."""

from __future__ import annotations

from ..storage.settings import EmbeddingSettings, ModelSettings
from .embedder import Embedder


def make_embedder(settings: EmbeddingSettings, models: ModelSettings) -> Embedder:
    """The embedded one, or one through litellm; what it needs is loaded now, which takes up to seconds.

    Raises:
        EmbeddedModelError: The embedded model's files are missing, or others than expected.
        ModelRequestError: The settings ask the embedded model for what it does not give.
    """
    if settings.model is None:
        from .embedded_embedder import EmbeddedEmbedder, check_dimensions

        check_dimensions(settings.dimensions)
        return EmbeddedEmbedder(settings.threads)
    from .litellm_embedder import LitellmEmbedder

    return LitellmEmbedder(settings, models)

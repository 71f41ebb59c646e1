"""The embedder in the `models` pool, as those see it who need vectors."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError, RayTaskError

from ..jobs.embedder import EmbeddedText
from ..storage.errors import ModelUnavailableError
from .placement import RuntimePlace, models_actor
from .task_errors import cause_of

PAUSES_S = (0.1, 0.3, 1.0, 2.0)
"""Before a request goes out again whose process died. It leaves nothing behind."""
SPACE_WAIT_S = 60.0


class RemoteEmbedder:
    """An `EmbeddingAccess` whose requests cross to another process."""

    def __init__(self, place: RuntimePlace) -> None:
        self._place = place
        self._replicas = itertools.cycle(range(place.settings.models.replicas))
        self._handles: dict[int, Any] = {}
        self._space: tuple[str, int] | None = None

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """See `EmbeddingAccess`."""
        [found] = await self._call("embed", [text], True)
        vector: NDArray[np.float32] = found.vectors[0]
        return vector

    async def embed_value(self, text: str) -> EmbeddedText:
        """See `EmbeddingAccess`."""
        [found] = await self._call("embed", [text], False)
        assert isinstance(found, EmbeddedText)
        return found

    async def space(self) -> tuple[str, int]:
        """See `EmbeddingAccess`."""
        if self._space is None:
            model, dimensions = await self._call("embedding_space")
            self._space = (model, dimensions)
        return self._space

    async def _call(self, method: str, *arguments: object) -> Any:
        for pause_s in (*PAUSES_S, None):
            replica = next(self._replicas)
            try:
                handle = self._handles.get(replica) or self._handles.setdefault(
                    replica, models_actor(self._place, replica)
                )
                return await getattr(handle, method).remote(*arguments)
            except RayTaskError as error:
                raise cause_of(error) from None
            except (ActorDiedError, ActorUnavailableError, ValueError) as error:
                self._handles.pop(replica, None)
                if pause_s is None:
                    raise ModelUnavailableError(
                        self._place.settings.embedding.model or "embedded", "the process that asked it died"
                    ) from error
                await asyncio.sleep(pause_s)
        raise AssertionError("the last try returns or raises")


def embedding_space(place: RuntimePlace) -> tuple[str, int]:
    """Name and dimensions of the embedder's vectors; waits for the process that has it.

    Raises:
        ModelError: It cannot be loaded, or has not answered yet.
    """
    name = place.settings.embedding.model or "embedded"
    try:
        model, dimensions = ray.get(models_actor(place, 0).embedding_space.remote(), timeout=SPACE_WAIT_S)
    except RayTaskError as error:
        raise cause_of(error) from None
    except (GetTimeoutError, ActorDiedError, ActorUnavailableError, ValueError) as error:
        raise ModelUnavailableError(name, f"its process does not answer ({type(error).__name__})") from error
    return model, dimensions

"""The embedder as recall needs it: texts in, vectors of one space out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""(n, dimensions); the rows are of unit length, or zero for a blank text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedText:
    """A text of any length, as vectors."""

    vectors: Vectors
    """One for each chunk, in the order of the text; a text that the model takes whole has one chunk."""
    is_whole: bool
    """False: the text goes on where the last chunk ends."""


class Embedder(Protocol):
    """Gives texts vectors whose dot product tells how alike they are. Threads may share one instance.

    The same text has the same vector, whatever it comes together with; a blank one has zeros, and no model is
    asked. NUL and lone surrogates count as U+FFFD.

    Raises:
        ModelUnavailableError: It may answer later.
        ModelRequestError: It will not take this request.
    """

    @property
    def model(self) -> str:
        """The name of the space: vectors under different names cannot be compared."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of its vectors."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text to be found; of one longer than the model takes, the beginning counts."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text to search by; of a long one, the beginning counts."""
        ...

    def embed_chunks(self, text: str) -> EmbeddedText:
        """The vectors of overlapping chunks of one text to be found, so that its later parts count, too."""
        ...


def unit_length(vectors: NDArray[np.floating]) -> Vectors:
    """The vectors scaled to length 1, as float32; zeros stay zeros."""
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return (wide / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)

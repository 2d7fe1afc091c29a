"""What turns texts into vectors, and how the operator says which."""

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
    """A model that is loaded. Blocking: called in threads, by several at once."""

    @property
    def name(self) -> str:
        """Which model this is: vectors of different names are never compared."""
        ...

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """One row of length 1 for each text. EmbeddingFailed if that cannot be done now."""
        ...


class EmbeddingFailed(Unavailable):
    """A model did not answer."""


@dataclass(frozen=True, slots=True)
class EmbeddingChoice:
    """Which model: `builtin`, `none`, a folder, or with a URL the name that the API there knows."""

    model: str = BUILTIN
    url: str = ""
    key: Secret | None = None

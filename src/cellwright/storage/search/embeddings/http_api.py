"""A model behind an address that speaks OpenAI's embeddings API. Only where the operator named one."""

from collections.abc import Sequence
from typing import cast
from urllib.parse import urlsplit

import httpx2
import numpy as np

from cellwright.core.types import Secret
from cellwright.storage.search.embeddings.batches import Vectors, normal
from cellwright.storage.search.embeddings.port import EmbeddingFailed

SECONDS = 20.0
CHARS = 8_000
"""Of each text; more than that no model takes into one vector with profit."""


class HttpModel:
    def __init__(self, model: str, url: str, key: Secret | None) -> None:
        self.name = f"{model}@{urlsplit(url).hostname}"
        self._model = model
        headers = {"authorization": f"Bearer {key.reveal()}"} if key else {}
        self._client = httpx2.Client(
            base_url=url.rstrip("/"), headers=headers, timeout=SECONDS, follow_redirects=False, trust_env=False
        )

    def embed(self, texts: Sequence[str]) -> Vectors:
        # The API refuses empty texts.
        asked = [text[:CHARS] or " " for text in texts]
        try:
            answer = self._client.post("/embeddings", json={"model": self._model, "input": asked})
            answer.raise_for_status()
            data = cast("list[dict[str, object]]", answer.json()["data"])
            rows = [one["embedding"] for one in sorted(data, key=lambda one: cast("int", one.get("index", 0)))]
            vectors = np.array(rows, np.float32)
        except (httpx2.HTTPError, KeyError, TypeError, ValueError) as error:
            # Neither the address nor what it said: both may hold secrets.
            raise EmbeddingFailed(
                f"the embeddings API did not answer as one ({type(error).__name__})",
                hint="the operator checks --embedding-url, --embedding-model and --embedding-key",
            ) from None
        if vectors.ndim != 2 or len(vectors) != len(texts):  # noqa: PLR2004 - rows of numbers
            raise EmbeddingFailed("the embeddings API answered for other texts", hint="the operator checks it")
        return normal(vectors)

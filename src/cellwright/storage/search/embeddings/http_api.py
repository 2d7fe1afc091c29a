"""A model behind OpenAI's embeddings API. It is only used if the operator names an address."""

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
"""Characters of each text that are sent. No model gains from more in one vector."""


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
        inputs = [text[:CHARS] or " " for text in texts]
        try:
            response = self._client.post("/embeddings", json={"model": self._model, "input": inputs})
            response.raise_for_status()
            data = cast("list[dict[str, object]]", response.json()["data"])
            rows = [entry["embedding"] for entry in sorted(data, key=lambda entry: cast("int", entry.get("index", 0)))]
            vectors = np.array(rows, np.float32)
        except (httpx2.HTTPError, KeyError, TypeError, ValueError) as error:
            # The message has neither the address nor the response: both may hold secrets.
            raise EmbeddingFailed(
                f"the embeddings API did not answer as one ({type(error).__name__})",
                hint="the operator checks --embedding-url, --embedding-model and --embedding-key",
            ) from None
        if vectors.ndim != 2 or len(vectors) != len(texts):  # noqa: PLR2004 - rows of numbers
            raise EmbeddingFailed("the embeddings API answered for other texts", hint="the operator checks it")
        return normal(vectors)

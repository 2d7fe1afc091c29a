"""Imports without garbage collection: imported modules stay, and to search them again and again takes a fifth of the start."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def loading() -> Generator[None]:
    """Switch the collector off for the block; objects that exist at its end are never searched again."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()

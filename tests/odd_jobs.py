"""Jobs that behave as badly as foreign content can make them."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cellwright.core.errors import Conflict


def echo(**arguments: Any) -> dict[str, Any]:
    return {
        name: {"bytes": len(value)} if isinstance(value, bytes) else [value, os.getpid()]
        for name, value in arguments.items()
    }


def text_of(data: bytes) -> str:
    return data.decode()


def process() -> int:
    return os.getpid()


def refuse() -> None:
    raise Conflict("it changed", hint="look again", details={"place": 3})


def crash() -> None:
    raise KeyError("nobody foresaw this")


def never() -> Callable[[], None]:
    def work() -> None:
        while True:
            pass

    return work


def eat() -> list[bytes]:
    return [bytes(1 << 24) for _ in range(1 << 20)]


def nest() -> None:
    nest()


def die() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def opens() -> Callable[[], str]:
    def work() -> str:
        try:
            return Path(__file__).read_text(encoding="utf-8")
        except OSError as error:
            return type(error).__name__

    return work

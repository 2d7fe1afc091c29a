"""Where an index in LanceDB is, and the way to it. What the library cannot do is LanceFailed: the caller then does without it.

LanceDB has no types and is an optional part, so it is Any here and in the module of its tables, and nowhere else.
"""

import importlib
import importlib.util
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from http.client import HTTPException
from pathlib import Path
from typing import Any, cast

from cellwright.core.errors import ConfigError, Unavailable
from cellwright.core.installation import this_installation
from cellwright.storage.lance.s3 import SCHEME, Bucket, bucket_of
from cellwright.system.folders import expanded

LOG = "LANCEDB_LOG"
FOLDER_NAME = "lance"


class LanceFailed(Unavailable):
    """LanceDB could not read or write."""


@contextmanager
def told() -> Generator[None]:
    """LanceDB's errors have no class of their own: these are all that it raises."""
    try:
        yield
    except (RuntimeError, ValueError, OSError, KeyError, HTTPException) as error:
        raise LanceFailed(
            f"the LanceDB index: {type(error).__name__}: {str(error)[:200]}",
            hint="the operator checks --lance-uri and the room on its disk; searching by words goes on",
        ) from error


def check_installed() -> None:
    if importlib.util.find_spec("lancedb") is None:
        raise ConfigError("--search-index lancedb needs LanceDB", hint=this_installation().add("lance"))


@dataclass(frozen=True, slots=True)
class FolderPlace:
    """A folder on a disk of this machine."""

    path: Path

    @property
    def name(self) -> str:
        """Under which the database knows the index: another machine has another folder at the same path."""
        return f"{socket.gethostname()}:{self.path}"

    def check(self) -> None:
        """A folder is made when it is needed."""

    def connect(self) -> Any:  # noqa: ANN401
        """The tables there. Takes a second the first time, because of the import."""
        with told():
            # It holds the words of every text, as the database does.
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _connected(str(self.path), None)


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """A prefix in a bucket, the same one for every machine."""

    bucket: Bucket

    @property
    def name(self) -> str:
        return self.bucket.uri

    def check(self) -> None:
        """ConfigError if two writers would not be safe there, LanceFailed if the store does not answer."""
        with told():
            self.bucket.check_conditions()

    def connect(self) -> Any:  # noqa: ANN401
        """The tables there. Each time anew it is seen that the store is one that several may write to."""
        self.check()
        return _connected(self.bucket.uri, self.bucket.options())


LancePlace = FolderPlace | BucketPlace


def lance_place(setting: str, state_folder: Path) -> LancePlace:
    """What the setting `--lance-uri` means: nothing is a folder in the state folder, `s3://…` a bucket, else a folder."""
    if setting.startswith(SCHEME):
        return BucketPlace(bucket_of(setting, os.environ))
    if "://" in setting:
        raise ConfigError(
            "--lance-uri names a kind of place that cellwright does not know",
            hint="leave it out, name a folder, or use s3://bucket/prefix",
        )
    return FolderPlace(expanded(setting).absolute() if setting else state_folder / FOLDER_NAME)


def _connected(uri: str, options: dict[str, str] | None) -> Any:  # noqa: ANN401
    ours = LOG not in os.environ
    # It warns at every search otherwise.
    os.environ.setdefault(LOG, "error")
    try:
        lancedb = cast("Any", importlib.import_module("lancedb"))
    finally:
        if ours:
            del os.environ[LOG]
    with told():
        return lancedb.connect(uri, read_consistency_interval=timedelta(0), storage_options=options)

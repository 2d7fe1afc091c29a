"""Where an index in LanceDB is, and how to connect to it. If the library fails, LanceFailed is raised, and the caller does without it.

LanceDB has no types and is an optional part, so it is Any here and in table.py, and nowhere else.
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
def lance_errors() -> Generator[None]:
    """Raise LanceDB's errors as LanceFailed. It has no error classes of its own: these are all that it raises."""
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
        """The address under which the database knows the index. It has the host, because each machine has its own folder at that path."""
        return f"{socket.gethostname()}:{self.path}"

    def check(self) -> None:
        """Nothing to check: a folder is created when it is needed."""

    def connect(self) -> Any:  # noqa: ANN401
        """A connection to LanceDB. Takes a second the first time, because of the import."""
        with lance_errors():
            # Private, because it holds the words of every text, as the database does.
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _connect(str(self.path), None)


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """A prefix in a bucket, the same one for every machine."""

    bucket: Bucket

    @property
    def name(self) -> str:
        return self.bucket.uri

    def check(self) -> None:
        """ConfigError if the store is not safe for two writers, LanceFailed if it does not answer."""
        with lance_errors():
            self.bucket.check_conditions()

    def connect(self) -> Any:  # noqa: ANN401
        """A connection to LanceDB. The store is checked each time."""
        self.check()
        return _connect(self.bucket.uri, self.bucket.options())


LancePlace = FolderPlace | BucketPlace


def lance_place(setting: str, state_folder: Path) -> LancePlace:
    """What the setting `--lance-uri` means: a bucket if it is `s3://…`, a folder in the state folder if it is empty, else a folder."""
    if setting.startswith(SCHEME):
        return BucketPlace(bucket_of(setting, os.environ))
    if "://" in setting:
        raise ConfigError(
            "--lance-uri names a kind of place that cellwright does not know",
            hint="leave it out, name a folder, or use s3://bucket/prefix",
        )
    return FolderPlace(expanded(setting).absolute() if setting else state_folder / FOLDER_NAME)


def _connect(uri: str, options: dict[str, str] | None) -> Any:  # noqa: ANN401
    ours = LOG not in os.environ
    # Otherwise it logs a warning at every search.
    os.environ.setdefault(LOG, "error")
    try:
        lancedb = cast("Any", importlib.import_module("lancedb"))
    finally:
        if ours:
            del os.environ[LOG]
    with lance_errors():
        return lancedb.connect(uri, read_consistency_interval=timedelta(0), storage_options=options)

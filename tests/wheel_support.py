"""The package as people get it, for tests that install it."""

import re
import subprocess
import zipfile
from pathlib import Path

import uv

from locations import ROOT


def slim_wheel(folder: Path) -> Path:
    """This project's wheel, in need of no more than `cellwright install` uses: the rest would be half a gigabyte."""
    subprocess.run(
        [uv.find_uv_bin(), "build", "--wheel", "--quiet", "--out-dir", folder / "whole", ROOT], check=True, timeout=120
    )
    (whole,) = (folder / "whole").glob("*.whl")
    slim = folder / whole.name
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(slim, "w") as target:
        for item in source.infolist():
            data = source.read(item)
            if item.filename.endswith(".dist-info/METADATA"):
                data = re.sub(rb"(?m)^(Requires-Dist|Provides-Extra):.*\n", b"", data)
                data = data.replace(
                    b"\n\n", b"\nProvides-Extra: all\nRequires-Dist: psutil\nRequires-Dist: pydantic\n\n", 1
                )
            target.writestr(item, data)
    return slim

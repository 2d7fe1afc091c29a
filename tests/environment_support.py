"""Real Python environments for the tests, and packages to put into them."""

import subprocess
import sys
import zipfile
from pathlib import Path

from uv import find_uv_bin


def uv_environment(prefix: Path) -> Path:
    """An environment as uv makes it: without pip. Gives its interpreter."""
    subprocess.run([find_uv_bin(), "venv", "--quiet", "--offline", "--python", sys.executable, str(prefix)], check=True)
    return prefix / "bin" / "python"


def plain_environment(prefix: Path) -> Path:
    """An environment as Python itself makes it, with pip. Gives its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(prefix)], check=True)
    return prefix / "bin" / "python"


def packages_of(python: Path) -> Path:
    """The folder of an environment's packages."""
    (folder,) = (python.parent.parent / "lib").glob("python3*/site-packages")
    return folder


def files_in(folder: Path) -> dict[str, int]:
    """Every file with its size, but for what Python compiles on the way."""
    return {
        str(file.relative_to(folder)): file.lstat().st_size
        for file in folder.rglob("*")
        if "__pycache__" not in file.parts and not file.is_dir()
    }


def write_package(folder: Path, name: str, version: str, source: str = "") -> None:
    """A package that is installed in this folder, as an installer leaves it."""
    (folder / f"{name}.py").write_text(source, encoding="utf-8")
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")


def write_wheel(folder: Path, package: str, module: str) -> Path:
    """A wheel of one module, to be installed without an index."""
    stem = package.replace("-", "_")
    about = f"{stem}-1.0.dist-info"
    files = {
        f"{module}.py": "answer = 42\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    wheel = folder / f"{stem}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, f"{about}/RECORD": record}.items():
            archive.writestr(name, text)
    return wheel

"""Hints for failures that have a remedy: a missing package, or a question that nobody can answer."""

import re
import shlex
import subprocess

from cellwright.jupyter.kernels.interpreter import KernelPython

PACKAGE_OF = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "Bio": "biopython",
    "Crypto": "pycryptodome",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "distutils": "setuptools",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fitz": "pymupdf",
    "git": "GitPython",
    "imblearn": "imbalanced-learn",
    "jwt": "PyJWT",
    "magic": "python-magic",
    "mpl_toolkits": "matplotlib",
    "MySQLdb": "mysqlclient",
    "nacl": "PyNaCl",
    "OpenSSL": "pyOpenSSL",
    "PIL": "pillow",
    "pkg_resources": "setuptools",
    "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary",
    "ruamel": "ruamel.yaml",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slugify": "python-slugify",
    "umap": "umap-learn",
    "usb": "pyusb",
    "win32com": "pywin32",
    "yaml": "PyYAML",
    "zmq": "pyzmq",
}
"""Packages that are imported under another name than they are installed under."""
NO_MODULE = re.compile(r"No module named '?([A-Za-z_]\w*(?:\.\w+)*)(?:'|$)", re.ASCII)
NEEDS_PACKAGE = (
    re.compile(r"[Mm]issing optional dependency '([A-Za-z][\w.-]*)'", re.ASCII),
    re.compile(r"Import ([A-Za-z][\w.-]*)` failed", re.ASCII),
    re.compile(r"pip install ([A-Za-z][\w.-]*)", re.ASCII),
)
INPUT = (
    "input() cannot be answered here: nobody is asked. Put a value in its place and run the cell again, or leave it "
    "out and run the cells below it"
)


def missing_package(ename: str, evalue: str) -> tuple[str, str] | None:
    """The module that could not be imported, and its package; None for any other failure."""
    if ename == "ModuleNotFoundError" and (named := NO_MODULE.search(evalue)):
        module = named[1]
        return module, PACKAGE_OF.get(module.partition(".")[0], module.partition(".")[0])
    if ename in ("ImportError", "ModuleNotFoundError"):
        for pattern in NEEDS_PACKAGE:
            if named := pattern.search(evalue):
                package = named[1].rstrip(".")
                return package, PACKAGE_OF.get(package, package)
    return None


def hint_for_missing(module: str, package: str, python: KernelPython | None) -> str:
    """Says which interpreter lacks the module, and how to install it there."""
    if python is None:
        return (
            f"'{module}' is not in the Python that runs this notebook; which one that is, it did not say. "
            f"%pip install {package} in a cell adds it to most environments"
        )
    problem = f"'{module}' is not in {python.executable} (Python {python.version}), which runs this notebook"
    own_file = f"if it is a file of this project, run from its folder or add that to sys.path (now in {python.folder})"
    return f"{problem}. {_how_to_add(package, python)}; {own_file}"


def _how_to_add(package: str, python: KernelPython) -> str:
    if python.temporary:
        return (
            "That environment is uvx's and is not kept: make one in the workspace with `uv venv` and "
            f"`uv pip install {package} ipykernel`, then give the notebook the kernel python3 (assign_nb_kernel)"
        )
    if python.managed:
        return (
            "That is the system's Python, which takes no packages: make an environment in the workspace with "
            f"`python3 -m venv .venv`, install {package} and ipykernel there, then give the notebook its kernel "
            "(assign_nb_kernel)"
        )
    if python.pip:
        return f"Add it: run `%pip install {package}` in a cell, then this cell again"
    if python.conda:
        command = _command(python, "conda", "install", "--yes", "--prefix", python.prefix, package)
    else:
        command = _command(python, "uv", "pip", "install", "--python", python.executable, package)
    return (
        f"Add it (there is no pip in it): `{command}` in a terminal, or in a cell with ! before it; then run this again"
    )


def _command(python: KernelPython, *words: str) -> str:
    return subprocess.list2cmdline(words) if python.windows else shlex.join(words)


def hint_for_question(ename: str) -> str:
    """The hint for code that asks a person for input; empty for any other failure."""
    return INPUT if ename == "StdinNotImplementedError" else ""

"""Runs notebooks cell by cell and says what each cell did: what it showed, and which names had which value afterwards.

A program of its own, for whichever Python has what the notebooks import. It reads one task a line, a JSON object, and answers
each with a line.
Each notebook runs in a fork of this process, which has imported what most of them need, so that a run takes no longer than its cells.
"""

import ast
import contextlib
import datetime as dt
import dis
import enum
import functools
import hashlib
import inspect
import io
import json
import logging
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import types
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any

BEFOREHAND = (
    "numpy",
    "pandas",
    "matplotlib.pyplot",
    "scipy.stats",
    "scipy.optimize",
    "scipy.signal",
    "sklearn.linear_model",
    "sympy",
    "networkx",
    "statsmodels.api",
    "seaborn",
)
"""What most notebooks import."""
MOST_PARTS = 40_000
"""Of a value that are looked at."""
MOST_DEPTH = 14
MOST_BYTES = 8_000_000_000
NOW = 86_400.0
"""Seconds to either side of the present in which a time is no value but the present."""
ADDRESS = re.compile(
    r"\b[012]\d:[0-5]\d:[0-5]\d(?:\.\d+)?\b|0x[0-9a-fA-F]{5,}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b"
)
"""What is another one in each run, and no value: times of day, addresses, names made up by chance."""
COUNTED = re.compile(
    r"\b(?:[A-Z][A-Za-z]*\d{5}|[a-z_]+0\d{4}|p\d{4,5})\b|(?<=sk-container-id-)\d+|(?<=sk-estimator-id-)\d+"
)
"""Names that holoviews, bokeh and scikit-learn number as they come."""
PLACES = range(0x5500_0000_0000, 0x8000_0000_0000)
"""Numbers that are addresses of objects, by which some packages tell their objects apart."""
OWN_OF_SHELL = re.compile(r"_+|_i+|_i?\d+|_[io]h|_dh|In|Out|exit|quit|open|get_ipython|__\w+__|_exit_code")
MEMORY = re.compile(r"_?_?(?:cache\w*|cached\w*|\w*_cache\w*|lazy\w*|memo\w*|mhash|hash)|_id|_uuid|_name_counter")
"""Attributes that objects fill in as they are read."""
OF_CLASSES = frozenset({"__dict__", "__weakref__", "__firstlineno__", "__static_attributes__"})
"""Attributes of classes that say nothing of what they do."""
GONE = "gone"


BY_KIND = (
    types.GeneratorType,
    types.CoroutineType,
    types.FrameType,
    types.TracebackType,
    threading.Thread,
    logging.Handler,
)
BY_KIND_IN = ("weakref", "_weakref", "_thread", "ctypes", "_ctypes", "concurrent", "asyncio", "_io")
"""What has no value that could be compared: instances of these kinds, and of all in these modules."""


class Digest:
    """The fingerprint of one value: equal for equal values, in whichever process."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=12)
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []
        self._left = MOST_PARTS

    def text(self) -> str:
        return self._hash.hexdigest()

    def put(self, text: str) -> None:
        self._hash.update(text.encode("utf-8", "backslashreplace") + b"\0")

    def add(self, value: Any, depth: int = 0) -> None:
        self._left -= 1
        if self._left < 0:
            return
        kind = kind_of(value)
        if kind is int and value in PLACES:
            self.put("address")
        elif value is None or kind in {bool, int, float, complex}:
            self.put(f"{kind.__name__} {value!r}")
        elif kind is str:
            self.put(f"str {normal(value)}")
        elif kind in {bytes, bytearray}:
            self.put(kind.__name__)
            self._hash.update(value)
        elif id(value) in self._seen:
            self.put(f"again {self._seen[id(value)]}")
        elif depth > MOST_DEPTH:
            self.put(f"deep {kind.__qualname__}")
        else:
            self._seen[id(value)] = len(self._seen)
            self._kept.append(value)
            try:
                self._add_object(value, depth + 1)
            except RecursionError:
                raise
            except Exception:  # noqa: BLE001 - an object of which nothing more is known
                self.put(f"object {kind.__module__}.{kind.__qualname__}")

    def _all(self, values: Iterable[Any], depth: int) -> None:
        for value in values:
            self.add(value, depth)

    def _items(self, values: Mapping[Any, Any], depth: int) -> None:
        for key, value in list(values.items()):
            if self._left < 0:
                return
            self.add(key, depth)
            self.add(value, depth)

    def _unordered(self, values: Iterable[Any]) -> None:
        for one in sorted(fingerprint(value) for value in values):
            self.put(one)

    def _add_object(self, value: Any, depth: int) -> None:
        kind = kind_of(value)
        self.put(f"{kind.__module__}.{kind.__qualname__}")
        for special in (
            self._add_function,
            self._add_class,
            self._add_plain,
            self._add_array,
            self._add_table,
            self._add_picture,
            self._add_odd,
        ):
            if special(value, depth):
                return
        if isinstance(value, dict | OrderedDict):
            self._items(value, depth)  # pyright: ignore[reportUnknownArgumentType] - of anything
        elif isinstance(value, list | tuple | deque):
            self._all(value, depth)  # pyright: ignore[reportUnknownArgumentType] - of anything
        elif isinstance(value, set | frozenset):
            self._unordered(value)  # pyright: ignore[reportUnknownArgumentType] - of anything
        self._add_attributes(value, depth)

    def _add_attributes(self, value: Any, depth: int) -> None:
        kind = kind_of(value)
        try:
            attributes: dict[str, Any] = dict(object.__getattribute__(value, "__dict__"))
        except AttributeError:
            attributes = {}
        slots = False
        for base in kind.__mro__:
            names = base.__dict__.get("__slots__", ())
            for name in (names,) if isinstance(names, str) else names:
                slots = True
                if name not in {"__dict__", "__weakref__"} and hasattr(value, name):
                    attributes[name] = getattr(value, name)
        if (
            not attributes
            and not slots
            and kind.__reduce_ex__ is object.__reduce_ex__
            and kind.__reduce__ is not object.__reduce__
        ):
            reduced = value.__reduce__()
            self.add(reduced if isinstance(reduced, str) else list(reduced[:3]), depth)
            return
        for name in sorted(attributes, key=str):
            if MEMORY.fullmatch(str(name)) is None and not self._is_memory(kind, name):
                self.put(str(name))
                self.add(attributes[name], depth)

    @staticmethod
    def _is_memory(kind: Any, name: str) -> bool:
        found = inspect.getattr_static(kind, name, None)
        return isinstance(found, functools.cached_property) or "cache" in type(found).__name__.lower()

    def _add_function(self, value: Any, depth: int) -> bool:
        """Functions of the notebook by their code, all others by name."""
        if isinstance(value, types.CodeType):
            self._hash.update(value.co_code)
            self._all([value.co_names, value.co_varnames, value.co_freevars, value.co_consts], depth)
        elif isinstance(value, types.FunctionType):
            if value.__module__ in {"__main__", None}:
                self._all([value.__code__, value.__defaults__, value.__kwdefaults__, vars(value)], depth)
            else:
                self.put(f"{value.__module__}.{value.__qualname__}")
            self._closure(value, depth)
        elif isinstance(value, types.MethodType):
            self._all([value.__func__, value.__self__], depth)
        elif isinstance(value, types.BuiltinFunctionType):
            self.put(value.__qualname__)
            if not isinstance(value.__self__, types.ModuleType):
                self.add(value.__self__, depth)
        elif isinstance(value, functools.partial):
            self._all([value.func, value.args, value.keywords], depth)  # pyright: ignore[reportUnknownMemberType] - of anything
        else:
            return False
        return True

    def _add_class(self, value: Any, depth: int) -> bool:
        """Classes of the notebook by their attributes, all others by name, as modules are."""
        if isinstance(value, types.ModuleType):
            self.put(value.__name__)
        elif isinstance(value, type):
            self.put(f"{value.__module__}.{value.__qualname__}")
            if value.__module__ == "__main__":
                self._all(value.__bases__, depth)
                for name, attribute in sorted(vars(value).items()):
                    if name not in OF_CLASSES and not name.startswith("_abc_"):
                        self.put(name)
                        self.add(attribute, depth)
        elif isinstance(value, staticmethod | classmethod):
            self.add(value.__func__, depth)  # pyright: ignore[reportUnknownMemberType] - of anything
        elif isinstance(value, property):
            self._all([value.fget, value.fset, value.fdel], depth)
        else:
            return False
        return True

    def _closure(self, value: types.FunctionType, depth: int) -> None:
        for cell in value.__closure__ or ():
            try:
                self.add(cell.cell_contents, depth)
            except ValueError:
                self.put("empty")

    def _add_plain(self, value: Any, depth: int) -> bool:
        if isinstance(value, PurePath | re.Pattern | range | enum.Enum):
            self.put(normal(repr(value)))  # pyright: ignore[reportUnknownArgumentType] - of anything
        elif isinstance(value, random.Random):
            self.put(repr(value.getstate()))
        elif isinstance(value, types.MappingProxyType):
            self._items(value, depth)  # pyright: ignore[reportUnknownArgumentType] - of anything
        elif isinstance(value, io.StringIO | io.BytesIO):
            self.put(repr(value.getvalue()))
        elif isinstance(value, dt.datetime) and abs(value.timestamp() - time.time()) < NOW:
            self.put("now")
        elif type(value).__module__ in {"datetime", "decimal", "fractions", "uuid", "zoneinfo"}:
            self.put(repr(value))
        else:
            return False
        return True

    def _add_array(self, value: Any, depth: int) -> bool:
        """Arrays of numpy by their bytes, and what else it has."""
        numpy = sys.modules.get("numpy")
        if numpy is None:
            return False
        if isinstance(value, numpy.ndarray):
            self._all([str(value.dtype), value.shape], depth)
            if value.dtype.hasobject:
                self._all(value.ravel().tolist(), depth)
            else:
                self._hash.update(numpy.ascontiguousarray(value).tobytes())
            if type(value) is not numpy.ndarray:
                self._add_attributes(value, depth)
        elif isinstance(value, numpy.generic | numpy.dtype):
            self.put(repr(value))
        elif isinstance(value, numpy.random.Generator):
            self.put(repr(value.bit_generator.state))
        elif isinstance(value, numpy.random.RandomState):
            self.put(repr(value.get_state(legacy=False)))
        else:
            return False
        return True

    def _add_table(self, value: Any, depth: int) -> bool:
        pandas = sys.modules.get("pandas")
        if pandas is None:
            return False
        if isinstance(value, pandas.DataFrame):
            self._all([value.columns, value.index], depth)
            for number in range(value.shape[1]):
                self._column(value.iloc[:, number], depth)
        elif isinstance(value, pandas.Series):
            self.add(value.index, depth)
            self._column(value, depth)
        elif isinstance(value, pandas.Index):
            self._all([[str(name) for name in value.names], str(value.dtype)], depth)
            self._column(value, depth)
        elif isinstance(value, pandas.Timestamp | pandas.Timedelta | pandas.Period):
            self.put(repr(value))
        else:
            return False
        return True

    def _column(self, value: Any, depth: int) -> None:
        self.put(f"{getattr(value, 'name', '')} {value.dtype}")
        self.add(value.to_numpy(), depth)

    def _add_picture(self, value: Any, depth: int) -> bool:
        """What a picture of matplotlib shows; how it is to be drawn is seen once it is."""
        if not type(value).__module__.startswith(("matplotlib.", "mpl_toolkits.", "seaborn.")):
            return False
        if isinstance(value, sys.modules["matplotlib.figure"].FigureBase):
            self._all(value.axes, depth)
        elif isinstance(value, sys.modules["matplotlib.axes"].Axes):
            self._all([value.get_title(), value.get_xlabel(), value.get_ylabel()], depth)
            self._all([value.lines, value.patches, value.collections, value.images, value.texts], depth)
        elif isinstance(value, sys.modules["matplotlib.lines"].Line2D):
            self._all([value.get_xdata(), value.get_ydata(), str(value.get_color()), value.get_label()], depth)
        elif isinstance(value, sys.modules["matplotlib.text"].Text):
            self.add(value.get_text(), depth)
        elif isinstance(value, sys.modules["matplotlib.patches"].Patch):
            self._all([value.get_path().vertices, value.get_facecolor()], depth)
        elif hasattr(value, "get_array"):
            array = value.get_array()
            self.add(None if array is None else sys.modules["numpy"].asarray(array), depth)
        elif isinstance(value, list | tuple | Mapping):
            return False
        return True

    def _add_odd(self, value: Any, depth: int) -> bool:
        """What is known by its kind only, by its text, or by a part of it."""
        module = kind_of(value).__module__
        if isinstance(value, io.IOBase | logging.Logger):
            self.put(str(getattr(value, "name", "")))
        elif module.startswith("sympy.") and hasattr(value, "args"):
            self.put(normal(str(value)))
        elif module.startswith("networkx.classes") and hasattr(value, "_adj"):
            # Without what it keeps for later.
            self._all([value.graph, value._node, value._adj], depth)
        elif module.startswith("scipy.sparse") and hasattr(value, "tocoo"):
            whole = value.tocoo()
            self._all([whole.shape, whole.row, whole.col, whole.data], depth)
        else:
            return isinstance(value, BY_KIND) or module.startswith(BY_KIND_IN)
        return True


def kind_of(value: Any) -> Any:
    return type(value)  # pyright: ignore[reportUnknownVariableType] - of anything


def normal(text: str) -> str:
    return COUNTED.sub("<counted>", ADDRESS.sub("<address>", text))


def fingerprint(value: Any) -> str:
    digest = Digest()
    try:
        digest.add(value)
    except RecursionError:
        digest.put("endless")
    return digest.text()


class Shown:
    """What a cell shows, in its order. What it writes to its standard error is none of it: warnings come once, progress at some time."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, str]] = []

    def write(self, text: str) -> int:
        if self.parts and self.parts[-1][0] == "text":
            text_before = self.parts.pop()[1]
            self.parts.append(("text", text_before + text))
        else:
            self.parts.append(("text", text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False

    encoding, errors, closed = "utf-8", "strict", False

    def show(self, data: Mapping[str, Any]) -> None:
        for mime, content in sorted(data.items()):
            if mime in {"text/plain", "text/html", "text/latex", "text/markdown", "image/svg+xml"}:
                self.parts.append((mime, content if isinstance(content, str) else repr(content)))
            elif mime == "image/png":
                self.parts.append(
                    (
                        mime,
                        hashlib.blake2b(content if isinstance(content, bytes) else str(content).encode()).hexdigest(),
                    )
                )

    def taken(self) -> list[str]:
        parts = [f"{mime}: {normal(content)}" for mime, content in self.parts if content.strip()]
        self.parts.clear()
        return parts


def stored_names(code: types.CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in {"STORE_NAME", "STORE_GLOBAL", "DELETE_NAME"}:
            yield str(step.argval)


def surely_bound(source: str) -> set[str]:
    """The names that the statements of a cell bind, leaving out those which may not run."""
    bound: set[str] = set()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return bound
    for statement in tree.body:
        if not isinstance(statement, ast.If | ast.For | ast.While | ast.Try | ast.Match):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    code = compile(ast.Module([statement], []), "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                except (SyntaxError, ValueError):
                    continue
            bound.update(stored_names(code))
    return bound


def shell_with(shown: Shown) -> Any:
    """IPython as a kernel has it, but for what it shows."""
    interactive = import_module("IPython.core.interactiveshell")
    displayhook = import_module("IPython.core.displayhook")
    displaypub = import_module("IPython.core.displaypub")
    config = import_module("traitlets.config").Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"

    def silent(_self: Any, *_given: Any, **_named: Any) -> None:
        pass

    def write_format_data(_self: Any, format_dict: Mapping[str, Any], _md_dict: Any = None) -> None:
        shown.show(format_dict)

    def publish(_self: Any, data: Mapping[str, Any], *_given: Any, **_named: Any) -> None:
        shown.show(data)

    hook = type(
        "Hook",
        (displayhook.DisplayHook,),
        {
            "write_output_prompt": silent,
            "write_format_data": write_format_data,
            "log_output": silent,
            "finish_displayhook": finish,
        },
    )
    publisher = type("Publisher", (displaypub.DisplayPublisher,), {"publish": publish, "clear_output": silent})
    shell_kind = type(
        "Shell",
        (interactive.InteractiveShell,),
        {
            "enable_gui": silent,
            "system": system,
            "_showtraceback": silent,
            "showtraceback": silent,
            "showsyntaxerror": silent,
        },
    )
    shell = shell_kind.instance(config=config, displayhook_class=hook, display_pub_class=publisher)
    shell.display_formatter.active_types = shell.display_formatter.format_types
    shell.register_magic_function(silent, "line", "matplotlib")
    shell.register_magic_function(silent, "line", "pylab")
    figure: Any = sys.modules.get("matplotlib.figure")
    if figure is not None:
        shell.display_formatter.formatters["image/png"].for_type(figure.Figure, drawn)
    return shell


def finish(self: Any) -> None:
    self._is_active = False


def drawn(figure: Any) -> bytes:
    """What a picture looks like."""
    canvas = import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    dpi = figure.dpi
    try:
        figure.set_dpi(45)
        canvas.draw()
        return hashlib.blake2b(bytes(canvas.buffer_rgba())).hexdigest().encode()
    finally:
        figure.set_dpi(dpi)


def system(self: Any, command: str) -> None:
    done = subprocess.run(
        self.var_expand(command, depth=1),
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    sys.stdout.write(done.stdout)
    self.user_ns["_exit_code"] = done.returncode


def refuse_network(*_given: Any) -> None:
    raise OSError("no network")


def show_figures() -> None:
    if "matplotlib.pyplot" in sys.modules:
        import_module("matplotlib_inline.backend_inline").flush_figures()


def run_notebook(task: Mapping[str, Any], report: Callable[[Any], None]) -> None:
    """Run all cells of a task, and report on each."""
    os.chdir(task["folder"])
    sys.path.insert(0, "")
    import_module("socket").socket.connect = refuse_network
    shown = Shown()
    shell = shell_with(shown)
    sys.argv = ["notebook"]
    sys.stdout, sys.stderr = shown, io.StringIO()  # pyright: ignore[reportAttributeAccessIssue] - as much of a file as it needs
    before: dict[str, tuple[int, str]] = {}
    own = set(shell.user_ns)
    for source in task["cells"]:
        started = time.monotonic()
        result = shell.run_cell(source, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        try:
            show_figures()
        except Exception as failure:  # noqa: BLE001 - of whatever it draws
            error = error or failure
        parts = shown.taken()
        if error is not None:
            parts.append(f"{type(error).__name__}: {normal(str(error))}")
        took = time.monotonic() - started
        after = {
            name: (id(value), fingerprint(value))
            for name, value in list(shell.user_ns.items())
            if name not in own and OWN_OF_SHELL.fullmatch(name) is None
        }
        written: dict[str, str] = dict.fromkeys(before.keys() - after.keys(), GONE)
        written |= {name: mark for name, (place, mark) in after.items() if before.get(name) != (place, mark)}
        try:
            transformed = shell.transform_cell(source)
        except Exception:  # noqa: BLE001 - it is no Python
            transformed = ""
        bound = surely_bound(transformed) & after.keys()
        written |= {name: after[name][1] for name in bound}
        report(
            {
                "error": "" if error is None else type(error).__name__,
                "shown": [
                    hashlib.blake2b(part.encode("utf-8", "replace"), digest_size=12).hexdigest() for part in parts
                ],
                "begin": [part[:200] for part in parts][:6],
                "written": written,
                "bound": sorted(bound),
                "seconds": round(took, 2),
                "after": round(time.monotonic() - started - took, 2),
            }
        )
        if error is not None and task.get("stop"):
            return
        before = after


def in_fork(task: Mapping[str, Any]) -> str:
    """Run a task in a process of its own. Returns why it did not end, if so."""
    answer = Path(task["answer"])
    answer.unlink(missing_ok=True)
    process = os.fork()
    if process == 0:
        try:
            os.setsid()
            signal.alarm(int(task["seconds"]) + 5)
            resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
            null = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(null, number)
            random.seed()
            if "numpy" in sys.modules:
                sys.modules["numpy"].random.seed()
            cells: list[Any] = []
            run_notebook(task, cells.append)
            draft = answer.with_suffix(".draft")
            draft.write_text(json.dumps(cells), encoding="utf-8")
            draft.replace(answer)
        finally:
            os._exit(0)
    end = time.monotonic() + task["seconds"]
    while os.waitpid(process, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return "took too long"
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    return "" if answer.exists() else "ended without an answer"


def answer(what: Mapping[str, str]) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


def main() -> None:
    for name in (*BEFOREHAND, *sys.argv[1:]):
        with warnings.catch_warnings(), contextlib.suppress(Exception), contextlib.redirect_stdout(sys.stderr):
            warnings.simplefilter("ignore")
            import_module(name)
    import_module("IPython.core.interactiveshell")
    import_module("IPython.core.completer")
    answer({"ready": sys.version})
    for line in sys.stdin:
        answer({"why": in_fork(json.loads(line))})


if __name__ == "__main__":
    main()

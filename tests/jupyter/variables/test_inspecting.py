"""Looking at what kernels hold: real kernels on a real server, over both adapters."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cellwright.core.errors import Conflict, Forbidden, InvalidArgument, NotFound
from cellwright.core.text.budget import estimate_tokens
from cellwright.core.toolset import Image
from cellwright.core.types import ALL_SCOPES, Call, Principal, Scope
from cellwright.jupyter.port import Jupyter
from cellwright.jupyter.server.connect import FoundServer
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.common import Range, compact
from cellwright.jupyter.tools.kernels import cancel_execution, inspect_variables, kernel_environment
from cellwright.jupyter.tools.running import execute_nb_cells
from jupyter_support import JupyterServer, write_notebook
from requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
CALL = Call(Principal("ada", ALL_SCOPES))
SLEEP = "import time; time.sleep(600)"


@pytest.fixture
async def notebooks(jupyter: Jupyter) -> AsyncGenerator[LiveNotebooks]:
    async def connect() -> FoundServer:
        return FoundServer(jupyter, "named")

    service = LiveNotebooks(connect, lambda: datetime.now(UTC))
    try:
        yield service
    finally:
        await service.close()


class Notebook:
    """A notebook with a kernel of its own."""

    def __init__(self, notebooks: LiveNotebooks, server: JupyterServer, folder: str) -> None:
        self._notebooks = notebooks
        self._root = server.root
        self.path = f"{folder}/n.ipynb"

    def write(self, *sources: str) -> None:
        write_notebook(self._root, self.path, list(sources))

    async def run(self, *sources: str) -> list[Any]:
        """The outputs of each cell."""
        self.write(*sources)
        return [(await self.run_cell(index))["outputs"] for index in range(len(sources))]

    async def run_cell(self, index: int) -> Any:
        report: Any = await execute_nb_cells(self._notebooks, CALL, self.path, [Range(start=index)])
        (cell,) = report.data["execution_results"]
        assert cell["status"] == "done", cell
        return cell

    async def look(self, *names: str) -> Any:
        return (await inspect_variables(self._notebooks, CALL, self.path, list(names) or None)).data

    async def depth(self, name: str) -> Any:
        return (await self.look(name))["variables"][name]


@pytest.fixture
def notebook(notebooks: LiveNotebooks, jupyter_server: JupyterServer, folder: str) -> Notebook:
    return Notebook(notebooks, jupyter_server, folder)


@requirement("variables:rows")
async def test_the_list_of_all(notebook: Notebook) -> None:
    await notebook.run(
        "import json, numpy as np\nnumber = 7\nname = 'Ada'\nrows = list(range(1000))\n_hidden = 1\n"
        "grid = np.arange(6).reshape(2, 3)\nscalar = np.float32(1.5)\nclass Thing: ...\nthing = Thing()"
    )
    answer = await notebook.look()
    assert (answer["language"], set(answer)) == ("python", {"language", "variables"})
    variables = answer["variables"]
    assert list(variables) == ["Thing", "grid", "name", "number", "rows", "scalar", "thing"]
    assert variables["number"] == {"type": "builtins.int", "value": "7"}
    assert variables["name"] == {"type": "builtins.str", "length": 3, "value": "'Ada'"}
    assert (variables["rows"]["type"], variables["rows"]["length"]) == ("builtins.list", 1000)
    assert variables["rows"]["value"].startswith("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10")
    assert variables["grid"] == {
        "type": "numpy.ndarray", "shape": "(2, 3)", "dtype": "int64", "length": 2, "value": "[[0, 1, 2], [3, 4, 5]]",
    }  # fmt: skip
    assert (variables["scalar"]["shape"], variables["scalar"]["dtype"]) == ("()", "float32")
    assert variables["thing"]["type"] == "__main__.Thing"
    assert all(len(row["value"]) <= 300 for row in variables.values())


@requirement("variables:rows", "variables:bounded")
async def test_a_list_of_many_says_how_many_more(notebook: Notebook) -> None:
    await notebook.run("for n in range(150): globals()[f'v{n:03}'] = 'x' * 100_000\ndel n")
    answer = await notebook.look()
    assert (len(answer["variables"]), answer["more"]) == (100, 50)
    assert estimate_tokens(compact(answer)) < 25_000


@requirement("variables:tables")
async def test_data_frames_of_pandas(notebook: Notebook) -> None:
    await notebook.run(
        "import pandas as pd\n"
        "df = pd.DataFrame({'a': [1, None, 3], 'b': ['x', None, 'y'], 'c': pd.date_range('2024-01-01', periods=3),"
        " 'o': [object(), None, 5]}, index=['r', 's', 't'])\n"
        "many = pd.DataFrame({'n': range(2_500_000)})\nwide = pd.DataFrame([[0] * 80])"
    )
    table = await notebook.depth("df")
    assert (table["type"], table["shape"], table["length"], table["index"]) == (
        "pandas.DataFrame", "(3, 4)", 3, "Index: 'r' to 't'",
    )  # fmt: skip
    assert table["columns"][0] == {"name": "a", "dtype": "float64", "nulls": 1, "min": "1.0", "max": "3.0"}
    assert (table["columns"][1]["name"], table["columns"][1]["nulls"]) == ("b", 1)
    assert table["columns"][2]["max"] == "2024-01-03 00:00:00"
    assert table["columns"][3] == {"name": "o", "dtype": "object", "nulls": 1}
    assert table["rows"][0] == ["1.0", "'x'", "2024-01-01 00:00:00", "<object>"]
    column = await notebook.depth("df.a")
    assert (column["type"], column["nulls"], column["elements"]) == ("pandas.Series", 1, ["1.0", "nan", "3.0"])
    (many,) = (await notebook.depth("many"))["columns"]
    assert (many["min"], "of 2,500,000 elements" in many["sample"]) == ("0", True)
    wide = await notebook.depth("wide")
    assert (len(wide["columns"]), wide["more_columns"]) == (50, 30)


@requirement("variables:tables")
async def test_tables_of_pyarrow(notebook: Notebook) -> None:
    await notebook.run("import pyarrow as pa\ntable = pa.table({'n': [4, None, 2], 's': ['x', 'y', None]})")
    table = await notebook.depth("table")
    assert table["columns"] == [
        {"name": "n", "dtype": "int64", "nulls": 1, "min": "2", "max": "4"},
        {"name": "s", "dtype": "string", "nulls": 1},
    ]
    assert table["rows"] == [["4", "'x'"], ["None", "'y'"], ["2", "None"]]


@requirement("variables:arrays")
async def test_arrays(notebook: Notebook) -> None:
    await notebook.run(
        "import numpy as np\na = np.array([[1.0, np.nan], [np.inf, 2.0]])\nbig = np.ones((3000, 1000))\n"
        "masked = np.ma.array([1, 2], mask=[0, 1])\nobjects = np.array([object(), 1], dtype=object)"
    )
    array = await notebook.depth("a")
    assert (array["shape"], array["dtype"], array["bytes"]) == ("(2, 2)", "float64", 32)
    assert (array["nan"], array["infinite"], array["min"], array["max"]) == (1, 1, "1.0", "inf")
    assert array["elements"] == ["1.0", "nan", "inf", "2.0"]
    big = await notebook.depth("big")
    assert (big["mean"], big["sample"]) == ("1.0", "750,000 of 3,000,000 elements, evenly spread")
    assert "masked" in (await notebook.depth("masked"))["note"]
    assert (await notebook.depth("objects"))["elements"] == ["<object>", "1"]


@requirement("variables:parts")
async def test_containers_and_objects(notebook: Notebook) -> None:
    await notebook.run(
        "from collections import namedtuple\n"
        "config = {'db': {'ports': [1, 2, {'deep': {'deeper': {'deepest': 1}}}]}, 1: 'number', '1': 'text'}\n"
        "Point = namedtuple('Point', 'x y')\npoint = Point(1, 2)\n"
        "class Slots:\n    __slots__ = ('kept', 'empty')\n    def __init__(self): self.kept = 5\nslots = Slots()\n"
        "loop = [1]\nloop.append(loop)\nring = {}\nring['self'] = ring\nlong = list(range(5000))"
    )
    config = (await notebook.depth("config"))["entries"]
    assert config["db"]["entries"]["ports"]["items"][:2] == ["1", "2"]
    assert (config["1"], config["1*"]) == ("'number'", "'text'")
    assert (await notebook.depth("point"))["entries"] == {"x": "1", "y": "2"}
    assert (await notebook.depth("slots"))["attributes"] == {"kept": "5"}
    assert (await notebook.depth("loop"))["items"][1] == "<list: contains itself>"
    assert (await notebook.depth("ring"))["entries"]["self"] == "<dict: contains itself>"
    long = await notebook.depth("long")
    assert (len(long["items"]), long["more"]) == (20, 4980)


@requirement("variables:paths")
async def test_paths(notebook: Notebook) -> None:
    await notebook.run(
        "class Model:\n    def __init__(self): self.layers = [[1], {'w': (3, 4)}]\n"
        "model = Model()\nconfig = {'database': 1, (1, 'a'): 2, b'k': 3, -1: 4}"
    )
    wanted = {"model.layers[1]['w'][-1]": "4", "config['database']": "1", "config[1, 'a']": "2", "config[b'k']": "3"}
    seen = (await notebook.look(*wanted, "config[-1]"))["variables"]
    assert {name: seen[name]["value"] for name in wanted} == wanted
    assert seen["config[-1]"]["value"] == "4"
    missing = await notebook.look("modle", "model.layer", "config['databse']", "model.layers[2]")
    assert set(missing["variables"].values()) == {None}
    assert missing["missing"] == {
        "modle": "there is no variable modle: did you mean model?",
        "model.layer": "Model keeps no attribute layer: did you mean layers?",
        "config['databse']": "dict has no key databse: did you mean database?",
        "model.layers[2]": "list has no element 2: it has 2",
    }
    for name in ("model.run()", "config[input()]", "1 + 1", "long[0:3]", "[x for x in y]", "lambda: 0"):
        with pytest.raises(InvalidArgument):
            await notebook.look(name)


@requirement("variables:pictures")
async def test_pictures(notebooks: LiveNotebooks, notebook: Notebook) -> None:
    await notebook.run(
        "import matplotlib; matplotlib.use('agg')\nfrom matplotlib.figure import Figure\nfrom PIL import Image\n"
        "fig = Figure(figsize=(3, 2))\naxes = fig.subplots()\naxes.plot([1, 2])\nimage = Image.new('RGB', (40, 30))\n"
        "drawn = []\nfig.canvas.mpl_connect('draw_event', drawn.append)\n"
        "class Own(Figure):\n    def draw(self, renderer): drawn.append('own')\nown = Own()",
        "(fig.stale, fig.dpi, drawn)",
    )
    reply = await inspect_variables(notebooks, CALL, notebook.path, ["fig", "axes", "image", "own"])
    variables: Any = reply.data["variables"]
    pictures = [part for part in reply.content or () if isinstance(part, Image)]
    assert [picture.data[:4] for picture in pictures] == [b"\x89PNG"] * 3
    assert (variables["fig"]["picture"], variables["image"]["picture"]) == ("300 x 200 pixels", "40 x 30 pixels")
    assert "png" not in variables["fig"]
    assert "picture" not in variables["own"]
    outputs = (await notebook.run_cell(1))["outputs"]
    assert outputs[0]["data"]["text/plain"] == "(True, 100.0, [])"


HOSTILE = """
ran = []
def trap(name, value=None):
    def run(*args, **named):
        ran.append(name)
        if value is None: raise SystemExit(name)
        return value
    return run
class Meta(type):
    __eq__ = trap('meta eq'); __hash__ = type.__hash__; __instancecheck__ = trap('instancecheck')
    __repr__ = trap('meta repr'); __getattribute__ = lambda cls, name: ran.append(name) or type.__getattribute__(cls, name)
class Evil(metaclass=Meta):
    def __init__(self): object.__setattr__(self, 'kept', 'safe')
    __repr__ = __str__ = __len__ = __iter__ = __bool__ = __eq__ = __getitem__ = __format__ = trap('method')
    __hash__ = trap('hash', 5); __getattr__ = __getattribute__ = trap('getattribute')
    __class__ = property(trap('class', int)); computed = property(trap('property'))
    shape = dtype = property(trap('shape'))
class EvilList(list):
    __len__ = __iter__ = __getitem__ = __repr__ = trap('list')
class EvilDict(dict):
    __len__ = __iter__ = items = keys = __getitem__ = __contains__ = __repr__ = trap('dict')
class EvilStr(str):
    __len__ = __repr__ = __str__ = __getitem__ = __eq__ = trap('str'); __hash__ = str.__hash__
class EvilInt(int):
    __repr__ = __str__ = __index__ = __abs__ = __lt__ = trap('int')
class Endless:
    def __repr__(self):
        while True: pass
class Huge:
    def __repr__(self): return 'x' * 10**9
evil, evil_list, evil_dict = Evil(), EvilList([1, 2]), EvilDict(a=1)
evil_str, evil_int, endless, huge = EvilStr('text'), EvilInt(5), Endless(), Huge()
keys = {evil: 'value', EvilStr('key'): 2, 'plain': 3}
nested = {'a': [evil, endless, huge]}
ran.clear()
"""


@requirement("variables:no-code", "variables:bounded")
async def test_nothing_of_the_notebooks_is_run(notebook: Notebook) -> None:
    await notebook.run(HOSTILE, "ran")
    names = ("evil", "evil_list", "evil_dict", "evil_str", "evil_int", "endless", "huge", "keys", "nested")
    rows = (await notebook.look())["variables"]
    assert set(names) <= set(rows)
    assert rows["evil"]["type"] == "__main__.Evil"
    seen = (await notebook.look(*names))["variables"]
    assert seen["evil"]["attributes"] == {"kept": "'safe'"}
    assert seen["evil_list"]["items"] == ["1", "2"]
    assert seen["evil_dict"]["entries"] == {"a": "1"}
    assert (seen["evil_str"]["value"], seen["evil_int"]["value"]) == ("'text'", "5")
    assert "not run" in seen["endless"]["note"]
    assert list(seen["keys"]["entries"].values()) == ["'value'", "2", "3"]
    inside = await notebook.look(
        "evil.kept", "evil.computed", "keys['plain']", "evil_dict['a']", "evil_list[1]", "keys['k']"
    )
    assert [inside["variables"][name]["value"] for name in ("evil.kept", "keys['plain']", "evil_list[1]")] == [
        "'safe'", "3", "2",
    ]  # fmt: skip
    assert "computed by code, which is not run" in inside["missing"]["evil.computed"]
    assert (await notebook.run_cell(1))["outputs"][0]["data"]["text/plain"] == "[]"


@requirement("variables:bounded")
async def test_what_is_told_is_cleaned(notebook: Notebook) -> None:
    await notebook.run(
        "text = 'a\\u202eb\\x1b[31mc'\nkeys = {'k\\u200b\\U000e0041': 'v\\u202e'}\nclass C\u0430: ...\nc = C\u0430()"
    )
    written = compact(await notebook.look("text", "keys", "c"))
    assert not {"\u202e", "\x1b", "\u200b", "\U000e0041"} & set(written)


@requirement("variables:no-trace")
async def test_looking_leaves_no_trace(notebook: Notebook) -> None:
    state = (
        "import sys\nstate = lambda: (_, sorted(Out), sorted(sys.modules), len(In),"
        " {name for name in globals() if not name.startswith('_i')})"
    )
    change = "[one == other for one, other in zip(before[:3], after[:3])], after[3] - before[3], after[4] - before[4]"
    notebook.write("'mine'", state, "before = state()", f"after = state()\n{change}")
    for index in range(3):
        await notebook.run_cell(index)
    await notebook.look()
    await notebook.look("state", "before", "In", "sys.path", "before[0]", "nothing")
    cell = await notebook.run_cell(3)
    assert cell["execution_count"] == 4
    assert cell["outputs"][0]["data"]["text/plain"] == "([True, True, True], 1, {'before'})"


@requirement("variables:busy")
async def test_busy_kernels_are_not_waited_for_and_none_is_started(
    notebooks: LiveNotebooks, jupyter: Jupyter, notebook: Notebook
) -> None:
    notebook.write("x = 1", SLEEP)
    with pytest.raises(NotFound):
        await notebook.look()
    assert [session.path for session in await jupyter.kernels.sessions() if session.path == notebook.path] == []
    await notebook.run_cell(0)
    # Questions that are asked at once do not take each other for somebody's code.
    answers: Sequence[Any] = await asyncio.gather(*(notebook.look("x") for _ in range(5)))
    assert [answer["variables"]["x"]["value"] for answer in answers] == ["1"] * 5
    begun: Any = await execute_nb_cells(notebooks, CALL, notebook.path, [Range(start=1)], timeout=0)
    began = time.monotonic()
    for names in ((), ("x",)):
        with pytest.raises(Conflict, match="busy"):
            await notebook.look(*names)
    assert time.monotonic() - began < 5
    await cancel_execution(notebooks, CALL, begun.data["execution_id"])
    assert (await notebook.depth("x"))["value"] == "1"


@requirement("variables:busy")
async def test_only_who_may_run_code_may_look(notebooks: LiveNotebooks, notebook: Notebook) -> None:
    await notebook.run("x = 1")
    reader = replace(CALL, principal=Principal("ada", frozenset({Scope.READ})))
    with pytest.raises(Forbidden):
        await inspect_variables(notebooks, reader, notebook.path)


@requirement("variables:process")
async def test_what_a_kernel_uses(notebooks: LiveNotebooks, notebook: Notebook) -> None:
    (outputs, *_) = await notebook.run(
        "import os, subprocess, sys\nblock = bytearray(50_000_000)\nos.getpid()",
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)",
    )
    process: Any = (await kernel_environment(notebooks, CALL, notebook.path, "no such"))["process"]
    assert process["pid"] == int(outputs[0]["data"]["text/plain"])
    assert process["memory"] > 50_000_000
    assert process["cpu_seconds"] > 0
    assert process["uptime_seconds"] > 0
    assert process["threads"] >= 1
    assert (process["children"], process["children_memory"] > 0) == (1, True)

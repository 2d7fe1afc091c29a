"""A soak: clients that work and keep account of what was acknowledged, faults that come in turn, and somebody who measures.

The account of a document is kept by marks. Every cell has one in its first line that no other cell has, with a version behind it, so
what is in a document at the end can be compared with what its client was told:

- an insert that was acknowledged and not deleted since is there once, with the version that was acknowledged last;
- one that was refused is not there;
- one whose outcome is unknown is there once or not at all.

Code that is run writes a line with its mark into a log, which tells how often it really ran.
"""

import asyncio
import errno
import json
import os
import random
import re
import signal
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count, cycle
from pathlib import Path
from statistics import fmean
from typing import Any, Self

from mcp import Client, MCPError

from jupyter_support import JupyterProcess, sources_on_disk
from notebook_agent import Relay
from support import HttpServer, http_client, until, wait_until

MARK = re.compile(r"\bmark-\w+-\d+\b")
DISK_MEGABYTES = 256
DISK_SECONDS = 60.0
HALT_SECONDS = 20.0
"""How long Jupyter is stopped, as a machine that is put to sleep would stop it."""
FULL_SECONDS = 6.0
CUTS = 5
"""How often connections are cut before they are left alone again."""
BUDGET_SECONDS = 50.0
"""For a call: a Jupyter that is stopped answers after 20 s, and what was sent to it then is waited for as long again."""
RUN_SECONDS = 20.0
"""What a run is waited for, on top of the budget."""
SAMPLE_SECONDS = 2.0
MOST_CELLS = 24
MOST_PAD_CELLS = 40
MOST_THINKING_CELLS = 6
BUSY_SECONDS = 3.0
REST_SECONDS = 20.0
"""What connections are kept for after their last use, and more."""
SAVE_SECONDS = 30.0
SETTLE_SECONDS = 2.0


# -- what was acknowledged -----------------------------------------------------------------------------------------------------


class Fate(Enum):
    """What a client was told of a change."""

    DONE = auto()
    REFUSED = auto()
    UNKNOWN = auto()


@dataclass(slots=True)
class Cell:
    """A cell as its client knows it."""

    mark: str
    texts: set[str]
    """What its source may be by now."""
    id: str = ""
    may_be_there: bool = True
    may_be_gone: bool = False
    seen: bool = False
    """Whether the client found it when it last looked."""

    @property
    def certain(self) -> bool:
        return self.may_be_there and not self.may_be_gone and len(self.texts) == 1

    @property
    def text(self) -> str:
        (text,) = self.texts
        return text


class Ledger:
    """What one document must hold, may hold and must not hold."""

    def __init__(self) -> None:
        self._cells: dict[str, Cell] = {}

    def __len__(self) -> int:
        return sum(cell.may_be_there for cell in self._cells.values())

    @property
    def certain(self) -> list[Cell]:
        return [cell for cell in self._cells.values() if cell.certain]

    @property
    def doubtful(self) -> list[Cell]:
        """Cells that are not certain and were found when the client last looked."""
        return [cell for cell in self._cells.values() if not cell.certain and cell.seen and cell.id]

    def inserted(self, mark: str, text: str, fate: Fate, cell_id: str = "") -> None:
        if fate is Fate.REFUSED:
            return
        self._cells[mark] = Cell(mark, {text}, cell_id, may_be_gone=fate is Fate.UNKNOWN)

    def rewritten(self, cell: Cell, text: str, fate: Fate) -> None:
        if fate is Fate.DONE:
            cell.texts = {text}
        elif fate is Fate.UNKNOWN:
            cell.texts.add(text)

    def deleted(self, cell: Cell, fate: Fate) -> None:
        cell.seen = False
        if fate is Fate.DONE:
            del self._cells[cell.mark]
        elif fate is Fate.UNKNOWN:
            cell.may_be_gone = True

    def emptied(self, fate: Fate) -> None:
        if fate is Fate.DONE:
            self._cells.clear()
        elif fate is Fate.UNKNOWN:
            for cell in self._cells.values():
                cell.may_be_gone = True

    def looked(self, found: Iterable[tuple[str, str]]) -> None:
        """The client read the document: ids and texts."""
        ids = {mark[0]: cell_id for cell_id, text in found if (mark := MARK.search(text))}
        for cell in self._cells.values():
            cell.seen = cell.mark in ids
            cell.id = ids.get(cell.mark, cell.id)

    def wrong(self, texts: Sequence[str], *, whole: bool = True) -> list[str]:
        """What does not agree with a document of these texts; unless `whole`, only their beginnings are known."""
        complaints: list[str] = []
        found: Counter[str] = Counter()
        for text in texts:
            mark = MARK.search(text)
            cell = self._cells.get(mark[0]) if mark else None
            if mark is None or cell is None:
                complaints.append(f"nobody was told that this is there: {text!r}")
                continue
            found[mark[0]] += 1
            if text not in cell.texts if whole else not any(one.startswith(text) for one in cell.texts):
                complaints.append(f"{text!r} stands where {sorted(cell.texts)} was acknowledged")
        for cell in self._cells.values():
            if found[cell.mark] > 1:
                complaints.append(f"{cell.mark} is there {found[cell.mark]} times")
            elif not found[cell.mark] and not cell.may_be_gone:
                complaints.append(f"{cell.mark} was acknowledged and is lost")
        return complaints


class RunLedger:
    """How often each piece of code must have run, and how often it may have."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._at_least: Counter[str] = Counter()
        self._at_most: Counter[str] = Counter()
        log.touch()

    def told(self, key: str, fate: Fate) -> None:
        self._at_least[key] += fate is Fate.DONE
        self._at_most[key] += fate is not Fate.REFUSED

    def wrong(self) -> list[str]:
        ran = Counter(self.log.read_text(encoding="utf-8").split())
        return [
            f"{key} ran {ran[key]} times, not {self._at_least[key]} to {self._at_most[key]}"
            for key in sorted(ran.keys() | self._at_most.keys())
            if not self._at_least[key] <= ran[key] <= self._at_most[key]
        ]

    def __len__(self) -> int:
        return self._at_least.total()


# -- what was measured ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """What our server took at one moment."""

    seconds: float
    memory: int
    """Resident bytes of the process and of its workers."""
    descriptors: int
    threads: int
    processes: int


def children_of(pid: int) -> list[int]:
    """All processes below this one."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            direct = [int(child) for child in task.read_text(encoding="ascii").split()]
        except OSError:
            continue
        for child in direct:
            found += [child, *children_of(child)]
    return found


def resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def processor_seconds(pid: int) -> float:
    """What a process has used of the processors so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def processes_naming(text: str) -> list[str]:
    """Command lines of processes that name this."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [command for pid in pids if text in (command := command_of(pid))]


def connections() -> dict[str, tuple[int, int]]:
    """The local and the remote port of each TCP socket of this machine, by its inode; one that listens has no remote port."""
    found: dict[str, tuple[int, int]] = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            found[fields[9]] = (int(fields[1].rpartition(":")[2], 16), int(fields[2].rpartition(":")[2], 16))
    return found


class Meter:
    """Looks at our server again and again."""

    def __init__(self, pid: int, ports: Mapping[int, str]) -> None:
        """`ports` names what stands behind the ports that connections of our server lead to or come in by."""
        self._pid = pid
        self._ports = ports
        self._began = time.monotonic()
        self._used = processor_seconds(pid)
        self.samples: list[Sample] = []

    def descriptors(self) -> Counter[str]:
        """What the descriptors of our server are for."""
        names: Counter[str] = Counter()
        known = connections()
        for entry in Path(f"/proc/{self._pid}/fd").iterdir():
            with suppress(OSError):
                target = str(entry.readlink())
                if inode := re.fullmatch(r"socket:\[(\d+)\]", target):
                    names[self._socket(known.get(inode[1]))] += 1
                else:
                    names[re.sub(r"\d+", "N", target.rpartition("/")[2])] += 1
        return names

    def _socket(self, ports: tuple[int, int] | None) -> str:
        if ports is None:
            return "pair"
        local, remote = ports
        return f"{self._ports.get(remote) or self._ports.get(local) or ports} {'connected' if remote else 'listening'}"

    def look(self) -> Sample:
        children = children_of(self._pid)
        status = Path(f"/proc/{self._pid}/status").read_text(encoding="ascii")
        return Sample(
            time.monotonic() - self._began,
            sum(resident(pid) for pid in (self._pid, *children)),
            sum(1 for _ in Path(f"/proc/{self._pid}/fd").iterdir()),
            int(status.partition("Threads:")[2].split()[0]),
            len(children),
        )

    async def watch(self) -> None:
        while True:
            self.samples.append(self.look())
            await asyncio.sleep(SAMPLE_SECONDS)

    async def at_rest(self, before: Counter[str], kept: Counter[str]) -> Counter[str]:
        """What is left over of descriptors when nobody works any more: beside those that were there before, and those that are kept.

        Connections that are kept for a moment have gone by then.
        """
        with suppress(AssertionError):
            await until(lambda: not self.descriptors() - before - kept, "rest", REST_SECONDS)
        return self.descriptors() - before - kept

    def fifth(self, number: int) -> list[Sample]:
        """The samples of one fifth of the time, counted from 0."""
        size = len(self.samples) / 5
        return self.samples[round(number * size) : round((number + 1) * size)]

    def growth(self, of: Callable[[Sample], int]) -> float:
        """By how much the mean of the last fifth is above that of the second; the first is for warming up."""
        return fmean(map(of, self.fifth(4))) - fmean(map(of, self.fifth(1)))

    @property
    def load(self) -> float:
        """The share of one processor that our server took."""
        return (processor_seconds(self._pid) - self._used) / (time.monotonic() - self._began)


@dataclass(slots=True)
class Figures:
    """What happened, in numbers."""

    seconds: list[float] = field(default_factory=list[float])
    tools: Counter[str] = field(default_factory=Counter[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    runs: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    timeline: list[str] = field(default_factory=list[str])
    complaints: list[str] = field(default_factory=list[str])
    began: float = field(default_factory=time.monotonic)
    journal: Path | None = None
    """Where every call is written down, to find out how something came about."""

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def complain(self, who: str, what: str) -> None:
        self.complaints.append(f"{self.elapsed:.1f} s, {who}: {what}")
        self.write_down(who, time.monotonic(), "COMPLAINT", what)

    def write_down(self, who: str, began: float, call: str, answer: str) -> None:
        if self.journal is not None:
            with self.journal.open("a", encoding="utf-8") as journal:
                journal.write(f"{began - self.began:.3f} to {self.elapsed:.3f} s, {who}: {call} -> {answer}\n")

    def quantile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def lines(self, meter: Meter) -> list[str]:
        def by_fifths(of: Callable[[Sample], float]) -> str:
            return ", ".join(f"{fmean(map(of, meter.fifth(number))):.1f}" for number in range(5))

        highest = max(one.memory for one in meter.samples) / 2**20
        # Between the middles of the two fifths there are three fifths of all calls.
        growth = meter.growth(lambda one: one.memory) / (0.6 * len(self.seconds))
        return [
            f"soak of {self.elapsed:.0f} s: {len(self.seconds)} calls, {meter.load:.2f} of a processor for our server",
            f"tools: {_counted(self.tools)}",
            f"errors: {_counted(self.errors)}",
            f"runs: {_counted(self.runs)}",
            f"faults: {_counted(self.faults)}",
            f"seconds of a call: p50 {self.quantile(0.5):.3f}, p99 {self.quantile(0.99):.2f}, most {max(self.seconds):.1f}",
            f"memory in MB, by fifths: {by_fifths(lambda one: one.memory / 2**20)}, highest {highest:.1f}",
            f"growth of memory in bytes per call: {growth:.0f}",
            f"descriptors, by fifths: {by_fifths(lambda one: one.descriptors)}",
            f"threads at the end {meter.samples[-1].threads}, worker processes {meter.samples[-1].processes}",
        ]


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.most_common()) or "none"


# -- what breaks ---------------------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path) -> Generator[Path]:
    """A disk that can be filled, where we may mount one; elsewhere a folder."""
    folder.mkdir()
    if not may_mount():
        yield folder
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        try:
            # Whoever was killed with a file open there may take a moment to be gone.
            wait_until(lambda: _unmounts(folder), "nobody uses the disk any more", DISK_SECONDS)
        except AssertionError:
            # Not left behind on the machine, whoever still uses it.
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
            raise


def _unmounts(folder: Path) -> bool:
    return subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode == 0


def may_mount() -> bool:
    return os.geteuid() == 0


class Ballast:
    """A file that takes all the room that a disk has left."""

    def __init__(self, disk: Path) -> None:
        self._file = disk / "ballast"

    def top_up(self) -> None:
        with self._file.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def drop(self) -> None:
        self._file.unlink(missing_ok=True)


class Wire(Relay):
    """A wire that is also there while nobody is at its other end."""

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await super()._take(reader, writer)
        except OSError:
            writer.transport.abort()


class Pause:
    """Clients work between calls of `quiet`; while somebody has it quiet, none of their calls is under way."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._working = 0
        self._begun = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        while not self._open.is_set():
            await self._open.wait()
        self._working += 1
        self._begun.set()
        self._idle.clear()
        try:
            yield
        finally:
            self._working -= 1
            if not self._working:
                self._idle.set()

    async def busy(self) -> None:
        """Return when somebody begins to work, or nobody has for a while."""
        self._begun.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(BUSY_SECONDS):
                await self._begun.wait()

    @asynccontextmanager
    async def quiet(self) -> AsyncGenerator[None]:
        self._open.clear()
        try:
            await self._idle.wait()
            yield
        finally:
            self._open.set()


class Faults:
    """Break one thing after the other, and mend it."""

    def __init__(
        self, jupyter: JupyterProcess, wire: Wire, disk: Path, pause: Pause, figures: Figures, chance: random.Random
    ) -> None:
        self.jupyter, self._wire, self._ballast = jupyter, wire, Ballast(disk)
        self._pause, self._figures, self._chance = pause, figures, chance
        self.saved: Callable[[], Awaitable[None]] | None = None
        """Returns when all that clients were told is on disk."""

    async def keep_coming(self, every: float, until: float) -> None:
        """A fault each so many seconds, all kinds in turn; returns when the last is over.

        After one that lasts there is at least half that time in which everything works: it would hide the next one.
        """
        kinds = {
            "kernel killed": self.kill_a_kernel,
            "connections cut": self.cut,
            **({"disk full": self.fill} if may_mount() else {}),
            "Jupyter stopped for a while": self.halt,
            "Jupyter restarted": self.restart,
        }
        due = time.monotonic() + every
        for name in cycle(kinds):
            if due > until:
                return
            await asyncio.sleep(due - time.monotonic())
            start = self._figures.elapsed
            await kinds[name]()
            self._figures.faults[name] += 1
            self._figures.timeline.append(f"{start:.1f} to {self._figures.elapsed:.1f} s: {name}")
            self._figures.write_down("FAULT", self._figures.began + start, name, "over")
            due = max(due + every, time.monotonic() + every / 2)

    def kernels(self) -> list[int]:
        """The processes of Jupyter's kernels."""
        return [pid for pid in children_of(self._pid) if "ipykernel" in command_of(pid)]

    async def kill_a_kernel(self) -> None:
        """One that may be at work: kill when something is under way."""
        await self._pause.busy()
        found = self.kernels()
        if not found:
            return
        os.kill(self._chance.choice(found), signal.SIGKILL)

    async def cut(self) -> None:
        """Some cuts, each a few milliseconds after something began."""
        for _ in range(CUTS):
            await self._pause.busy()
            await asyncio.sleep(self._chance.uniform(0.0, 0.05))
            self._wire.cut()

    async def restart(self) -> None:
        """End Jupyter once all is saved, by turns politely and by force; clients are at work again while it is away."""
        assert self.saved is not None
        async with self._pause.quiet():
            await self.saved()
            end = self.jupyter.kill if self._figures.faults["Jupyter restarted"] % 2 else self.jupyter.stop
            await asyncio.to_thread(end)
        await asyncio.to_thread(self.jupyter.start)

    async def halt(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(HALT_SECONDS)
        finally:
            os.kill(self._pid, signal.SIGCONT)

    async def fill(self) -> None:
        end = time.monotonic() + FULL_SECONDS
        try:
            while time.monotonic() < end:
                await asyncio.to_thread(self._ballast.top_up)
                await asyncio.sleep(0.1)
        finally:
            self._ballast.drop()

    @property
    def _pid(self) -> int:
        assert self.jupyter._process is not None
        return self.jupyter._process.pid


# -- clients -------------------------------------------------------------------------------------------------------------------


UNKNOWN_CODES = {"UNKNOWN_OUTCOME", "COMMIT_UNKNOWN"}
REFUSALS = {
    "UNAVAILABLE",
    "STORAGE_FULL",
    "KERNEL_DIED",
    "KERNEL_GONE",
    "KERNEL_NOT_STARTED",
    "REPLY_LOST",
    # A run outlives its call where the kernel is slow, and somebody who searches all notebooks is in each for a moment.
    "CONFLICT",
}
"""What may be said while things break. Anything else is a defect, of the soak or of the server."""


@dataclass(frozen=True, slots=True)
class Told:
    """An answer."""

    fate: Fate
    data: dict[str, Any]
    code: str = ""


class Worker:
    """One client with a notebook, a pad and a thinking notebook of its own."""

    def __init__(self, name: str, runs: RunLedger, figures: Figures, pause: Pause, chance: random.Random) -> None:
        self.name = name
        self.path = f"work/{name}.ipynb"
        self.notebook, self.pad, self.thinking = Ledger(), Ledger(), Ledger()
        self._pad_id = f"pad-{name}"
        self._thinking_id = ""
        self._numbers = count(1)
        self._runs, self._figures, self._pause, self._chance = runs, figures, pause, chance
        self._client: Client | None = None

    @asynccontextmanager
    async def connected(self, server: HttpServer, mode: str) -> AsyncGenerator[Self]:
        async with http_client(server, mode) as self._client:
            yield self

    async def begin(self) -> None:
        """Make what it works in; nothing is broken yet."""
        mark, text = self._new()
        made = await self._call("create_nb", path=self.path, cells=[{"content": text}])
        self.notebook.inserted(mark, text, made.fate, made.data["cells"][0]["id"])
        await self._call("scratch_create", scratch_id=self._pad_id, cells=[])
        await self._run()

    async def work(self, until: float, rest: tuple[float, float]) -> None:
        operations = {
            self._insert: 6,
            self._insert_and_run: 2,
            self._modify: 4,
            self._modify_and_run: 1,
            self._edit: 4,
            self._delete: 4,
            self._move: 3,
            self._read: 4,
            self._run: 4,
            self._search: 1,
            self._search_everywhere: 1,
            self._append_to_pad: 4,
            self._replace_in_pad: 2,
            self._read_pad: 1,
            self._think: 3,
            self._leave: 1,
        }
        while time.monotonic() < until:
            async with self._pause.working():
                (operation,) = self._chance.choices(list(operations), list(operations.values()))
                await operation()
            await asyncio.sleep(self._chance.uniform(*rest))

    async def end(self) -> list[str]:
        """Read everything once more, leave, and say what is wrong."""
        await self._read()
        await self._read_pad()
        if self._thinking_id:
            await self._read_thinking()
            await self._call("notebook_close", notebookId=self._thinking_id)
        await self._call("scratch_delete", scratch_id=self._pad_id)
        left = await self._call("end_nb_session", path=self.path, shutdown_kernel=True)
        return [] if left.data.get("saved") is not False else [f"{self.path} was not saved at the end"]

    def wrong_on_disk(self, root: Path) -> list[str]:
        return self.notebook.wrong(sources_on_disk(root / self.path))

    # -- calls

    async def _call(self, tool: str, *, extra: float = 0.0, **arguments: Any) -> Told:
        assert self._client is not None
        began = time.monotonic()
        try:
            async with asyncio.timeout(BUDGET_SECONDS + extra):
                result = await self._client.call_tool(tool, arguments)
        except TimeoutError:
            self._figures.complain(
                self.name, f"{tool} was not answered within {BUDGET_SECONDS + extra:g} s: {arguments}"
            )
            raise
        except MCPError as refused:
            self._figures.complain(self.name, f"{tool} failed: {refused}")
            return Told(Fate.UNKNOWN, {}, "PROTOCOL")
        self._figures.seconds.append(time.monotonic() - began)
        self._figures.tools[tool] += 1
        data: dict[str, Any] = result.structured_content or {}
        self._figures.write_down(self.name, began, f"{tool} {json.dumps(arguments)}", json.dumps(data))
        if not result.is_error or data.get("ok") is not False:
            return Told(Fate.DONE, data)
        error: dict[str, Any] = data["error"]
        code = str(error.get("reason") or error["code"])
        self._figures.errors[code] += 1
        if code not in UNKNOWN_CODES | REFUSALS:
            self._figures.complain(self.name, f"{tool} {arguments} was answered with {json.dumps(error)}")
        return Told(Fate.UNKNOWN if code in UNKNOWN_CODES else Fate.REFUSED, data, code)

    def _new(self) -> tuple[str, str]:
        mark = f"mark-{self.name}-{next(self._numbers)}"
        return mark, self._text(mark)

    def _text(self, mark: str) -> str:
        """A source that says in the log that it ran; each time another one."""
        key = f"{mark}.{next(self._numbers)}"
        return f"# {key}\nwith open({str(self._runs.log)!r}, 'a') as log:\n    log.write('{key}\\n')\nprint('{key}')"

    def _some(self, ledger: Ledger) -> Cell | None:
        return self._chance.choice(found) if (found := ledger.certain) else None

    def _ran(self, text: str, told: Told) -> None:
        """Enter what is said of a run: how it ended, and that its output came."""
        key = text.partition("\n")[0].removeprefix("# ")
        if told.fate is not Fate.DONE:
            # The run is the last thing that a call does, so one that failed before it has run nothing.
            self._runs.told(key, told.fate)
            return
        results = told.data.get("execution_results", [])
        if not results:
            # The edit is done, and the run after it was refused.
            self._figures.errors[f"{told.data['error']['code']} of the run after an edit"] += 1
            return
        (result,) = results
        status: str = result["status"]
        said: dict[str, Any] = result.get("error") or {}
        self._figures.runs[status] += 1
        if status == "not_run" and said.get("ename") not in UNKNOWN_CODES | {"REPLY_LOST"}:
            self._runs.told(key, Fate.REFUSED)
        else:
            self._runs.told(key, Fate.DONE if status == "done" else Fate.UNKNOWN)
        if status == "done" and not result.get("notes") and key not in json.dumps(result["outputs"]):
            self._figures.complain(self.name, f"a run that is done has not put out {key}: {json.dumps(told.data)}")
        if status == "error" and said.get("ename") not in REFUSALS | UNKNOWN_CODES:
            self._figures.complain(self.name, f"a run failed: {json.dumps(told.data)}")

    # -- notebooks

    async def _insert(self) -> None:
        await self._inserted(run=False)

    async def _insert_and_run(self) -> None:
        await self._inserted(run=True)

    async def _inserted(self, *, run: bool) -> None:
        if len(self.notebook) >= MOST_CELLS:
            return await self._delete()
        mark, text = self._new()
        told = await self._call(
            "insert_nb_cells",
            path=self.path,
            position=self._chance.choice((0, 1, -1)),
            cells=[{"content": text}],
            exec=run,
            timeout=RUN_SECONDS,
            extra=RUN_SECONDS,
        )
        cells: list[dict[str, Any]] = told.data.get("cells") or [{}]
        self.notebook.inserted(mark, text, told.fate, cells[0].get("id", ""))
        if run:
            self._ran(text, told)
        return None

    async def _modify(self) -> None:
        await self._modified(run=False)

    async def _modify_and_run(self) -> None:
        await self._modified(run=True)

    async def _modified(self, *, run: bool) -> None:
        cell = self._some(self.notebook)
        if cell is None:
            return
        text = self._text(cell.mark)
        told = await self._call(
            "modify_nb_cells",
            path=self.path,
            modifications=[{"range": {"id": cell.id}, "content": text}],
            exec=run,
            timeout=RUN_SECONDS,
            extra=RUN_SECONDS,
        )
        self.notebook.rewritten(cell, text, told.fate)
        if run:
            self._ran(text, told)

    async def _edit(self) -> None:
        cell = self._some(self.notebook)
        if cell is None:
            return
        old = cell.text.partition("\n")[0].removeprefix("# ")
        new = f"{cell.mark}.{next(self._numbers)}"
        told = await self._call(
            "edit_nb_cell", path=self.path, cell=cell.id, old=old, new=new, replace_all=True, exec=False
        )
        self.notebook.rewritten(cell, cell.text.replace(old, new), told.fate)

    async def _delete(self) -> None:
        doubtful = self.notebook.doubtful
        cell = doubtful[0] if doubtful else self._some(self.notebook)
        if cell is None or len(self.notebook) < MOST_CELLS // 3:
            return
        told = await self._call("delete_nb_cells", path=self.path, ranges=[{"id": cell.id}])
        self.notebook.deleted(cell, told.fate)

    async def _move(self) -> None:
        if (cell := self._some(self.notebook)) is not None:
            position = self._chance.choice((0, -1))
            await self._call("move_nb_cells", path=self.path, ranges=[{"id": cell.id}], position=position)

    async def _read(self) -> None:
        ranges: list[dict[str, Any]] | None = None
        found: list[tuple[str, str]] = []
        while True:
            told = await self._call("read_nb_cells", path=self.path, outputs="none", ranges=ranges)
            if told.fate is not Fate.DONE:
                return
            found += [(cell["id"], cell["source"]) for cell in told.data["cells"]]
            if "next" not in told.data:
                break
            ranges = told.data["next"]["ranges"]
        self.notebook.looked(found)
        for complaint in self.notebook.wrong([text for _, text in found]):
            self._figures.complain(self.name, f"in {self.path}: {complaint}")

    async def _run(self) -> None:
        if (cell := self._some(self.notebook)) is not None:
            told = await self._call(
                "execute_nb_cells",
                path=self.path,
                ranges=[{"id": cell.id}],
                timeout=RUN_SECONDS,
                extra=RUN_SECONDS,
            )
            self._ran(cell.text, told)

    async def _search(self) -> None:
        await self._call("search_nbs", query=f"mark-{self.name}", path="work", limit=5)

    async def _search_everywhere(self) -> None:
        await self._call("search_workspace", query=f"mark {self.name}", limit=5)

    async def _leave(self) -> None:
        await self._call("end_nb_session", path=self.path, shutdown_kernel=self._chance.random() < 0.2)

    # -- pads

    async def _append_to_pad(self) -> None:
        if len(self.pad) >= MOST_PAD_CELLS:
            told = await self._call("scratch_create", scratch_id=self._pad_id, cells=[], expect="any")
            self.pad.emptied(told.fate)
            return
        mark, text = self._new()
        told = await self._call(
            "scratch_append_cell", scratch_id=self._pad_id, cell={"language": "python", "content": text}
        )
        cells: list[dict[str, Any]] = told.data["scratchpad"]["cells"] if told.fate is Fate.DONE else [{}]
        self.pad.inserted(mark, text, told.fate, cells[-1].get("cell_id", ""))

    async def _replace_in_pad(self) -> None:
        if (cell := self._some(self.pad)) is not None:
            text = self._text(cell.mark)
            told = await self._call(
                "scratch_replace_cell",
                scratch_id=self._pad_id,
                cell_id=cell.id,
                cell={"language": "python", "content": text},
            )
            self.pad.rewritten(cell, text, told.fate)

    async def _read_pad(self) -> None:
        found: list[tuple[str, str]] = []
        offset: int | None = 0
        while offset is not None:
            told = await self._call("scratch_read", scratch_id=self._pad_id, offset=offset)
            if told.fate is not Fate.DONE:
                return
            found += [(cell["cell_id"], cell["content"]) for cell in told.data["scratchpad"]["cells"]]
            offset = told.data.get("next")
        self.pad.looked(found)
        for complaint in self.pad.wrong([text for _, text in found]):
            self._figures.complain(self.name, f"in {self._pad_id}: {complaint}")

    # -- thinking notebooks

    async def _think(self) -> None:
        if not self._thinking_id:
            told = await self._call("notebook_create", title=self.name)
            self._thinking_id = told.data.get("notebookId", "")
        elif len(self.thinking) < MOST_THINKING_CELLS:
            mark, text = self._new()
            told = await self._call("notebook_add_cell", notebookId=self._thinking_id, source=text)
            self.thinking.inserted(mark, text, told.fate, told.data.get("cell", {}).get("id", ""))
        elif self._chance.random() < 0.5:
            await self._read_thinking()
        else:
            told = await self._call("notebook_close", notebookId=self._thinking_id)
            if told.fate is Fate.DONE:
                self.thinking.emptied(told.fate)
                self._thinking_id = ""

    async def _read_thinking(self) -> None:
        told = await self._call("notebook_read", notebookId=self._thinking_id)
        if told.fate is Fate.DONE:
            starts = [cell["starts"].partition("\n")[0] for cell in told.data["cells"]]
            for complaint in self.thinking.wrong([start.rstrip("…") for start in starts], whole=False):
                self._figures.complain(self.name, f"in its thinking notebook: {complaint}")


async def all_saved(workers: Sequence[Worker], root: Path) -> None:
    """Return when what clients were told is in the files, which Jupyter writes a second after the last change."""
    end = time.monotonic() + SAVE_SECONDS
    while wrong := [complaint for worker in workers for complaint in worker.wrong_on_disk(root)]:
        assert time.monotonic() < end, f"not saved within {SAVE_SECONDS:g} s: {wrong}"
        await asyncio.sleep(0.2)
    # Outputs of runs, which nobody counts here, are saved as well by then.
    await asyncio.sleep(SETTLE_SECONDS)


def asked(jupyter: JupyterProcess, what: str) -> Any:
    """What Jupyter itself says."""
    request = urllib.request.Request(f"{jupyter.url}/api/{what}", headers={"Authorization": f"token {jupyter.token}"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)

"""Whatever step a process dies at while it writes: what stands there is whole, and what was acknowledged is kept."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cellwright.context.model import Discovery, DiscoveryType, SessionStatus
from cellwright.context.project.file import ProjectFile
from cellwright.context.service import ProjectContext
from cellwright.core.types import ALL_SCOPES, Call, Principal
from cellwright.storage.location import Location
from requirements import requirement

ANN = Call(Principal("ann", ALL_SCOPES))

# Dies by itself, at every step of writing in turn, before it and after it; says what it has left each time.
DYING = """
import json, os, signal, sys
from pathlib import Path
from cellwright.context.project import file as project_file
from cellwright.context.model import Discovery, DiscoveryType
from cellwright.system import machine

STEPS = [(os, "open"), (os, "fsync"), (os, "link"), (machine, "exchange"), (machine, "sync_folder"), (Path, "unlink")]

def dying(step, call, after):
    def run(*arguments, **named):
        if not after:
            os.kill(os.getpid(), signal.SIGKILL)
        call(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)
    return run

root = Path(sys.argv[1])
for before in (None, "# kept\\nmodules:\\n  auth:\\n    patterns:\\n    - old\\n"):
    for number, (owner, name) in enumerate(STEPS):
        for after in (False, True):
            folder = root / f"{before is None}-{number}-{after}"
            (folder / ".cellwright").mkdir(parents=True)
            if before is not None:
                (folder / ".cellwright" / "project.yaml").write_text(before)
            child = os.fork()
            if child == 0:
                file = project_file.ProjectFile(folder)
                project_file._yaml()
                setattr(owner, name, dying(name, getattr(owner, name), after))
                file.enrich([Discovery("x", DiscoveryType.PATTERN, "new", "auth")])
                os._exit(0)
            _, status = os.waitpid(child, 0)
            print(json.dumps([folder.name, before is None, name, os.WIFSIGNALED(status)]), flush=True)
"""


@requirement("context:file:crash")
def test_a_death_at_any_step_of_writing_leaves_a_whole_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DYING, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    died: set[tuple[bool, str]] = set()
    for line in done.stdout.splitlines():
        name, fresh, step, was_killed = json.loads(line)
        if was_killed:
            died.add((fresh, step))
        file = ProjectFile(tmp_path / name)
        project = file.read()
        known = project.modules["auth"].patterns if project else None
        assert known in ((None, ("new",)) if fresh else (("old",), ("old", "new"))), line
        assert was_killed or known is not None
        # The dead hold no lock, and what they left behind is in nobody's way.
        file.enrich([Discovery("y", DiscoveryType.PATTERN, "after", "auth")])
        healed = file.read()
        assert healed is not None
        assert healed.modules["auth"].patterns[-1] == "after"
    assert {step for _, step in died} == {"open", "fsync", "link", "exchange", "sync_folder", "unlink"}


WORKING = """
import asyncio, sys
from pathlib import Path
from cellwright.app.parts import MIGRATIONS
from cellwright.context.service import ProjectContext
from cellwright.core.resources import Changes
from cellwright.core.types import ALL_SCOPES, Call, Principal, Secret
from cellwright.jupyter.shelf import NotebookShelf
from cellwright.storage.search.embeddings.models import Models
from cellwright.storage.search.embeddings.port import EmbeddingChoice
from cellwright.storage.location import open_database
from cellwright.storage.search.opening import open_search

async def main():
    where = Secret(sys.argv[1]) if "://" in sys.argv[1] else Path(sys.argv[1])
    database = open_database(where, MIGRATIONS)
    search = open_search(database, Models(EmbeddingChoice("none", "", None)))
    context = ProjectContext(Path(sys.argv[2]), database, search, Changes(), [NotebookShelf(None, Path(), None)])
    call = Call(Principal("ann", ALL_SCOPES))
    for number in range(100000):
        context.recorder.called(call, "read_file", {"path": f"file{number}.py"}, "ok")
        await context.record(call, "rule", f"unlike{number} other{number} words{number}", "", "")
        await context.recorder.flush()
        print(number, flush=True)

asyncio.run(main())
"""


@requirement("context:sessions:end", "context:discoveries:kept")
@pytest.mark.anyio
async def test_what_was_acknowledged_before_a_kill_is_there(
    make_context: Callable[..., ProjectContext], where: Location, root: Path
) -> None:
    context = make_context()
    state = str(where) if isinstance(where, Path) else where.reveal()
    child = await asyncio.to_thread(
        subprocess.Popen[str], [sys.executable, "-c", WORKING, state, str(root)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    try:
        said = [await asyncio.to_thread(child.stdout.readline) for _ in range(5)]
        (alive,) = await context.recent(ANN, 10)
        assert (alive.status, alive.ended) == (SessionStatus.ACTIVE, None)
    finally:
        child.kill()
        child.wait(10)
    said += child.stdout.readlines()
    child.stdout.close()
    acknowledged = 1 + max(int(line) for line in said if line.strip().isdigit())
    found = await context.discoveries()
    assert len(found) in (acknowledged, acknowledged + 1)
    (hit, *_) = await context.search(ANN, f"unlike{acknowledged - 1}", ("discovery",), "", 5)
    assert f"unlike{acknowledged - 1} " in hit.snippet
    (session,) = await context.recent(ANN, 10)
    assert (session.status, session.ended) == (SessionStatus.COMPLETED, session.last)
    assert len(session.touched) >= acknowledged
    assert {one.uri for one in session.touched} >= {f"context://file/file{number}.py" for number in range(acknowledged)}
    assert {one.type for one in found} == {DiscoveryType.RULE}
    assert isinstance(found[0], Discovery)

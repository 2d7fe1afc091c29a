"""What each command does."""

import argparse
import asyncio
import json
import logging
import re
import signal
import sys
import time
import warnings
import webbrowser
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from cellwright import __version__
from cellwright.app.cli.loading import loading
from cellwright.app.http.tokens import StoredToken, TokenStore, parse_scopes
from cellwright.app.log import configure_logging, log_event
from cellwright.app.loopwatch import LoopWatch
from cellwright.app.resting import give_back_at_rest
from cellwright.app.settings import Settings
from cellwright.app.stdio.wire import claim
from cellwright.app.threads import share_threads
from cellwright.core.errors import ConfigError
from cellwright.core.text.names import on_one_line
from cellwright.core.types import Call, Secret
from cellwright.system import machine

if TYPE_CHECKING:
    from cellwright.app.page.routes import WorkspacePage
    from cellwright.app.protocol.server import CellwrightServer
    from cellwright.app.workspace import Workspace
    from cellwright.web.visits import Visits

    MakeWorkspace = Callable[[Settings, str], Workspace]

say: Callable[[str], None] = print
WAITING = """\
cellwright waits here for an MCP client on standard input. Clients start it by themselves:
  cellwright install claude-code    tells a client how (`cellwright help install` names the others)
  cellwright serve                  serves over HTTP instead
Ctrl-C stops."""
LIFETIME = re.compile(r"([1-9][0-9]{0,5})([hdw])")
UNIT_SECONDS = {"h": 3600, "d": 86_400, "w": 604_800}


def serve_stdio(settings: Settings, make: "MakeWorkspace | None" = None) -> int:
    """Serve one client on stdin and stdout until it leaves, then end the process. `make` can replace how the workspace is made."""
    machine.give_memory_back()
    if sys.stdin.isatty():
        print(WAITING, file=sys.stderr)  # noqa: T201 - a person typed the bare command; stdout is the protocol
    wire = claim()
    with loading():
        # These are heavy, and are imported only now that nothing can print on the wire.
        from cellwright.app import workspace  # noqa: PLC0415
        from cellwright.app.stdio import serving as stdio  # noqa: PLC0415

        start_log(settings)
        assembled = (make or workspace.make_workspace)(settings, "stdio")
    return asyncio.run(stdio.serve(assembled, wire))


def start_log(settings: Settings, level: str = "") -> None:
    """Begin to log, beginning with notes about the settings. `level` replaces the level that they name."""
    configure_logging(level or settings.log_level)
    for note in settings.notes:
        log_event("note", level=logging.WARNING, reason=note)
    for name in settings.not_ours:
        log_event("ignored", level=logging.DEBUG, reason=f"the variable {name} is of a cluster's service, no setting")


def serve_http(settings: Settings, make: "MakeWorkspace | None" = None) -> int:
    """Serve many clients over HTTP until SIGTERM."""
    machine.give_memory_back()
    with loading():
        from cellwright.app.workspace import make_workspace  # noqa: PLC0415

    start_log(settings)
    early_signals: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        # Used until uvicorn handles signals itself, and when it raises them again after draining: the process is not killed at once.
        early_signals.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, remember)
    asyncio.run(_serve_http(settings, make or make_workspace, early_signals))
    return 0


async def _serve_http(settings: Settings, make: "MakeWorkspace", early_signals: list[int]) -> None:
    with loading():
        from cellwright.app.http import serving as http  # noqa: PLC0415
        from cellwright.app.protocol.transport import HttpEndpoint  # noqa: PLC0415
        from cellwright.app.workspace import local_user  # noqa: PLC0415

        verifiers, generated_token = http.credentials(settings)
        workspace = make(settings, "streamable-http")
        workspace.secrets.add(generated_token)
    listener = http.listen(settings)
    port = int(listener.getsockname()[1])
    server = workspace.server()
    endpoint = HttpEndpoint(server, workspace.catalogue.is_long, settings.max_body)
    page, visits = http_page(workspace, server, port) if settings.page else (None, None)
    gate = http.make_gate(
        settings,
        port,
        endpoint,
        workspace.metrics,
        verifiers,
        workspace.catalogue.needed_scope,
        page.routes() if page else (),
        visits,
        http.room_for_connections(),
    )
    url = f"http://{'127.0.0.1' if settings.host in {'0.0.0.0', '::'} else settings.host}:{port}{http.MCP_PATH}"  # noqa: S104
    lab = await workspace.notebooks.lab_url(Call(local_user())) if settings.lab else None
    _greet(url, generated_token, settings, lab)
    log_event(
        "serving", transport="streamable-http", host=settings.host, port=port, root=settings.root, version=__version__
    )
    LoopWatch().start()
    share_threads()
    resting = asyncio.create_task(give_back_at_rest(), name="at rest")
    try:
        await http.serve(
            settings, server, endpoint, gate, listener, early_signals, page.end_streams if page else lambda: None
        )
    finally:
        resting.cancel()
        if page is not None:
            await page.close()
        await workspace.close()


def http_page(workspace: "Workspace", server: "CellwrightServer", port: int) -> "tuple[WorkspacePage, Visits]":
    """The page of our own HTTP server. It is informed of the server's calls."""
    from cellwright.app.page.routes import WorkspacePage  # noqa: PLC0415
    from cellwright.web.visits import Visits  # noqa: PLC0415

    # Cookies do not know ports: two servers on one machine must not overwrite each other's.
    visits = Visits(f"cellwright-{port}")
    page = WorkspacePage(workspace, visits)
    server.calls.witness = page
    return page, visits


def _greet(url: str, generated_token: Secret | None, settings: Settings, lab: str | None) -> None:
    from cellwright.app.clients import catalogue as clients  # noqa: PLC0415

    token = generated_token.reveal() if generated_token else "YOUR_TOKEN"
    entry = clients.ClientEntry(url=url, token=Secret(token))
    say(f"cellwright {__version__}, workspace {on_one_line(str(settings.root))}\n")
    say(f"  MCP      {url}")
    say(f"  health   {url.removesuffix('/mcp')}/health")
    if settings.page:
        # In the fragment, which browsers do not send.
        say(f"  page     {url.removesuffix('mcp')}#token={token}")
    if lab:
        say(f"  Lab      {lab}")
        for notebook in sorted(settings.root.glob("*.ipynb"))[:1]:
            say(
                f"  try      {on_one_line(notebook.name)}: ask the agent to read and run it while you have it open in Lab"
            )
    say("")
    say("For a client:\n")
    say(clients.snippet(clients.CLIENTS["claude-code"], entry).rstrip())
    say(f"\nor: cellwright install claude-code --url {url} --token {token}\nCtrl-C stops.")
    sys.stdout.flush()


def lab(settings: Settings, *, browse: bool) -> int:
    """Open JupyterLab on the workspace: on the server that an agent uses already, or on a new one until Ctrl-C."""
    # A person reads this output. Success is printed below, so the log shows warnings only.
    start_log(settings, "warning" if settings.log_level == "info" else "")
    return asyncio.run(_lab(settings, browse=browse))


async def _lab(settings: Settings, *, browse: bool) -> int:
    from cellwright.app.workspace import local_user, make_workspace  # noqa: PLC0415

    workspace = make_workspace(settings, "lab")
    call = Call(local_user())
    try:
        url = await workspace.notebooks.lab_url(call)
        if url is None:
            raise ConfigError("the settings name a Jupyter server", hint="open that one in your browser")
        say(f"JupyterLab on {on_one_line(str(settings.root))}:\n\n  {url}\n")
        if browse:
            webbrowser.open(url)
        if (await workspace.notebooks.connected(call)).found.origin == "found":
            say("This server runs already. It ends with the program that started it, not with this command.")
            return 0
        say("Agents that work in this folder find it by themselves. Ctrl-C stops it.")
        sys.stdout.flush()
        stopped = asyncio.Event()
        machine.on_stop(stopped.set, asyncio.get_running_loop())
        await stopped.wait()
        return 0
    finally:
        await workspace.close()


def doctor(settings: Settings, *, as_json: bool) -> int:
    """Run all checks and print the report. The exit code is 1 if something is wrong."""
    from cellwright.app.cli.doctor import examine  # noqa: PLC0415

    async def show_progress(finished: int, total: int, name: str) -> None:
        if sys.stderr.isatty() and not as_json:
            sys.stderr.write(f"\r\033[K{name} ({finished}/{total})" if finished < total else "\r\033[K")
            sys.stderr.flush()

    warnings.simplefilter(
        "ignore"
    )  # our own checks cover what libraries warn of, such as a home that cannot be written
    report = asyncio.run(examine(settings, show_progress))
    say(json.dumps(asdict(report), indent=2) if as_json else "\n".join(check.line() for check in report.checks))
    return 0 if report.ok else 1


def token(options: argparse.Namespace, state_dir: Path) -> int:
    """Create, list or revoke tokens."""
    store = TokenStore(state_dir)
    match options.action:
        case "create":
            stored, secret = store.create(options.name, parse_scopes(options.scopes), _lifetime(options.expires))
            say(f"{secret.reveal()}\n\nThis is {_described(stored)}. It is shown this once; keep it safe.")
        case "list":
            tokens = store.list()
            if options.json:
                rows = [{k: v for k, v in asdict(stored).items() if k != "digest"} for stored in tokens]
                say(json.dumps(rows, indent=2))
            else:
                say(
                    "\n".join(_described(stored) for stored in tokens)
                    or "no tokens; `cellwright token create NAME` makes one"
                )
        case _:
            say(f"revoked {_described(store.revoke(options.token))}")
    return 0


def _lifetime(text: str | None) -> float | None:
    if text is None:
        return None
    match = LIFETIME.fullmatch(text)
    if match is None:
        raise ConfigError(f"--expires {text!r} is not a time", hint="write it as 12h, 30d or 52w")
    return int(match[1]) * UNIT_SECONDS[match[2]]


def _described(stored: StoredToken) -> str:
    scopes = ",".join(stored.scopes)
    if stored.expires is None:
        until = "until revoked"
    elif stored.expired(time.time()):
        until = "expired"
    else:
        until = "until " + datetime.fromtimestamp(stored.expires, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{stored.id}  {stored.name}  {scopes}  {until}"

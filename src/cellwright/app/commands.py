"""What each command does."""

import argparse
import asyncio
import json
import os
import re
import shutil
import signal
import sys
import time
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypedDict

from cellwright import __version__
from cellwright.app.loading import loading
from cellwright.app.log import configure_logging, log_event
from cellwright.app.settings import Settings, default_state_dir
from cellwright.app.tokens import StoredToken, TokenStore, parse_scopes
from cellwright.app.wire import claim
from cellwright.core.errors import ConfigError
from cellwright.core.types import Call, Secret

if TYPE_CHECKING:
    from cellwright.app.clients import Entry
    from cellwright.app.page.routes import Page
    from cellwright.app.protocol.server import CellwrightServer
    from cellwright.app.workspace import Workspace
    from cellwright.web.visits import Visits

    MakeWorkspace = Callable[[Settings, str], Workspace]

say: Callable[[str], None] = print
LIFETIME = re.compile(r"([1-9][0-9]{0,5})([hdw])")
UNIT_SECONDS = {"h": 3600, "d": 86_400, "w": 604_800}


def serve_stdio(settings: Settings, make: "MakeWorkspace | None" = None) -> int:
    """One client on stdin and stdout, until it leaves; ends the process. `make` puts the workspace together, if not as usual."""
    wire = claim()
    with loading():
        from cellwright.app import stdio, workspace  # noqa: PLC0415 - heavy, and only now that nothing can print on the wire

        configure_logging(settings.log_level)
        made = (make or workspace.make_workspace)(settings, "stdio")
    return asyncio.run(stdio.serve(made, wire))


def serve_http(settings: Settings, make: "MakeWorkspace | None" = None) -> int:
    """Many clients over HTTP, until SIGTERM."""
    with loading():
        from cellwright.app.workspace import make_workspace  # noqa: PLC0415

    configure_logging(settings.log_level)
    early: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        # Until uvicorn listens to signals itself, and when it raises them again once it has drained: no killing on the spot.
        early.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, remember)
    asyncio.run(_serve_http(settings, make or make_workspace, early))
    return 0


async def _serve_http(settings: Settings, make: "MakeWorkspace", early: list[int]) -> None:
    with loading():
        from cellwright.app import http  # noqa: PLC0415
        from cellwright.app.protocol.transport import HttpEndpoint  # noqa: PLC0415
        from cellwright.app.workspace import local_user  # noqa: PLC0415

        verifiers, made = http.credentials(settings)
        workspace = make(settings, "streamable-http")
    bound = http.listen(settings)
    port = int(bound.getsockname()[1])
    server = workspace.server()
    endpoint = HttpEndpoint(server, settings.max_body)
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
    )
    url = f"http://{'127.0.0.1' if settings.host in {'0.0.0.0', '::'} else settings.host}:{port}{http.MCP_PATH}"  # noqa: S104
    lab = await workspace.notebooks.lab_url(Call(local_user())) if settings.lab else None
    _greet(url, made, settings, lab)
    log_event(
        "serving", transport="streamable-http", host=settings.host, port=port, root=settings.root, version=__version__
    )
    try:
        await http.serve(settings, server, endpoint, gate, bound, early, page.end_streams if page else lambda: None)
    finally:
        if page is not None:
            await page.close()
        await workspace.close()


def http_page(workspace: "Workspace", server: "CellwrightServer", port: int) -> "tuple[Page, Visits]":
    """The page of a server of our own, told of its calls."""
    from cellwright.app.page.routes import Page  # noqa: PLC0415
    from cellwright.web.visits import Visits  # noqa: PLC0415

    # Cookies do not know ports: two servers on one machine must not take each other's away.
    visits = Visits(f"cellwright-{port}")
    page = Page(workspace, visits)
    server.calls.witness = page
    return page, visits


def _greet(url: str, made: Secret | None, settings: Settings, lab: str | None) -> None:
    from cellwright.app import clients  # noqa: PLC0415

    token = made.reveal() if made else "YOUR_TOKEN"
    entry = clients.Entry(url=url, token=Secret(token))
    say(f"cellwright {__version__}, workspace {settings.root}\n")
    say(f"  MCP      {url}")
    say(f"  health   {url.removesuffix('/mcp')}/health")
    if settings.page:
        # In the fragment, which browsers keep to themselves.
        say(f"  page     {url.removesuffix('mcp')}#token={token}")
    if lab:
        say(f"  Lab      {lab}")
        for notebook in sorted(settings.root.glob("*.ipynb"))[:1]:
            say(f"  try      {notebook.name}: ask the agent to read and run it while you have it open in Lab")
    say("")
    say("For a client:\n")
    say(clients.snippet(clients.CLIENTS["claude-code"], entry).rstrip())
    say(f"\nor: cellwright install claude-code --url {url} --token {token}\nCtrl-C stops.")
    sys.stdout.flush()


def lab(settings: Settings, *, browse: bool) -> int:
    """JupyterLab on the workspace: the server that an agent uses already, or one of our own until Ctrl-C."""
    configure_logging(settings.log_level)
    return asyncio.run(_lab(settings, browse=browse))


async def _lab(settings: Settings, *, browse: bool) -> int:
    from cellwright.app.workspace import local_user, make_workspace  # noqa: PLC0415

    workspace = make_workspace(settings, "lab")
    call = Call(local_user())
    try:
        url = await workspace.notebooks.lab_url(call)
        if url is None:
            raise ConfigError("the settings name a Jupyter server", hint="open that one in your browser")
        say(f"JupyterLab on {settings.root}:\n\n  {url}\n")
        if browse:
            webbrowser.open(url)
        if (await workspace.notebooks.connected(call)).found.origin == "found":
            say("This server runs already; it stays when this command ends.")
            return 0
        say("Agents that work in this folder find it by themselves. Ctrl-C stops it.")
        sys.stdout.flush()
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        await stopped.wait()
        return 0
    finally:
        await workspace.close()


def doctor(settings: Settings, *, as_json: bool) -> int:
    """Look at everything; 1 if something is wrong."""
    from cellwright.app.doctor import examine  # noqa: PLC0415

    async def told(done: int, total: int, name: str) -> None:
        if sys.stderr.isatty() and not as_json:
            sys.stderr.write(f"\r\033[K{name} ({done}/{total})" if done < total else "\r\033[K")
            sys.stderr.flush()

    report = asyncio.run(examine(settings, told))
    say(json.dumps(asdict(report), indent=2) if as_json else "\n".join(check.line() for check in report.checks))
    return 0 if report.ok else 1


def install(options: argparse.Namespace) -> int:
    """Write, show or remove a client's entry."""
    from cellwright.app import clients, install  # noqa: PLC0415 - not needed by the other commands

    client = clients.CLIENTS[options.client]
    project = Path(options.project).resolve() if options.project else None
    machine: _Machine = {"home": Path.home(), "platform": sys.platform, "environ": os.environ, "project": project}
    if options.remove:
        made = install.plan_removal(client, **machine)
    else:
        entry = _entry(options)
        if options.print_only:
            # Not by way of a plan: that refuses a file it cannot read, and this is the way out of that.
            say(f"{clients.locate(client, **machine)}\n\n{clients.snippet(client, entry)}")
            return 0
        made = install.plan(client, entry, **machine)
    if options.print_only:
        say(f"{made.path}: {install.describe(made)}")
        return 0
    install.apply(made)
    say(install.describe(made))
    if warning := install.warning(made):
        say(warning)
    if made.present:
        say(client.afterwards)
    return 0


class _Machine(TypedDict):
    home: Path
    platform: str
    environ: Mapping[str, str]
    project: Path | None


def _entry(options: argparse.Namespace) -> "Entry":
    from cellwright.app.clients import Entry  # noqa: PLC0415

    if options.url:
        token = Secret(options.token) if options.token else None
        return Entry(url=options.url, token=token, token_env=options.token_env or "")
    if options.token or options.token_env:
        raise ConfigError(
            "--token and --token-env are for --url", hint="a server that the client starts needs no token"
        )
    command, *arguments = own_command()
    root = getattr(options, "root", None)
    return Entry(command=command, args=(*arguments, *(("--root", str(Path(root).resolve())) if root else ())))


def token(options: argparse.Namespace) -> int:
    """Make, list or revoke tokens."""
    store = TokenStore(Path(getattr(options, "state_dir", default_state_dir())))
    match options.action:
        case "create":
            stored, secret = store.create(options.name, parse_scopes(options.scopes), _lifetime(options.expires))
            say(f"{secret.reveal()}\n\nThis is {_described(stored)}. It is shown this once; keep it safe.")
        case "list":
            tokens = store.list()
            if options.json:
                say(json.dumps([{k: v for k, v in asdict(one).items() if k != "digest"} for one in tokens], indent=2))
            else:
                say(
                    "\n".join(_described(one) for one in tokens)
                    or "no tokens; `cellwright token create NAME` makes one"
                )
        case _:
            say(f"revoked {_described(store.revoke(options.token))}")
    return 0


def _lifetime(text: str | None) -> float | None:
    if text is None:
        return None
    found = LIFETIME.fullmatch(text)
    if found is None:
        raise ConfigError(f"--expires {text!r} is not a time", hint="write it as 12h, 30d or 52w")
    return int(found[1]) * UNIT_SECONDS[found[2]]


def _described(stored: StoredToken) -> str:
    scopes = ",".join(stored.scopes)
    if stored.expires is None:
        until = "until revoked"
    elif stored.expired(time.time()):
        until = "expired"
    else:
        until = "until " + datetime.fromtimestamp(stored.expires, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{stored.id}  {stored.name}  {scopes}  {until}"


def own_command() -> tuple[str, ...]:
    """How a client starts this very program again: the script beside this Python, else one on the path."""
    beside = Path(sys.executable).with_name("cellwright")
    if beside.is_file():
        return (str(beside),)
    found = shutil.which("cellwright")
    return (found,) if found else (sys.executable, "-m", "cellwright")

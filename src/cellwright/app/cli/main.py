"""The command line: its commands, their flags and their help. The work is done in `commands`."""

import argparse
import dataclasses
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cellwright import DOCUMENTATION, __version__
from cellwright.app.cli.parser import Parser, add_settings
from cellwright.app.settings import SPECS, Settings
from cellwright.app.settings_loading import load_settings
from cellwright.core.errors import CellwrightError, ConfigError
from cellwright.system.folders import give_home

EPILOG = f"""\
examples:
  cellwright                                  serve one client on stdin and stdout
  cellwright serve --port 4040                serve many over HTTP, on this machine
  cellwright lab                              open JupyterLab on the same workspace, to watch and take part
  cellwright install claude-code              tell a client how to start cellwright
  cellwright doctor                           see what works, and what to do about the rest

Every setting can also be given in the environment (CELLWRIGHT_ROOT, …) or in a TOML file (--config). They are listed at
{DOCUMENTATION}/settings.md
"""


EXPORT_EPILOG = """\
examples:
  cellwright export analysis.ipynb --to html -o analysis.html    a page for people, without scripts
  cellwright export analysis.ipynb --to md | less                to read it here
  cellwright export notes.md -o notes.ipynb                      a notebook from Markdown
  cellwright export scratchpad://plan --to srcmd                 a pad; `cellwright list` shows which there are
"""
INSTALL_EPILOG = """\
examples:
  cellwright install claude-code                                 for you, in every project
  cellwright install claude-code --project .                     for everybody who opens this project
  cellwright install claude-desktop --root ~/notebooks           the folder that the server works in
  cellwright install codex --toolsets all --read-only            with settings
  cellwright install cursor --url https://host/mcp --token-env CELLWRIGHT_TOKEN
"""
FORMATS = ("srcmd", "ipynb", "md", "json", "html")
# The keys of clients.CLIENTS, which is not imported here because `serve` must start fast.
CLIENTS = ("claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini", "zed")
# Commands that end by themselves: they print the notes about settings at once. Servers log them, and doctor reports them itself.
BRIEF = frozenset(
    {"backup", "restore", "init", "show", "status", "list", "export", "import", "vacuum", "reindex", "token"}
)
SERVER_GROUPS = ("Workspace", "Tools", "Jupyter", "Storage", "Scratch", "Thinking", "Context")
HTTP_GROUPS = (*SERVER_GROUPS, "HTTP", "OAuth")
READER_LEFT = 141
"""The exit code when nobody reads the output any more: the one that shells show for a program ended by SIGPIPE."""


def make_parser() -> Parser:
    parser = Parser(
        prog="cellwright",
        usage="cellwright [SETTINGS] [COMMAND …]",
        description="One MCP server that gives an AI agent a whole notebook workspace. Without a command it serves MCP on stdio.",
        epilog=EPILOG,
    )
    parser.set_defaults(no_home="")
    parser.add_argument("-V", "--version", action="version", version=f"cellwright {__version__}")
    add_settings(parser, SERVER_GROUPS)
    # Without `prog`, argparse would put the whole usage line before the names of commands.
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", parser_class=Parser, prog=parser.prog
    )
    serve = commands.add_parser(
        "serve",
        help="serve MCP over HTTP",
        description="Serve MCP over streamable HTTP at /mcp.",
        usage="cellwright serve [SETTINGS]",
    )
    add_settings(serve, HTTP_GROUPS)
    start = commands.add_parser(
        "start",
        help="serve over a named transport",
        description="Serve MCP over the transport that --transport names, with the tools for a current notebook (toolset cells).",
        usage="cellwright start --transport stdio|streamable-http [SETTINGS]",
    )
    start.add_argument("--transport", choices=("stdio", "streamable-http"), default="stdio", help="how clients connect")
    add_settings(start, HTTP_GROUPS)
    lab = commands.add_parser(
        "lab",
        help="open JupyterLab on the workspace",
        description="Open JupyterLab on the workspace, to watch agents and take part: their server if one runs, else a new one.",
        usage="cellwright lab [--no-browser] [SETTINGS]",
    )
    lab.add_argument("--no-browser", action="store_true", help="only print the address")
    add_settings(lab, ("Workspace",))
    doctor = commands.add_parser(
        "doctor",
        help="see what works",
        description="Check the installation and say what to do about faults.",
        usage="cellwright doctor [--json] [SETTINGS]",
    )
    doctor.add_argument("--json", action="store_true", help="the report as JSON")
    add_settings(doctor, HTTP_GROUPS)
    help_ = commands.add_parser(
        "help",
        help="show what a command takes",
        description="Show this help, or that of one command.",
        usage="cellwright help [COMMAND …]",
    )
    help_.add_argument("about", nargs="*", metavar="COMMAND", help="as `serve` or `token create`")
    _add_install(commands)
    _add_token(commands)
    _add_storage(commands)
    _add_context(commands)
    _add_exchange(commands)
    return parser


def _add_exchange(commands: "argparse._SubParsersAction[Parser]") -> None:  # pyright: ignore[reportPrivateUsage]
    export = commands.add_parser(
        "export",
        help="write a notebook, pad or thinking notebook in another format",
        description="Write a notebook file, a pad or a thinking notebook in another format. What that cannot hold is said on stderr.",
        usage="cellwright export SOURCE --to FORMAT [-o FILE] [SETTINGS]",
        epilog=EXPORT_EPILOG,
    )
    export.add_argument("source", metavar="SOURCE", help="a file, scratchpad://ID, notebook://ID, or - for stdin")
    export.add_argument("--to", choices=FORMATS, help="the format; if not given, by the ending of FILE")
    export.add_argument("-o", "--output", metavar="FILE", type=Path, help="write there instead of to stdout")
    import_ = commands.add_parser(
        "import",
        help="make a pad or a thinking notebook of a file",
        description="Make a pad or a thinking notebook of a notebook file, and print where it is.",
        usage="cellwright import FILE --into scratchpad://ID|notebook:// [SETTINGS]",
    )
    import_.add_argument("source", metavar="FILE", help="a file, a pad or thinking notebook, or - for stdin")
    import_.add_argument("--into", metavar="PLACE", required=True, help="scratchpad://ID, scratchpad:// or notebook://")
    for command, replaced in ((export, "FILE"), (import_, "the pad")):
        command.add_argument(
            "--from", dest="form", choices=FORMATS[:-1], help="the format of SOURCE, if it does not show"
        )
        command.add_argument("--force", action="store_true", help=f"replace {replaced} if it exists")
    pads = commands.add_parser(
        "list",
        help="list pads and thinking notebooks",
        description="List pads and thinking notebooks, last changed first, with the addresses that export takes.",
        usage="cellwright list [--as NAME] [--json] [SETTINGS]",
    )
    pads.add_argument("--json", action="store_true", help="as JSON")
    for command in (export, import_, pads):
        command.add_argument("--as", dest="owner", metavar="NAME", default="local", help="whose pads (default: local)")
        add_settings(command, ("Workspace", "Storage"))


def _add_context(commands: "argparse._SubParsersAction[Parser]") -> None:  # pyright: ignore[reportPrivateUsage]
    init = commands.add_parser(
        "init",
        help="look at the project and write a first project.yaml",
        description="Scan the project and write what was found to .cellwright/project.yaml; what a person wrote there stays.",
        usage="cellwright init [--json] [SETTINGS]",
    )
    show = commands.add_parser(
        "show",
        help="print what is known of the project",
        description="Print the project overview, or the page of one module.",
        usage="cellwright show [MODULE] [--json] [SETTINGS]",
    )
    show.add_argument("module", nargs="?", metavar="MODULE", help="a module, instead of the overview")
    status = commands.add_parser(
        "status",
        help="show sessions, discoveries, and what a model would be given",
        description="Show the last sessions, the discoveries, and how many tokens of context a model would be given.",
        usage="cellwright status [--json] [SETTINGS]",
    )
    for command in (init, show, status):
        command.add_argument("--json", action="store_true", help="as JSON")
        add_settings(command, ("Workspace", "Storage", "Context"))


def _add_storage(commands: "argparse._SubParsersAction[Parser]") -> None:  # pyright: ignore[reportPrivateUsage]
    backup = commands.add_parser(
        "backup",
        help="copy the database to a file while it is in use",
        description="Write a copy of the database, as it is at this moment, to a new file. Whoever uses it goes on.",
        usage="cellwright backup FILE [SETTINGS]",
    )
    backup.add_argument("file", metavar="FILE", type=Path, help="a file that does not exist yet")
    restore = commands.add_parser(
        "restore",
        help="go back to a backup",
        description="Put a backup in the place of the database. What was there is kept beside it, with the ending .bak.",
        usage="cellwright restore FILE [--force] [SETTINGS]",
    )
    restore.add_argument("file", metavar="FILE", type=Path, help="a file that backup wrote")
    restore.add_argument(
        "--force", action="store_true", help="also if the database has changes that the backup does not have"
    )
    vacuum = commands.add_parser(
        "vacuum",
        help="give room of deleted things back to the disk",
        description="Rewrite the database without the room that deleted things left.",
        usage="cellwright vacuum [SETTINGS]",
    )
    reindex = commands.add_parser(
        "reindex",
        help="make the search index anew",
        description="Make the words and the vectors of everything that can be found anew. Whoever uses the database goes on.",
        usage="cellwright reindex [SETTINGS]",
    )
    for command in (backup, restore, vacuum, reindex):
        add_settings(command, ("Workspace", "Storage"))


def _add_install(commands: "argparse._SubParsersAction[Parser]") -> None:  # pyright: ignore[reportPrivateUsage]
    install = commands.add_parser(
        "install",
        help="tell a client how to start cellwright",
        description="Write cellwright's own entry into a client's configuration, and nothing else. "
        "Settings become arguments of the server that the client starts.",
        usage="cellwright install CLIENT [--print | --remove] [--project DIR] [--url URL …] [SETTINGS]",
        epilog=INSTALL_EPILOG,
    )
    install.add_argument("client", choices=CLIENTS, metavar="CLIENT", help=f"which client: {', '.join(CLIENTS)}")
    install.add_argument(
        "--print", action="store_true", dest="print_only", help="show what would be written, and where; write nothing"
    )
    install.add_argument("--remove", action="store_true", help="take the entry out again")
    install.add_argument(
        "--project", metavar="DIR", help="write the project's own configuration in DIR instead of the user's"
    )
    install.add_argument("--url", help="the client shall connect to this running server instead of starting one")
    install.add_argument("--token", help="the token for --url; it is written into the file")
    install.add_argument(
        "--token-env", metavar="NAME", help="the variable from which the client takes the token for --url"
    )
    add_settings(install, SERVER_GROUPS)


def _add_token(commands: "argparse._SubParsersAction[Parser]") -> None:  # pyright: ignore[reportPrivateUsage]
    token = commands.add_parser(
        "token", help="make, list and revoke access tokens", description="Access tokens for HTTP clients."
    )
    actions = token.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    create = actions.add_parser("create", help="make a token and show it once")
    create.add_argument("name", help="what it is for, so that you know it again")
    create.add_argument(
        "--scopes", default="read,write,run", help="what it may do: read, write, run, admin (default: %(default)s)"
    )
    create.add_argument(
        "--expires", metavar="TIME", help="how long it is valid, as 12h, 30d or 52w (default: until revoked)"
    )
    actions.add_parser("list", help="show the tokens there are, without their secrets").add_argument(
        "--json", action="store_true", help="as JSON"
    )
    actions.add_parser("revoke", help="make a token worthless, at once").add_argument("token", help="its id or name")
    for action in actions.choices.values():
        action.add_argument("--state-dir", metavar="DIR", default=argparse.SUPPRESS, help="where tokens are kept")


def settings_from(options: argparse.Namespace) -> Settings:
    flags = {spec.name: value for spec in SPECS if (value := getattr(options, spec.name, None)) is not None}
    config = getattr(options, "config", None)
    # `start` is the command of servers with a current notebook: it offers their tools by default.
    defaults = {"current_notebook": True} if options.command == "start" else None
    settings = load_settings(flags, config=Path(config) if config else None, defaults=defaults)
    if options.no_home:
        settings = dataclasses.replace(settings, notes=(options.no_home, *settings.notes))
    if options.command in BRIEF:
        for note in settings.notes:
            print(f"note: {note}", file=sys.stderr)  # noqa: T201
    return settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program. The exit code is 0, or 1 if a fault was found, or 2 for a wrong setting or flag."""
    parser = make_parser()
    argv = sys.argv[1:] if arguments is None else arguments
    parser.refuse_unknown_flags(argv)
    options = parser.parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the terminal or file cannot show is no reason to fail.
            stream.reconfigure(errors="replace")
    try:
        if options.command == "help":
            print(parser.command(" ".join(options.about)).format_help(), end="")  # noqa: T201
            return _all_written(0)
        options.no_home = give_home(os.environ)
        return _all_written(_run_command(options))
    except BrokenPipeError:
        # The reader, for example `head`, has read enough; the rest of the output is discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return READER_LEFT
    except ConfigError as error:
        print(f"cellwright: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except CellwrightError as error:
        print(f"cellwright: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        return 130


def _all_written(status: int) -> int:
    """Flush the output and return the status. Raises BrokenPipeError if the reader of the output is gone."""
    print(end="", flush=True)  # noqa: T201
    return status


def _run_command(options: argparse.Namespace) -> int:
    if options.command == "install":
        from cellwright.app.clients import command as install_command  # noqa: PLC0415 - needs nothing of the server

        return install_command.run(options)
    # `--help` and wrong flags are answered without importing the server.
    from cellwright.app.cli import commands  # noqa: PLC0415
    from cellwright.app.cli import context as context_commands  # noqa: PLC0415
    from cellwright.app.cli import export as export_command  # noqa: PLC0415
    from cellwright.app.cli import storage as storage_commands  # noqa: PLC0415

    settings = settings_from(options)
    if options.command == "serve" or getattr(options, "transport", "") == "streamable-http":
        return commands.serve_http(settings)
    runners: dict[str, Callable[[], int]] = {
        "lab": lambda: commands.lab(settings, browse=not options.no_browser),
        "doctor": lambda: commands.doctor(settings, as_json=options.json),
        "token": lambda: commands.token(options, settings.state_dir),
        "backup": lambda: storage_commands.back_up(settings, options.file),
        "restore": lambda: storage_commands.restore_from(settings, options.file, force=options.force),
        "init": lambda: context_commands.init(settings, as_json=options.json),
        "show": lambda: context_commands.show(settings, options.module, as_json=options.json),
        "status": lambda: context_commands.status(settings, as_json=options.json),
        "list": lambda: export_command.list_(settings, owner=options.owner, as_json=options.json),
        "export": lambda: export_command.export(
            settings,
            options.source,
            to=options.to,
            file=options.output,
            form=options.form,
            owner=options.owner,
            force=options.force,
        ),
        "import": lambda: export_command.import_(
            settings, options.source, into=options.into, form=options.form, owner=options.owner, force=options.force
        ),
        "vacuum": lambda: storage_commands.give_room_back(settings),
        "reindex": lambda: storage_commands.index_again(settings),
    }
    run = runners.get(options.command, lambda: commands.serve_stdio(settings))
    return run()

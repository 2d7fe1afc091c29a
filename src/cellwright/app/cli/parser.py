"""The parser of the command line. It suggests the nearest name for an unknown one, and has a flag for each setting."""

import argparse
import re
from collections.abc import Collection, Sequence
from typing import NoReturn, cast

from cellwright.app.setting_spec import Spec
from cellwright.app.settings import SPECS
from cellwright.core.arguments import nearest

METAVARS = {
    "a whole number": "N",
    "a number": "N",
    "a number or auto": "N",
    "text": "TEXT",
    "a path": "PATH",
    "names separated by commas": "NAMES",
    "a secret": "SECRET",
}


class Parser(argparse.ArgumentParser):
    """argparse without abbreviations, whose errors suggest the nearest name."""

    def __init__(self, **options: object) -> None:
        super().__init__(**{"allow_abbrev": False, "formatter_class": argparse.RawDescriptionHelpFormatter, **options})  # type: ignore[arg-type]

        self._requested: Parser = self

    def error(self, message: str) -> NoReturn:
        # argparse reports an unknown flag of a command in the name of the whole program.
        reporter = self._requested if message.startswith("unrecognized arguments") else self
        suggestion = self._suggestion(message)
        self.exit(2, f"{reporter.prog}: {message}{suggestion}\n{reporter.prog} --help shows what there is\n")

    def refuse_unknown_flags(self, arguments: Sequence[str]) -> None:
        """Refuse them before argparse parses: it would take the value after an unknown flag for a command, and report that."""
        self._requested = self._command_in(arguments)
        known_flags = _known_flags(self)
        for argument in arguments:
            if argument == "--":
                return
            if argument.startswith("--") and argument.partition("=")[0] not in known_flags:
                self.error(f"unrecognized arguments: {argument.partition('=')[0]}")

    def command(self, path: str) -> argparse.ArgumentParser:
        """The parser of a command, as `token create`: for the documentation."""
        parser: argparse.ArgumentParser = self
        for word in path.split():
            children = _subcommands(parser)
            if word not in children:
                suggestion = nearest(word, sorted(children))
                self.error(f"there is no command {word!r}" + (f"; did you mean {suggestion!r}?" if suggestion else ""))
            parser = children[word]
        return parser

    def _command_in(self, arguments: Sequence[str]) -> "Parser":
        """The parser of the command that the arguments name, as far as they name one."""
        parser = self
        for word in arguments:
            parser = cast("Parser", _subcommands(parser).get(word, parser))
        return parser

    def commands(self) -> list[str]:
        """The full names of all commands and their subcommands: `serve`, `token create`, …"""
        names: list[str] = []
        for name, child in _subcommands(self).items():
            subcommands = cast("Parser", child).commands()
            names += [f"{name} {subcommand}" for subcommand in subcommands] or [name]
        return names

    def _suggestion(self, message: str) -> str:
        unknown = re.search(r"unrecognized arguments: (\S+)", message) or re.search(
            r"invalid choice: '([^']*)'", message
        )
        if unknown is None:
            return ""
        word = unknown[1].partition("=")[0]
        # For a wrong choice, the message itself names the valid ones; a flag may belong to any command.
        _, _, choices = message.partition("choose from ")
        candidates: Collection[str] = re.findall(r"[\w-]+", choices)
        if not candidates and word.startswith("-"):
            candidates = _known_flags(self)
        elif not candidates:
            candidates = {str(choice) for action in _actions(self) for choice in action.choices or ()}
        if word in candidates:
            takers = [name for name in self.commands() if word in _known_flags(self.command(name))]
            return f"; {word} belongs to {', '.join(f'cellwright {name}' for name in takers)}" if takers else ""
        # A flag of the requested command is a better suggestion than a flag of another command.
        own_flags = _known_flags(self._requested) & set(candidates)
        nearest_name = nearest(word, sorted(own_flags))
        if nearest_name is None and self._requested is self:
            nearest_name = nearest(word, sorted(candidates))
        return f"; did you mean {nearest_name!r}?" if nearest_name else ""


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The actions of this parser and of its commands. argparse has no public way to list them."""
    actions = list(parser._actions)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    for child in _subcommands(parser).values():
        actions += _actions(child)
    return actions


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    parsers: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        choices: object = action.choices
        if isinstance(choices, dict):
            parsers |= cast("dict[str, argparse.ArgumentParser]", choices)
    return parsers


def _known_flags(parser: argparse.ArgumentParser) -> set[str]:
    return {flag for action in _actions(parser) for flag in action.option_strings}


def add_settings(parser: argparse.ArgumentParser, groups: Sequence[str]) -> None:
    """Add flags for the settings of these groups. They have no defaults, which would hide the other sources."""
    for group in groups:
        section = parser.add_argument_group(group)
        for spec in SPECS:
            if spec.group == group:
                _add_setting(section, spec)
    parser.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="a TOML file with settings")


def _add_setting(section: argparse._ArgumentGroup, spec: Spec) -> None:  # pyright: ignore[reportPrivateUsage]
    default = spec.text_of(spec.default) if spec.default not in ("", (), False) else ""
    default_note = f" (default: {default})" if default else ""
    text = (spec.help + default_note).replace("%", "%%")
    if spec.is_switch:
        section.add_argument(spec.flag, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=text)
    else:
        section.add_argument(
            spec.flag, metavar=METAVARS[spec.kind], default=argparse.SUPPRESS, help=text, choices=spec.choices or None
        )

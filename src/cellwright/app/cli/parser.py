"""The parser of the command line: refuses what it does not know with the nearest name, and has a flag for each setting."""

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn, cast

from cellwright.app.settings import SPECS, Spec
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
    """argparse that takes no abbreviations and names the nearest thing when it does not know one."""

    def __init__(self, **options: object) -> None:
        super().__init__(**{"allow_abbrev": False, "formatter_class": argparse.RawDescriptionHelpFormatter, **options})  # type: ignore[arg-type]

        self._asked: Parser = self

    def error(self, message: str) -> NoReturn:
        # argparse complains of what a command does not know in the name of the whole program.
        said_by = self._asked if message.startswith("unrecognized arguments") else self
        suggestion = self._suggestion(message)
        self.exit(2, f"{said_by.prog}: {message}{suggestion}\n{said_by.prog} --help shows what there is\n")

    def refuse_unknown_flags(self, arguments: Sequence[str]) -> None:
        """Before argparse looks: it would take the value after an unknown flag for a command, and complain of that."""
        self._asked = self._command_in(arguments)
        known = _known_flags(self)
        for argument in arguments:
            if argument == "--":
                return
            if argument.startswith("--") and argument.partition("=")[0] not in known:
                self.error(f"unrecognized arguments: {argument.partition('=')[0]}")

    def command(self, path: str) -> argparse.ArgumentParser:
        """The parser of a command, as `token create`: for the documentation."""
        found: argparse.ArgumentParser = self
        for word in path.split():
            known = {name: child for children in _subcommands(found) for name, child in children.items()}
            if word not in known:
                meant = nearest(word, sorted(known))
                self.error(f"there is no command {word!r}" + (f"; did you mean {meant!r}?" if meant else ""))
            found = known[word]
        return found

    def _command_in(self, arguments: Sequence[str]) -> "Parser":
        """The parser of the command that the words name, as far as they name one."""
        found = self
        for word in arguments:
            known = {name: child for children in _subcommands(found) for name, child in children.items()}
            found = cast("Parser", known.get(word, found))
        return found

    def commands(self) -> list[str]:
        """Every command by its whole name, those of commands included: `serve`, `token create`, …"""
        found: list[str] = []
        for children in _subcommands(self):
            for name, child in children.items():
                below = cast("Parser", child).commands()
                found += [f"{name} {one}" for one in below] or [name]
        return found

    def _suggestion(self, message: str) -> str:
        unknown = re.search(r"unrecognized arguments: (\S+)", message) or re.search(
            r"invalid choice: '([^']*)'", message
        )
        if unknown is None:
            return ""
        word = unknown[1].partition("=")[0]
        # Of a wrong choice the message itself names what there is; a flag may belong to any command.
        _, _, choices = message.partition("choose from ")
        known = re.findall(r"[\w-]+", choices) or (_known_flags(self) if word.startswith("-") else _known_choices(self))
        if word in known:
            takers = [name for name in self.commands() if word in _known_flags(self.command(name))]
            return f"; {word} belongs to {', '.join(f'cellwright {name}' for name in takers)}" if takers else ""
        # Rather a flag of the command that was asked for than one of another.
        own = _known_flags(self._asked) & set(known)
        meant = nearest(word, sorted(own)) or (nearest(word, sorted(known)) if self._asked is self else None)
        return f"; did you mean {meant!r}?" if meant else ""


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The actions of this parser and of its commands. argparse has no public way to list them."""
    found = list(parser._actions)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    for children in _subcommands(parser):
        for child in children.values():
            found += _actions(child)
    return found


def _subcommands(parser: argparse.ArgumentParser) -> list[dict[str, argparse.ArgumentParser]]:
    choices: list[object] = [action.choices for action in parser._actions]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return [cast("dict[str, argparse.ArgumentParser]", found) for found in choices if isinstance(found, dict)]


def _known_flags(parser: argparse.ArgumentParser) -> set[str]:
    return {flag for action in _actions(parser) for flag in action.option_strings}


def _known_choices(parser: argparse.ArgumentParser) -> set[str]:
    return {str(choice) for action in _actions(parser) for choice in action.choices or ()}


def add_settings(parser: argparse.ArgumentParser, groups: Sequence[str]) -> None:
    """Flags for the settings of these groups. Nothing has a default here: what is not given must not hide the other sources."""
    for group in groups:
        section = parser.add_argument_group(group)
        for spec in SPECS:
            if spec.group == group:
                _add_setting(section, spec)
    parser.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="a TOML file with settings")


def _add_setting(section: argparse._ArgumentGroup, spec: Spec) -> None:  # pyright: ignore[reportPrivateUsage]
    known = spec.shown(spec.default) if spec.default not in ("", (), False) else ""
    shown = f" (default: {known})" if known else ""
    text = (spec.help + shown).replace("%", "%%")
    if spec.is_switch:
        section.add_argument(spec.flag, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=text)
    else:
        section.add_argument(
            spec.flag, metavar=METAVARS[spec.wanted], default=argparse.SUPPRESS, help=text, choices=spec.choices or None
        )

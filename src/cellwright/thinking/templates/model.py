"""A reasoning template: a book to think in, and the words that lead into it."""

from collections.abc import Mapping
from dataclasses import dataclass

from cellwright.core.errors import InvalidArgument
from cellwright.core.formats.model import Book
from cellwright.core.prompts import PromptArgument

MAX_VALUE = 4_000
"""Characters of an argument that a prompt repeats; what is longer belongs into the notebook."""


@dataclass(frozen=True, slots=True)
class Template:
    name: str
    title: str
    description: str
    """One sentence: when to take it."""
    arguments: tuple[PromptArgument, ...]
    book: Book
    steps: str
    """How to work with it, as the prompt says it after the beginning."""

    def prompt(self, arguments: Mapping[str, str] | None = None) -> str:
        """The template as a message to a model: what it is for, how to begin, how to go on."""
        given = self._checked(arguments or {})
        about = "\n".join(f"{name}: {value}" for name, value in given.items())
        begin = (
            f'Begin with notebook_create(pattern="{self.name}"), write the problem into its last cell (notebook_update_cell) and run '
            "all cells (notebook_run_all). Then add a short code cell for every step (notebook_add_cell) and run it "
            "(notebook_run_cell); end it with the name of the board to see its picture. Every score is your own judgement."
        )
        return "\n\n".join(part for part in (f"{self.title}: {self.description}", about, begin, self.steps) if part)

    def _checked(self, arguments: Mapping[str, str]) -> dict[str, str]:
        known = [argument.name for argument in self.arguments]
        unknown = sorted(set(arguments) - set(known))
        if unknown:
            raise InvalidArgument(
                f"{self.name} has no argument {unknown[0][:40]!r}", hint=f"it has: {', '.join(known)}"
            )
        given = {name: arguments[name].strip() for name in known if arguments.get(name, "").strip()}
        for argument in self.arguments:
            if argument.required and argument.name not in given:
                raise InvalidArgument(f"{self.name} needs {argument.name!r}", hint=argument.description)
            if len(given.get(argument.name, "")) > MAX_VALUE:
                raise InvalidArgument(
                    f"{argument.name!r} has more than {MAX_VALUE} characters", hint="put the details into the notebook"
                )
        return given

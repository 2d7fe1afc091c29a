"""A reasoning template: a notebook to think in, and the words that lead into it."""

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cellwright.core.errors import InvalidArgument
from cellwright.core.prompts import PromptArgument
from cellwright.notebook.model import Notebook

MAX_VALUE = 4_000
"""The most characters of an argument that a prompt repeats. Longer text belongs into the notebook."""


@dataclass(frozen=True, slots=True)
class Template:
    name: str
    title: str
    description: str
    """One sentence: when to take it."""
    arguments: tuple[PromptArgument, ...]
    notebook: Notebook
    steps: str
    """How to work with it, as the prompt says it after the beginning."""

    def with_problem(self, problem: str) -> Notebook:
        """The notebook with this problem in its last cell, in place of the words that ask for it.

        The problem is written as a string literal, so that none of its text becomes code.
        """
        self._check_length("problem", problem)
        if not problem.strip():
            raise InvalidArgument("the problem is empty", hint="say what is to be solved or decided, or leave it out")
        *cells, last = self.notebook.cells
        placeholder = _first_literal(last.source)
        filled = replace(last, source=last.source.replace(placeholder, repr(problem.strip()), 1))
        return replace(self.notebook, cells=(*cells, filled))

    def prompt(self, arguments: Mapping[str, str] | None = None) -> str:
        """The template as a message to a model: what it is for, how to begin, how to go on."""
        values = self._checked_arguments(arguments or {})
        about = "\n".join(f"{name}: {value}" for name, value in values.items())
        problem = json.dumps(values[self.arguments[0].name], ensure_ascii=False)
        begin = (
            f'Begin with notebook_create(pattern="{self.name}", problem={problem}) and run all its cells (notebook_run_all). '
            "Then add a short code cell for every step (notebook_add_cell) and run it (notebook_run_cell); end it with the name "
            "of the board to see its picture. Every score is your own judgement."
        )
        return "\n\n".join(part for part in (f"{self.title}: {self.description}", about, begin, self.steps) if part)

    def _checked_arguments(self, arguments: Mapping[str, str]) -> dict[str, str]:
        names = [argument.name for argument in self.arguments]
        unknown = sorted(set(arguments) - set(names))
        if unknown:
            raise InvalidArgument(
                f"{self.name} has no argument {unknown[0][:40]!r}", hint=f"it has: {', '.join(names)}"
            )
        values = {name: arguments[name].strip() for name in names if arguments.get(name, "").strip()}
        for argument in self.arguments:
            if argument.required and argument.name not in values:
                raise InvalidArgument(f"{self.name} needs {argument.name!r}", hint=argument.description)
            self._check_length(argument.name, values.get(argument.name, ""))
        return values

    @staticmethod
    def _check_length(name: str, value: str) -> None:
        if len(value) > MAX_VALUE:
            raise InvalidArgument(
                f"{name!r} has more than {MAX_VALUE} characters", hint="put the details into the notebook"
            )


def _first_literal(source: str) -> str:
    """The first argument of a call that is a literal, as it is written in the source: in a template, the words that ask for the problem."""
    texts = (
        ast.get_source_segment(source, call.args[0])
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant)
    )
    return next(text for text in texts if text)

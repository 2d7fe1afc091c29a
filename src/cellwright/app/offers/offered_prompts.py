"""Prompts and the tools that they need: a caller who lacks a tool does not see the prompt, and learns why if they name it."""

from collections.abc import Mapping, Sequence

from cellwright.app.offers.catalogue import Catalogue, Selection, ToolOff
from cellwright.core.errors import CellwrightError, NotFound
from cellwright.core.prompts import Prompt
from cellwright.core.types import Call, Principal


class OfferedPrompts:
    """The prompts of a workspace, as each caller sees them."""

    def __init__(self, prompts: Sequence[Prompt], catalogue: Catalogue) -> None:
        self._prompts = {prompt.name: prompt for prompt in prompts}
        self._catalogue = catalogue

    def offered(self, principal: Principal, wish: Selection | None) -> list[Prompt]:
        """The prompts whose tools this caller is offered."""
        tools = self._tools(principal, wish)
        return [prompt for prompt in self._prompts.values() if prompt.tools <= tools]

    def write(
        self, name: str, arguments: Mapping[str, str], principal: Principal, wish: Selection | None
    ) -> tuple[Prompt, str]:
        """A prompt and its text for this caller."""
        prompt = self._prompts.get(name)
        if prompt is None:
            names = ", ".join(offered.name for offered in self.offered(principal, wish))
            raise NotFound(f"no prompt {name[:80]!r}", hint=f"there are: {names or 'none for the tools you have'}")
        for tool in sorted(prompt.tools):
            try:
                self._catalogue.find(tool, principal, wish)
            except CellwrightError as error:
                raise ToolOff(f"the prompt {name} needs {tool}: {error.message}", hint=error.hint) from error
        return prompt, prompt.write(arguments, self._tools(principal, wish))

    async def complete(self, call: Call, name: str, argument: str, prefix: str) -> Sequence[str]:
        prompt = self._prompts.get(name)
        return () if prompt is None else await prompt.complete(call, argument, prefix)

    def _tools(self, principal: Principal, wish: Selection | None) -> frozenset[str]:
        return frozenset(tool.name for tool in self._catalogue.offered(principal, wish))

"""Prompts with their tools: who is not offered what a prompt needs is not shown it, and is told why if they name it."""

from collections.abc import Mapping, Sequence

from cellwright.app.offers.catalogue import Catalogue, Selection, ToolOff
from cellwright.core.errors import CellwrightError, NotFound
from cellwright.core.prompts import Prompt
from cellwright.core.types import Call, Principal


class OfferedPrompts:
    """The prompts of a workspace, as each caller has them."""

    def __init__(self, prompts: Sequence[Prompt], catalogue: Catalogue) -> None:
        self._prompts = {prompt.name: prompt for prompt in prompts}
        self._catalogue = catalogue

    def shown(self, principal: Principal, wish: Selection | None) -> list[Prompt]:
        """Those whose tools this caller is offered."""
        offered = self._tools(principal, wish)
        return [prompt for prompt in self._prompts.values() if prompt.tools <= offered]

    def written(
        self, name: str, arguments: Mapping[str, str], principal: Principal, wish: Selection | None
    ) -> tuple[Prompt, str]:
        """A prompt and its text for this caller."""
        prompt = self._prompts.get(name)
        if prompt is None:
            there = ", ".join(one.name for one in self.shown(principal, wish))
            raise NotFound(f"no prompt {name[:80]!r}", hint=f"there are: {there or 'none for the tools you have'}")
        for tool in sorted(prompt.tools):
            try:
                self._catalogue.find(tool, principal, wish)
            except CellwrightError as why:
                raise ToolOff(f"the prompt {name} needs {tool}: {why.message}", hint=why.hint) from why
        return prompt, prompt.write(arguments, self._tools(principal, wish))

    async def complete(self, call: Call, name: str, argument: str, prefix: str) -> Sequence[str]:
        prompt = self._prompts.get(name)
        return () if prompt is None else await prompt.complete(call, argument, prefix)

    def _tools(self, principal: Principal, wish: Selection | None) -> frozenset[str]:
        return frozenset(tool.name for tool in self._catalogue.offered(principal, wish))

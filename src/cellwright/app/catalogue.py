"""Which tools are offered: a pure function of the settings, the caller's scopes and, over HTTP, the request's own wish."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from cellwright.core.arguments import Signature, nearest, signature_of
from cellwright.core.errors import ConfigError, Forbidden, InvalidArgument
from cellwright.core.toolset import Effect, FailureShape, Tool, Toolset
from cellwright.core.types import Principal, Scope

ALL = "all"
CORE = "core"
DEFAULT = "default"
GROUPS = (ALL, CORE, DEFAULT)
MIRRORED = "x-mcp-header"
"""What marks an argument that clients repeat in a header."""

# What a client gets that asks for nothing, and the smallest set that is still useful. Budgets: tests/test_catalogue.py.
DEFAULT_TOOLSETS = ("workspace", "notebooks", "editing", "kernels", "proposals")
CORE_TOOLS = (
    "workspace_status",
    "list_nbs",
    "get_nb_stat",
    "read_nb_cells",
    "modify_nb_cells",
    "insert_nb_cells",
    "delete_nb_cells",
    "execute_nb_cells",
    "restart_nb_kernel",
    "edit_nb_cell",
    "undo_nb_edit",
    "get_execution",
    "cancel_execution",
)


@dataclass(frozen=True)
class Selection:
    """A choice of tools, by settings or by request."""

    toolsets: tuple[str, ...] = (DEFAULT,)
    tools: tuple[str, ...] = ()
    exclude_tools: tuple[str, ...] = ()
    read_only: bool = False


@dataclass(frozen=True)
class OfferedTool:
    """A tool with everything that serving it needs."""

    tool: Tool
    toolset: str
    service: object
    failure: FailureShape | None = None

    @cached_property
    def signature(self) -> Signature:
        """Read when it is first needed: most tools are not offered to most clients, and each costs a millisecond of the start."""
        return signature_of(self.tool.function)

    @cached_property
    def schema_with_headers(self) -> dict[str, Any] | None:
        """The input schema if some argument is repeated in a header. The SDK walks what it is given at every call."""
        schema = self.signature.input_schema
        return schema if MIRRORED in json.dumps(schema) else None

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def title(self) -> str:
        return self.tool.name.replace("_", " ").capitalize()

    @property
    def description(self) -> str:
        return " ".join((self.tool.function.__doc__ or "").split())


class Catalogue:
    """Every tool there is, and the operator's choice among them."""

    def __init__(self, toolsets: Sequence[Toolset], chosen: Selection) -> None:
        self.toolsets = tuple(toolsets)
        self._tools = {
            tool.name: OfferedTool(tool, toolset.name, toolset.service, toolset.failure)
            for toolset in toolsets
            for tool in toolset.tools
        }
        self._aliases = {alias: name for name, offered in self._tools.items() for alias in offered.tool.aliases}
        self._chosen = chosen
        self._check(chosen, ConfigError)
        self._offered = lru_cache(maxsize=256)(self._compute)
        # What a request with every scope could get: all but what the operator ruled out.
        everything = Selection((ALL,)) if chosen.toolsets == (DEFAULT,) else None
        self._needed = {tool.name: tool.tool.effect.scope for tool in self._compute(frozenset(Scope), everything)}

    def offered(self, principal: Principal, wish: Selection | None = None) -> tuple[OfferedTool, ...]:
        """The tools this caller may see, in a fixed order."""
        return self._offered(principal.scopes, wish)

    def names(self, principal: Principal) -> dict[str, list[str]]:
        """The same by their toolsets."""
        found: dict[str, list[str]] = {}
        for tool in self.offered(principal):
            found.setdefault(tool.toolset, []).append(tool.name)
        return found

    def find(self, name: str, principal: Principal, wish: Selection | None = None) -> OfferedTool:
        """The tool of this name if it is offered. One that is hidden is unknown; one that only the token lacks is forbidden."""
        real = self._aliases.get(name, name)
        for offered in self._offered(principal.scopes, wish):
            if offered.name == real:
                return offered
        hidden_by_scope = next((tool for tool in self._offered(frozenset(Scope), wish) if tool.name == real), None)
        if hidden_by_scope is not None:
            raise insufficient_scope(hidden_by_scope.tool.effect, name)
        meant = nearest(name, [tool.name for tool in self._offered(principal.scopes, wish)])
        raise InvalidArgument(
            f"unknown tool {name[:80]!r}",
            hint=f"did you mean {meant!r}?" if meant else "tools/list shows what there is",
        )

    def needed_scope(self, name: str) -> Scope | None:
        """The scope a call of this tool needs; None for a tool that no token could call here."""
        return self._needed.get(self._aliases.get(name, name))

    def is_long(self, name: str) -> bool:
        """Whether a call of this tool may take a while; also of a name that nothing has."""
        offered = self._tools.get(self._aliases.get(name, name))
        return offered is None or offered.tool.long

    def schema_with_headers(self, name: str) -> dict[str, Any] | None:
        """The input schema of a tool, offered or not, some argument of which a client repeats in a header; None for all others."""
        offered = self._tools.get(self._aliases.get(name, name))
        return offered.schema_with_headers if offered else None

    def wish(self, toolsets: str, tools: str, exclude_tools: str, read_only: str) -> Selection | None:
        """A request's own choice, from its headers; None if it makes none."""
        if not (toolsets or tools or exclude_tools or read_only):
            return None
        made = Selection(
            _split(toolsets) or (() if tools else self._chosen.toolsets),
            _split(tools),
            _split(exclude_tools),
            read_only.strip().lower() in {"1", "true", "yes", "on"},
        )
        self._check(made, InvalidArgument)
        return made

    def _compute(self, scopes: frozenset[Scope], wish: Selection | None) -> tuple[OfferedTool, ...]:
        names = self._named(self._chosen)
        if wish is not None:
            # The operator's own choice is a bound that a request cannot relax; the mere default is not.
            bound = set(self._tools) if self._chosen.toolsets == (DEFAULT,) else names
            names = self._named(wish) & bound
        names -= set(self._chosen.exclude_tools)
        read_only = self._chosen.read_only or (wish is not None and wish.read_only)
        return tuple(
            offered
            for offered in self._tools.values()
            if offered.name in names
            and offered.tool.effect.scope in scopes
            and not (read_only and offered.tool.effect is not Effect.READ)
        )

    def _named(self, selection: Selection) -> set[str]:
        names = set(selection.tools)
        for toolset in selection.toolsets:
            if toolset == ALL:
                names |= set(self._tools)
            elif toolset == CORE:
                names |= set(CORE_TOOLS)
            else:
                wanted = DEFAULT_TOOLSETS if toolset == DEFAULT else (toolset,)
                names |= {offered.name for offered in self._tools.values() if offered.toolset in wanted}
        return (names & set(self._tools)) - set(selection.exclude_tools)

    def _check(self, selection: Selection, error: type[ConfigError] | type[InvalidArgument]) -> None:
        known_sets = [*GROUPS, *dict.fromkeys(toolset.name for toolset in self.toolsets)]
        _refuse_unknown("toolset", selection.toolsets, known_sets, error)
        _refuse_unknown("tool", (*selection.tools, *selection.exclude_tools), [*self._tools, *self._aliases], error)


def insufficient_scope(effect: Effect, tool: str) -> Forbidden:
    return Forbidden(
        f"the token lacks the scope {effect.scope.value!r} that {tool} needs",
        hint="ask the operator for a token with it: cellwright token create NAME --scopes …",
        details={"scope": effect.scope.value, "tool": tool},
    )


def _split(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _refuse_unknown(
    kind: str, names: Iterable[str], known: Sequence[str], error: type[ConfigError] | type[InvalidArgument]
) -> None:
    for name in names:
        if name not in known:
            meant = nearest(name, known)
            raise error(
                f"there is no {kind} {name[:80]!r}",
                hint=f"did you mean {meant!r}?" if meant else f"there are: {', '.join(known)}",
            )

"""Which tools are offered: a pure function of the settings, the caller's scopes and, over HTTP, the request's own wish.

A call of a tool that exists but is not offered is answered with what switched it off and how it is switched on.
"""

import json
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from cellwright.core.arguments import Signature, nearest, signature_of
from cellwright.core.errors import CellwrightError, ConfigError, Forbidden, InvalidArgument
from cellwright.core.toolset import Effect, FailureShape, Tool, Toolset
from cellwright.core.types import Principal, Scope

ALL = "all"
COMPACT = "compact"
CORE = "core"
DEFAULT = "default"
GROUPS = (ALL, COMPACT, CORE, DEFAULT)
MIRRORED = "x-mcp-header"
"""The key that marks an argument which clients repeat in a header."""
# Headers by which an HTTP request chooses tools for itself.
TOOLSETS_HEADER = "X-MCP-Toolsets"
TOOLS_HEADER = "X-MCP-Tools"
EXCLUDE_HEADER = "X-MCP-Exclude-Tools"
READONLY_HEADER = "X-MCP-Readonly"

# What a client gets by default, and the smallest set that is still useful. Budgets: tests/app/offers/test_catalogue.py.
DEFAULT_TOOLSETS = ("workspace", "notebooks", "editing", "kernels", "proposals")
CURRENT_NOTEBOOK = "cells"
"""The toolset that works on a current notebook. It is among the default ones where there is such a notebook."""
CORE_TOOLS = (
    "workspace_status",
    "list_nbs",
    "get_nb_stat",
    "create_nb",
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

# Tools that `compact` leaves out, each with the tool that does the same: older names, and conversions of one part alone.
TWINS = {
    "list_notebook": "list_nbs",
    "use_notebook": "create_nb",
    "unuse_notebook": "end_nb_session",
    "restart_notebook": "restart_nb_kernel",
    "read_cells": "read_nb_cells",
    "list_cells": "get_nb_stat",
    "read_cell": "read_nb_cells",
    "insert_cell": "insert_nb_cells",
    "insert_execute_code_cell": "insert_nb_cells",
    "overwrite_cell_source": "modify_nb_cells",
    "delete_cell": "delete_nb_cells",
    "execute_cell_simple_timeout": "execute_nb_cells",
    "execute_cell_streaming": "execute_nb_cells",
    "execute_cell_with_progress": "execute_nb_cells",
    "list_files": "list_documents",
    "list_kernels": "list_available_kernels",
    "scratch_export": "export_notebook",
    "scratch_import": "import_notebook",
    "notebook_export": "export_notebook",
    "notebook_import": "import_notebook",
    "search": "search_workspace",
}


class ToolOff(CellwrightError):
    code = "TOOL_OFF"
    meaning = (
        "The tool exists but is not offered to you: its toolset is off or the tool is ruled out; the message says by what, "
        "the hint how to get it."
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
        """Computed when it is first needed: most tools are not offered to most clients, and each takes a millisecond."""
        return signature_of(self.tool.function)

    @cached_property
    def schema_with_headers(self) -> dict[str, Any] | None:
        """The input schema if an argument is repeated in a header, else None: the SDK walks the schema at every call."""
        schema = self.signature.input_schema
        return schema if MIRRORED in json.dumps(schema) else None

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def description(self) -> str:
        return " ".join((self.tool.function.__doc__ or "").split())


class Catalogue:
    """Every tool there is, and the operator's choice among them."""

    def __init__(
        self, toolsets: Sequence[Toolset], selection: Selection, default: Sequence[str] = DEFAULT_TOOLSETS
    ) -> None:
        """`default` are the toolsets of the group of that name."""
        self.toolsets = tuple(toolsets)
        self._tools = {
            tool.name: OfferedTool(tool, toolset.name, toolset.service, toolset.failure)
            for toolset in toolsets
            for tool in toolset.tools
        }
        self._aliases = {alias: name for name, offered in self._tools.items() for alias in offered.tool.aliases}
        self._selection = selection
        self._default = tuple(default)
        self._check(selection, ConfigError)
        self._offered = lru_cache(maxsize=256)(self._compute)
        # Every tool that a request with all scopes could get: all but those that the operator ruled out.
        widest_selection = Selection((ALL,)) if self._may_be_widened else None
        self._needed_scopes = {
            tool.name: tool.tool.effect.scope for tool in self._compute(frozenset(Scope), widest_selection)
        }

    @property
    def _may_be_widened(self) -> bool:
        """Whether requests may ask for more toolsets. They may if the operator left the default, which is no choice."""
        return self._selection.toolsets == (DEFAULT,)

    def offered(self, principal: Principal, wish: Selection | None = None) -> tuple[OfferedTool, ...]:
        """The tools this caller may see, in a fixed order."""
        return self._offered(principal.scopes, wish)

    def names(self, principal: Principal) -> dict[str, list[str]]:
        """The names of these tools by toolset."""
        names: dict[str, list[str]] = {}
        for tool in self.offered(principal):
            names.setdefault(tool.toolset, []).append(tool.name)
        return names

    def find(self, name: str, principal: Principal, wish: Selection | None = None) -> OfferedTool:
        """The tool of this name if it is offered. Otherwise an error says why it is not, or suggests a name."""
        real = self._aliases.get(name, name)
        for offered in self._offered(principal.scopes, wish):
            if offered.name == real:
                return offered
        tool = self._tools.get(real)
        raise self._unknown(name, principal, wish) if tool is None else self._why_off(tool, name, wish)

    def off(self, principal: Principal, wish: Selection | None = None) -> str:
        """One line that says what this caller is not offered, and why; empty if everything is on."""
        selection = self._selection
        selected_tools = self._tools_for(wish)
        parts: list[str] = []
        closed_toolsets, partial_toolsets = self._toolsets_without(selected_tools)
        switch_on = self._how_to_switch_on("NAME")
        parts += [f"toolsets {', '.join(closed_toolsets)}: {switch_on}"] if closed_toolsets else []
        parts += [f"some tools of {', '.join(partial_toolsets)}: {switch_on}"] if partial_toolsets else []
        if excluded := sorted(self._real_names(selection.exclude_tools)):
            parts.append(f"{', '.join(excluded)}: by --exclude-tools")
        if selection.read_only or (wish is not None and wish.read_only):
            parts.append(
                f"tools that change or run something: by {'--read-only' if selection.read_only else READONLY_HEADER}"
            )
        else:
            allowed = {effect for effect in Effect if principal.may(effect.scope)}
            effects = {self._tools[name].tool.effect for name in selected_tools} - allowed
            missing = sorted(effect.scope.value for effect in effects)
            parts += [f"tools that need {' or '.join(missing)}: your token lacks the scope"] if missing else []
        return "; ".join(parts)

    def closed_toolsets(self) -> list[str]:
        """The toolsets that are off for requests that make no choice."""
        return self._toolsets_without(self._tools_for(None))[0]

    def _toolsets_without(self, selected_tools: AbstractSet[str]) -> tuple[list[str], list[str]]:
        """Toolsets of which no tool is named, and those of which only some are."""
        members: dict[str, set[str]] = {}
        for name, offered in self._tools.items():
            members.setdefault(offered.toolset, set()).add(name)
        ruled_out = self._real_names(self._selection.exclude_tools)
        closed = [toolset for toolset, tools in members.items() if not tools & selected_tools and tools - ruled_out]
        partial = [
            toolset
            for toolset, tools in members.items()
            if tools & selected_tools and tools - selected_tools - ruled_out
        ]
        return closed, partial

    def _how_to_switch_on(self, toolset: str) -> str:
        toolsets = ",".join((*self._selection.toolsets, toolset))
        how = f"start cellwright with --toolsets {toolsets} (or CELLWRIGHT_TOOLSETS={toolsets})"
        return f"{how}; over HTTP a request may send {TOOLSETS_HEADER}: {toolsets}" if self._may_be_widened else how

    def _why_off(self, tool: OfferedTool, name: str, wish: Selection | None) -> CellwrightError:
        selection, has_effects = self._selection, tool.tool.effect is not Effect.READ
        details = {"tool": tool.name, "toolset": tool.toolset}
        hint_to_ask = "ask the operator, or do without: tools/list shows what there is"
        if tool.name in self._real_names(selection.exclude_tools):
            return ToolOff(f"{name} is excluded here by --exclude-tools", hint=hint_to_ask, details=details)
        if selection.read_only and has_effects:
            return ToolOff(
                f"{name} changes or runs something, and this server is --read-only", hint=hint_to_ask, details=details
            )
        if tool.name not in self._selected_tools(selection) and (wish is None or not self._may_be_widened):
            return self._toolset_off(tool, name, details)
        if wish is not None and wish.read_only and has_effects:
            hint = f"send the request without {READONLY_HEADER}"
            return ToolOff(
                f"{name} changes or runs something, and the request asked for reading only", hint=hint, details=details
            )
        if wish is not None and tool.name not in self._selected_tools(wish):
            header = EXCLUDE_HEADER if tool.name in self._real_names(wish.exclude_tools) else TOOLSETS_HEADER
            hint = f"change the request's {header}: {name} is in the toolset {tool.toolset}"
            return ToolOff(f"{name} is left out by the request's own {header}", hint=hint, details=details)
        return insufficient_scope(tool.tool.effect, name)

    def _toolset_off(self, tool: OfferedTool, name: str, details: dict[str, str]) -> ToolOff:
        switch_on, twin = self._how_to_switch_on(tool.toolset), TWINS.get(tool.name)
        if twin is not None and COMPACT in self._selection.toolsets:
            why = f"{name} is left out of the toolsets {COMPACT!r}, because {twin} does the same"
            return ToolOff(why, hint=f"call {twin}; or {switch_on}", details=details)
        why = f"{name} is a tool of the toolset {tool.toolset!r}, which is off"
        return ToolOff(why, hint=switch_on, details=details)

    def _unknown(self, name: str, principal: Principal, wish: Selection | None) -> InvalidArgument:
        """Suggests the nearest of all names and the nearest offered one. For a tool that is off, the hint says how to switch it on."""
        offered_names = [tool.name for tool in self._offered(principal.scopes, wish)]
        offered_names += [alias for alias, real in self._aliases.items() if real in offered_names]
        suggestion = nearest(name, [*self._tools, *self._aliases])
        if suggestion is None:
            hint = "tools/list shows what there is"
        elif suggestion in offered_names:
            hint = f"did you mean {suggestion!r}?"
        else:
            why = self._why_off(self._tools[self._aliases.get(suggestion, suggestion)], suggestion, wish)
            offered_suggestion = nearest(name, offered_names)
            hint = (
                f"did you mean {offered_suggestion!r}? Or {suggestion!r}: {why}"
                if offered_suggestion
                else f"did you mean {suggestion!r}? {why}"
            )
        return InvalidArgument(f"unknown tool {name[:80]!r}", hint=hint)

    def _real_names(self, names: Iterable[str]) -> set[str]:
        """The names with aliases replaced by the tools' real names."""
        return {self._aliases.get(name, name) for name in names}

    def needed_scope(self, name: str) -> Scope | None:
        """The scope a call of this tool needs; None for a tool that no token could call here."""
        return self._needed_scopes.get(self._aliases.get(name, name))

    def is_long(self, name: str, body: bytes) -> bool:
        """Whether a call of this tool may take long, judged by its unparsed body. True for an unknown name."""
        offered = self._tools.get(self._aliases.get(name, name))
        long = True if offered is None else offered.tool.long
        return f'"{long}"'.encode() in body if isinstance(long, str) else long

    def schema_with_headers(self, name: str) -> dict[str, Any] | None:
        """The input schema of a tool, offered or not, if clients repeat an argument of it in a header; otherwise None."""
        offered = self._tools.get(self._aliases.get(name, name))
        return offered.schema_with_headers if offered else None

    def wish(self, toolsets: str, tools: str, exclude_tools: str, read_only: str) -> Selection | None:
        """A request's own choice of tools, from its headers; None if it makes none."""
        if not (toolsets or tools or exclude_tools or read_only):
            return None
        selection = Selection(
            _split(toolsets) or (() if tools else self._selection.toolsets),
            _split(tools),
            _split(exclude_tools),
            read_only.strip().lower() in {"1", "true", "yes", "on"},
        )
        self._check(selection, InvalidArgument)
        return selection

    def _compute(self, scopes: frozenset[Scope], wish: Selection | None) -> tuple[OfferedTool, ...]:
        names = self._tools_for(wish)
        read_only = self._selection.read_only or (wish is not None and wish.read_only)
        return tuple(
            offered
            for offered in self._tools.values()
            if offered.name in names
            and offered.tool.effect.scope in scopes
            and not (read_only and offered.tool.effect is not Effect.READ)
        )

    def _tools_for(self, wish: Selection | None) -> set[str]:
        """The tools that the settings and the request name, regardless of effects and scopes."""
        names = self._selected_tools(self._selection)
        if wish is not None:
            names = self._selected_tools(wish) & (set(self._tools) if self._may_be_widened else names)
        return names - self._real_names(self._selection.exclude_tools)

    def _selected_tools(self, selection: Selection) -> set[str]:
        names = self._real_names(selection.tools)
        for toolset in selection.toolsets:
            if toolset == ALL:
                names |= set(self._tools)
            elif toolset == COMPACT:
                names |= set(self._tools) - TWINS.keys()
            elif toolset == CORE:
                names |= set(CORE_TOOLS)
            else:
                toolset_names = self._default if toolset == DEFAULT else (toolset,)
                names |= {offered.name for offered in self._tools.values() if offered.toolset in toolset_names}
        return (names & set(self._tools)) - self._real_names(selection.exclude_tools)

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
    kind: str, names: Iterable[str], known_names: Sequence[str], error: type[ConfigError] | type[InvalidArgument]
) -> None:
    for name in names:
        if name not in known_names:
            suggestion = nearest(name, known_names)
            raise error(
                f"there is no {kind} {name[:80]!r}",
                hint=f"did you mean {suggestion!r}?" if suggestion else f"there are: {', '.join(known_names)}",
            )

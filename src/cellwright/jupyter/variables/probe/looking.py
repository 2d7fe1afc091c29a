"""Looks at the variables of the kernel that this runs in."""

from __future__ import annotations

import json
import sys
import time
import types
from typing import Any

from cellwright.jupyter.variables.probe.details import detail_of, row_of
from cellwright.jupyter.variables.probe.kinds import Budget, full_name, is_a, module_names, type_name
from cellwright.jupyter.variables.probe.walking import NotThere, walk

FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    OSError,
    RuntimeError,
    StopIteration,
    SyntaxError,
    TypeError,
    ValueError,
    Warning,
)
"""Whatever a library may raise about a value: the others are still told of."""


def failures() -> tuple[Any, ...]:
    """FAILURES, and those of the libraries that are loaded."""
    named = (
        ("pyarrow.lib", "ArrowException"),
        ("polars.exceptions", "PolarsError"),
        ("polars.exceptions", "PanicException"),
    )
    own = [module_names(module).get(name) for module, name in named]
    return (*FAILURES, *[kind for kind in own if kind is not None])


def look(request: dict[str, Any]) -> dict[str, Any]:
    """Rows of all variables, or details of those that the request names, each as it is told or why it cannot be."""
    space, hidden = namespaces()
    budget = Budget(time.monotonic() + request["seconds"], time.monotonic, request["parts"], request["pictures"])
    if not request["names"]:
        return all_rows(space, hidden, request["most"], budget)
    variables: dict[str, Any] = {}
    for wanted in request["names"]:
        try:
            variables[wanted["name"]] = detail_of(value_of(space, wanted, budget), budget)
        except NotThere as missing:
            variables[wanted["name"]] = {
                "missing": missing.message,
                "wanted": missing.wanted,
                "names": missing.names,
            }
        except failures() as error:
            variables[wanted["name"]] = {"value": f"looking at it failed: {type_name(type(error))}"}
    return {"variables": variables, "late": budget.late}


def namespaces() -> tuple[dict[str, Any], dict[str, Any]]:
    """The notebook's variables, and what IPython put among them at its start."""
    get_shell = module_names("IPython.core.getipython").get("get_ipython")
    shell = get_shell() if get_shell is not None else None
    if shell is None:
        return dict(vars(sys.modules["__main__"])), {}
    # A copy, because threads of the notebook may add to it meanwhile.
    return dict(shell.user_ns), shell.user_ns_hidden


def value_of(space: dict[str, Any], wanted: dict[str, Any], budget: Budget) -> Any:
    for name, steps in ((wanted["name"], []), (wanted["root"], wanted["steps"])):
        if name in space:
            return walk(space[name], steps, budget)
    names = [name for name in list(space) if type(name) is str and not name.startswith("_")]
    raise NotThere(f"there is no variable {wanted['root']}", wanted["root"], names)


def all_rows(space: dict[str, Any], hidden: dict[str, Any], most: int, budget: Budget) -> dict[str, Any]:
    names = [name for name in list(space) if type(name) is str and is_shown(name, space[name], hidden)]
    variables: dict[str, Any] = {}
    for name in sorted(names)[:most]:
        if budget.late:
            break
        try:
            variables[name] = row_of(space[name])
        except failures() as error:
            variables[name] = {
                "type": full_name(type(space[name])),
                "value": f"looking at it failed: {type_name(type(error))}",
            }
    return {"variables": variables, "more": len(names) - len(variables), "late": budget.late}


def is_shown(name: str, value: Any, hidden: dict[str, Any]) -> bool:
    """Modules, names that begin with an underscore, and what is IPython's own are nobody's variables."""
    own = name in hidden and hidden[name] is value
    return not name.startswith("_") and not own and not is_a(value, types.ModuleType)


def answer(request: dict[str, Any]) -> str:
    try:
        return json.dumps(look(request))
    except FAILURES as error:
        return json.dumps({"failed": type_name(type(error))})

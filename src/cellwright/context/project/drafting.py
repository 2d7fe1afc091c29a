"""Changes of `project.yaml`: what a scan found, and what was discovered, put in beside what a person wrote.

What stands in the file stays: a scan fills what is empty, replaces only what an earlier scan wrote unchanged, and never removes.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from cellwright.context.model import Discovery, DiscoveryType, Issue, KeyFile, Module, Project, iso
from cellwright.context.project.enriching import LIST_KEYS
from cellwright.context.project.yaml_text import YamlMap, quoted

HEADER = "What cellwright and its agents know of this project. Edit freely: comments, order and your own keys stay."


def _child(parent: YamlMap, key: str) -> YamlMap:
    found: object = cast("Any", parent).get(key)
    if isinstance(found, CommentedMap):
        return found
    made = CommentedMap()
    cast("Any", parent)[quoted(key)] = made
    return made


def _children(parent: YamlMap, key: str) -> CommentedSeq:
    found: object = cast("Any", parent).get(key)
    if isinstance(found, CommentedSeq):
        return found
    made = CommentedSeq()
    cast("Any", parent)[key] = made
    return made


def _fill(parent: YamlMap, key: str, value: str) -> bool:
    plain = cast("Any", parent)
    if not value or plain.get(key):
        return False
    plain[key] = quoted(value)
    return True


def _add_texts(parent: YamlMap, key: str, values: Iterable[str]) -> bool:
    present = {str(one).casefold() for one in cast("Any", parent).get(key) or ()}
    wanted = [value for value in values if value.casefold() not in present]
    for value in wanted:
        cast("Any", _children(parent, key)).append(quoted(value))
    return bool(wanted)


def _own_text(item: Any, key: str) -> str:  # noqa: ANN401 - what stands in the file
    """What an item of a list says: its text, or the text under its main key."""
    return str(cast("Any", item).get(key) if isinstance(item, CommentedMap) else item)


def _add_files(parent: YamlMap, files: Iterable[KeyFile]) -> bool:
    items: list[Any] = list(cast("Any", parent).get("keyFiles") or ())
    present = {_own_text(one, "path") for one in items}
    wanted = [one for one in files if one.path not in present]
    for one in wanted:
        entry: Any = CommentedMap()
        entry["path"] = quoted(one.path)
        entry["role"] = one.role
        if one.description:
            entry["description"] = quoted(one.description)
        cast("Any", _children(parent, "keyFiles")).append(entry)
    return bool(wanted)


def merge_scan(found: Project) -> Callable[[YamlMap], bool]:
    """What a scan adds to a document."""

    def change(document: YamlMap) -> bool:
        if not document:
            cast("Any", document).yaml_set_start_comment(HEADER)
        project, tech, architecture = (_child(document, key) for key in ("project", "tech", "architecture"))
        changed = [
            *(
                _fill(project, key, value)
                for key, value in (("name", found.name), ("type", found.type), ("path", found.path))
            ),
            _add_texts(tech, "stack", found.stack) if not cast("Any", tech).get("stack") else False,
            _fill(tech, "runtime", found.runtime),
            _fill(tech, "packageManager", found.package_manager),
            _fill(architecture, "pattern", found.pattern),
            _fill(architecture, "description", found.description),
        ]
        modules = _child(document, "modules")
        changed += [_merge_module(modules, module) for module in found.modules.values()]
        return any(changed)

    return change


def _merge_module(modules: YamlMap, found: Module) -> bool:
    is_new = found.name not in cast("Any", modules)
    module = _child(modules, found.name)
    changed = [
        _fill(module, "description", found.description),
        # A person who chose the key files of a module meant these.
        _add_files(module, found.key_files) if not cast("Any", module).get("keyFiles") else False,
        _add_texts(module, "dependencies", found.dependencies),
    ]
    return is_new or any(changed)


def enrich(discoveries: Sequence[Discovery]) -> Callable[[YamlMap], bool]:
    """What discoveries add to a document."""

    def change(document: YamlMap) -> bool:
        # Every one is added, also after the first that changed something.
        changed = [_add_discovery(document, one) for one in discoveries]
        return any(changed)

    return change


def _add_discovery(document: YamlMap, one: Discovery) -> bool:
    module = _child(_child(document, "modules"), one.module) if one.module else _child(document, "notes")
    if one.type is not DiscoveryType.ISSUE:
        return _add_texts(module, LIST_KEYS[one.type], [one.content])
    return _add_issue(module, Issue(one.content, one.solution, iso(one.created), one.session))


def _add_issue(module: YamlMap, issue: Issue) -> bool:
    items: list[Any] = list(cast("Any", module).get("commonIssues") or ())
    present = {_own_text(item, "description").casefold() for item in items}
    if issue.description.casefold() in present:
        return False
    entry: Any = CommentedMap()
    entry["description"] = quoted(issue.description)
    entry["solution"] = quoted(issue.solution)
    entry["discoveredAt"] = quoted(issue.discovered_at)
    entry["sessionId"] = quoted(issue.session_id)
    cast("Any", _children(module, "commonIssues")).append(entry)
    return True

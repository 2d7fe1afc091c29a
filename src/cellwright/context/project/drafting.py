"""Changes of `project.yaml`: adds what a scan found, and what was discovered, to what a person wrote.

What the file says stays: a scan fills what is empty, and never removes or replaces anything.
"""

# ruamel.yaml has no types of its own.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from cellwright.context.model import Discovery, DiscoveryType, Issue, KeyFile, Module, Project, iso
from cellwright.context.project.enriching import LIST_KEYS
from cellwright.context.project.yaml_text import YamlMap, quoted

HEADER = "What cellwright and its agents know of this project. Edit freely: comments, order and your own keys stay."


def _child(parent: YamlMap, key: str) -> YamlMap:
    child: object = parent.get(key)
    if isinstance(child, CommentedMap):
        return child
    new_child = CommentedMap()
    parent[quoted(key)] = new_child
    return new_child


def _children(parent: YamlMap, key: str) -> CommentedSeq:
    children: object = parent.get(key)
    if isinstance(children, CommentedSeq):
        return children
    new_children = CommentedSeq()
    parent[key] = new_children
    return new_children


def _items(parent: YamlMap, key: str) -> list[Any]:
    """What stands in a list of the file."""
    return list(cast("list[Any] | None", parent.get(key)) or ())


def _fill(parent: YamlMap, key: str, value: str) -> bool:
    if not value or parent.get(key):
        return False
    parent[key] = quoted(value)
    return True


def _add_texts(parent: YamlMap, key: str, values: Iterable[str]) -> bool:
    present = {str(text).casefold() for text in _items(parent, key)}
    missing = [value for value in values if value.casefold() not in present]
    for value in missing:
        _children(parent, key).append(quoted(value))
    return bool(missing)


def _own_text(item: Any, key: str) -> str:  # noqa: ANN401 - what stands in the file
    """The text of a list's item, or the text under the item's main key."""
    return str(cast("object", item.get(key)) if isinstance(item, CommentedMap) else item)


def _add_files(parent: YamlMap, files: Iterable[KeyFile]) -> bool:
    present = {_own_text(item, "path") for item in _items(parent, "keyFiles")}
    missing = [file for file in files if file.path not in present]
    for file in missing:
        entry = CommentedMap()
        entry["path"] = quoted(file.path)
        entry["role"] = file.role
        if file.description:
            entry["description"] = quoted(file.description)
        _children(parent, "keyFiles").append(entry)
    return bool(missing)


def merge_scan(scanned: Project) -> Callable[[YamlMap], bool]:
    """A change that adds the results of a scan to a document."""

    def change(document: YamlMap) -> bool:
        if not document:
            document.yaml_set_start_comment(HEADER)
        project, tech, architecture = (_child(document, key) for key in ("project", "tech", "architecture"))
        changed = [
            *(
                _fill(project, key, value)
                for key, value in (("name", scanned.name), ("type", scanned.type), ("path", scanned.path))
            ),
            _add_texts(tech, "stack", scanned.stack) if not tech.get("stack") else False,
            _fill(tech, "runtime", scanned.runtime),
            _fill(tech, "packageManager", scanned.package_manager),
            _fill(architecture, "pattern", scanned.pattern),
            _fill(architecture, "description", scanned.description),
        ]
        modules = _child(document, "modules")
        changed += [_merge_module(modules, module) for module in scanned.modules.values()]
        return any(changed)

    return change


def _merge_module(modules: YamlMap, scanned: Module) -> bool:
    is_new = scanned.name not in modules
    module = _child(modules, scanned.name)
    changed = [
        _fill(module, "description", scanned.description),
        # If a person chose the key files of a module, none are added.
        _add_files(module, scanned.key_files) if not module.get("keyFiles") else False,
        _add_texts(module, "dependencies", scanned.dependencies),
    ]
    return is_new or any(changed)


def enrich(discoveries: Sequence[Discovery]) -> Callable[[YamlMap], bool]:
    """A change that adds discoveries to a document."""

    def change(document: YamlMap) -> bool:
        # A list, because `any` alone would stop at the first discovery that changes something.
        changed = [_add_discovery(document, discovery) for discovery in discoveries]
        return any(changed)

    return change


def _add_discovery(document: YamlMap, discovery: Discovery) -> bool:
    module = _child(_child(document, "modules"), discovery.module) if discovery.module else _child(document, "notes")
    if discovery.type is not DiscoveryType.ISSUE:
        return _add_texts(module, LIST_KEYS[discovery.type], [discovery.content])
    return _add_issue(module, Issue(discovery.content, discovery.solution, iso(discovery.created), discovery.session))


def _add_issue(module: YamlMap, issue: Issue) -> bool:
    present = {_own_text(item, "description").casefold() for item in _items(module, "commonIssues")}
    if issue.description.casefold() in present:
        return False
    entry = CommentedMap()
    entry["description"] = quoted(issue.description)
    entry["solution"] = quoted(issue.solution)
    entry["discoveredAt"] = quoted(issue.discovered_at)
    entry["sessionId"] = quoted(issue.session_id)
    _children(module, "commonIssues").append(entry)
    return True

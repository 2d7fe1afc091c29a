"""What the discoveries would add to the project file: found by comparing, so nothing is ever lost or added twice."""

from collections.abc import Sequence
from dataclasses import dataclass

from cellwright.context.model import Discovery, DiscoveryType, Module, Project

LIST_KEYS = {
    DiscoveryType.PATTERN: "patterns",
    DiscoveryType.RULE: "businessRules",
    DiscoveryType.DECISION: "decisions",
}


@dataclass(frozen=True, slots=True)
class Addition:
    """One thing that enriching would add: where, and the text."""

    where: str
    text: str
    discovery: str


def additions(project: Project, discoveries: Sequence[Discovery]) -> list[Addition]:
    """What of these is not in the project file yet, and where it would go."""
    found: list[Addition] = []
    for one in discoveries:
        module = project.modules.get(one.module, Module("")) if one.module else project.notes
        key = "commonIssues" if one.type is DiscoveryType.ISSUE else LIST_KEYS[one.type]
        present = {
            DiscoveryType.PATTERN: module.patterns,
            DiscoveryType.RULE: module.business_rules,
            DiscoveryType.DECISION: module.decisions,
            DiscoveryType.ISSUE: tuple(issue.description for issue in module.common_issues),
        }[one.type]
        if one.content.casefold() not in {text.casefold() for text in present}:
            found.append(Addition(f"modules.{one.module}.{key}" if one.module else f"notes.{key}", one.content, one.id))
    return found

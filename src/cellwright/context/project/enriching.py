"""What the discoveries would add to the project file. The two are compared, so that nothing is lost or added twice."""

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
    """A text that enriching would add, and where."""

    where: str
    text: str
    discovery: str


def additions(project: Project, discoveries: Sequence[Discovery]) -> list[Addition]:
    """The discoveries that are not in the project file yet, and where they would go."""
    missing: list[Addition] = []
    for discovery in discoveries:
        name = discovery.module
        module = project.modules.get(name, Module("")) if name else project.notes
        key = "commonIssues" if discovery.type is DiscoveryType.ISSUE else LIST_KEYS[discovery.type]
        present = {
            DiscoveryType.PATTERN: module.patterns,
            DiscoveryType.RULE: module.business_rules,
            DiscoveryType.DECISION: module.decisions,
            DiscoveryType.ISSUE: tuple(issue.description for issue in module.common_issues),
        }[discovery.type]
        if discovery.content.casefold() not in {text.casefold() for text in present}:
            where = f"modules.{name}.{key}" if name else f"notes.{key}"
            missing.append(Addition(where, discovery.content, discovery.id))
    return missing

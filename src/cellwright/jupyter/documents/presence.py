"""Who the agent is to the people in the same document."""

from dataclasses import dataclass

from cellwright import __version__


@dataclass(frozen=True, slots=True)
class Collaborator:
    """A participant as JupyterLab shows it: a name, a colour, initials."""

    name: str = "Agent"
    color: str = "#7a5cff"
    username: str = "cellwright-agent"

    @property
    def initials(self) -> str:
        words = self.name.split()
        return "".join(word[0] for word in words[:2]).upper() or "A"

    def as_json(self) -> dict[str, str | None]:
        return {
            "username": self.username,
            "name": self.name,
            "display_name": self.name,
            "initials": self.initials,
            "color": self.color,
            "avatar_url": None,
            "agent": f"cellwright/{__version__}",
        }

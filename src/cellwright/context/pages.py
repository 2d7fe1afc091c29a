"""Pages about a project in markdown. Headings are fixed and sizes bounded; the least useful parts are left out first, with a note."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cellwright.context.model import Discovery, Issue, Module, Project, Session, iso
from cellwright.context.uris import module_uri
from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.core.text.names import on_one_line

KB = 1024
OVERVIEW_BYTES = 50 * KB
MODULE_BYTES = 20 * KB
SESSION_BYTES = 10 * KB
SESSIONS_BYTES = 50 * KB
DISCOVERIES_BYTES = 50 * KB
SHOWN_FILES = 10
NOTE_ROOM = 200
LONGEST_VALUE = 4_000
SHOWN_TEXTS = 5
"""How many patterns, rules, decisions and issues of a module the overview shows, of each kind."""
SHOWN_CHARACTERS = 240
ONLY_COUNTED = (
    "_Patterns, rules and issues are only counted here, to keep within 50 KB; context://module/{name} has them._\n"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a page. The lower its worth, the sooner it is left out; with None it is never left out."""

    text: str
    worth: float | None = None


def inline(text: str) -> str:
    """Foreign text on one line, so that it cannot become a heading."""
    return " ".join(clean(text[:LONGEST_VALUE]).text.split())


def inline_name(name: str) -> str:
    """The name of a file or a module on one line. Spaces are part of the name and stay."""
    return on_one_line(name[:LONGEST_VALUE])


def page(pieces: Sequence[Piece], limit: int, kind: str, remedy: str) -> str:
    """The pieces as one text of at most `limit` bytes, with a last line that says what was left out."""
    total = _size(pieces)
    if total <= limit:
        return "".join(piece.text for piece in pieces).rstrip("\n") + "\n"
    ranked = sorted(
        (number for number, piece in enumerate(pieces) if piece.worth is not None),
        key=lambda number: (pieces[number].worth or 0.0, -number),
    )
    dropped: set[int] = set()
    for number in ranked:
        if total <= limit - NOTE_ROOM:
            break
        dropped.add(number)
        total -= len(pieces[number].text.encode())
    text = "".join(piece.text for number, piece in enumerate(pieces) if number not in dropped).rstrip("\n")
    bounded = text.encode()[: limit - NOTE_ROOM].decode("utf-8", "ignore")
    return f"{bounded}\n\n_{len(dropped)} {kind} left out to keep within {limit // KB} KB; {remedy}._\n"


def overview(project: Project, worth: Mapping[str, float], archived: Sequence[str] = ()) -> str:
    """`context://project/overview`. `worth` ranks the modules; archived ones are only counted."""
    pieces = _overview(project, worth, archived, with_texts=True)
    if _size(pieces) > OVERVIEW_BYTES:
        pieces = [*_overview(project, worth, archived, with_texts=False), Piece(ONLY_COUNTED)]
    return page(pieces, OVERVIEW_BYTES, "modules", "context_search finds them")


def overview_bytes(project: Project, archived: Sequence[str]) -> int:
    """The size of the overview with every module that is not archived, and with patterns, rules and issues only counted."""
    return _size(_overview(project, {}, archived, with_texts=False))


def _size(pieces: Sequence[Piece]) -> int:
    return sum(len(piece.text.encode()) for piece in pieces)


def _overview(
    project: Project, worth: Mapping[str, float], archived: Sequence[str], *, with_texts: bool
) -> list[Piece]:
    head = (
        f"# Project: {inline(project.name)}\n\n**Type:** {inline(project.type)}  \n**Path:** {inline_name(project.path)}\n\n"
        f"## Tech Stack\n\n- **Stack:** {inline(', '.join(project.stack))}\n- **Runtime:** {inline(project.runtime)}\n"
        f"- **Package Manager:** {inline(project.package_manager)}\n\n"
        f"## Architecture\n\n**Pattern:** {inline(project.pattern)}  \n**Description:** {inline(project.description)}\n\n"
        f"## Modules ({len(project.modules)})\n\n"
    )
    shown_modules = [module for module in project.modules.values() if module.name not in set(archived)]
    pieces = [Piece(head)]
    for module in shown_modules:
        text = _summary(module) + (_known_texts(module) if with_texts else "")
        pieces.append(Piece(text, worth.get(module.name, 0.0)))
    if len(shown_modules) < len(project.modules):
        count = len(project.modules) - len(shown_modules)
        pieces.append(
            Piece(f"_Archived, because hardly used: {counted(count, 'module')}; context_search still finds them._\n\n")
        )
    if project.notes != Module(""):
        pieces.append(Piece("## Notes\n\n" + "".join(_lists(project.notes, "###")), 1.0))
    return pieces


def _summary(module: Module) -> str:
    files = "".join(f"- {inline_name(key_file.path)} ({inline(key_file.role)})\n" for key_file in module.key_files)
    return (
        f"### {inline_name(module.name)}\n{inline(module.description)}\n\n**Key Files:**\n{files}\n"
        f"**Patterns:** {len(module.patterns)}  \n**Business Rules:** {len(module.business_rules)}  \n"
        f"**Common Issues:** {len(module.common_issues)}\n\n"
    )


def _known_texts(module: Module) -> str:
    """The texts of a module that were added last, so that a returning reader need not look them up."""
    entries = [
        *(("Pattern", text) for text in module.patterns[-SHOWN_TEXTS:]),
        *(("Rule", text) for text in module.business_rules[-SHOWN_TEXTS:]),
        *(("Decision", text) for text in module.decisions[-SHOWN_TEXTS:]),
        *(("Issue", _issue(issue)) for issue in module.common_issues[-SHOWN_TEXTS:]),
    ]
    lists = (module.patterns, module.business_rules, module.decisions, module.common_issues)
    more = sum(map(len, lists)) - len(entries)
    lines = [f"- {kind}: {_short(inline(text))}\n" for kind, text in entries]
    lines += [f"- {more} more: {module_uri(module.name)}\n"] if more else []
    return "".join(lines) + "\n" if lines else ""


def _issue(issue: Issue) -> str:
    return f"{issue.description} → {issue.solution}" if issue.solution else issue.description


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def module_page(module: Module) -> str:
    """`context://module/{name}`."""
    pieces = [Piece(f"# Module: {inline_name(module.name)}\n\n{inline(module.description)}\n\n## Key Files\n\n")]
    for key_file in module.key_files:
        text = (
            f"### {inline_name(key_file.path)}\n**Role:** {inline(key_file.role)}  \n{inline(key_file.description)}\n\n"
        )
        pieces.append(Piece(text, 4.0))
    pieces += [Piece(f"## Patterns ({len(module.patterns)})\n\n"), *_items(module.patterns, 2.0), Piece("\n")]
    rules = module.business_rules
    pieces += [Piece(f"## Business Rules ({len(rules)})\n\n"), *_items(rules, 3.0), Piece("\n")]
    pieces.append(Piece(f"## Common Issues ({len(module.common_issues)})\n\n"))
    for number, issue in enumerate(module.common_issues):
        discovered = f"{inline(issue.discovered_at)} (Session: {inline(issue.session_id)})"
        text = f"### {inline(issue.description)}\n**Solution:** {inline(issue.solution)}  \n**Discovered:** {discovered}\n\n"
        pieces.append(Piece(text, 1.0 + number / 10_000))
    if module.decisions:
        pieces += [Piece(f"## Decisions ({len(module.decisions)})\n\n"), *_items(module.decisions, 2.0), Piece("\n")]
    pieces.append(Piece(f"## Dependencies\n\n{', '.join(map(inline_name, module.dependencies)) or 'None'}\n"))
    return page(pieces, MODULE_BYTES, "items", "project.yaml has them all")


def _items(texts: Sequence[str], worth: float) -> list[Piece]:
    """The texts as list items. The one that was added last is worth most."""
    return [Piece(f"- {inline(text)}\n", worth + number / 10_000) for number, text in enumerate(texts)]


def _lists(module: Module, mark: str) -> list[str]:
    sections = (
        ("Patterns", module.patterns),
        ("Business Rules", module.business_rules),
        ("Decisions", module.decisions),
        ("Common Issues", tuple(map(_issue, module.common_issues))),
    )
    return [
        f"{mark} {title} ({len(texts)})\n\n" + "".join(f"- {inline(text)}\n" for text in texts) + "\n"
        for title, texts in sections
        if texts
    ]


def session_page(session: Session, now: float) -> str:
    """`context://session/current`."""
    pieces = [
        Piece(
            f"# Active Session\n\n**Started:** {iso(session.started)}  \n**Duration:** {duration(now - session.started)}  \n"
            f"**Status:** {session.status}\n\n## Files Accessed ({len(session.touched)})\n\n"
        )
    ]
    for place in session.touched[:SHOWN_FILES]:
        link = f"  \n**Resource:** {on_one_line(place.uri)}" if place.uri else ""
        text = f"**Access Count:** {place.count}  \n**Last Accessed:** {iso(place.last)}{link}"
        pieces.append(Piece(f"### {inline_name(place.path)}\n{text}\n\n", float(place.count)))
    pieces += [
        Piece(f"## Topics ({len(session.topics)})\n\n"),
        *_items(tuple(map(inline_name, session.topics)), 0.5),
        Piece("\n"),
    ]
    summary = f"- **Tool Calls:** {session.calls}\n- **Discoveries:** {session.discoveries}\n"
    pieces.append(Piece(f"## Activity Summary\n\n{summary}"))
    return page(pieces, SESSION_BYTES, "items", "the session goes on recording them")


def sessions_page(sessions: Sequence[Session], now: float) -> str:
    """`context://sessions/recent`."""
    pieces = [Piece(f"# Recent Sessions ({len(sessions)})\n\n")]
    for number, session in enumerate(sessions):
        end = session.ended if session.ended is not None else now
        topics = ", ".join(map(inline_name, session.topics))
        text = (
            f"## Session {session.id[:8]}\n**Started:** {iso(session.started)}  \n**Duration:** {duration(end - session.started)}  \n"
            f"**Status:** {session.status}  \n**Files:** {len(session.touched)}  \n**Topics:** {topics}  \n"
            f"**Discoveries:** {session.discoveries}\n\n"
        )
        pieces.append(Piece(text, float(-number)))
    return page(pieces, SESSIONS_BYTES, "sessions", "ask for fewer with limit")


def discoveries_page(discoveries: Sequence[Discovery]) -> str:
    """`context://discoveries`."""
    pieces = [Piece(f"# Discoveries ({len(discoveries)})\n\n")]
    for number, discovery in enumerate(discoveries):
        solution = f"**Solution:** {inline(discovery.solution)}  \n" if discovery.solution else ""
        where = f"**Module:** {inline_name(discovery.module)}  \n" if discovery.module else ""
        recorded = f"**Recorded:** {iso(discovery.updated)}, {counted(discovery.times, 'time')}"
        text = f"## {discovery.type}: {inline(discovery.content)}\n{where}{solution}{recorded}\n\n"
        pieces.append(Piece(text, float(-number)))
    return page(pieces, DISCOVERIES_BYTES, "discoveries", "context_search finds them")


def duration(seconds: float) -> str:
    """A duration in its two largest units."""
    remaining = max(int(seconds), 0)
    parts: list[str] = []
    for name, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        count, remaining = divmod(remaining, size)
        if count:
            parts.append(f"{count} {name}{'s' if count > 1 else ''}")
    return " ".join(parts[:2]) or "0 seconds"

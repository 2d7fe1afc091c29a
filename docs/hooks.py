"""What MkDocs is told that stands elsewhere: the order of the pages, the Markdown beside each page for agents, and the icon."""

import shutil
from pathlib import Path
from typing import Any

from pages import pages, pages_in_order, title_of

DOCS = Path(__file__).parent
ICON = DOCS.parent / "src" / "cellwright" / "icon.svg"


def on_config(config: Any) -> Any:  # noqa: ANN401 - MkDocs' own type, which is not typed
    config.nav = [
        {section: [{_title(page): page.relative_to(DOCS).as_posix()} for page in listed]}
        for section, listed in pages_in_order(DOCS, pages(DOCS)).items()
    ]
    return config


def on_post_build(config: Any) -> None:  # noqa: ANN401
    for page in pages(DOCS):
        shutil.copyfile(page, Path(config.site_dir) / page.relative_to(DOCS))
    shutil.copyfile(ICON, Path(config.site_dir) / ICON.name)


def _title(page: Path) -> str:
    return title_of(page.read_text(encoding="utf-8")).partition(": ")[0]

"""Hook of mkdocs.yml: links that lead out of docs/ become links to the repository, and must name a file there."""

import logging
import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The place of a link in Markdown, and of a picture in HTML.
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^\s*```")

log = logging.getLogger("mkdocs.hooks.docs_site")


def outside(page: str, target: str, repository: str) -> str:
    """Returns the target, or its address in the repository if it is outside docs/."""
    if "://" in target or target.startswith(("#", "mailto:")):
        return target
    path, _, anchor = target.partition("#")
    place = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), path))
    if place == "docs" or place.startswith("docs/"):
        return target
    file = ROOT / place
    if not file.exists():
        log.warning("%s links to %s, which does not exist", page, target)
    kind = "tree" if file.is_dir() else "blob"
    return f"{repository.rstrip('/')}/{kind}/main/{place}" + (f"#{anchor}" if anchor else "")


def on_page_markdown(markdown, page, config, **_):
    in_code = False
    lines = []
    for line in markdown.split("\n"):
        if FENCE.match(line):
            in_code = not in_code
        elif not in_code:
            line = LINK.sub(lambda link: link[1] + outside(page.file.src_uri, link[2], config.repo_url) + link[3], line)
        lines.append(line)
    return "\n".join(lines)

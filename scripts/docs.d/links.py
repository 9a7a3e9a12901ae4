"""Checks the links of the built book, and makes links to files outside of docs/ lead to the repository.

Usage: links.py ROOT BOOK REPOSITORY. Exits with 1 after printing each link that leads nowhere.
"""

import html
import posixpath
import re
import sys
from pathlib import Path
from urllib.parse import unquote

root, book, repository = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
LINK = re.compile(r'(\s(?:href|src)=")([^"]*)(")')
ANCHOR = re.compile(r'\s(?:id|name)="([^"]*)"')
anchors: dict[Path, set[str]] = {}
broken: list[str] = []


def anchors_of(path: Path) -> set[str]:
    if path not in anchors:
        anchors[path] = {html.unescape(name) for name in ANCHOR.findall(path.read_text("utf-8"))}
    return anchors[path]


def source(path: str) -> str | None:
    """The file of the repository that a path of the book, which is not in the book, stands for."""
    path = posixpath.normpath(posixpath.join("docs", path))
    names = [path, path.removesuffix(".html") + ".md"]
    return next((name for name in names if not name.startswith("..") and (root / name).is_file()), None)


def checked(page: str, link: str) -> str:
    """The link as it must be in a page of the book."""
    if re.match(r"[a-z]+:", link) or link == "#":
        return link
    path, _, anchor = html.unescape(link).partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(path))) if path else page
    if not target.startswith("..") and (book / target).is_file():
        is_page = target.endswith(".html") and anchor
        if is_page and unquote(anchor) not in anchors_of(book / target):
            broken.append(f"{page}: {link}: no such heading")
        return link
    outside = source(target)
    if outside is None:
        broken.append(f"{page}: {link}: no such file")
        return link
    return f"{repository}/blob/main/{outside}" + (f"#{anchor}" if anchor else "")


for path in sorted(book.rglob("*.html")):
    page, text = path.relative_to(book).as_posix(), path.read_text("utf-8")
    # These repeat the sidebar and all pages; what they link to is checked where it is from.
    if page not in ("404.html", "print.html", "toc.html"):
        path.write_text(LINK.sub(lambda m: m[1] + checked(page, m[2]) + m[3], text), "utf-8")
for line in broken:
    print(line, file=sys.stderr)
sys.exit(1 if broken else 0)

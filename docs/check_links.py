"""Checks the links of the built site: `python -m docs.check_links [docs/_build/html]`.

Each link to a file of the site must lead to one, and each anchor to an element that has it. Links
to other sites are counted, not followed. The status is 1 if a link is broken.
"""

import sys
from collections import defaultdict
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

BUILT = Path(__file__).parent / "_build" / "html"


class Links(HTMLParser):
    """The links of a page, and the names that links may lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors = {"", "top"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name in ("href", "src"):
                self.links.append(value)
            elif name in ("id", "name"):
                self.anchors.add(value)


@cache
def read(page: Path) -> Links:
    """The links and anchors of a page."""
    found = Links()
    found.feed(page.read_text(encoding="utf-8", errors="replace"))
    return found


def leads_to(target: Path, anchor: str) -> bool:
    """Whether a file of the site is there, and has the anchor if it is a page."""
    target = target / "index.html" if target.is_dir() else target
    return target.is_file() and (target.suffix != ".html" or anchor in read(target).anchors)


def broken(site: Path) -> tuple[dict[str, set[str]], int, int]:
    """The broken links with the pages that have them, the number of links, and of other sites'."""
    found: dict[str, set[str]] = defaultdict(set)
    inside = outside = 0
    for page in sorted(site.rglob("*.html")):
        for link in read(page).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                outside += not link.startswith("data:")
                continue
            inside += 1
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not leads_to(target, unquote(parts.fragment)):
                found[link].add(str(page.relative_to(site)))
    return found, inside, outside


def main() -> int:
    """Print the broken links, and how many there are of each kind."""
    site = Path(sys.argv[1]) if sys.argv[1:] else BUILT
    found, inside, outside = broken(site.resolve())
    for link, pages in found.items():
        print(f"{link} is broken in {', '.join(sorted(pages)[:3])}")
    print(f"{inside} links inside, {len(found)} broken; {outside} to other sites, not followed")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

"""Check that links within a built site lead somewhere: to files, and to anchors in them.

python docs/check_links.py docs/_build/html
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse


class Page(HTMLParser):
    """The links of a page, and what can be linked to in it."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        """Take a tag's links and anchors."""
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def broken_links(root):
    """Yield (page, link) of every link within the site that leads nowhere."""
    # of Sphinx's own making: templates, and listings of sources whose links back may name an alias
    paths = [
        path.resolve()
        for path in root.rglob("*.html")
        if not {"_static", "_modules"} & set(path.parts)
    ]
    pages = {path: Page(path) for path in paths}
    for path, page in pages.items():
        for link in page.links:
            if urlparse(link).scheme or link.startswith("//"):
                continue
            target, anchor = urldefrag(link)
            place = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            has_anchor = not anchor or place not in pages or unquote(anchor) in pages[place].anchors
            if not (place.exists() and has_anchor):
                yield path.relative_to(root.resolve()), link


def main():
    """Report broken links; the exit code tells whether there are any."""
    root = Path(sys.argv[1])
    broken = list(broken_links(root))
    for page, link in broken:
        print(f"{page}: broken link {link}")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()

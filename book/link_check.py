"""The check of the finished site: every link, every file and every anchor in a page."""

import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urldefrag

NAMED = re.compile(r'\b(?:id|name)="([^"]+)"')
ADDRESS = re.compile(r'\b(href|src|data-src|action)="([^"]*)"')
IN_SCRIPTS = re.compile(r"<script\b(?![^>]*\bsrc=)[^>]*>.*?</script>", re.DOTALL)
RECORDED = re.compile(r'"src":"([^"]+)"')
ELSEWHERE = re.compile(r"(?:https?:|mailto:|data:|javascript:)")
LOADED = re.compile(
    r'<(?:script|img|source|iframe)\b[^>]*\bsrc="(https?:[^"]+)"'
    r'|<link\b[^>]*\bhref="(https?:[^"]+)"'
)
FOR_NOTHING = ("", "#")  # the addresses of buttons


class Site:
    """All pages of a folder, with their texts and the anchors in them."""

    def __init__(self, folder: Path):
        self.folder = folder.resolve()
        pages = sorted(self.folder.rglob("*.html"))
        self.texts = {page: page.read_text(encoding="utf-8") for page in pages}
        self.places = {page: set(NAMED.findall(text)) for page, text in self.texts.items()}

    def broken(self) -> list[str]:
        """Return "parts/02c.html: labs/nothing.html" for each address that leads nowhere."""
        found = []
        for page, text in self.texts.items():
            for address in addresses_in(text):
                if not self.is_there(page, address):
                    found.append(f"{page.relative_to(self.folder)}: {address}")
        return found

    def is_there(self, page: Path, address: str) -> bool:
        path, place = urldefrag(address)
        path = unquote(path.partition("?")[0])
        target = (page.parent / path).resolve() if path else page
        if not target.is_file():
            return False
        return not place or target.suffix != ".html" or unquote(place) in self.places[target]

    def find_external_resources(self) -> list[str]:
        """Return "page: address" for all that a page would load from the network by itself."""
        return [f"{page.relative_to(self.folder)}: {address}"
                for page, text in self.texts.items()
                for found in LOADED.findall(text) for address in found if address]  # fmt: skip


def addresses_in(text: str) -> set[str]:
    """Return the addresses within the site on a page, recorded widgets' pictures included."""
    found = {unescape(address) for _, address in ADDRESS.findall(IN_SCRIPTS.sub("", text))}
    recorded = {source for part in IN_SCRIPTS.findall(text) for source in RECORDED.findall(part)}
    return {one for one in found | recorded if one not in FOR_NOTHING and not ELSEWHERE.match(one)}

"""The pictures of pages: each is a file, stored once, with its size and its alt text."""

import hashlib
from base64 import b64decode
from html import escape
from pathlib import Path
from struct import unpack

from pedagogy_lib.widgets.view_files import encode_webp

FOLDER = "pictures"
LEAST_WIDTH = 640  # pixels: its texts would be too small below this, so it scrolls
DENSITY = 2  # pixels of a picture per pixel of the page


class Pictures:
    """All pictures of the site: {name of the file: bytes of a PNG}."""

    def __init__(self):
        self.files, self.names = {}, {}

    def address(self, png: bytes, stem: str) -> str:
        """Return the address of a picture in the site; a picture is stored only once."""
        digest = hashlib.sha256(png).hexdigest()
        if digest not in self.names:
            number = sum(name.startswith(f"{stem}-") for name in self.files) + 1
            self.names[digest] = f"{stem}-{number}.webp"
            self.files[self.names[digest]] = png
        return f"{FOLDER}/{self.names[digest]}"

    def html(self, png: bytes, alt: str, stem: str, is_first=False, up="../") -> str:
        """Return a picture that shrinks with the page as long as its texts stay legible.

        is_first  whether it is the page's first, which loads at once and not upon scrolling
        up        the path from the page to the site's root
        """
        address = self.address(png, stem)
        width, height = (side // DENSITY for side in size_of(png))
        lazy = "" if is_first else ' loading="lazy"'
        style = f"min-width:{min(width, LEAST_WIDTH)}px"
        image = (
            f'<img alt="{escape(alt)}" src="{up}{address}" width="{width}" height="{height}" '
            f'style="{style}"{lazy}>'
        )
        # It may scroll, so a keyboard has to reach it.
        return f'<div class="course-picture" tabindex="0">{image}</div>'

    def write(self, site: Path):
        folder = site / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        for name, png in self.files.items():
            (folder / name).write_bytes(encode_webp(png))


def size_of(png: bytes) -> tuple[int, int]:
    """Return the width and height of a PNG file, in pixels."""
    return unpack(">II", png[16:24])


def decode_data_url(address: str) -> bytes:
    return b64decode(address.partition("base64,")[2])

"""Pictures as HTML, with a text for readers who cannot see them, and colours for a dark page."""

import base64
import re
from html import escape
from pathlib import Path

LEAST_WIDTH = 640  # pixels; texts in a narrower picture would be too small, so it scrolls

# JupyterLab itself takes the style from this folder (see `lab_extension`), because the prose has
# pictures, too. Any other page gets it with the first picture that is drawn.
STYLE_FOLDER = Path(__file__).with_name("lab_style")
RULES = re.sub(r"/\*.*?\*/", "", (STYLE_FOLDER / "custom.css").read_text(), flags=re.DOTALL)
STYLE = re.sub(r"\s*([{},:])\s*", r"\1", " ".join(RULES.split()))


def html_of(png: bytes, alt: str, width: int) -> str:
    """Return a picture that shrinks with the page, as far as its texts stay legible.

    width  the width in pixels, as drawn
    """
    picture = tag_of(png, alt, width)  # it scrolls, so a keyboard has to reach it
    return f'<style>{STYLE}</style><div class="course-picture" tabindex="0">{picture}</div>'


def tag_of(png: bytes, alt: str, width: int) -> str:
    data = source_of(png)
    style = f"width:100%;max-width:{width}px;min-width:{min(width, LEAST_WIDTH)}px"
    return f'<img alt="{escape(alt)}" style="{style}" src="{data}">'


def source_of(png: bytes) -> str:
    """Return the bytes of a PNG file as a data URL."""
    return "data:image/png;base64," + base64.b64encode(png).decode()

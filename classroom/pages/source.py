"""A student's source as HTML, line by line, with coloured syntax."""

from functools import lru_cache
from html import escape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from .escaping import plain

# A lexer's time can grow with the square of a strange text's length.
MOST_COLOURED = 8_000  # characters


@lru_cache(maxsize=4096)  # the same answer is on several pages
def lines_of(source: str) -> tuple[str, ...]:
    """Return each line as safe HTML."""
    text = plain(source.rstrip())
    if not text:
        return ()
    if len(text) > MOST_COLOURED:
        return tuple(escape(line) for line in text.split("\n"))
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    html = highlight(text, lexer, HtmlFormatter(nowrap=True, classprefix="py-"))
    return tuple(html.removesuffix("\n").split("\n"))

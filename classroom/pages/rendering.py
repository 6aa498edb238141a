"""The rendering of templates to HTML, in which text from outside is made harmless and escaped."""

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pedagogy_lib.basics.units import format_count

from .escaping import one_line, plain

TEMPLATES = Path(__file__).with_name("templates")
SCRIPT = (TEMPLATES / "sort.js").read_text()
STYLE = (TEMPLATES / "style.css").read_text()
# A shape and words for each state, because some readers cannot tell colours apart.
SHAPES = {
    "right": "✓", "wrong": "✗", "missing": "–", "unfinished": "…", "look": "?", "broken": "!",
    "waiting": "○",
}  # fmt: skip
WORDS = {
    "right": "right", "wrong": "wrong", "missing": "missing", "unfinished": "unfinished",
    "look": "for you to look at", "broken": "the check broke",
    "waiting": "not judged yet",
}  # fmt: skip
PARTLY = ("◔", "◑", "◕")  # a wrong answer that is right in some cases


def render_template(template: str, **values) -> str:
    return environment().get_template(template).render(**values)


@cache
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # This covers what a template forgets to make harmless.
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    made.filters |= {
        "one_line": one_line,
        "counted": format_count,
        "number": number,
        "share": share,
    }
    made.globals |= {
        "STYLE": Markup(STYLE), "SCRIPT": Markup(SCRIPT), "SCRIPT_HASH": hash_of(SCRIPT),
        "WORDS": WORDS, "mark": mark, "kind": kind, "topic": topic,
    }  # fmt: skip
    return made


def hash_of(script: str) -> str:
    """Return the hash by which a page's policy lets this script run, and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def number(value: float) -> str:
    """Format a number as `7.5`, `7` or `7.33`."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def share(part: float, whole: float = 1.0) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "–"


def topic(exercise) -> str:
    """Return an exercise's topic, which ends its heading `Exercise 4.16 · The outer step`."""
    words = re.sub(r"^Exercise \d+\.\d+\W*", "", exercise["title"]).strip()
    return words or exercise["name"]


def mark(answer) -> str:
    """Return a state's shape; a wrong answer's shape shows how much of it holds."""
    part = quarter(answer)
    return PARTLY[part] if part is not None else SHAPES[answer["state"]]


def kind(answer) -> str:
    """Return an answer's class in the style sheet."""
    part = quarter(answer)
    return answer["state"] if part is None else f"part{part}"


def quarter(answer) -> int | None:
    """Return 0, 1 or 2 for a wrong answer with a small, middle or large part of the score."""
    if answer["state"] != "wrong" or not answer["score"]:
        return None
    return min(2, int(answer["score"] * len(PARTLY)))

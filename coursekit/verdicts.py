"""The verdict of a check, as text and as HTML."""

import os
import re
import textwrap
from html import escape
from itertools import groupby
from pathlib import Path

from pedagogy_lib.basics.folders import COURSE
from pedagogy_lib.basics.text_wrap import wrap
from pedagogy_lib.basics.units import format_count

NOT_YET = "not yet"  # the last line of a failed check
# Dark enough for white text on them, and light enough for a line on a dark page.
BADGES = {
    True: ("✓ passed", "#00694B"),
    False: (f"✗ {NOT_YET}", "#B00020"),
    None: ("still to write", "#5A5A5A"),
}
BADGE = "color:#FFFFFF;border-radius:9px;padding:1px 9px;white-space:nowrap"
PATH = re.compile(r"\./([\w./-]{1,200}\.py):(\d{1,9})")
CODE_IN_TEXT = re.compile(r"`([^`\n]+)`")
CODE = "white-space:pre-wrap;font-family:var(--jp-code-font-family,monospace);font-size:13px"
MOST_PRINTED, MOST_PRINTED_FOLDED = 5, 200  # lines
FOLDED = "margin:6px 0 2px 0"


class Verdict:
    """The result of a check, which shows itself as one line for each case.

    passed    True, False, or None if there is no answer yet
    wrong     the `Wrong` that ended the check, or None
    hints     the exercise's hints: folded away, in HTML
    folds     whether the diagnosis is folded away, too, because the learner has to find it
    printed   the output of the answer when it was tried: an `OutputCapture`, or None
    pictures  the pictures of the answer when it was tried: in HTML
    """

    def __init__(
        self, title, passed, lines, wrong=None, hints=(), folds=False, printed=None, pictures=()
    ):
        self.title, self.passed, self.lines, self.wrong = title, passed, lines, wrong
        self.hints, self.folds, self.printed, self.pictures = hints, folds, printed, pictures

    def __repr__(self):
        lines = [self.title, *(f"  ✓ {line}" for line in self.lines)]
        if self.wrong is not None:
            lines += wrap(f"{self.wrong.case}: {self.wrong.what}", "  ✗ ")
            lines += wrap(self.wrong.why, "    → ")
        lines += self.format_output(MOST_PRINTED)
        return "\n".join([*lines, *([] if self.passed is None else [self.word()])])

    def format_output(self, most) -> list[str]:
        """Return the answer's output, of which at most `most` lines are shown, with a heading."""
        if self.printed is None or not self.printed.kept:
            return []
        lines = [f"    {line}" for line in self.printed.kept.splitlines()[:most]]
        more = self.printed.lines - len(lines)
        last = [f"    … and {format_count(more, 'line')} more"] * (more > 0)
        return ["  what it printed when it was tried:", *lines, *last]

    def word(self) -> str:
        """Return the words that end the text."""
        return "passed" if self.passed else NOT_YET

    def _repr_html_(self):
        badge, color = BADGES[self.passed]
        style = f"background:{color};{BADGE}"
        head = f'<b>{render_text(self.title)}</b> <span style="{style}">{badge}</span>'
        right = "".join(f"<div>✓ {render_text(line)}</div>" for line in self.lines)
        first, *printed = self.format_output(MOST_PRINTED_FOLDED) or [""]
        printed = f'<div style="{CODE}">{escape(textwrap.dedent(chr(10).join(printed)))}</div>'
        told = self.render_wrong() + (
            render_details(first.strip(" :").capitalize(), printed) if first else ""
        )
        told += "" if self.passed else render_hints(self.hints)
        seen = "".join(picture.html() for picture in self.pictures)
        frame = f"border-left:4px solid {color};padding:1px 0 1px 12px"
        return f'<div style="{frame}"><div>{head}</div>{right}{told}{seen}</div>'

    def render_wrong(self) -> str:
        """Return the error and its diagnosis as HTML."""
        if self.wrong is None:
            return ""
        case, what, why = (render_text(text) for text in
                           (self.wrong.case, self.wrong.what, self.wrong.why))  # fmt: skip
        first, *more = what.split("\n")
        told = f"<div>✗ <b>{case}</b>: {first}</div>{''.join(paragraphs(more))}"
        if not why:
            return told
        why = f'<div style="white-space:pre-wrap;margin-left:1.4em">{why}</div>'
        return told + (render_details("What this looks like", why) if self.folds else why)


def paragraphs(lines):
    """Yield indented lines, which show places in programs, as code, and others as text."""
    for is_code, group in groupby(lines, lambda line: line.startswith(" ")):
        style = CODE if is_code else "margin-left:1.4em"
        yield f'<div style="{style}">{chr(10).join(group)}</div>'


def render_details(summary, content) -> str:
    """Return HTML that shows its content at a click, without a kernel."""
    return f'<details style="{FOLDED}"><summary>{escape(summary)}</summary>{content}</details>'


def render_hints(hints) -> str:
    """Return the hints, each inside the one before it, so that they open one after the other."""
    inner = ""
    for number in range(len(hints), 0, -1):
        text = f'<div style="white-space:pre-wrap">{render_text(hints[number - 1])}</div>'
        inner = render_details(f"Hint {number} of {len(hints)}", text + inner)
    return inner


def render_text(text) -> str:
    """Return text as HTML, with code marked up and links to lines of the course's files."""
    return PATH.sub(link, CODE_IN_TEXT.sub(r"<code>\1</code>", escape(text)))


def link(found: re.Match) -> str:
    path, line = found.groups()
    if not (COURSE / path).exists():
        return found[0]
    address = os.path.relpath(COURSE / path, Path.cwd())
    return f'<a href="{address}#line={int(line) - 1}">{found[0]}</a>'

"""The page of `progress()`: the next exercise, a bar for each chapter, a stamp for each part."""

from html import escape
from urllib.parse import quote

from pedagogy_lib.basics.units import format_count
from pedagogy_lib.pictures.style import BLUE, GREEN, PURPLE, VERMILION

from ..verdicts import render_details
from .course_progress import HOW_COUNTED, CourseProgress, address_of, format_day, title_of

# Text takes the page's own colour. These inks are legible as lines on light and on dark pages.
INKS = (BLUE, VERMILION, GREEN, PURPLE)  # of the chapters' stamps, in turn
RADII = (10, 30, 3)  # pixels: the shape of a stamp depends on its chapter
TILTS = (-2, 1.5, -1, 2.5, 0.5)  # degrees: as if stamped by hand
TINT, TRACK = "1F", "#80808038"  # opacity of an ink under its stamp; colour under a bar
BAR = "height:8px;border-radius:4px"
STAMPS = "list-style:none;margin:6px 0;padding:0 4px;display:flex;flex-wrap:wrap;gap:12px"
STAMP = (
    "box-sizing:border-box;width:140px;min-height:92px;margin:0;padding:6px 8px;"
    "display:flex;flex-direction:column;justify-content:center;text-align:center"
)
LEFT, RIGHT = "text-align:left", "text-align:right"
NAME = "font-size:22px;font-weight:700;letter-spacing:1px;line-height:1.1"
SMALL = "font-size:12px;line-height:1.25"


class Passport(CourseProgress):
    """The progress of the course that shows itself as a page, too."""

    def _repr_html_(self):
        return page_of(self)


def page_of(course) -> str:
    """Return a `CourseProgress` as HTML."""
    told = [head_of(course), chapters_of(course), stamps_of(course)]
    return render_element(
        "max-width:760px", "".join([*told, render_details("How this is counted", HOW_COUNTED)])
    )


def render_element(style: str, content: str, tag="div", more="") -> str:
    return f'<{tag} style="{style}"{more}>{content}</{tag}>'


def head_of(course) -> str:
    words = course.headline()
    head = render_element("font-size:20px;font-weight:600", escape(words[:1].upper() + words[1:]))
    of_all = bar(1 - course.share_left(course.parts), GREEN) if course.exercises else ""
    return head + render_element("margin:8px 0", of_all) + next_of(course)


def next_of(course) -> str:
    if not course.left:
        return ""
    number = course.left[0]
    part = course.exercises[number]
    link = f'<a href="{quote(address_of(part))}">{escape(title_of(number, part))}</a>'
    return f"<div><b>Next:</b> {link}, in {escape(str(part))}</div>"


def chapters_of(course) -> str:
    heads = [("chapter", LEFT), ("passed", LEFT), ("time left", RIGHT)]
    top = "".join(render_element(side, head, "th", ' scope="col"') for head, side in heads)
    rows = "".join(row_of(course, chapter) for chapter in course.chapters)
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>"
    return render_element("overflow-x:auto;margin:10px 0", table, more=' tabindex="0"')


def row_of(course, chapter) -> str:
    name, passed, left, _ = course.row_of(chapter)
    has_exercises = any(part.exercises for part in chapter)
    shown = bar(1 - course.share_left(chapter), ink_of(chapter[0])) if has_exercises else ""
    beside = render_element(
        "display:flex;align-items:center;gap:8px", f"{shown}<span>{passed}</span>"
    )
    cells = [render_element(f"{LEFT};font-weight:400", escape(name), "th", ' scope="row"'),
             render_element(LEFT, beside, "td"), render_element(RIGHT, left, "td")]  # fmt: skip
    return f"<tr>{''.join(cells)}</tr>"


def bar(full: float, ink: str) -> str:
    """Return a bar that screen readers skip, because the numbers are next to it."""
    done = render_element(f"{BAR};width:{100 * full:.1f}%;background:{ink}", "")
    return render_element(
        f"{BAR};min-width:140px;background:{TRACK}", done, more=' aria-hidden="true"'
    )


def stamps_of(course) -> str:
    stamps = course.stamps()
    there_are = sum(bool(part.exercises) for part in course.parts)
    number = f"{len(stamps)} of {format_count(there_are, 'stamp')}"
    each = "".join(stamp_of(stamp, place) for place, stamp in enumerate(stamps))
    head = render_element("margin-top:14px", f"<b>Passport</b> · {number}")
    return head + (render_element(STAMPS, each, "ul") if stamps else "")


def stamp_of(stamp, place: int) -> str:
    ink, tilt = ink_of(stamp.part), TILTS[place % len(TILTS)]
    radius = RADII[int(stamp.part.chapter) % len(RADII)]
    frame = f"border:4px double {ink};border-radius:{radius}px;transform:rotate({tilt}deg)"
    lines = [(NAME, stamp.part.name), (f"{SMALL};font-weight:600", stamp.part.title),
             (SMALL, format_day(stamp.day))]  # fmt: skip
    told = [render_element(style, escape(line), "span") for style, line in lines if line]
    return render_element(f"{STAMP};{frame};background:{ink}{TINT}", " ".join(told), "li")


def ink_of(part) -> str:
    return INKS[int(part.chapter) % len(INKS)]

"""The slides of a part: one HTML file that needs nothing else, at 1280 × 720."""

import re
from base64 import b64decode
from html import escape
from pathlib import Path
from struct import unpack

from coursekit.chapters import Part, parts
from pedagogy_lib.basics.errors import WrongInput

from .deck import Slide, record_of, slides_of
from .maths import render_markdown
from .pages import page

HERE = Path(__file__).parent
TALL = 0.62  # pictures with more height per width have their words next to them
LONG, LONGER = 160, 240  # words on a slide; above this, letters are smaller


def write_decks(names, folder: Path) -> list[Path]:
    """Write a deck for each of these parts ("02c") and all parts of these chapters ("02").

    Raises  WrongInput if there is no such part
    """
    for name in names:
        if not any(name in (part.name, part.chapter) for part in parts().values()):
            raise WrongInput(f'there is no part {name!r}: name chapters or parts, as in "02 06d"')
    chosen = [p for p in parts().values() if not names or {p.name, p.chapter} & set(names)]
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for part in chosen:
        written.append(folder / f"{part.stem}.html")
        written[-1].write_text(deck(part), encoding="utf-8")
    return written


def deck(part: Part) -> str:
    slides = slides_of(record_of(part.name))
    minutes = split_minutes(part, slides)
    body = "\n".join(
        render_slide(slide, part, number, len(slides), minutes[number])
        for number, slide in enumerate(slides)
    )
    look, script = ((HERE / f"slides.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    return page(f"{part.name} · {part.title}", body, look, script)


def split_minutes(part: Part, slides: list[Slide]) -> list[float]:
    """Split a part's minutes: to read, by the words of each slide; to write, by exercise."""
    written = [slide.kind == "exercise" for slide in slides]
    words = [20 + len(" ".join(slide.notes + slide.texts).split()) for slide in slides]
    spoken = sum(count for count, is_written in zip(words, written) if not is_written)
    return [part.writing / max(1, sum(written)) if is_written else part.reading * count / spoken
            for count, is_written in zip(words, written)]  # fmt: skip


def render_slide(slide: Slide, part: Part, number: int, count: int, minutes: float) -> str:
    heading = "h1" if slide.kind == "title" else "h2"
    kind = {"formula": "formula-alone"}.get(slide.kind, slide.kind)
    notes = "\n".join(render_markdown(text) for text in slide.notes if not text.startswith("!"))
    return (
        f'<section class="slide {kind}{size_of(slide)}" id="slide{number + 1}">'
        f"<{heading}>{inline(slide.title)}</{heading}>{render_body(slide)}"
        f'<div class="foot"><span>{part.name} · {escape(part.title)}</span>'
        f"<span>{number + 1} / {count}</span></div>"
        f"<aside><p><b>About {format_minutes(minutes)}.</b></p>{notes}</aside></section>"
    )


def render_body(slide: Slide) -> str:
    text = "".join(render_markdown(paragraph) for paragraph in slide.texts)
    text = f'<div class="text">{text}</div>' if text else ""
    formula = (
        f'<div class="equation">{render_markdown(slide.formula)}</div>' if slide.formula else ""
    )
    says = f'<div class="says">{render_markdown(slide.says)}</div>' if slide.says else ""
    if slide.kind == "predict":
        return text + '<div class="room">Write your number down before it is measured.</div>'
    if not slide.picture:
        return text + formula + says
    alt, address = slide.picture
    picture = f'<div class="figure"><img alt="{alt}" src="{address}"></div>'
    if is_tall(address):
        beside = f'<div class="beside">{formula}{says}</div>' if formula + says else ""
        return f'<div class="columns">{picture}{beside}</div>'
    return picture + formula + says


def is_tall(address: str) -> bool:
    width, height = unpack(">II", b64decode(address.split(",", 1)[1][:44])[16:24])
    return height / width > TALL


def size_of(slide: Slide) -> str:
    """Return a class of smaller letters for many words; tables, lists, exercises count more."""
    text = " ".join([*slide.texts, slide.says])
    weight = len(text.split()) + 6 * text.count("\n|") + 5 * len(re.findall(r"\n\n|\n\* ", text))
    weight += 12 * len(slide.texts) * (slide.kind == "exercise")
    return " smaller" if weight > LONGER else " small" if weight > LONG else ""


def inline(text: str) -> str:
    return re.sub(r"^<p>|</p>\s*$", "", render_markdown(text))


def format_minutes(minutes: float) -> str:
    if minutes < 0.75:
        return "half a minute"
    return f"{round(minutes)} minute" + "s" * (round(minutes) > 1)

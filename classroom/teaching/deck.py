"""A part's slides, taken from its executed notebook: only data, without HTML around them."""

import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from nbformat import v4

from coursekit.building.build import ROOT

PICTURE = re.compile(r'<img alt="([^"]*)"[^>]*src="(data:image/png;base64,[^"]+)"')
ASKED = re.compile(r"^Predict: (.+) \(([^()]*(?:\([^()]*\))?[^()]*)\)$", re.MULTILINE)
SENTENCE = re.compile(r"(?<=[.?!:)])\s+(?=[A-Z$*`(])")
LEFT_OUT = ("## Put to the test", "**Sources", "**To read on")
FOUND = " · what was found"
MOST_WORDS = 44  # next to a picture
MOST_WORDS_ALONE = 110


@dataclass
class Slide:
    """A slide of the kind "title", "predict", "picture", "formula", "exercise" or "end".

    texts  Markdown, paragraph by paragraph; `says` is below a picture
    notes  the notebook's text there, for the speaker
    """

    kind: str
    title: str
    texts: list[str] = field(default_factory=list)
    picture: tuple[str, str] | None = None  # alt text, address
    formula: str = ""
    says: str = ""
    notes: list[str] = field(default_factory=list)


def record_of(name: str) -> Path:
    """Return the path of a part's executed notebook, such as "02c"."""
    (found,) = (ROOT / "solutions").glob(f"{name}_*.ipynb")
    return found


def slides_of(path: Path) -> list[Slide]:
    return Walk(v4.reads(path.read_text(encoding="utf-8")).cells).slides  # without validation


class Walk:
    """A walk through the cells, in which each picture and each question becomes a slide.

    heading  of the section that the walk is in
    pending  paragraphs that are on no slide yet
    """

    def __init__(self, cells):
        self.cells, self.heading, self.pending = cells, "", []
        self.slides = [title_slide(cells)]
        self.is_over = False
        for number, cell in enumerate(cells[2:], 2):
            if cell.cell_type == "markdown":
                self.read(cell.source)
            elif not self.is_over:
                self.look(number, cell)

    def read(self, source):
        if source.startswith("## What you have learnt"):
            self.slides.append(end_slide(source))
            self.is_over = True
        elif source.startswith(LEFT_OUT):
            self.is_over = self.is_over or source.startswith("## Put")
        elif not self.is_over:
            self.take(source)

    def take(self, source):
        paragraphs = source.split("\n\n")
        if heading := re.match(r"## (?:\d+ · )?(.+)", paragraphs[0]):
            self.heading, paragraphs, self.pending = heading[1], paragraphs[1:], []
        for place, paragraph in enumerate(paragraphs):
            if paragraph.startswith("### Exercise"):
                self.exercise(paragraph[4:], paragraphs[place + 1 :])
                break
            if paragraph.startswith("### "):
                self.heading, self.pending = paragraph[4:], []
                continue
            if self.is_under_a_picture():
                self.explain(self.slides[-1], paragraph)
            self.pending.append(paragraph)
            if paragraph.startswith("$$"):
                self.formula(paragraph, paragraphs[place + 1 :])

    def is_under_a_picture(self) -> bool:
        last = self.slides[-1]
        return last.kind == "picture" and last.title.startswith(self.heading)

    def explain(self, slide, paragraph):
        """Put the first sentences after a picture on its slide, and the whole text in the notes."""
        if not slide.says and is_prose(paragraph):
            slide.says = re.sub(
                r"(^|[.!?)] )[^.!?]+:$", r"\1", first_sentences(paragraph, MOST_WORDS)
            )
        slide.notes.append(paragraph)

    def formula(self, paragraph, following):
        """Put a formula on its own line below the picture before it, or on its own slide."""
        if self.is_under_a_picture() and not self.slides[-1].formula:
            self.slides[-1].formula = paragraph
            return
        lead = [text for text in self.pending[:-1] if is_prose(text)][-1:]
        says = first_sentences(following[0], MOST_WORDS) if following else ""
        self.add(Slide("formula", self.heading, lead, formula=paragraph, says=says))

    def exercise(self, heading, paragraphs):
        told = [text for text in paragraphs if not text.startswith("!")]
        texts, words = [], 0
        for text in told:
            words += len(text.split())
            if words > MOST_WORDS_ALONE:
                break
            texts.append(text)
        if len(texts) < len(told):
            texts.append("*The notebook has the rest of the text.*")
        texts = texts or [first_sentences(told[0], MOST_WORDS_ALONE)] if told else []
        self.add(Slide("exercise", heading.rstrip("."), texts, notes=told))

    def look(self, number, cell):
        printed = "".join(o.text for o in cell.outputs if o.output_type == "stream")
        for question, unit in ASKED.findall(printed):
            lead = [text for text in self.pending if is_prose(text)][-1:]
            lead = [last_sentences(text, MOST_WORDS) for text in lead]
            self.add(Slide("predict", self.heading, [*lead, f"**{question}** ({unit})"]))
        is_answer = ".compare(" in cell.source
        for output in cell.outputs:
            for alt, address in pictures_of(output):
                title = f"{self.heading}{FOUND}" if is_answer else self.heading
                self.add(Slide("picture", title, picture=(alt, address)))

    def add(self, slide):
        slide.notes = [*self.pending, *slide.notes]
        self.pending = []
        self.slides.append(slide)


def pictures_of(output) -> list[tuple[str, str]]:
    """Return the alt text, as HTML, and the address of each picture that an output shows."""
    data = output.get("data", {})
    if "image/png" in data:
        png = "".join(data["image/png"]).replace("\n", "")
        return [(escape("".join(data["text/plain"])), f"data:image/png;base64,{png}")]
    return PICTURE.findall("".join(data.get("text/html", "")))


def title_slide(cells) -> Slide:
    heading, *question = cells[0].source.split("\n\n")
    cover = cells[1].source
    after = re.search(r"\*\*After this part you can\*\*.+?(?=\n\n)", cover, re.DOTALL)
    takes = re.search(r"\*\*It takes\*\*.+?\.(?=\s)", cover, re.DOTALL)
    asked = first_sentences(question[0], MOST_WORDS_ALONE)
    bold = re.match(r"\*\*.+?\*\*", asked, re.DOTALL)
    texts = [bold[0] if bold else asked, after[0], takes[0]]
    return Slide("title", heading.strip("# "), texts, notes=question)


def end_slide(source) -> Slide:
    points = re.findall(r"^\* .+?(?=\n\* |\n\n|\Z)", source, re.MULTILINE | re.DOTALL)
    return Slide("end", "What you have learnt", ["\n".join(points)], notes=[])


def is_prose(paragraph) -> bool:
    return not paragraph.startswith(("|", "$$", "!", "* ", "1. ", "```", "#", "<"))


def sentences(paragraph) -> list[str]:
    """Split text where a sentence ends, and not inside bold words, brackets or formulas."""
    parts = SENTENCE.split(" ".join(paragraph.split()))
    whole = []
    for part in parts:
        if whole and is_open(whole[-1]):
            whole[-1] += f" {part}"
        else:
            whole.append(part)
    return whole


def is_open(text) -> bool:
    return text.count("(") > text.count(")") or text.count("**") % 2 or text.count("$") % 2


def first_sentences(paragraph, most) -> str:
    """Return the first sentences, as many as have `most` words together, but at least one."""
    chosen = []
    for sentence in sentences(paragraph):
        if chosen and len(" ".join([*chosen, sentence]).split()) > most:
            break
        chosen.append(sentence)
    return " ".join(chosen)


def last_sentences(paragraph, most) -> str:
    chosen = []
    for sentence in reversed(sentences(paragraph)):
        if chosen and len(" ".join([sentence, *chosen]).split()) > most:
            break
        chosen.insert(0, sentence)
    return " ".join(chosen)

"""The front page and the page on using the course, from the guides, and a page per chapter."""

import re
from html import escape

from coursekit.building.build import ROOT
from coursekit.building.chapter_texts import chapters_page
from coursekit.chapters import Chapter, chapters

from .course import question_of
from .pictures import Pictures, size_of
from .times import minutes

SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
IMAGE = re.compile(r'<img src="(assets/[^"]+)"[^>]*?alt="([^"]*)"[^>]*>', re.DOTALL)
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?!https?:)([^()\s]+)\)")
PART = re.compile(r"solutions/(\d\d[a-z]?_\w+)\.ipynb$")
LAB = re.compile(r"(?:solutions/)?labs/(\w+)\.py$")
LAST_OF_FRONT = "Where to begin"
GUIDES = ("INSTALL.md", "pedagogy_lib/README.md")  # the page on using the course begins with them
PAGES = dict.fromkeys(GUIDES, "using.md") | {
    "CHAPTERS.md": "index.md#what-to-read-for-which-question",
    "labs/published/README.md": "labs/published.md",
}
LEFT_OUT = ("To read without installing",)  # a paragraph about this site


class Readme:
    """README.md, divided into its sections.

    front  names of those on the front page;  using  names of those on the other page
    """

    def __init__(self, pictures: Pictures):
        self.pictures = pictures
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        head, *rest = SECTION.split(text)
        sections = dict(zip(rest[::2], rest[1::2]))
        names = list(sections)
        first = names[: names.index(LAST_OF_FRONT) + 1]
        self.head, self.sections = head, sections
        self.front = first
        self.using = [name for name in names if name not in self.front]

    def text_of(self, names, is_front) -> str:
        body = "".join(f"## {name}\n{self.sections[name]}" for name in names)
        return self.rewritten(self.head + body if is_front else body, is_front)

    def rewritten(self, text, is_front) -> str:
        paragraphs = [p for p in text.split("\n\n") if not p.startswith(LEFT_OUT)]
        text = IMAGE.sub(self.image, "\n\n".join(paragraphs))
        return LINK.sub(lambda found: self.link(found, is_front), text)

    def image(self, found) -> str:
        path, alt = ROOT / found[1], " ".join(found[2].split())
        is_first = path.stem == "first_look"
        return self.pictures.html(path.read_bytes(), alt, path.stem, is_first, up="")

    def link(self, found, is_front) -> str:
        words, target = found[1], found[2]
        if target.startswith("#"):
            here = self.front if is_front else self.using
            there = "using.md" if is_front else "index.md"
            anchors = {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in here}
            return f"[{words}]({'' if target[1:] in anchors else there}{target})"
        if part := PART.match(target):
            return f"[{words}](parts/{part[1]}.ipynb)"
        if lab := LAB.match(target):
            return f"[{words}](labs/{lab[1]}.md)"
        return f"[{words}]({PAGES[target]})" if target in PAGES else words


def index(readme: Readme, ledger_pages=()) -> str:
    """Return the front page: README's beginning, a card per chapter, and the lists of parts."""
    text = readme.text_of(readme.front, is_front=True)
    _, _, listed = readme.rewritten(chapters_page(), is_front=True).partition("\n## ")
    cards = "".join(card_of_chapter(one, readme.pictures) for one in chapters().values())
    tree = "\n".join(f"chapters/{chapter.number}" for chapter in chapters().values())
    others = "\n".join(["glossary", "plans", *ledger_pages, "labs/index", "using"])
    return (
        f'{text}\n<div class="course-cards">{cards}</div>\n\n## {listed}\n\n'
        f"```{{toctree}}\n:hidden:\n:caption: Chapters\n\n{tree}\n```\n\n"
        f"```{{toctree}}\n:hidden:\n:caption: To look things up\n\n{others}\n```\n"
    )


def compose_usage_page(readme: Readme) -> str:
    guides = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in GUIDES)
    below = re.sub("^#", "##", guides, flags=re.MULTILINE)
    rest = readme.text_of(readme.using, is_front=False)
    return f"# Installing and using the course\n\n{readme.rewritten(below, is_front=False)}\n{rest}"


def card_of_chapter(chapter: Chapter, pictures: Pictures) -> str:
    count = len(chapter.parts)
    facts = f"{count} part{'s' * (count > 1)} · {len(chapter.exercises)} exercises"
    time = minutes(chapter.reading, chapter.writing)
    return card(f"chapters/{chapter.number}.html", chapter.parts[0].stem, pictures, "",
                f"{chapter.number} · {chapter.title}", facts, time)  # fmt: skip


def card(address, stem, pictures, up, title, text, time) -> str:
    path = ROOT / "assets" / "covers" / f"{stem}.png"
    image = ""
    if path.exists():
        png = path.read_bytes()
        width, height = (side // 2 for side in size_of(png))
        source = pictures.address(png, stem)
        image = (f'<span class="course-thumb"><img alt="" src="{up}{source}" width="{width}" '
                 f'height="{height}" loading="lazy"></span>')  # fmt: skip
    return (
        f'<a class="course-card" href="{address}">{image}<span class="course-card-title">'
        f'{escape(title)}</span><span class="course-card-text">{escape(text)}</span>'
        f'<span class="course-card-time">{time}</span></a>'
    )


def page_of_chapter(chapter: Chapter, pictures: Pictures) -> str:
    cards = "".join(card_of_part(part, pictures) for part in chapter.parts)
    tree = "\n".join(f"../parts/{part.stem}" for part in chapter.parts)
    return (
        f"# {chapter.number} · {chapter.title}\n\n{minutes(chapter.reading, chapter.writing)}, "
        f'{len(chapter.parts)} parts.\n\n<div class="course-cards">{cards}</div>\n\n'
        f"```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    )


def card_of_part(part, pictures) -> str:
    time = minutes(part.reading, part.writing)
    return card(f"../parts/{part.stem}.html", part.stem, pictures, "../",
                f"{part.name} · {part.title}", question_of(part.stem), time)  # fmt: skip

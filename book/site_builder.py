"""The builder of the site: it composes the pages, and Sphinx writes them."""

import shutil
import sys
import tempfile
from pathlib import Path

from coursekit.building.build import ROOT, record_is_current, sources
from coursekit.chapters import chapters, parts
from pedagogy_lib.basics.errors import need

from . import front, glossary, labs, ledger, plans, widgets
from .link_check import Site
from .notebook_format import write
from .notebooks import page_of
from .pictures import Pictures

HERE = Path(__file__).parent
UNUSED = ("scripts/*.map", "styles/*.map", "scripts/*.txt", "scripts/fontawesome.js",
          "locales", "images", "*.html")  # fmt: skip


def compose(folder: Path) -> Pictures:
    """Write the pages that Sphinx reads, and return the pictures that they show.

    Raises  WrongInput if a part has changed since it was executed
    """
    old = [source.stem for source in sources() if not record_is_current(source)]
    need(not old, f"the records of {', '.join(old)} are not current: call make build")
    pictures, words, used = Pictures(), glossary.entries(), {}
    for part in parts().values():
        cells, used[part.name] = page_of(part, pictures, words)
        write(folder / "parts" / f"{part.stem}.ipynb", cells)
    for chapter in chapters().values():
        put(folder / "chapters" / f"{chapter.number}.md", front.page_of_chapter(chapter, pictures))
    for name, text in labs.pages().items():
        put(folder / "labs" / name, text)
    readme, of_ledger = front.Readme(pictures), ledger.pages()
    put(folder / "index.md", front.index(readme, [ledger.FIRST] * bool(of_ledger)))
    put(folder / "using.md", front.compose_usage_page(readme))
    put(folder / "glossary.md", glossary.page(words, used))
    put(folder / "plans.md", plans.page())
    for name, text in of_ledger.items():
        put(folder / f"{name}.md", text)
    return pictures


def put(path: Path, text: str):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def build(site: Path, warnings_are_errors=True) -> int:
    """Build the site, replace the folder `site` by it if that worked, and return 0 for success."""
    from sphinx.cmd.build import build_main

    with tempfile.TemporaryDirectory() as place:
        pages, out = Path(place) / "pages", Path(place) / "site"
        pictures = compose(pages)
        strict = ["-W", "--keep-going"] if warnings_are_errors else []
        command = ["-b", "html", "-q", "-j", "auto", *strict, "-c", str(HERE)]
        failed = build_main([*command, "-d", f"{place}/read", str(pages), str(out)])
        if failed:
            return failed
        remove_unused_files(out / "_static")
        pictures.write(out)
        put_downloads(out / "downloads")
        widgets.put(out)
        if (pages / f"{ledger.FIRST}.md").exists():
            ledger.put(out)
        if wrong := Site(out).broken():
            print("these addresses lead nowhere:", *wrong, sep="\n  ", file=sys.stderr)
            return 1
        shutil.rmtree(site, ignore_errors=True)
        shutil.move(out, site)
    return 0


def remove_unused_files(static: Path):
    """Remove script maps, templates, other languages, and icons that icons.css replaces."""
    for pattern in UNUSED:
        for path in static.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def put_downloads(folder: Path):
    """Write the files that learners open: notebooks and programs, with their holes."""
    for part in parts().values():
        put(folder / f"{part.stem}.ipynb",
            (ROOT / "notebooks" / f"{part.stem}.ipynb").read_text(encoding="utf-8"))  # fmt: skip
    for path in labs.programs():
        put(folder / "labs" / path, (ROOT / "labs" / path).read_text(encoding="utf-8"))

"""The build of what learners open: notebooks and labs with holes, and executed records.

chapters/chNN_name/NN_topic.py (percent format) becomes notebooks/NN_topic.ipynb, with holes and
without outputs, and solutions/NN_topic.ipynb, solved and executed. A lab, chapters/chNN_name/labs/
topic.py, becomes labs/topic.py, with holes, and solutions/labs/topic.py, with the answers and the
marks around them; the tables next to it are copied to labs/. The lines between `### BEGIN SOLUTION`
and `### END SOLUTION` are the answer. It may have a second part, after `### IT WAS`: the program
with a bug, in comments, which the learner gets instead of a hole. Two builds give the same bytes,
because cell ids are hashes. One picture of each executed record (tag `cover`) goes to
assets/covers/, and its part begins with it. All views of its pictures with controls go to
assets/views/, for the website.
"""

import hashlib
import os
import re
import time
from operator import attrgetter
from pathlib import Path

import jupytext
import nbformat

from pedagogy_lib.basics.errors import need, need_course
from pedagogy_lib.basics.screen import VIEWS

from ..chapters import insert_numbers
from ..copies.working_copies import HANDOUT
from ..verdicts import NOT_YET
from .chapter_texts import chapters_page, expand_markers, join_punctuation, need_parts_in_order
from .labs_page import labs_page
from .record_inputs import digest_inputs
from .record_pictures import find_cover, reduce_palettes
from .views_of_parts import fresh_views
from .written_files import digest_of, is_ours, move_aside, note_written, read_written

ROOT = Path(__file__).parents[2]
BEGIN, BUG, END = "### BEGIN SOLUTION", "### IT WAS", "### END SOLUTION"
ANSWER = re.compile(rf"^([ \t]*){BEGIN}\n(.*?)^[ \t]*{END}\n?", re.DOTALL | re.MULTILINE)
MARKS = re.compile(rf"^[ \t]*(?:{BEGIN}|{END})\n", re.MULTILINE)
COMMENT = re.compile(r"^([ \t]*)# ?", re.MULTILINE)
HOLE = "{indent}...  # your code here\n"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
CELL_SECONDS = 120
VIEWS_SECONDS = 600  # one cell may draw dozens of pictures: minutes on a busy machine
ENCRYPTED = {"KernelManager": {"transport_encryption": "auto"}}  # else kernels warn
COURSE = "course"  # our metadata in a record: {"inputs": a digest of all that it was made from}


def sources() -> list[Path]:
    """Return the sources of all parts, in the order of the course."""
    return sorted((ROOT / "chapters").glob("ch*/[0-9][0-9]*_*.py"))


def lab_sources() -> list[Path]:
    """Return the sources of all labs, sorted by name."""
    return sorted((ROOT / "chapters").glob("ch*/labs/*.py"), key=attrgetter("stem"))


def lab_tables() -> list[Path]:
    """Return the files that labs and parts read: chapters/chNN_name/labs/published/runs.csv."""
    return sorted((ROOT / "chapters").glob("ch*/labs/[!_]*/*"))  # __pycache__ is none


def source_of(stem: str) -> Path:
    """Return the source of a part or a lab."""
    return next(path for path in [*sources(), *lab_sources()] if path.stem == stem)


def text_of(source: Path) -> str:
    """Return the text of a part or a lab, with numbers in place of the names of exercises.

    Raises  WrongInput if a mark of an answer is missing
    """
    text = source.read_text(encoding="utf-8")
    need(text.count(BEGIN) == text.count(END), f"{source.name}: each `{BEGIN}` needs its `{END}`")
    return insert_numbers(text)


def record_of(source: Path) -> Path:
    """Return the path of a part's solved and executed notebook."""
    return ROOT / "solutions" / f"{source.stem}.ipynb"


def insert_holes(text: str) -> str:
    """Return the learner's version of a source text, with a hole in place of every answer."""
    return ANSWER.sub(hole_for, text)


def hole_for(answer: re.Match) -> str:
    """Return the learner's replacement for an answer: a hole, or a program with a bug."""
    _, mark, bug = answer[2].partition(f"{BUG}\n")
    return COMMENT.sub(r"\1", bug) if mark else HOLE.format(indent=answer[1])


def keep_answers(text: str) -> str:
    """Return the solved version of a source text: the answers without the marks around them."""
    return MARKS.sub("", text).replace(BUG, "# It was:")


def make_notebook(text: str, stem: str):
    """Return percent-format source as a notebook without outputs: the same bytes every time."""
    notebook = jupytext.reads(text, fmt="py:percent")
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            cell.source = join_punctuation(expand_markers(cell.source, stem))
        digest = hashlib.sha256(f"{stem} {number} {cell.source}".encode()).hexdigest()
        cell.id = f"{number:02d}-{digest[:10]}"
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def dump(notebook) -> str:
    return nbformat.writes(notebook, version=4) + "\n"


def build_texts() -> dict[Path, str]:
    """Return {path: text} for every built file that needs no execution."""
    is_whole = (ROOT / "chapters" / "course.toml").exists()
    texts = (
        {ROOT / "CHAPTERS.md": chapters_page(), ROOT / "labs" / "README.md": labs_page()}
        if is_whole
        else {}
    )
    for source in sources():
        text = insert_holes(text_of(source))
        target = ROOT / "notebooks" / f"{source.stem}.ipynb"
        texts[target] = dump(make_notebook(text, source.stem))
    for source in lab_sources():
        text = text_of(source)
        header = f"# Built from {source.relative_to(ROOT)} by `make build`."
        yours = " Write your answers here." * (BEGIN in text)
        texts[ROOT / "labs" / source.name] = f"{header}{yours}\n{insert_holes(text)}"
        texts[ROOT / "solutions" / "labs" / source.name] = f"{header}\n{text}"
    for source in lab_tables():
        texts[ROOT / "labs" / source.parent.name / source.name] = source.read_text()
    return texts


def execute(source: Path, views: Path | None = None):
    """Return a part's solved notebook, executed in solutions/, where labs are solved too.

    views  folder in which its pictures with controls are recorded
    """
    from nbclient import NotebookClient
    from traitlets.config import Config

    notebook = make_notebook(keep_answers(text_of(source)), source.stem)
    folder = {"metadata": {"path": str(ROOT / "solutions")}}
    client = NotebookClient(
        notebook,
        timeout=VIEWS_SECONDS if views else CELL_SECONDS,
        record_timing=False,
        resources=folder,
        config=Config(ENCRYPTED),
    )
    client.execute(env=os.environ | ({VIEWS: str(views / source.stem)} if views else {}))
    need_passed_checks(notebook, source.name)
    reduce_palettes(notebook)
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    return mark_inputs(notebook)


def need_passed_checks(notebook, name):
    """Refuse an executed part in which a check did not accept the solution.

    Raises  WrongInput with the whole verdict
    """
    outputs = (output for cell in code_of(notebook) for output in cell.outputs)
    shown = [output.get("data", {}).get("text/plain", "") for output in outputs]
    failed = [text for text in shown if text.endswith(f"\n{NOT_YET}")]
    need(not failed, f"{name}: a check did not accept the solution:\n" + "\n".join(failed))


def mark_inputs(notebook):
    """Store a digest of a record's inputs in its metadata, and return the record."""
    code = code_of(notebook)
    text = "\n\n".join(cell.source for cell in code)
    digest = digest_inputs((cell_identity(cell)[1:] for cell in code), text, ROOT)
    notebook.metadata[COURSE] = {"inputs": digest}
    return notebook


def make_solved_notebook(source: Path):
    """Return the record that a part would have today, without outputs."""
    return mark_inputs(make_notebook(keep_answers(text_of(source)), source.stem))


def record_is_current(source: Path) -> bool:
    """Return whether a record has its source's cells and none of its inputs has changed."""
    record = record_of(source)
    if not record.exists():
        return False
    wanted, executed = make_solved_notebook(source), nbformat.read(record, as_version=4)
    same_cells = [*map(cell_identity, executed.cells)] == [*map(cell_identity, wanted.cells)]
    return same_cells and executed.metadata.get(COURSE) == wanted.metadata[COURSE]


def cell_identity(cell) -> tuple:
    """Return the parts of a record's cell that come from its source: everything but the outputs."""
    return cell.id, cell.source, cell.metadata.get("tags", []), cell.metadata.get("jupyter", {})


def refresh_record_text(source: Path):
    """Return the record's outputs with the source's text; None if they were made of other code.

    The output of code does not depend on the text around it.
    """
    record = record_of(source)
    if not record.exists():
        return None
    wanted, executed = make_solved_notebook(source), nbformat.read(record, as_version=4)
    if executed.metadata.get(COURSE) != wanted.metadata[COURSE]:
        return None
    for cell, before in zip(code_of(wanted), code_of(executed), strict=True):
        cell.outputs, cell.execution_count = before.outputs, before.execution_count
    return wanted


def code_of(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def cover_path(source: Path) -> Path:
    return ROOT / "assets" / "covers" / f"{source.stem}.png"


def views_folder() -> Path:
    return ROOT / "assets" / "views"


def build(force=False, execute_changed=True):
    """Write every built file; execute a part again if its code has changed, or if forced.

    A notebook or lab in which a learner has worked is not lost: it stays next to the new one.
    """
    need_course(ROOT / "chapters")
    need(not (ROOT / HANDOUT).exists(), "a handout has no sources to build from")
    need_parts_in_order(sources())
    written = read_written(ROOT)
    for target, text in build_texts().items():
        name = str(target.relative_to(ROOT))
        if not target.exists() or target.read_text() != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.exists() and not is_ours(target, written.get(name), ROOT):
                aside = move_aside(target).relative_to(ROOT)
                print(f"{name} has been worked in; it is now {aside}")
            target.write_text(text)
            print(f"wrote {name}")
        written[name] = digest_of(target)
    note_written(written, ROOT)
    if execute_changed or force:
        renew_records(force)


def renew_records(force):
    """Execute the records whose code has changed, or all; write the covers and the views."""
    changed = [source for source in sources() if force or not record_is_current(source)]
    for source in [] if force else list(changed):
        if notebook := refresh_record_text(source):
            record_of(source).write_text(dump(notebook))
            print(f"new text in {record_of(source).relative_to(ROOT)}")
            changed.remove(source)
    for number, source in enumerate(changed, 1):
        record = record_of(source)
        which = f"{record.relative_to(ROOT)}, {number} of {len(changed)}"
        print(f"executing {which} …", end="", flush=True)
        began = time.perf_counter()
        with fresh_views(views_folder(), source.stem) as views:
            record.write_text(dump(execute(source, views)))
        print(f" {time.perf_counter() - began:.0f} s")
        if (cover := find_cover(nbformat.read(record, as_version=4))) is not None:
            cover_path(source).parent.mkdir(parents=True, exist_ok=True)
            cover_path(source).write_bytes(cover)

"""From solutions/ to what learners open: notebooks and labs with holes, and executed records.

solutions/NN_topic.py (percent format) becomes notebooks/NN_topic.ipynb, with holes and without
outputs, and solutions/NN_topic.ipynb, solved and executed. solutions/labs/topic.py becomes
labs/topic.py, with holes. What stands between the lines `### BEGIN SOLUTION` and
`### END SOLUTION` is the answer. Two builds give the same bytes: cell ids are hashes.
"""

import hashlib
import re
from pathlib import Path

import jupytext
import nbformat

ROOT = Path(__file__).parent.parent
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
ANSWER = re.compile(rf"^([ \t]*){BEGIN}\n(.*?)^[ \t]*{END}\n?", re.DOTALL | re.MULTILINE)
MARKS = re.compile(rf"^[ \t]*(?:{BEGIN}|{END})\n", re.MULTILINE)
HOLE = "{indent}...  # your code here\n"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
CELL_SECONDS = 120


def sources() -> list[Path]:
    return sorted((ROOT / "solutions").glob("[0-9][0-9]_*.py"))


def lab_sources() -> list[Path]:
    return sorted((ROOT / "solutions" / "labs").glob("*.py"))


def with_holes(text: str) -> str:
    """The learner's version of a source text: every answer replaced by a hole."""
    if text.count(BEGIN) != text.count(END):
        raise ValueError(f"every `{BEGIN}` needs its `{END}`")
    return ANSWER.sub(lambda match: HOLE.format(indent=match[1]), text)


def solved(text: str) -> str:
    """The solved version: the answers stay, the marks around them go."""
    return MARKS.sub("", text)


def to_notebook(text: str, stem: str):
    """Percent-format source as a notebook without outputs, the same bytes every time."""
    notebook = jupytext.reads(text, fmt="py:percent")
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    for number, cell in enumerate(notebook.cells):
        digest = hashlib.sha256(f"{stem} {number} {cell.source}".encode()).hexdigest()
        cell.id = f"{number:02d}-{digest[:10]}"
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def dump(notebook) -> str:
    return nbformat.writes(notebook, version=4) + "\n"


def built_texts() -> dict[Path, str]:
    """Every built file that needs no execution, with its text."""
    texts = {}
    for source in sources():
        text = with_holes(source.read_text())
        target = ROOT / "notebooks" / f"{source.stem}.ipynb"
        texts[target] = dump(to_notebook(text, source.stem))
    for source in lab_sources():
        texts[ROOT / "labs" / source.name] = with_holes(source.read_text())
    return texts


def execute(source: Path):
    """The solved notebook of a chapter, executed in solutions/, where labs are solved too."""
    from nbclient import NotebookClient

    notebook = to_notebook(solved(source.read_text()), source.stem)
    folder = {"metadata": {"path": str(source.parent)}}
    NotebookClient(notebook, timeout=CELL_SECONDS, resources=folder, record_timing=False).execute()
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    return notebook


def record_is_current(source: Path) -> bool:
    """Whether the executed record has exactly the cells of its source."""
    record = source.with_suffix(".ipynb")
    if not record.exists():
        return False
    wanted = to_notebook(solved(source.read_text()), source.stem)
    cells = nbformat.read(record, as_version=4).cells
    return [(c.id, c.source) for c in cells] == [(c.id, c.source) for c in wanted.cells]


def build(force=False):
    """Write every built file; execute a chapter again if its source changed, or if forced."""
    for target, text in built_texts().items():
        if not target.exists() or target.read_text() != text:
            target.parent.mkdir(exist_ok=True)
            target.write_text(text)
            print(f"wrote {target.relative_to(ROOT)}")
    for source in sources():
        if force or not record_is_current(source):
            source.with_suffix(".ipynb").write_text(dump(execute(source)))
            print(f"executed {source.with_suffix('.ipynb').relative_to(ROOT)}")

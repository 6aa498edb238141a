"""The docstring of a function begins with a verb, so that it can be read alone."""

import ast
import re
from functools import partial

from each import repeat_for_each
from helpers import ROOT

ROOMS = ("benchmarks", "book", "chapters", "classroom", "coursekit", "pedagogy_lib", "tools")
FILES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))
         if path.name != "answers.py" and path.parent.parent.name != "chapters"
         and "hostile" not in path.parts]  # fmt: skip
NO_VERB = re.compile(
    r"(A|After|All|An|And|Another|Any|As|At|Before|Beside|Both|Bytes|Each|Every|For|From|How|If|In"
    r"|Its|No|Numbers|Of|On|One|Or|Other|Seconds|Several|Some|That|The|Their|These|This|Those|To"
    r"|Two|What|When|Where|Whether|Which|Who|Whose|Why|With|Within|Without)\b"
)
PROPERTIES = {"property", "cached_property"}


def name_of(decorator) -> str:
    return getattr(decorator, "id", getattr(decorator, "attr", ""))


def functions_in(path):
    """Yield the functions of a file that are called; a property is described by a noun."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, functions) and not {*map(name_of, node.decorator_list)} & PROPERTIES:
            yield node


@repeat_for_each("path", FILES, lambda path: str(path.relative_to(ROOT)))
def test_a_docstring_begins_with_a_verb(path):
    docstrings = filter(None, map(partial(ast.get_docstring, clean=True), functions_in(path)))
    assert [text for text in docstrings if NO_VERB.match(text)] == []

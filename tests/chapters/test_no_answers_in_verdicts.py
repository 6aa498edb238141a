"""A verdict says what was misunderstood. How the solution is written, it leaves to hints."""

import ast
import re

from each import repeat_for_each

from coursekit.building import build
from coursekit.chapters import FOLDER

FILES = sorted(
    path for path in FOLDER.glob("ch*/exercises/*/*.py") if path.name != "answers.py"
)  # a verdict's sentences are in check.py, truth.py, cases.py and shared/
LEAST = 14  # characters: what is shorter, many would write
BARE_CALL = re.compile(r"(with)?[\w.]+\(\):?")  # optimizer.step(): it is a name that all know
ASSIGNED = re.compile(r"^(return|\w+=(?!=))")


def strip_whitespace(text) -> str:
    return re.sub(r"\s+", "", text)


def lines_of_answers() -> set[str]:
    """Every line of a solution, and what it assigns or returns, without blanks."""
    lines = set()
    for source in [*build.sources(), *build.lab_sources()]:
        for answer in build.ANSWER.finditer(build.text_of(source)):
            solution = answer[2].partition(build.BUG)[0]
            lines |= {strip_whitespace(line.split("  #")[0]) for line in solution.splitlines()}
    lines |= {ASSIGNED.sub("", line) for line in lines}
    long = {line for line in lines if len(line) >= LEAST and not line.startswith("#")}
    return {line for line in long if not BARE_CALL.fullmatch(line)}


LINES = lines_of_answers()


def collect_texts(tree) -> list[str]:
    """The texts of a module, but for hints and docstrings."""
    left_out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "hints":
            left_out |= {id(part) for part in ast.walk(node.value)}
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            left_out.add(id(body[0].value))
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return [n.value for n in texts if isinstance(n.value, str) and id(n) not in left_out]


def find_lines(text) -> list[str]:
    text = strip_whitespace(text)
    return [line for line in LINES if line in text]


@repeat_for_each("file", FILES)
def test_no_line_of_an_answer_is_in_a_verdict(file):
    for text in collect_texts(ast.parse(file.read_text())):
        assert not find_lines(text), f"say what is misunderstood, not the code: {text}"


def test_a_line_of_an_answer_would_be_found():
    check = ast.parse(
        'f(why="write y.backward( gradient ) instead", hints=("y.backward(gradient)",))'
    )
    (told,) = collect_texts(check)
    assert find_lines(told) == ["y.backward(gradient)"]

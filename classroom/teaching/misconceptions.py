"""misconceptions.md: what the checks say about wrong answers, and a teacher's replies."""

import ast
import re
from functools import cache
from pathlib import Path

from coursekit.chapters import exercise_folders, exercise_numbers

from .prerequisites import checks, part_of_exercise
from .what_to_say import SAY

PAGE = Path(__file__).with_name("misconceptions.md")
WRONG = re.compile(r"^# %% wrong · (.+?)(?: \[deep\])?$", re.MULTILINE)
MOST = 3  # other sentences of an exercise
TOP = """# What students get wrong, and what to say

Written by `python -m classroom.teaching plans`: do not change it by hand. The sentences are those
that the checks say to a wrong answer. First those for which there is something to say in class,
then, by exercise, up to {most} others.
"""


def write() -> Path:
    PAGE.write_text(text(), encoding="utf-8")
    return PAGE


def text() -> str:
    chapters = dict.fromkeys(int(number.split(".")[0]) for number in checks())
    return TOP.format(most=MOST) + "".join(table(chapter) for chapter in chapters)


def table(chapter: int) -> str:
    lines = ["", f"## Chapter {chapter:02}", ""]
    known = [(exercise_numbers()[name], words, say) for name, words, say in SAY]
    important = [
        (n, find_sentence(n, words), say) for n, words, say in known if chapter_of(n) == chapter
    ]
    lines += ["| exercise | the check says | say |", "|---|---|---|"] if important else []
    lines += [
        f"| {format_exercise_title(n)} | {cell(sentence)} | {cell(say)} |"
        for n, sentence, say in important
    ]
    lines += ["", "<details><summary>Others, by exercise</summary>", ""]
    told = {sentence for _, sentence, _ in important}
    for number in checks():
        if chapter_of(number) == chapter:
            others = [sentence for sentence in sentences(number) if sentence not in told][:MOST]
            lines += [f"**{format_exercise_title(number)}**", ""] if others else []
            lines += [f"* {sentence}" for sentence in others] + [""] * bool(others)
    return "\n".join([*lines, "</details>", ""])


def chapter_of(number: str) -> int:
    return int(number.split(".")[0])


def format_exercise_title(number: str) -> str:
    return f"{number} {checks()[number].name} ({part_of_exercise().get(number, '–')})"


def cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")


def find_sentence(number: str, words: str) -> str:
    """Return the whole sentence in which a check says these words."""
    found = [sentence for sentence in sentences(number) if words in sentence]
    if not found:
        raise LookupError(f"no sentence of {number} has the words {words!r}")
    return found[0]


@cache
def sentences(number: str) -> list[str]:
    """Return a Formula's mistakes, or else the texts that hold a tested answer's phrase."""
    exercise = checks()[number]
    of_formula = [sentence for sentence, _ in pairs_of(exercise)]
    if of_formula:
        return list(dict.fromkeys(of_formula))
    there = constants(number)
    found = [next((text for text in there if phrase in text), "") for phrase in phrases(number)]
    return [sentence for sentence in dict.fromkeys(found) if sentence]


def pairs_of(exercise) -> list[tuple]:
    """Return a Formula's mistakes, as its tests try them."""
    mistakes = getattr(exercise, "mistakes", None)
    is_list = isinstance(mistakes, list | tuple)
    return [m for m in mistakes if isinstance(m, tuple)] if is_list else []


def phrases(number: str) -> list[str]:
    """Return the phrases that are in the diagnoses of tested wrong answers."""
    file = exercise_folders()[number] / "answers.py"
    return WRONG.findall(file.read_text(encoding="utf-8"))


@cache
def constants(number: str) -> list[str]:
    """Return the texts in an exercise's files and then in those that its chapter shares."""
    folder = exercise_folders()[number]
    in_order = [folder / name for name in ("cases.py", "truth.py", "check.py")]
    others = sorted(set(folder.glob("*.py")) - {*in_order, folder / "answers.py"})
    own = [path for path in [*in_order, *others] if path.exists()]
    return [node.value for path in [*own, *sorted((folder.parent / "shared").glob("*.py"))]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            and node.value[:1] != "," and len(node.value.split()) > 3
            and "\n" not in node.value]  # fmt: skip

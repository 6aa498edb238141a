"""Answers to the exercises, right and wrong, as data: chapters/*/exercises/*/answers.py.

A file has sections in percent format, each an answer as a learner would write it:

# %% given                            what stands before every answer, such as a helper
# %% right · a loop                   an answer that passes, and its style
# %% wrong · this is the mean [deep]  one that is rejected, and a phrase of the diagnosis

An answer is a program, or the solution with changed lines; these are found once in it:

# -     total += gradient
# +     total = gradient

A phrase may stand several times. `[deep]` leaves an answer to `make test-all`.
"""

import ast
import linecache
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from coursekit.building import build
from coursekit.chapters import exercise_folders, insert_numbers
from coursekit.check_runner import (
    LabFunction,
    chapters_with_checks,
    exercises_of,
    find_exercise,
)
from coursekit.labs import find_lab
from coursekit.protocol import Exercise

SECTION = re.compile(r"^# %% (given|right|wrong)(?: · (.*?))?(?: \[(deep)\])?$", re.MULTILINE)
EDIT = re.compile(r"((?:^# -.*\n)+)((?:^# \+.*\n)*)", re.MULTILINE)


@dataclass(frozen=True)
class Answer:
    """kind: "right" or "wrong"; words: its style, or a phrase of its diagnosis.

    text   as the file has it
    given  what stands before it, such as a helper
    """

    exercise: Exercise
    kind: str
    words: str
    text: str
    is_deep: bool = False
    given: str = ""

    def __str__(self):
        return f"{label_exercise(self.exercise)} {self.words}"

    @property
    def program(self) -> str:
        """Its text; of one that changes the solution, the whole."""
        try:
            return apply_edits(self.text, solution_of(self.exercise))
        except ValueError as error:
            raise ValueError(f"{self.kind} · {self}: {error}") from None


def answers_to(number: str, path: Path) -> list[Answer]:
    """Return the answers that a file holds to an exercise."""
    exercise = find_exercise(number)
    if not path.exists():
        raise ValueError(
            f"{path.relative_to(build.ROOT)} is missing: write answers, right and wrong ones"
        )
    _, *parts = SECTION.split(path.read_text())
    need_no_other_sections(path)
    sections = list(zip(*(parts[i::4] for i in range(4))))
    given = "".join(body for kind, _, _, body in sections if kind == "given")
    return [
        Answer(exercise, kind, insert_numbers(words), body, deep == "deep", given)
        for kind, words, deep, body in sections
        if kind != "given"
    ]


def need_no_other_sections(path):
    for line in path.read_text().splitlines():
        if line.startswith("# %%") and not SECTION.match(line):
            raise ValueError(f"{path}: write `{line}` as `# %% wrong · words`, or right, or given")


def apply_edits(text: str, solution: str) -> str:
    """The text of an answer, or the solution with the changes that the text names."""
    edits = EDIT.findall(text)
    if not edits:
        return text
    program = solution
    for before, after in edits:
        old, new = (re.sub(r"(?m)^# [-+] ?", "", lines) for lines in (before, after))
        found = program.count(old)
        if found != 1:
            raise ValueError(f"found {found} times in the solution:\n{old}")
        program = program.replace(old, new)
    return program


@cache
def solution_of(exercise) -> str:
    """The text of the function or class in the solved lab, or in the solved notebook's cell."""
    return definition_in(map(build.keep_answers, sources_of(exercise)), exercise)


@cache
def task_of(exercise) -> str:
    """The same as learners find it: with its hole, or with its bug."""
    return definition_in(map(build.insert_holes, sources_of(exercise)), exercise)


def definition_in(texts, exercise) -> str:
    for text in texts:
        for node in ast.parse(text).body:
            if getattr(node, "name", None) == exercise.name:
                first = min([node.lineno, *(line.lineno for line in node.decorator_list)])
                return "".join(text.splitlines(keepends=True)[first - 1 : node.end_lineno])
    where = f"the lab {exercise.lab}" if exercise.lab else "a cell: is `lab=` missing?"
    raise ValueError(f"exercise {exercise.number}: there is no {exercise.name} in {where}")


def sources_of(exercise) -> list[str]:
    """The source of the lab; or of the chapter's notebooks, as programs."""
    return [build.text_of(path) for path in source_files_of(exercise)]


def source_files_of(exercise) -> list[Path]:
    if exercise.lab:
        return [build.source_of(exercise.lab)]
    chapter = int(exercise.number.split(".")[0])
    return [path for path in build.sources() if path.stem.startswith(f"{chapter:02}")]


@cache
def imports_of(exercise) -> str:
    """What the chapter's notebooks import."""
    texts = map(build.keep_answers, sources_of(exercise))
    nodes = [node for text in texts for node in ast.parse(text).body]
    wanted = (node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)))
    return "\n".join(dict.fromkeys(map(ast.unparse, wanted)))


def define_answer(answer: Answer):
    """The function of an answer to an exercise in a cell, as the cell would define it."""
    file = f"cell of {answer.exercise.number}"  # without the words: errors name the file
    space = {"__name__": "__main__"}
    exec(imports_of(answer.exercise), space)
    text = answer.given + answer.program
    exec(compile(text, file, "exec"), space)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return space[answer.exercise.name]


def load_solution(exercise):
    """Return the solution of an exercise as `check` gets it."""
    if exercise.lab:
        return LabFunction(find_lab(exercise.lab), exercise.name)
    given = {answer.exercise.number: answer.given for answer in all_answers()}
    solution, given = solution_of(exercise), given.get(exercise.number, "")
    return define_answer(Answer(exercise, "right", "the solution", solution, given=given))


@cache
def all_answers() -> list[Answer]:
    folders = exercise_folders().items()
    return [one for number, folder in folders for one in answers_to(number, folder / "answers.py")]


def label_exercise(exercise) -> str:
    """Return an exercise's number and name, as the names of tests have them."""
    return f"{exercise.number} {exercise_folders()[exercise.number].name}"


def exercises_of_kind(kind=object) -> list:
    """All exercises, or those that are made in one way, such as `Formula`."""
    everything = (exercises_of(chapter).values() for chapter in chapters_with_checks())
    return [exercise for some in everything for exercise in some if isinstance(exercise, kind)]

"""The checks as they are handed out, and the part of them that runs next to an answer.

A handout has the files of its exercises except answers.py. The truth of a Formula, its mistakes and
functions under `@tabulate` are tables there: numbers instead of code. A sandbox has the files that
run next to an answer, and none that says what is right.
"""

import ast
import importlib
import json
import pickletools
from functools import cache
from pathlib import Path

from coursekit import content
from coursekit.answers.remote_answer import pickle_value
from coursekit.building.build import ROOT
from coursekit.building.record_inputs import list_imported_modules, modules_behind
from coursekit.chapters import FOLDER, exercise_folders
from coursekit.check_runner import find_exercise
from coursekit.kit import Formula
from coursekit.kit.tables import build_tables

READ = "from coursekit.kit.tables import tables_of\n\nTABLES = tables_of(__file__)\n"
# {a function that calls another one next to an answer: which argument the other one is}
CALLS = {"call_next_to_answer": 0, "launch_next_to_answer": 0, "try_on_ranks": 1}
SENT = ("work", "cases", "task")  # what an exercise on ranks sends to an answer
TRUTH = f'"""What is right, and what mistakes give: tables."""\n\n{READ}\n'
NAMED = "{0} = TABLES.find_table({0!r})\n"


def build_check_files(numbers) -> dict[str, bytes]:
    """Return {path: contents} of the checks of these exercises, and all that they import."""
    checks = [exercise_folders()[number] / "check.py" for number in numbers]
    files = {}
    for path in sorted(set().union(*map(modules_behind, checks))):
        files |= build_table_files(path, find_tabled_functions(path))
    return files


def next_to_answers(numbers=()) -> dict[str, bytes]:
    """Return {path: contents} of the files that run next to the answers to these exercises, or all.

    Raises  ValueError if a file that says what is right is among them
    """
    files, begun = {}, begin_next_to_answers(numbers)
    for path in sorted(set().union(*map(modules_behind, begun))):
        marked = find_tabled_functions(path)
        if is_judging(path) or not all(function.beside for function in marked):
            raise ValueError(describe_judge(path, begun))
        files |= build_table_files(path, marked)
    return files


def describe_judge(path: Path, begun) -> str:
    """Describe a file that says what is right, and why it would run next to an answer."""
    behind = set().union(*map(modules_behind, begun))
    importers = [short(one) for one in sorted(behind) if path in list_imported_modules(one)]
    why = (
        f"it is imported by {' and '.join(importers)}"
        if importers
        else "a check calls it or sends it"
    )
    return f"{short(path)} says what is right, and runs next to an answer: {why}"


def begin_next_to_answers(numbers) -> set[Path]:
    """Return the modules of all that checks call next to an answer, or send to it."""
    found = set()
    folders = exercise_folders()
    for number in numbers or folders:
        exercise, folder = find_exercise(number), folders[number]
        if isinstance(exercise, Formula):
            found |= modules_named(exercise.calls_tried())
        else:
            found |= modules_named([getattr(exercise, name, None) for name in SENT])
        found |= set().union(*map(modules_called, modules_behind(folder / "check.py")))
        if type(exercise) is not Formula:
            found |= {path for path in [folder / "cases.py"] if path.exists()}
    return found


def modules_named(sent) -> set[Path]:
    """Return the files of the chapters' modules that are needed to unpickle what is sent."""
    named = [argument for _, argument, _ in pickletools.genops(pickle_value(sent))]
    paths = {path_of(name) for name in named if isinstance(name, str)}
    return {path for path in paths if path and path.exists()}


@cache
def modules_called(path: Path) -> set[Path]:
    """Return the files of the functions that a module of a check calls next to an answer."""
    module = load_module(path)
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    found = (getattr(module, name, None) for call in calls if (name := name_called(call)))
    return {path for one in found if one and (path := path_of(one.__module__))}


def name_called(call: ast.Call) -> str:
    """Return the name of the function that a call sends to an answer, or "" if it sends none."""
    sent = None
    if getattr(call.func, "id", "") in CALLS:
        sent = call.args[CALLS[call.func.id]]
    elif getattr(call.func, "attr", "") == "examine" and isinstance(call.args[0], ast.Call):
        wrapped = call.args[0]  # examine(stepped(answer)), examine(partial(batch, answer))
        sent = wrapped.args[0] if getattr(wrapped.func, "id", "") == "partial" else wrapped.func
    return getattr(sent, "id", "")


def is_judging(path: Path) -> bool:
    return path.name in ("check.py", "truth.py") or path.stem.endswith("_truth")


def path_of(module: str) -> Path | None:
    """Return the file of a module of the chapters, or None for any other module."""
    start = f"{content.__name__}."
    parts = module.removeprefix(start).split(".")
    return FOLDER.joinpath(*parts).with_suffix(".py") if module.startswith(start) else None


def load_module(path: Path):
    """Return the module of a file of the chapters."""
    parts = path.relative_to(FOLDER).with_suffix("").parts
    return importlib.import_module(".".join([content.__name__, *parts]))


def find_tabled_functions(path: Path) -> list:
    """Return the functions that a module defines under `@tabulate`."""
    module = load_module(path)
    marked = [one for one in vars(module).values() if hasattr(one, "calls")]
    return [one for one in marked if getattr(one, "__module__", "") == module.__name__]


def build_table_files(path: Path, marked) -> dict[str, bytes]:
    """Return {path: contents} of a module and its tables; without any, the module is unchanged."""
    formula = formula_of(path)
    if formula is None and not marked:
        return {short(path): path.read_bytes()}
    if formula is None:
        text = replace_functions(path, [function.__name__ for function in marked])
    else:
        named = [NAMED.format(function.__name__) for function in marked]
        text = "".join([TRUTH, *lines_of_formula(path, formula), *named])
    tables = build_tables(formula and formula.build_case_formula(), marked)
    written = json.dumps(tables, ensure_ascii=False, separators=(",", ":"))
    return {short(path): text.encode(), short(path.with_suffix(".json")): written.encode()}


def formula_of(path: Path) -> Formula | None:
    """Return the Formula whose truth a file holds, or None."""
    numbers = {folder: number for number, folder in exercise_folders().items()}
    is_truth = path.name == "truth.py" and path.parent in numbers
    exercise = find_exercise(numbers[path.parent]) if is_truth else None
    return exercise if isinstance(exercise, Formula) else None


def lines_of_formula(path: Path, formula: Formula) -> list[str]:
    """Return the lines that read the truth and the mistakes from the tables, by their names."""
    found = {name: "truth" for name, one in vars(load_module(path)).items() if one is formula.truth}
    found |= {name: "mistakes" for name, one in vars(load_module(path)).items()
              if one is formula.mistakes}  # fmt: skip
    return [f"{name} = TABLES.{what}\n" for name, what in found.items()]


def replace_functions(path: Path, names) -> str:
    """Return a module's text with these functions replaced by tables."""
    text = path.read_text(encoding="utf-8")
    lines, nodes = text.splitlines(keepends=True), ast.parse(text).body
    for node in reversed(nodes):
        if getattr(node, "name", None) in names:
            first = min(one.lineno for one in [node, *node.decorator_list])
            lines[first - 1 : node.end_lineno] = [NAMED.format(node.name)]
    end = max(n.end_lineno for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom)))
    return "".join([*lines[:end], READ, *lines[end:]])


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()

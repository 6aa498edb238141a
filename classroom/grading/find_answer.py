"""The answer to an exercise of a notebook, found by name in all that a student has handed in."""

import ast
import difflib
from dataclasses import dataclass, field, replace

from . import course
from .cell_program import assemble_program
from .programs import Program, Statement
from .scopes import DEFINITIONS, bound_by, is_complete, same_code

HOLE_LEFT = "its hole is still there"
UNTOUCHED = "it is as it was handed out"
NOTHING_HERE = "there is no function {name} in what was handed in"


@dataclass
class StudentAnswer:
    """One answer, as far as the student has written it.

    state       "written", "missing", "unfinished", or "wrong" if it cannot even be read
    source      code that defines the answer and what it needs
    shown       the answer's own text
    what        what to say of an answer that is not written
    reasons     the rule that chose it, where there was a choice
    statements  those of the answer and of what it needs
    """

    state: str
    source: str = ""
    shown: str = ""
    where: str = ""
    what: str = ""
    reasons: list[str] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)


def find_in_cells(asked, programs: list[Program]) -> StudentAnswer:
    """Find the answer to an exercise whose function is in a cell."""
    touched, untouched = definitions_of(asked, programs)
    complete = [one for one in touched if is_complete(one.node)]
    if complete:
        return build_answer(asked, choose_statement(asked, complete), complete, programs)
    if found := find_checked_answer(asked, programs):
        return found
    if unreadable := unreadable_one(asked.name, programs):
        return unreadable
    if touched:
        one = touched[-1]
        return StudentAnswer("unfinished", shown=one.text, where=one.where, what=HOLE_LEFT)
    if untouched:
        at_home = [one for one in untouched if course.stem_of(one.path) == asked.part]
        return StudentAnswer("missing", where=(at_home or untouched)[-1].where, what=UNTOUCHED)
    return StudentAnswer(
        "missing", what=NOTHING_HERE.format(name=asked.name) + alike(asked.name, programs)
    )


def definitions_of(asked, programs) -> tuple[list[Statement], list[Statement]]:
    """Return the changed and the untouched definitions that may be meant for this exercise.

    Definitions that belong to another exercise of the same name are left out.
    """
    given = find_handout_definition(asked)
    found = [
        statement
        for program in programs
        if is_home_or_nobodys(asked, program.path)
        for statement in program.statements
        if asked.name in bound_by(statement.node) and not is_course_import(statement.node)
    ]
    found = [one for one in found if number_told(one.node) in (None, asked.number)]
    untouched = [one for one in found if same_code(one.node, given) or is_the_labs_own(one, asked)]
    return [one for one in found if one not in untouched], untouched


def is_the_labs_own(statement, asked) -> bool:
    """Return whether the course's lab has the same: later parts take some answers from labs."""
    own = course.definitions_in_lab(course.stem_of(statement.path), asked.name)
    return any(same_code(statement.node, node) for node in own)


def is_home_or_nobodys(asked, path) -> bool:
    """Return whether no other exercise owns the name in the notebook or lab at this path."""
    return course.numbers_at(course.stem_of(path)).get(asked.name, asked.number) == asked.number


def find_handout_definition(asked):
    """Return the definition as learners get it."""
    statements = course.part(asked.part).statements
    return next((s.node for s in statements if getattr(s.node, "name", "") == asked.name), None)


def is_course_import(node) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
        ("pedagogy_lib", "coursekit")
    )


def number_told(node) -> str | None:
    """Return the number of the exercise that a docstring names."""
    found = course.numbers_in(ast.Module([node], [])) if isinstance(node, DEFINITIONS) else {}
    return next(iter(found.values()), None)


def choose_statement(asked, complete) -> Statement:
    """Return the last complete definition in the exercise's notebook, or else the last of all."""
    at_home = [one for one in complete if course.stem_of(one.path) == asked.part]
    return (at_home or complete)[-1]


def build_answer(asked, statement, complete, programs) -> StudentAnswer:
    text, used = assemble_program(statement, asked.name, programs, course.part(asked.part))
    reasons = []
    if len(complete) > 1:
        reasons.append(f"{len(complete)} definitions of {asked.name}: took {statement.where}")
    elif course.stem_of(statement.path) != asked.part:
        reasons.append(f"{asked.name} was found in {statement.where}")
    return StudentAnswer(
        "written", text, statement.text, statement.where, reasons=reasons, statements=used
    )


def find_checked_answer(asked, programs) -> StudentAnswer | None:
    """Find the answer that was given to `check` under another name, or without one."""
    for program in reversed(programs):
        for statement in reversed(program.statements):
            given = next(filter(None, (answer_in(n, asked) for n in ast.walk(statement.node))), "")
            if given not in ("", asked.name):
                found = build_checked_answer(asked, given, statement, programs)
                if all(is_complete(one.node) for one in found.statements):
                    return found
    return None


def build_checked_answer(asked, given, statement, programs) -> StudentAnswer:
    """Build the answer from a call of `check`, under the name that is asked for."""
    text = f"{asked.name} = {given}"
    made = replace(statement, node=ast.parse(text).body[0], text=text)
    source, used = assemble_program(made, asked.name, programs, course.part(asked.part))
    shown = "\n\n".join(one.text for one in used if isinstance(one.node, DEFINITIONS))
    reason = f'taken from check("{asked.number}", {given:.60})'
    return StudentAnswer("written", source, shown or text, made.where, "", [reason], used)


def answer_in(node, asked) -> str:
    """Return the second argument of `check("2.9", …)`, or "" for any other node."""
    is_check = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "check"
    if is_check and len(node.args) == 2 and isinstance(node.args[0], ast.Constant):
        return ast.unparse(node.args[1]) if node.args[0].value == asked.number else ""
    return ""


def unreadable_one(name, programs) -> StudentAnswer | None:
    """Return a definition that is not valid Python, as a wrong answer."""
    for program in programs:
        for problem, text in program.broken:
            if f"def {name}" in text or f"class {name}" in text:
                return StudentAnswer("wrong", shown=text, where=program.path, what=problem)
    return None


def alike(name, programs) -> str:
    """Return words on a name that is nearly the one looked for, or "" if there is none."""
    names = {n for p in programs for s in p.statements for n in bound_by(s.node)}
    close = difflib.get_close_matches(name, names - {name}, 1, 0.8)
    return f"; there is {close[0]}" if close else ""

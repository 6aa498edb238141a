"""A student's lab as it will run: its file, with answers from other files put into it."""

import ast
from dataclasses import dataclass, field

from coursekit.labs.holes import methods_with_holes

from . import course
from .cell_program import assemble_program
from .find_answer import HOLE_LEFT, NOTHING_HERE, UNTOUCHED, StudentAnswer, alike, number_told
from .programs import Program, Statement
from .scopes import DEFINITIONS, bound_by, is_complete, same_code


@dataclass
class StudentLab:
    """One lab of a student.

    found         {function: the StudentAnswer}
    as_handed_in  the text of its file, which runs if nothing has been put into it
    is_changed    whether it replaces the course's own
    """

    name: str
    found: dict[str, StudentAnswer] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    is_changed: bool = False
    as_handed_in: str = ""


def compose(name: str, programs: list[Program], given=frozenset()) -> StudentLab:
    """Compose a lab of functions from its own file, and else from any other file.

    given  numbers of exercises that are taken from the solution where the student has none
    """
    numbers, files = course.numbers_of_lab(name), files_of(name, programs)
    best = max(files, key=lambda one: how_much(one, name), default=course.lab(name))
    text = "" if best.broken else best.text
    lab = StudentLab(
        name, statements=list(best.statements), is_changed=bool(files), as_handed_in=text
    )
    for function, number in numbers.items():
        found = find_in_file(function, number, name, best)
        if found.state != "written":
            found = elsewhere(function, number, lab, best, programs) or found
        if found.state != "written" and number in given:
            put(lab, function, [definition(function, course.read_solution(name))])
        elif len(files) > 1 and found.state == "written":
            found.reasons.append(f"{len(files)} files are labs/{name}.py: took {best.path}")
        lab.found[function] = found
    return lab


def text_of(lab: StudentLab) -> str:
    """Return the text that runs; its lines are those of the student's file if that is valid."""
    return lab.as_handed_in or "\n\n\n".join(one.text for one in lab.statements) + "\n"


def files_of(name, programs) -> list[Program]:
    return [
        program for program in programs
        if course.stem_of(program.path) == name and not program.path.endswith(".ipynb")
    ]  # fmt: skip


def how_much(program, name) -> tuple:
    """Return a sort key for copies of a lab: by their answers, then by being in labs/."""
    numbers = course.numbers_of_lab(name)
    states = [
        find_in_file(function, number, name, program).state for function, number in numbers.items()
    ]
    return states.count("written"), states.count("unfinished"), "labs/" in program.path


def definition(function, program) -> Statement | None:
    """Return the last definition in a file, or None."""
    found = (one for one in reversed(program.statements) if function in bound_by(one.node))
    return next(found, None)


def find_in_file(function, number, name, program) -> StudentAnswer:
    """Find an answer in a lab's own file."""
    if problem := unreadable_in(function, program):
        return problem
    mine, ours = definition(function, program), definition(function, course.lab(name))
    if mine is None:
        return StudentAnswer(
            "missing", what=NOTHING_HERE.format(name=function) + alike(function, [program])
        )
    if ours is not None and same_code(mine.node, ours.node):
        return StudentAnswer("missing", where=mine.where, what=UNTOUCHED)
    if not is_complete(mine.node):
        return StudentAnswer("unfinished", "", mine.text, mine.where, what_is_left(mine.node))
    return StudentAnswer("written", "", mine.text, mine.where, statements=[mine])


def unreadable_in(function, program) -> StudentAnswer | None:
    for problem, text in program.broken:
        if f"def {function}(" in text or f"class {function}" in text:
            return StudentAnswer("wrong", shown=text, where=program.path, what=problem)
    return None


def what_is_left(node) -> str:
    methods = methods_with_holes(ast.Module([node], [])).get(node.name, []) \
        if isinstance(node, ast.ClassDef) else []  # fmt: skip
    return f"still to write: {', '.join(methods)}" if methods else HOLE_LEFT


def elsewhere(function, number, lab, best, programs) -> StudentAnswer | None:
    """Find an answer that the student has written in another file, and put it into the lab."""
    found = [
        statement
        for program in programs
        if program is not best and course.numbers_at(course.stem_of(program.path)).get(
            function, number) == number
        for statement in program.statements
        if isinstance(statement.node, DEFINITIONS) and statement.node.name == function
        and is_answer(statement, number, lab.name)
    ]  # fmt: skip
    if not found:
        return None
    answer, known = found[-1], names_in(lab.statements)
    part = course.part(course.find_heading(number)[0])
    _, used = assemble_program(answer, function, programs, part, known - {function})
    put(lab, function, used)
    reason = f"{function} was found in {answer.where}"
    return StudentAnswer("written", "", answer.text, answer.where, "", [reason], used)


def is_answer(statement, number, lab_name) -> bool:
    ours = definition(statement.node.name, course.lab(lab_name))
    untouched = ours is not None and same_code(statement.node, ours.node)
    meant = number_told(statement.node) in (None, number)
    return meant and is_complete(statement.node) and not untouched


def names_in(statements) -> frozenset[str]:
    return frozenset().union(*(bound_by(one.node) for one in statements))


def put(lab, function, statements):
    """Put an answer and what it needs where the function is defined last, or else at the end."""
    lab.is_changed, lab.as_handed_in = True, ""
    places = [k for k, one in enumerate(lab.statements) if function in bound_by(one.node)]
    if places:
        lab.statements[places[-1] : places[-1] + 1] = statements
    else:
        lab.statements += statements

"""A program of a definition and all that it needs, from a student's files and the course's."""

import ast
from dataclasses import dataclass

from . import course
from .programs import Program, Statement
from .scopes import IMPORTS, begins, bound_by, find_changed_names, find_free_names

LAST = (10**9, 0)


@dataclass(frozen=True)
class ProgramStatement:
    statement: Statement
    program: int  # in the order of search, which is reversed in the assembled program


def assemble_program(answer: Statement, name, programs, given: Program, known=frozenset()):
    """Return (source, its statements) of a program that defines `name` as `answer` does.

    The names that it needs come from the answer's own file, up to its cell if possible, then from
    other copies of the exercise's notebook, the course's notebook, and the student's other files.

    known  names that exist in any case
    """
    own = next((p for p in programs if answer in p.statements), None)
    own = own or next((p for p in programs if p.path == answer.path), Program(answer.path))
    at_home = [p for p in programs if course.stem_of(p.path) == course.stem_of(given.path)]
    others = [p for p in programs if p is not own and p not in at_home]
    searched = [own, *(p for p in at_home if p is not own), given, *others]
    taken: dict[int, ProgramStatement] = {id(answer): ProgramStatement(answer, 0)}
    todo = set(find_free_names(answer.text)) - known
    if name in todo and not begins(answer, name):  # `f = cache(f)`
        take(taken, find_bindings(name, own, answer.at, but=answer), 0)
    done = {name}
    while todo:
        wanted = todo.pop()
        done.add(wanted)
        for place, program in enumerate(searched):
            found = find_bindings(wanted, program, answer.at if program is own else LAST)
            if found:
                for one in found:
                    todo |= find_free_names(one.text) - done - known
                take(taken, found, place)
                break
        todo -= done
    return join_statements(taken.values(), done)


def take(taken, statements, place):
    for one in statements:
        taken.setdefault(id(one), ProgramStatement(one, place))


def find_bindings(name, program: Program, until, but=None) -> list[Statement]:
    """Return the statements that give a name its meaning in this program at the end of a cell."""
    about = [s for s in program.statements if s is not but and name in bound_by(s.node)]
    before = [one for one in about if one.at[0] <= until[0]]
    about = before or about[:1]
    if not about:
        return []
    first = max((k for k, one in enumerate(about) if begins(one, name)), default=0)
    about = about[first:]
    changes = [
        s for s in program.statements
        if about[0].at < s.at and s.at[0] <= until[0] and name in find_changed_names(s.node)
    ]  # fmt: skip
    return sorted([*about, *changes], key=lambda one: one.at)


def join_statements(chosen, names) -> tuple[str, list[Statement]]:
    ordered = sorted(chosen, key=lambda one: (-one.program, one.statement.at))
    texts = dict.fromkeys(only_needed(one.statement, names) for one in ordered)
    future = [text for text in texts if text.startswith("from __future__")]
    others = [text for text in texts if text and text not in future]
    return "\n\n".join([*future, *others]) + "\n", [one.statement for one in ordered]


def only_needed(statement, names) -> str:
    """Return a statement's text; an import keeps only the names that are needed."""
    node = statement.node
    if not isinstance(node, IMPORTS):
        return statement.text
    kept = [one for one in node.names if bound_as(one) in names or one.name == "*"]
    if isinstance(node, ast.Import):
        return ast.unparse(ast.Import(kept)) if kept else ""
    return ast.unparse(ast.ImportFrom(node.module, kept, node.level)) if kept else ""


def bound_as(alias) -> str:
    return (alias.asname or alias.name).split(".")[0]

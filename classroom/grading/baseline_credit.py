"""The facts that count for nothing in each exercise, found once per version of the course."""

import types
from pathlib import Path

from coursekit.labs import Lab, LabFunction

from . import course, facts
from .cell_program import assemble_program
from .scopes import bound_by
from .verdict_cache import VerdictCache


class Free:
    """A function of an exercise: (facts that count for nothing, lines of its solution's check)."""

    def __init__(self, folder: Path):
        self.known = VerdictCache(folder)

    def __call__(self, exercise) -> tuple[int, int]:
        key = ("course", course.version(), exercise.number)
        found = self.known.get(*key)
        if found is None:
            of = facts.facts_of(exercise, facts.does_nothing)[1]
            lines = 0 if of else len(facts.lines_of(exercise, solution(exercise))[0])
            found = {"free": facts.count_free_facts(exercise), "lines": lines}
            self.known.put(found, *key)
        return found["free"], found["lines"]


def solution(exercise):
    """Return the course's own answer, in this process."""
    asked = course.describe_exercise(exercise)
    if asked.lab:
        path = course.ROOT / "solutions" / "labs" / f"{asked.lab}.py"
        return LabFunction(Lab(asked.lab, path, path), asked.name)
    program = course.read_solution(asked.part)
    answer = next(s for s in reversed(program.statements) if asked.name in bound_by(s.node))
    text, _ = assemble_program(answer, asked.name, [program], course.part(asked.part))
    module = types.ModuleType("solution")
    exec(compile(text, f"solution of {asked.number}", "exec"), vars(module))
    return getattr(module, asked.name)

"""The judge of one submission: what the checks say of each answer, exercise by exercise."""

import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from coursekit import check_runner
from coursekit.answers.remote_answer import AnswerProcessFailed

from . import course, facts
from .call_graph import find_called_exercises
from .find_answer import StudentAnswer, find_in_cells
from .merge_lab import compose, text_of
from .programs import Program
from .suspicious import find_allowed_kinds, new_in_lab, suspicious

EMPTY = {
    "state": "missing", "score": 0.0, "where": "", "source": "", "right": [], "case": "",
    "what": "", "why": "", "printed": "", "facts": [0, 0], "reasons": [], "seconds": 0.0,
}  # fmt: skip
MOST_SHOWN = 20_000  # characters of a source, in the results


@dataclass
class Answers:
    """The answers of a submission to all that is asked.

    found  {number: StudentAnswer}
    below  {number: the exercises that its answer calls}
    looks  {number: the sentences about its suspicious statements}
    files  those that the process needs in which the answers are tried
    given  numbers of exercises whose solutions replace missing answers
    """

    found: dict[str, StudentAnswer]
    below: dict[str, set[str]]
    looks: dict[str, list[str]]
    files: dict[str, bytes]
    given: frozenset[str] = frozenset()

    def stands_in(self, number) -> bool:
        """Return whether the solution runs instead of an answer that is not written."""
        return number in self.given and self.found[number].state != "written"


def answers_in(asked, programs: list[Program], given=frozenset()) -> Answers:
    """Find the answers by their text; nothing is run."""
    names = sorted(labs_needed(asked, programs))
    labs = {name: compose(name, programs, given) for name in names}
    statements = {name: lab.statements for name, lab in labs.items()}
    answers = Answers({}, {}, {}, files_of(labs, programs), given)
    for one in asked:
        if one.lab:
            found = labs[one.lab].found[one.name]
            looked_at, own = new_in_lab(labs[one.lab]), (one.lab, one.name)
        else:
            found = find_in_cells(one, programs)
            looked_at, own = found.statements, ()
        answers.found[one.number] = found
        answers.below[one.number] = find_called_exercises(found.statements, statements, own)
        unusual = suspicious(looked_at)  # the course's own program is read only if this matters
        answers.looks[one.number] = (
            suspicious(looked_at, find_allowed_kinds(one)) if unusual else []
        )
    return answers


def labs_needed(asked, programs) -> set[str]:
    """Return the labs that exercises are in, those that are handed in, and all that they import."""
    found: set[str] = set()
    todo = {one.lab for one in asked if one.lab} | {course.stem_of(p.path) for p in programs}
    while todo := (todo & course.lab_names()) - found:
        found |= todo
        todo = set().union(*map(course.imports_of_lab, todo))
    return found


def files_of(labs, programs) -> dict[str, bytes]:
    """Return the student's labs, and the student's own modules next to them."""
    files = {f"labs/{n}.py": text_of(lab).encode() for n, lab in labs.items() if lab.is_changed}
    for program in programs:
        name = program.path.rsplit("/", 1)[-1]
        stem = course.stem_of(program.path)
        is_own = name.endswith(".py") and name[:-3].isidentifier() and stem not in labs
        if is_own and not course.numbers_at(stem) and program.text:
            files.setdefault(f"labs/{name}", program.text.encode(errors="replace"))
    return files


@dataclass
class Judge:
    """A judge of the answers of one submission.

    open_sandbox_for  opens the sandbox of the submission's files, as `open_sandbox` does
    free              returns how many facts of an exercise count for nothing, see `Free`
    """

    answers: Answers
    open_sandbox_for: Callable
    free: Callable

    def __enter__(self):
        self.stack, self.sandbox, self.states = ExitStack(), None, {}
        return self

    def __exit__(self, *error):
        return self.stack.__exit__(*error)

    def judge_answer(self, asked) -> dict:
        """Return the entry of one answer in the results. Call it in the order of the exercises."""
        began, found = time.perf_counter(), self.answers.found[asked.number]
        shown = {"where": found.where, "source": found.shown[:MOST_SHOWN]}
        entry = EMPTY | shown | {"reasons": list(found.reasons)}
        if found.state != "written":
            entry |= {"state": found.state, "what": found.what}
        elif missing := self.report_missing_dependency(asked):
            entry |= {"state": "wrong", "case": "before it runs", "what": missing}
        else:
            entry |= self.check_answer(asked, found)
        self.states[asked.number] = entry["state"]
        return entry | {"seconds": round(time.perf_counter() - began, 3)}

    def find_own_dependencies(self, asked) -> list[str]:
        """Return the asked exercises that an answer calls and that no solution stands in for."""
        below = self.answers.below[asked.number] & self.answers.found.keys()
        own = [number for number in below if not self.answers.stands_in(number)]
        return sorted(own, key=course.parse_number)

    def report_missing_dependency(self, asked) -> str:
        """Return what to say of an answer that calls an unwritten one, or "" if it calls none."""
        for number in self.find_own_dependencies(asked):
            state = self.answers.found[number].state
            if state != "written":
                said = "which cannot be read" if state == "wrong" else f"which is {state}"
                return f"{asked.number} builds on {number}, {said}"
        return ""

    def check_answer(self, asked, found) -> dict:
        exercise = check_runner.find_exercise(asked.number)
        if getattr(exercise, "needs", ()):
            exercise = replace(exercise, needs=())  # they are judged separately
        try:
            answer = self.answer(asked, found)
            verdict = check_runner.run_check(exercise, answer, asked.title)
        except (Exception, AnswerProcessFailed, SystemExit) as error:
            last = traceback.format_exception_only(error)[-1].strip()
            return {"state": "broken", "what": f"the check came to no verdict: {last:.300}"}
        printed = verdict.printed.kept if verdict.printed else ""
        entry = {"right": list(verdict.lines), "printed": printed}
        if verdict.passed:
            return entry | {"state": "right", "score": 1.0, "facts": [1, 1]}
        wrong = verdict.wrong
        entry |= {"state": "wrong", "case": wrong.case, "what": wrong.what, "why": wrong.why}
        return entry | self.partial(exercise, answer, verdict) | self.blame_dependency(asked, found)

    def answer(self, asked, found):
        sandbox = self.sandbox_for_next()
        if asked.lab:
            return sandbox.load_lab_function(asked.lab, asked.name)
        return sandbox.load_cell_function(found.source, asked.name)

    def sandbox_for_next(self):
        """Return the process of this submission, a new one if an answer has ended the last."""
        if self.sandbox is None or self.sandbox.is_lost:
            self.stack.close()
            self.sandbox = self.stack.enter_context(self.open_sandbox_for(self.answers.files))
        return self.sandbox

    def partial(self, exercise, answer, verdict) -> dict:
        if self.sandbox.is_lost:
            return {}
        try:
            right, of = facts.facts_of(exercise, answer, verdict.wrong, verdict.lines)
            free, all_lines = self.free(exercise) if right else (0, 0)
        except (Exception, AnswerProcessFailed, SystemExit) as error:
            return {"why": f"{verdict.wrong.why}\n(no partial credit: {error})"}
        if right == 0:
            return {"facts": [0, max(1, of)]}
        score, counted = facts.score_of(right, of or all_lines, free)
        return {"score": score, "facts": counted}

    def blame_dependency(self, asked, found) -> dict:
        """Return a reason for a wrong answer that calls another wrong answer, or {}."""
        wrong = [n for n in self.find_own_dependencies(asked) if self.states.get(n) == "wrong"]
        if not wrong:
            return {}
        said = f"{asked.number} builds on {wrong[0]}, which is wrong: that comes first"
        return {"reasons": [*found.reasons, said]}

"""The answers to exercises on ranks that were tried, each with a digest of all that was behind it.

Trying them all takes long, and what they come to changes only with the check, its lab, or
the answers. So tests/answers/tried.json says which ones were tried in what state, `make test` reads
it, and `make answers` tries those that have changed since:

python tests/trials.py          tries these, and notes them if all are told as they should be
python tests/trials.py 6.3 6.4  tries these, changed or not

`make test` itself tries the first right and the first wrong answer to the exercises in LIVE, which
together use everything that the kit has.
"""

import hashlib
import json
import subprocess
import sys
from functools import cache

from answer_files import (
    FOLDER,
    all_answers,
    exercises_of_kind,
    imports_of,
    solution_of,
    task_of,
)  # fmt: skip

from pedagogy_lib.course import build
from pedagogy_lib.course.checking import EXERCISES, modules_of
from pedagogy_lib.course.record_inputs import digest_file, input_files, modules_behind
from pedagogy_lib.exercises.kit import Formula

TRIED = FOLDER / "tried.json"
TESTS = ["tests/test_answers.py", "tests/test_rank_exercises.py"]
LIVE = (
    "2.4", "2.5", "2.12", "3.6", "3.10", "3.11", "3.18", "4.7", "4.10", "4.11", "5.2", "5.4", "5.8",
    "5.11", "6.6", "6.9", "6.12", "6.13", "7.4", "7.7", "7.9", "7.12", "8.7", "8.9", "8.16", "8.17",
    "8.18", "9.12", "9.19", "10.20", "11.4",
)  # fmt: skip


@cache
def exercises_on_ranks() -> list:
    return [exercise for exercise in exercises_of_kind() if not isinstance(exercise, Formula)]


def check_file(exercise):
    return EXERCISES / f"{modules_of()[exercise.number].replace('.', '/')}.py"


def digest_trial(exercise) -> str:
    """Return a digest of a check, its answers, and the task, with the labs behind them."""
    check = check_file(exercise)
    modules = modules_behind(check)
    texts = [path.read_text(encoding="utf-8") for path in sorted(modules)]
    program = "\n".join([*texts, task_of(exercise), solution_of(exercise), imports_of(exercise)])
    files = modules | input_files(program, build.ROOT)
    state = [
        program,
        sorted([*path.parts[-2:], digest_file(path)] for path in files),
        [[a.kind, a.words, a.text, a.given] for a in all_answers() if a.exercise is exercise],
    ]
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()


def changed_exercises() -> list[str]:
    """Return the numbers of the exercises whose answers were not tried as all is now."""
    tried = json.loads(TRIED.read_text()) if TRIED.exists() else {}
    found = {exercise.number: digest_trial(exercise) for exercise in exercises_on_ranks()}
    return [number for number, digest in found.items() if tried.get(number) != digest]


def note_tried(numbers):
    tried = json.loads(TRIED.read_text()) if TRIED.exists() else {}
    on_ranks = {exercise.number: exercise for exercise in exercises_on_ranks()}
    tried |= {number: digest_trial(on_ranks[number]) for number in numbers}
    kept = {number: tried[number] for number in on_ranks if number in tried}
    TRIED.write_text(json.dumps(kept, indent=1) + "\n")


def main(numbers) -> int:
    numbers = numbers or changed_exercises()
    if not numbers:
        print("all answers were tried as they are")
        return 0
    print(f"trying the answers to {len(numbers)} exercises: {', '.join(numbers)}", flush=True)
    chosen = " or ".join(f"[{number}" for number in numbers)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "3", "--dist", "loadfile", *TESTS]
    status = subprocess.run([*command, "-k", chosen], cwd=build.ROOT, check=False).returncode
    if status == 0:
        note_tried(numbers)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The answers to exercises on ranks that were tried, each with a digest of all that was behind it.

Trying them all takes long, and what they come to changes only with the check, its lab, or
the answers. So tests/support/tried.json says which ones were tried in what state, `make test` reads
it, and `make answers` tries those that have changed since:

python tests/support/trials.py          tries these, and notes them if all are as they should be
python tests/support/trials.py 6.3 6.4  tries these, changed or not

`make test` itself tries the first right and the first wrong answer to the exercises in LIVE, which
together use everything that the kit has.
"""

import hashlib
import json
import subprocess
import sys
from functools import cache
from itertools import groupby
from pathlib import Path

from answer_files import (
    all_answers,
    definition_in,
    exercises_of_kind,
    imports_of,
    source_files_of,
)  # fmt: skip

from coursekit.building import build
from coursekit.building.record_inputs import (
    digest_file,
    input_files,
    modules_behind,
    read_code,
    remove_course_imports,
)
from coursekit.chapters import exercise_folders, exercise_numbers
from coursekit.kit import Formula

TRIED = Path(__file__).with_name("tried.json")
TESTS = ["tests/chapters/test_answers.py", "tests/chapters/test_rank_exercises.py"]
LIVE_NAMES = """
    reduce_tree chunk_to_send all_reduce_halving_doubling train_steps average_in_backward
    no_sync serve_as_they_come watcher wrong_by_recomputing microbatches_of
    train_and_validate loss_scaler backward_in_chunks micro_batches_for train_by_owner
    away_and_back zero3 sharded_linear column_linear row_layer sum_of_experts
    vocabulary_embedding pipeline exchange in_place_stage back_through_both sliced_stage
    derive exchange_rows shard name_the_faults
"""
LIVE = [exercise_numbers()[name] for name in LIVE_NAMES.split()]


@cache
def exercises_on_ranks() -> list:
    return [exercise for exercise in exercises_of_kind() if not isinstance(exercise, Formula)]


def check_file(exercise):
    return exercise_folders()[exercise.number] / "check.py"


def digest_trial(exercise) -> str:
    """Return a digest of a check, its answers, and the task, with the labs behind them."""
    check = check_file(exercise)
    modules = modules_behind(check)
    texts = [
        read_code(remove_course_imports(path.read_text(encoding="utf-8")))
        for path in sorted(modules)
    ]
    paths = source_files_of(exercise)
    written = definition_in([path.read_text(encoding="utf-8") for path in paths], exercise)
    program = "\n".join([*texts, read_code(written), imports_of(exercise)])
    files = modules | input_files(program, build.ROOT)
    state = [
        program,
        sorted([*path.parts[-2:], digest_file(path)] for path in files),
        [[a.kind, a.words, a.text, a.given] for a in all_answers() if a.exercise is exercise],
    ]
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()


def find_stale_exercises() -> list[str]:
    """Return the numbers of the exercises whose answers were not tried as all is now."""
    tried = read_tried()
    return [e.number for e in exercises_on_ranks() if tried.get(name_of(e)) != digest_trial(e)]


def read_tried() -> dict[str, str]:
    """Return {name of an exercise: the digest with which its answers were tried}."""
    return json.loads(TRIED.read_text()) if TRIED.exists() else {}


def note_tried(numbers):
    on_ranks = {exercise.number: exercise for exercise in exercises_on_ranks()}
    tried = read_tried() | {name_of(on_ranks[n]): digest_trial(on_ranks[n]) for n in numbers}
    kept = {name: tried[name] for name in map(name_of, on_ranks.values()) if name in tried}
    TRIED.write_text(json.dumps(kept, indent=1) + "\n")


def name_of(exercise) -> str:
    return exercise_folders()[exercise.number].name


def main(numbers) -> int:
    numbers = numbers or find_stale_exercises()
    if not numbers:
        print("all answers were tried as they are")
        return 0
    print(f"trying the answers to {len(numbers)} exercises: {', '.join(numbers)}", flush=True)
    chapters = groupby(numbers, key=lambda number: number.partition(".")[0])
    return max(try_answers(list(some)) for _, some in chapters)


def try_answers(numbers) -> int:
    """Try the answers to some exercises, and note these if all is well; returns pytest's status."""
    names = {exercise.number: name_of(exercise) for exercise in exercises_on_ranks()}
    chosen = " or ".join(f"([{number} and {names[number]})" for number in numbers)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "3", "--dist", "loadfile", *TESTS]
    status = subprocess.run([*command, "-k", chosen], cwd=build.ROOT, check=False).returncode
    if status == 0:
        note_tried(numbers)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

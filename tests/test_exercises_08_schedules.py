"""Chapter 08, schedules and bubbles: right answers pass, and each wrong one is told what is wrong.

All of it is arithmetic: no ranks are launched.
"""

import linecache
import textwrap

import pytest
from helpers import ROOT, put_lab

from pedagogy_lib import check
from pedagogy_lib.basics.closeness import close
from pedagogy_lib.course import checking
from pedagogy_lib.course.build import with_holes
from pedagogy_lib.exercises import best_sizes, bubbles, generators, turns, warm_ups
from pedagogy_lib.schedules.timelines import kept_after, simulate

MODULES = generators, turns, bubbles, best_sizes, warm_ups
EXERCISES = {e.number: e for module in MODULES for e in module.EXERCISES}
SOLVED = (ROOT / "solutions" / "labs" / "schedules.py").read_text()
HEADS = {  # before the body of an answer
    "8.1": 'def gpipe(rank, ranks, microbatches):\n    "Exercise 8.1."',
    "8.2": "def bubble(stages, microbatches):",
    "8.3": "def most_kept(row):",
    "8.4": 'def one_f_one_b(rank, ranks, microbatches):\n    "Exercise 8.4."',
    "8.5": "def one_f_one_b(rank, ranks, microbatches):",
    "8.10": "def best_size(seconds_of, samples, stages):",
    "8.11": 'def turn(k, ranks, chunks, kind="F"):\n    "Exercise 8.11."',
}
IN_A_LAB = ["8.1", "8.4", "8.11"]


@pytest.fixture(autouse=True)
def only_these(monkeypatch):
    monkeypatch.setattr(checking, "exercises_of", lambda chapter: EXERCISES)


@pytest.fixture
def check_body(tmp_path, monkeypatch):
    """Check an exercise whose function has another body, in the lab or in a cell."""

    def check_one(number, body):
        body = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
        source = f"{HEADS[number]}\n{body}\n"
        if number not in IN_A_LAB:
            return check(number, in_a_cell(number, source))
        put_lab(tmp_path, monkeypatch, "schedules", f"{SOLVED}\n\n{source}", SOLVED)
        return check(number)

    return check_one


def in_a_cell(number, source):
    file = f"cell of {number}"
    space = {"__name__": "__main__", "Action": bubbles.Action}
    exec(compile(source, file, "exec"), space)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return space[EXERCISES[number].name]


def answers(text) -> dict[str, str]:
    """{phrase of the diagnosis: body} from parts that begin with `### phrase`."""
    parts = [part.partition("\n") for part in text.split("### ")[1:]]
    return {phrase.strip(): body for phrase, _, body in parts}


ONE_F_ONE_B = """
warm_up = min(ranks - 1 - rank, microbatches)
for i in range(warm_up):
    yield Action("F", i)
for i in range(warm_up, microbatches):
    yield Action("F", i)
    yield Action("B", i - warm_up)
for i in range(microbatches - warm_up, microbatches):
    yield Action("B", i)
"""


def with_warm_up(warm_up) -> str:
    return ONE_F_ONE_B.replace("min(ranks - 1 - rank, microbatches)", warm_up)


# ---- Right answers -----------------------------------------------------------------------------

AS_A_QUEUE = """
waiting, kept = list(range(microbatches)), []
row = []
while waiting or kept:
    if waiting and len(kept) < ranks - rank:
        kept.append(waiting.pop(0))
        row.append(Action("F", kept[-1]))
    else:
        row.append(Action(kind="B", microbatch=kept.pop(0)))
return row
"""
BACKWARD_FIRST_IN_THE_LOOP = """
begin = min(ranks - rank, microbatches)
yield from (Action("F", i) for i in range(begin))
for i in range(microbatches):
    yield Action("B", i)
    if begin + i < microbatches:
        yield Action("F", begin + i)
"""
RIGHT = {
    "8.1": {
        "the solution": 'for kind in "FB":\n    for i in range(microbatches):\n'
                        "        yield Action(kind, i)",
        "a list": 'return [Action(kind, i) for kind in "FB" for i in range(microbatches)]',
        "an iterator": 'numbers, kinds = [*range(microbatches)], "F" * microbatches\n'
                       'return map(Action, kinds + kinds.replace("F", "B"), numbers * 2)',
        "two loops, by name": """
            i = 0
            while i < microbatches:
                yield Action(kind="F", microbatch=i, chunk=0)
                i += 1
            yield from (Action("B", i) for i in range(microbatches))
        """,
    },
    "8.4": {
        "the solution": ONE_F_ONE_B,
        "as a queue": AS_A_QUEUE,
        "the backward first": BACKWARD_FIRST_IN_THE_LOOP,
    },
    "8.5": {
        "the solution": ONE_F_ONE_B,
        "as a queue": AS_A_QUEUE,
        "the steady part mended instead": BACKWARD_FIRST_IN_THE_LOOP,
        "one less of the old warm-up": with_warm_up("max(min(ranks - rank - 1, microbatches), 0)"),
    },
    "8.2": {
        "the solution": "idle = stages - 1\n"
                        "return idle / (microbatches + idle), idle / microbatches",
        "a list of fractions": """
            from fractions import Fraction
            share = Fraction(stages - 1, microbatches + stages - 1)
            return [share, share / (1 - share)]
        """,
        "simulated": """
            work = stages * microbatches
            whole = stages * (microbatches + stages - 1)
            return (whole - work) / whole, (whole - work) / work
        """,
    },
    "8.3": {
        "the solution": """
            kept = most = 0
            for action in row:
                kept += (action.kind == "F") - (action.kind in "BW")
                most = max(most, kept)
            return most
        """,
        "a set of what is kept": """
            kept, most = set(), 0
            for kind, i, chunk in row:
                if kind == "F":
                    kept.add((i, chunk))
                elif kind != "I":
                    kept.remove((i, chunk))
                most = max(most, len(kept))
            return most
        """,
        "accumulated": """
            from itertools import accumulate
            steps = {"F": 1, "B": -1, "I": 0, "W": -1}
            return max(accumulate(steps[a.kind] for a in row), default=0)
        """,
    },
    "8.10": {
        "the solution": """
            def step_seconds(size):
                return (samples // size + stages - 1) * seconds_of[size]
            return min((size for size in seconds_of if samples % size == 0), key=step_seconds)
        """,
        "sorted pairs": """
            return sorted(
                ((samples / b + stages - 1) * t, b) for b, t in seconds_of.items()
                if not samples % b
            )[0][1]
        """,
        "a loop": """
            best, least = None, float("inf")
            for b, t in seconds_of.items():
                m = samples / b
                if m == int(m) and (m - 1) * t + stages * t < least:
                    best, least = float(b), (m - 1) * t + stages * t
            return best
        """,
    },
    "8.11": {
        "the solution": """
            group, k = divmod(k, ranks * chunks)
            chunk, i = divmod(k, ranks)
            return Action(kind, group * ranks + i, chunk if kind == "F" else chunks - 1 - chunk)
        """,
        "without divmod": """
            chunk = k // ranks % chunks
            if kind != "F":
                chunk = chunks - 1 - chunk
            return Action(kind, k // (ranks * chunks) * ranks + k % ranks, chunk)
        """,
        "from the whole list": """
            order = range(chunks) if kind == "F" else reversed(range(chunks))
            one = [(c, i) for c in order for i in range(ranks)]
            chunk, i = one[k % len(one)]
            return Action(kind, k // len(one) * ranks + i, chunk)
        """,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("number", "style"), [(number, style) for number, of in RIGHT.items() for style in of]
)
def test_right_answers_of_any_style_pass(number, style, check_body):
    verdict = check_body(number, RIGHT[number][style])
    assert verdict.passed, verdict
    assert 3 <= len(verdict.lines) <= 8


# ---- Wrong answers -----------------------------------------------------------------------------

SIZES = "sizes = [b for b in seconds_of if samples % b == 0]\n"
PIPELINED = "min(sizes, key=lambda b: (samples / b + stages - 1) * seconds_of[b])"
WRONG = {
    "8.1": answers("""
### only one rank at a time has
for i in range(microbatches):
    yield Action("F", i)
    yield Action("B", i)
### the backwards come in the opposite order
for i in range(microbatches):
    yield Action("F", i)
for i in reversed(range(microbatches)):
    yield Action("B", i)
### nothing goes back
for i in range(microbatches):
    yield Action("F", i)
### the loop has to go over the micro-batches
for kind in "FB":
    for i in range(ranks):
        yield Action(kind, i)
### micro-batches are counted from 0 on
for kind in "FB":
    for i in range(1, microbatches + 1):
        yield Action(kind, i)
### F0 is only how it prints itself
for kind in "FB":
    for i in range(microbatches):
        yield f"{kind}{i}"
### a pipeline asks for action.kind
for kind in "FB":
    for i in range(microbatches):
        yield kind, i
### the third part is the chunk
for kind in "FB":
    for i in range(microbatches):
        yield Action(kind, i, rank)
### `yield` gives it, and goes on
for kind in "FB":
    for i in range(microbatches):
        return Action(kind, i)
### give each action with `yield`
rows = [Action(kind, i) for kind in "FB" for i in range(microbatches)]
### yield one action at a time
yield [Action("F", i) for i in range(microbatches)]
yield [Action("B", i) for i in range(microbatches)]
### the kind comes first
for kind in "FB":
    for i in range(microbatches):
        yield Action(i, kind)
### that is for the zero bubble
for kind in "FIW":
    for i in range(microbatches):
        yield Action(kind, i)
### there is a loop that never ends
while True:
    yield Action("F", 0)
### that is for exercise 8.4
warm_up = min(ranks - rank, microbatches)
yield from (Action("F", i) for i in range(warm_up))
for i in range(microbatches):
    yield Action("B", i)
    if i + warm_up < microbatches:
        yield Action("F", i + warm_up)
"""),
    "8.4": {
        "`ranks - rank` counts this rank, too": with_warm_up("min(ranks - rank, microbatches)"),
        "the wrong way round: the last rank": with_warm_up("min(rank, microbatches)"),
        "the wrong way round: the last": with_warm_up("min(rank + 1, microbatches)"),
        "it takes at most all of them": with_warm_up("ranks - 1 - rank"),
        "all ranks warm up alike": with_warm_up("min(ranks - 1, microbatches)"),
        "a warm-up twice as long as it has to be: it": with_warm_up(
            "min(2 * (ranks - 1 - rank), microbatches)"
        ),
        "and this rank is counted, too: as": with_warm_up("min(2 * (ranks - rank), microbatches)"),
        "Only the last one can: the others wait": with_warm_up("0"),
        "this is GPipe, and every rank keeps": with_warm_up("microbatches"),
        "the warm-up is below 0 on the last rank": with_warm_up(
            "min(ranks - rank - 2, microbatches)"
        ),
        "one forward too few": with_warm_up("max(0, min(ranks - rank - 2, microbatches))"),
        "their backwards are the cool-down": ONE_F_ONE_B.partition("for i in range(microbatches -")[
            0
        ],
        "microbatches - warm_up backwards are done": ONE_F_ONE_B.replace(
            "range(microbatches - warm_up, microbatches)", "range(warm_up)"
        ),
        "the newest micro-batch comes first": ONE_F_ONE_B.replace("i - warm_up)", "i)"),
        "after the warm-up the forward comes first": """
            warm_up = min(ranks - 1 - rank, microbatches)
            for i in range(warm_up):
                yield Action("F", i)
            for i in range(warm_up, microbatches):
                yield Action("B", i - warm_up)
                yield Action("F", i)
            for i in range(microbatches - warm_up, microbatches):
                yield Action("B", i)
        """,
    },
    "8.5": {
        "when can it go back with its first": with_warm_up("min(ranks - rank, microbatches)"),
        "the warm-up is below 0 on the last rank": with_warm_up(
            "min(ranks - rank - 2, microbatches)"
        ),
        "one forward too few": with_warm_up("max(0, min(ranks - rank - 2, microbatches))"),
        "Only the last one can: the others wait": with_warm_up("0"),
        "the wrong way round: the last rank": with_warm_up("min(rank, microbatches)"),
        "all ranks warm up alike": with_warm_up("min(ranks - 1, microbatches)"),
        "all ranks warm up alike. A": with_warm_up("min(2, microbatches)"),
        "it takes at most all of them": with_warm_up("ranks - 1 - rank"),
        "their backwards are the cool-down": ONE_F_ONE_B.partition("for i in range(microbatches -")[
            0
        ],
        "this is GPipe, and every rank keeps": with_warm_up("microbatches"),
        "after the warm-up the forward comes first": """
            warm_up = min(ranks - 1 - rank, microbatches)
            for i in range(warm_up):
                yield Action("F", i)
            for i in range(warm_up, microbatches):
                yield Action("B", i - warm_up)
                yield Action("F", i)
            for i in range(microbatches - warm_up, microbatches):
                yield Action("B", i)
        """,
    },
    "8.2": answers("""
### the two are swapped
idle = stages - 1
return idle / microbatches, idle / (microbatches + idle)
### this is the share of the whole once more
share = (stages - 1) / (microbatches + stages - 1)
return share, share
### this is idle time over the ideal, the second
return ((stages - 1) / microbatches,) * 2
### but not for itself
return stages / (microbatches + stages), stages / microbatches
### work and idle time together
return (stages - 1) / (microbatches + stages), (stages - 1) / microbatches
### the 2 is above and below
idle = 2 * (stages - 1)
return idle / (microbatches + idle), idle / microbatches
### it works for microbatches turns of each
return (stages - 1) / (microbatches + stages - 1), 2 * (stages - 1) / microbatches
### the 3 is above and below
return 3 * (stages - 1) / (microbatches + stages - 1), (stages - 1) / microbatches
### microbatches of them: the 3 is above
return (stages - 1) / (microbatches + stages - 1), 3 * (stages - 1) / microbatches
### divided by the number of stages
return (stages - 1) / (microbatches + stages - 1), (stages - 1) / stages
### how much of the time the ranks are busy
return microbatches / (microbatches + stages - 1), (stages - 1) / microbatches
### how many times as long
idle = stages - 1
return idle / (microbatches + idle), (microbatches + idle) / microbatches
### asked is the number: 0.25, not 25
idle = stages - 1
return 100 * idle / (microbatches + idle), 100 * idle / microbatches
### cuts off what comes after the point
idle = stages - 1
return idle // (microbatches + idle), idle // microbatches
### it seems to be rounded
idle = stages - 1
return round(idle / (microbatches + idle), 2), round(idle / microbatches, 2)
### return the two numbers alone
return (stages - 1) / (microbatches + stages - 1)
### without a pipeline
return (stages - 1) / stages, stages - 1
### one stage alone has no bubble
idle = stages - 1
return 1 / (1 + microbatches / idle), idle / microbatches
"""),
    "8.3": answers("""
### these are the forwards in all
return sum(action.kind == "F" for action in row)
### what is kept at the end
kept = 0
for action in row:
    kept += (action.kind == "F") - (action.kind in "BW")
return kept
### with the first half of the backward
kept = most = 0
for action in row:
    kept += 1 if action.kind == "F" else -1 if action.kind in "BI" else 0
    most = max(most, kept)
return most
### by both halves of its backward
kept = most = 0
for action in row:
    kept += 1 if action.kind == "F" else -1
    most = max(most, kept)
return most
### W frees what is kept, just as B does
kept = most = 0
for action in row:
    kept += {"F": 1, "B": -1}.get(action.kind, 0)
    most = max(most, kept)
return most
### before the first backward
most = 0
for action in row:
    if action.kind != "F":
        break
    most += 1
return most
### this is the longest run of forwards
run = most = 0
for action in row:
    run = run + 1 if action.kind == "F" else 0
    most = max(most, run)
return most
### a rank keeps one on each chunk
kept, most = set(), 0
for kind, i, chunk in row:
    if kind == "F":
        kept.add(i)
    elif kind in "BW":
        kept.discard(i)
    most = max(most, len(kept))
return most
### most right after a forward
kept = most = 0
for action in row:
    if action.kind == "F":
        kept += 1
    elif action.kind != "I":
        kept -= 1
        most = max(most, kept)
return most
### max() of nothing needs default=0
counts = [0]
for action in row:
    counts.append(counts[-1] + (action.kind == "F") - (action.kind in "BW"))
return max(counts[1:])
### go through it, and leave it as it is
kept = most = 0
while row:
    action = row.pop(0)
    kept += (action.kind == "F") - (action.kind in "BW")
    most = max(most, kept)
return most
### the highest number of a micro-batch
return max((action.microbatch for action in row), default=0)
### a function without `return`
kept = most = 0
for action in row:
    kept += (action.kind == "F") - (action.kind in "BW")
    most = max(most, kept)
"""),
    "8.10": answers(f"""
### this one computes fastest for each sample
{SIZES}return min(sizes, key=lambda b: seconds_of[b] / b)
### this one makes the smallest bubble
{SIZES}return min(sizes)
### the largest size has the fewest
{SIZES}return max(sizes)
### it does not divide the batch
return min(seconds_of, key=lambda b: (samples // b + stages - 1) * seconds_of[b])
### the bubble is counted too large
{SIZES}return min(sizes, key=lambda b: (samples / b + stages) * seconds_of[b])
### each with its forward and its backward
{SIZES}return min(sizes, key=lambda b: (samples / b + 2 * stages - 2) * seconds_of[b])
### how many micro-batches there are
{SIZES}return samples // {PIPELINED}
### these are seconds
{SIZES}return min((samples / b + stages - 1) * seconds_of[b] for b in sizes)
### asked is the size alone
{SIZES}return min(((samples / b + stages - 1) * seconds_of[b], b) for b in sizes)
### it belongs to the caller
for b in [b for b in seconds_of if samples % b]:
    del seconds_of[b]
return min(seconds_of, key=lambda b: (samples / b + stages - 1) * seconds_of[b])
### a function without `return`
{SIZES}{PIPELINED}
"""),
    "8.11": answers("""
### the chunk changes with each action
group = k // (ranks * chunks)
chunk = k % chunks
return Action(kind, group * ranks + k % ranks, chunk if kind == "F" else chunks - 1 - chunk)
### each micro-batch goes through all chunks
chunk = k % chunks
return Action(kind, k // chunks, chunk if kind == "F" else chunks - 1 - chunk)
### what is missing is `ranks` for each group
chunk = k // ranks % chunks
return Action(kind, k % ranks, chunk if kind == "F" else chunks - 1 - chunk)
### the backwards take the chunks in the order
group, k = divmod(k, ranks * chunks)
return Action(kind, group * ranks + k % ranks, k // ranks)
### only the chunks are the other way round
group, k = divmod(k, ranks * chunks)
chunk, i = divmod(k, ranks)
if kind == "B":
    chunk, i = chunks - 1 - chunk, ranks - 1 - i
return Action(kind, group * ranks + i, chunk)
### the other way round are the chunks
group, k = divmod(k, ranks * chunks)
chunk, i = divmod(k, ranks)
return Action(kind, group * ranks + (i if kind == "F" else ranks - 1 - i), chunk)
### the chunk is counted on beyond the last
group, chunk = k // (ranks * chunks), k // ranks
return Action(kind, group * ranks + k % ranks, chunk if kind == "F" else chunks - 1 - chunk)
### begins only `ranks` micro-batches later
group, k = divmod(k, ranks * chunks)
chunk, i = divmod(k, ranks)
return Action(kind, group * ranks * chunks + i, chunk if kind == "F" else chunks - 1 - chunk)
### a group has as many micro-batches as
group, k = divmod(k, ranks * chunks)
chunk, i = divmod(k, chunks)
return Action(kind, group * chunks + i, chunk if kind == "F" else ranks - 1 - chunk)
### a micro-batch has more than one turn
chunk = k // ranks % chunks
return Action(kind, k, chunk if kind == "F" else chunks - 1 - chunk)
### this is the stage of the model
group, k = divmod(k, ranks * chunks)
chunk, i = divmod(k, ranks)
return Action(kind, group * ranks + i, (chunk if kind == "F" else chunks - 1 - chunk) * ranks)
### the argument `kind`
group, k = divmod(k, ranks * chunks)
chunk, i = divmod(k, ranks)
return Action("F", group * ranks + i, chunk if kind == "F" else chunks - 1 - chunk)
### divide with //
group = k // (ranks * chunks)
chunk = k / ranks % chunks
return Action(kind, group * ranks + k % ranks, chunk if kind == "F" else chunks - 1 - chunk)
### asked is one action
group, k = divmod(k, ranks * chunks)
yield Action(kind, group * ranks + k % ranks, k // ranks)
### a pipeline asks for action.kind
group, k = divmod(k, ranks * chunks)
return kind, group * ranks + k % ranks, k // ranks
### `return` the action
group, k = divmod(k, ranks * chunks)
"""),
}


@pytest.mark.parametrize(
    ("number", "phrase"), [(number, phrase) for number, of in WRONG.items() for phrase in of]
)
def test_wrong_answers_are_told_what_is_wrong(number, phrase, check_body):
    verdict = check_body(number, WRONG[number][phrase])
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict
    assert max(map(len, str(verdict).splitlines())) <= checking.COLUMNS


def test_interleaved_may_not_be_changed(tmp_path, monkeypatch):
    """The check of `turn` runs the lab's whole schedule with it."""
    changed = SOLVED.replace("2 * (ranks - 1 - rank) + (chunks - 1) * ranks", "ranks - 1 - rank")
    put_lab(tmp_path, monkeypatch, "schedules", changed, SOLVED)
    verdict = check("8.11")
    assert "has `interleaved` itself been changed?" in verdict.wrong.why, verdict
    assert "rank 0 does B0.1 before F0.1: a backward needs" in verdict.wrong.what


@pytest.mark.parametrize("number", EXERCISES)
def test_an_error_is_told_with_its_line(number, check_body):
    word = "yield" if number in ("8.1", "8.4", "8.5") else "return"
    verdict = check_body(number, f"x = microbatch_number\n{word} x")
    assert "NameError: name 'microbatch_number' is not defined" in verdict.wrong.what, verdict
    assert "x = microbatch_number" in verdict.wrong.what, verdict


def test_a_micro_batch_below_zero(check_body):
    verdict = check_body("8.4", with_warm_up("min(ranks - rank - 2, microbatches)"))
    assert verdict.wrong.what == "rank 3 does F-1: micro-batches begin at 0"
    verdict = check_body("8.1", "for kind in 'FB':\n    for i in range(-1, microbatches):\n"
                                "        yield Action(kind, i)")  # fmt: skip
    assert "does a `range` begin below 0" in verdict.wrong.why


def test_a_formula_that_agrees_with_a_misconception_in_one_case_alone(check_body):
    """For 4 stages and 8 micro-batches this is 2 (stages - 1) / microbatches."""
    body = "return (stages - 1) / (microbatches + stages - 1), 6 / microbatches"
    wrong = check_body("8.2", body).wrong
    assert wrong.case.startswith("4 stages, 8") and wrong.why == ""


def test_an_action_without_its_micro_batch(check_body):
    assert 'Action("F", 0)' in check_body("8.1", 'yield Action("F")').wrong.why


# ---- Holes and programs with a bug -------------------------------------------------------------


def test_untouched_holes_are_refused_politely(tmp_path, monkeypatch, check_body):
    put_lab(tmp_path, monkeypatch, "schedules", with_holes(SOLVED), SOLVED)
    for number in IN_A_LAB:
        verdict = check(number)
        assert verdict.passed is None and "in labs/schedules.py" in str(verdict)
    for number in ("8.2", "8.3", "8.10"):
        verdict = check_body(number, "...  # your code here")
        assert verdict.passed is None and "in its cell" in str(verdict)


def test_what_the_program_with_the_bug_keeps(check_body):
    verdict = check_body("8.5", with_warm_up("min(ranks - rank, microbatches)"))
    assert "the ranks keep up to [5, 4, 3, 2] micro-batches" in verdict.wrong.what
    assert "ranks - 1" not in verdict.wrong.why


# ---- The checks themselves ---------------------------------------------------------------------


@pytest.mark.parametrize("number", EXERCISES)
def test_there_are_enough_of_all(number):
    assert len(WRONG[number]) >= 6
    assert len(RIGHT[number]) >= 3
    assert 2 <= len(EXERCISES[number].hints) <= 4


def test_the_truth_about_what_is_kept():
    for text, most in bubbles.ROWS.values():
        row = bubbles.row_of(text)
        assert " ".join(map(str, row)) == text
        assert max(kept_after(row), default=0) == most
        assert kept_after(row)[-1:] in ([], [0])


@pytest.mark.parametrize(("ranks", "m"), [(1, 1), (3, 7), (5, 2), (8, 16)])
def test_the_truth_about_schedules(ranks, m):
    """Both take m + ranks - 1 turns, and keep what their papers say."""
    gpipe, one_f_one_b = (
        simulate(rows(ranks, m)) for rows in (generators.rows_of_gpipe, generators.rows_in_memory)
    )
    assert gpipe.seconds == one_f_one_b.seconds == 3 * bubbles.slots_of(ranks, m)
    assert bubbles.slots_of(ranks, m) == m + ranks - 1
    assert gpipe.most_kept == [m] * ranks
    assert one_f_one_b.most_kept == [min(m, ranks - rank) for rank in range(ranks)]


def test_every_misconception_gives_something_wrong():
    for place, guesses in enumerate((bubbles.guesses_at_share, bubbles.guesses_at_overhead)):
        tables = [[guess for _, guess in guesses(*size)] for size in bubbles.SIZES]
        right = bubbles.right_numbers(*bubbles.SIZES[0])[place]
        assert not any(close(guess, right) for guess in tables[0])
        assert len(set(zip(*tables))) == len(tables[0])
    ranks, chunks = turns.SHOWN[0]
    right = [action[1:] for action in turns.turns(ranks, chunks, "B")]
    for guess in turns.GUESSES_AT_TURNS.values():
        assert [guess(k, ranks, chunks, True) for k in range(len(right))] != right

"""Bubbles and what is kept, in figures: exercises 8.2 and 8.3. Arithmetic alone, without ranks."""

from contextlib import suppress
from math import isclose
from typing import NamedTuple

from ...basics.closeness import close
from ...basics.units import counted
from ...course.checking import Wrong
from ...schedules.timelines import text_of
from ..kit.answers import numbers_of
from ..kit.outcomes import number_in, outcome_of
from .slots import slots_of

# ---- 8.2: the bubble, in both conventions ------------------------------------------------------

SIZES = [(4, 8), (2, 2), (8, 32), (4, 1), (1, 5), (64, 512)]  # stages, micro-batches
NAMES = ("the share of the whole", "idle over the ideal")
TWO_NUMBERS = (
    "return the two numbers alone: the share of the whole, and the idle time over the ideal"
)


def examine_bubble(answer):
    for stages, m in SIZES:
        case = f"{counted(stages, 'stage')}, {counted(m, 'micro-batch')}"
        got, right = two_numbers(case, answer, stages, m), right_numbers(stages, m)
        for place, name in enumerate(NAMES):
            if not close(got[place], right[place]):
                what = f"{name}: expected {right[place]:.6g}, got {got[place]:.6g}"
                raise Wrong(case, what, why_bubble(answer, place))
        yield f"{case}: idle {right[0]:.1%} of the whole, {right[1]:.1%} over the ideal"


def two_numbers(case, answer, stages, m) -> list[float]:
    return numbers_of(case, value_of(case, answer, stages, m), NAMES, TWO_NUMBERS)


def right_numbers(stages, m) -> tuple[float, float]:
    slots = slots_of(stages, m)
    return 1 - m / slots, slots / m - 1


def value_of(case, answer, *args):
    """What a call gives; raises `Wrong` if it raises something."""
    outcome = outcome_of(answer, *args)
    if outcome.error:
        raise Wrong(case, str(outcome), BUBBLE_ERRORS.get(outcome.error, ""))
    return outcome.value


BUBBLE_ERRORS = {
    "ZeroDivisionError": "one stage alone has no bubble, so nothing may be divided by stages - 1",
}
SWAPPED = "the two are swapped: first the share of the whole, which is never more than 1"
ROUNDED = "it seems to be rounded: return the number itself"
IN_PERCENT = "this is in percent; asked is the number: 0.25, not 25"


def why_bubble(answer, place) -> str:
    """The misconception that gives an answer's numbers in all cases: in one they may agree."""
    found = numbers_in_all(answer)
    rights = {size: right_numbers(*size) for size in found}
    if all(close(found[size], rights[size][::-1]) for size in found):
        return SWAPPED
    guesses = [[guesses_at_share, guesses_at_overhead][place](*size) for size in found]
    got = [of[place] for of in found.values()]
    for formula in zip(*guesses):  # its sentence and its number, in each case
        if close(got, [guess for _, guess in formula]):
            return formula[0][0]
    pairs = list(zip(got, (right[place] for right in rights.values())))
    if all(isclose(number, 100 * right, rel_tol=1e-3) for number, right in pairs):
        return IN_PERCENT
    return ROUNDED if all(abs(number - right) < 0.006 for number, right in pairs) else ""


def numbers_in_all(answer) -> dict[tuple[int, int], list[float]]:
    """{(stages, micro-batches): what it gives}, where it gives two numbers."""
    found = {}
    for size in SIZES:
        with suppress(Wrong):
            found[size] = two_numbers("", answer, *size)
    return found


ONE_FEWER = (
    "stages counted where their number less one is meant: the last stage waits for all others, "
    "but not for itself. Each rank is idle for stages - 1 turns"
)
TWICE = (
    "each rank is idle for stages - 1 turns of a forward, and for as many of a backward. But it "
    "works for microbatches turns of each, too: the 2 is above and below"
)
THRICE = (
    "a turn is a forward and a backward, 3 times as long as the forward alone. Each rank is idle "
    "for stages - 1 of them and works for microbatches of them: the 3 is above and below"
)
CUT_OFF = "// cuts off what comes after the point: divide with /"
ALL_TOGETHER = (
    "the idle time of all ranks is divided by the time of one: count both for all ranks, or both "
    "for one"
)


def guesses_at_share(stages, m) -> list[tuple[str, float]]:
    """[(sentence, the share that this misconception gives), …]."""
    idle, whole = stages - 1, m + stages - 1
    return [
        (OVER_THE_IDEAL, idle / m),
        (ONE_FEWER, stages / (m + stages)),
        (ONE_FEWER, stages / whole),
        (ONE_TOO_MANY, idle / (m + stages)),
        (TWICE, 2 * idle / (m + 2 * idle)),
        (TWICE, 2 * idle / whole),
        (THRICE, 3 * idle / (m + 3 * idle)),
        (THRICE, 3 * idle / whole),
        (BUSY, m / whole),
        (CUT_OFF, idle // whole),
        (ALL_TOGETHER, stages * idle / whole),
        (NO_PIPELINE, idle / stages),
    ]


OVER_THE_IDEAL = (
    "this is idle time over the ideal, the second number. A share of the whole is divided by all "
    "the time, idle or not"
)
ONE_TOO_MANY = "the whole takes microbatches + stages - 1 turns: work and idle time together"
BUSY = "this is how much of the time the ranks are busy; asked is how much they are idle"
NO_PIPELINE = "as if only one stage worked at a time, without a pipeline: here they overlap"


def guesses_at_overhead(stages, m) -> list[tuple[str, float]]:
    """[(sentence, the idle time over the ideal that this misconception gives), …]."""
    idle, whole = stages - 1, m + stages - 1
    return [
        (OF_THE_WHOLE, idle / whole),
        (ONE_FEWER, stages / m),
        (TWICE, 2 * idle / m),
        (THRICE, 3 * idle / m),
        (BY_STAGES, idle / stages),
        (AS_LONG, whole / m),
        (CUT_OFF, idle // m),
        (ALL_TOGETHER, stages * idle / m),
        (INVERTED, m / idle if idle else 0),
        (NO_PIPELINE, idle),
    ]


OF_THE_WHOLE = (
    "this is the share of the whole once more. Over the ideal: idle time for each second of work, "
    "so it is divided by the work alone"
)
AS_LONG = (
    "this is how many times as long as the ideal it takes; asked is what comes on top of it: 1 less"
)
INVERTED = "upside down: idle time is divided by work"
BY_STAGES = (
    "the idle time is divided by the number of stages. It is to be divided by a rank's work, one "
    "turn for each micro-batch"
)


# ---- 8.3: how many micro-batches are kept ------------------------------------------------------


class Action(NamedTuple):
    """An action as the lab has it: of this type are those that an answer gets."""

    kind: str
    microbatch: int
    chunk: int = 0

    def __str__(self):
        return text_of(*self)


# {case: (row, most kept at a time)}
ROWS = {
    "1F1B, rank 1 of 4": ("F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5", 3),
    "GPipe, 4 micro-batches": ("F0 F1 F2 F3 B0 B1 B2 B3", 4),
    "1F1B, the last rank": ("F0 B0 F1 B1 F2 B2", 1),
    "a row that keeps most in its middle": ("F0 B0 F1 F2 B1 F3 F4 B2 B3 B4", 3),
    "two chunks": (
        "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3", 5,
    ),
    "backwards in two halves": ("F0 I0 W0 F1 F2 I1 F3 W1 I2 W2 I3 W3", 3),
    "whole backwards and halves": ("F0 F1 B0 F2 I1 F3 W1 B2 B3", 3),
    "nothing to do": ("", 0),
}  # fmt: skip


def row_of(text) -> list[Action]:
    """Actions from their text: `F0 F0.1 B0`."""
    words = [(word[0], *word[1:].partition(".")) for word in text.split()]
    return [Action(kind, int(i), int(chunk or 0)) for kind, i, _, chunk in words]


def examine_most_kept(answer):
    for case, (text, right) in ROWS.items():
        row = row_of(text)
        outcome = outcome_of(answer, row)
        if outcome.error:
            raise Wrong(case, f"{outcome}\n{text}", "" if row else NOTHING_KEPT)
        got = number_in(case, outcome)
        if row != row_of(text):
            raise Wrong(case, "the row has changed: it is to be run afterwards", LOOK_ONLY)
        if got != right:
            guesses = guesses_at_kept(row, right)
            why = next((why for why, guess in guesses.items() if guess == got), "")
            raise Wrong(case, f"expected {right}, got {got:g}\n{text}", why)
        yield f"{case}: {right}"


LOOK_ONLY = "the list belongs to the caller: go through it, and leave it as it is"
NOTHING_KEPT = "an empty row keeps nothing: 0. max() of nothing needs default=0"


def highest(row, frees) -> int:
    """The most that are kept, if actions of the kinds `frees` free one each."""
    kept = [0]
    for kind, *_ in row:
        kept.append(kept[-1] + (kind == "F") - (kind in frees))
    return max(kept)


def longest_run(row) -> int:
    kinds = "".join(kind for kind, *_ in row)
    for kind in "BIW":
        kinds = kinds.replace(kind, " ")
    return max(map(len, kinds.split(" ")))


def numbers_kept(row) -> int:
    """The most different micro-batches, if the first backward of one frees it in all chunks."""
    kept, most = set(), 0
    for kind, i, _ in row:
        kept = kept | {i} if kind == "F" else kept - {i} if kind in "BW" else kept
        most = max(most, len(kept))
    return most


def guesses_at_kept(row, right) -> dict[str, int]:
    """{sentence: what this misconception counts}."""
    kinds = [kind for kind, *_ in row]
    first_back = next((n for n, kind in enumerate(kinds) if kind != "F"), len(kinds))
    return {
        "W frees what is kept, just as B does": highest(row, "B"),
        "with the first half of the backward, I, nothing is free yet: the second one, W, still "
        "needs what was kept": highest(row, "BI"),
        "a micro-batch is freed twice, by both halves of its backward: only W frees it":
            highest(row, "BIW"),
        "these are the forwards in all. Each backward frees what its forward has kept: count up "
        "and down": kinds.count("F"),
        "this is what is kept at the end. Asked is the most at a time: note the highest": 0,
        "these are the forwards before the first backward. It goes on up and down after that: "
        "there may be more later": first_back,
        "this is the longest run of forwards. What was kept before it counts, too":
            longest_run(row),
        "different micro-batches are counted. With several chunks a rank keeps one on each chunk "
        "that it has gone through": numbers_kept(row),
        "one too few: a rank keeps most right after a forward, before the next backward":
            right - 1,
        "this is the highest number of a micro-batch": max((i for _, i, _ in row), default=0),
        "this is how many actions there are": len(row),
    }  # fmt: skip

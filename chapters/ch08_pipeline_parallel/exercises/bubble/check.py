"""The bubble of GPipe, in both conventions."""

from coursekit.kit import Formula
from coursekit.kit.results import equal, is_number, text_of
from pedagogy_lib.basics.units import format_count

from .cases import ANY
from .truth import MISTAKES, right

SIZES = [(4, 8), (2, 2), (8, 32), (4, 1), (1, 5), (64, 512)]  # stages, micro-batches

NAMES = ("the share of the whole", "idle over the ideal")


def same(got, wanted) -> bool:
    is_right = [number is ANY or equal(*pair) for *pair, number in zip(got, wanted, wanted)]
    return len(got) == len(wanted) and all(is_right)


def differs(call, wanted, got) -> str:
    if len(got) != len(wanted):
        return f"expected two numbers, got {len(got)}"
    wrong = next(k for k in range(2) if not equal(got[k], wanted[k]))
    return f"{NAMES[wrong]}: expected {text_of(wanted[wrong])}, got {text_of(got[wrong])}"


def why_no_numbers(found, case) -> str:
    value = found[case][0]
    if isinstance(value, list) and (len(value) != 2 or not all(map(is_number, value))):
        return EXERCISE.shape
    return ""


EXERCISE = Formula(
    "bubble",
    cases={
        f"{format_count(p, 'stage')}, {format_count(m, 'micro-batch')}": [(p, m)] for p, m in SIZES
    },
    truth=right,
    same=same,
    right=lambda calls, found: "idle {:.1%} of the whole, {:.1%} over the ideal".format(*found[0]),
    differs=differs,
    explain=why_no_numbers,
    asked="two numbers",
    shape="return two numbers, and nothing else: the share of the whole, and the idle time over "
    "the ideal. With one stage, too",
    errors={
        "division by zero": "one stage alone has no bubble, so nothing may be divided by stages - 1"
    },
    mistakes=MISTAKES,
    hints=(
        "Count for one rank, in turns of one micro-batch each: how many does it work for, and "
        "how many does it wait for the others, at the beginning and at the end together?",
        "The last stage gets its first micro-batch after stages - 1 turns, and then works "
        "without a break. Every rank is idle for as long.",
        "idle = stages - 1 turns, work = microbatches turns. The first number is "
        "idle / (work + idle), the second idle / work.",
    ),
)

"""The bytes that a rank sends in each collective."""

from fractions import Fraction
from math import isclose

from coursekit.kit import Formula, Wrong
from coursekit.kit.formula import NONE_HERE, value_of
from coursekit.kit.results import equal, need_kind, text_of
from coursekit.kit.tables import tabulate

from .cases import COLLECTIVES, X, read_sent_bytes, run_on
from .truth import MISTAKES


def how(name, n) -> str:
    return "needed" if name == "reduce_scatter" else run_on(n)[name].wire


def need_proportion(answer):
    """Check exactly where n does not divide X, as a tolerance for headers would hide rounding."""
    for name in COLLECTIVES:
        for n, x in UNEVEN:
            case, got = f"{name}, {n} ranks, X = {x:,} bytes", value_of(answer, (name, n, x))
            if got is None:
                raise Wrong(case, "it returned None", NONE_HERE)
            need_kind(case, got, 1.0, ROUNDED if n == 3 else OTHER_N)
            wanted = sum_sends(name, n, x)
            if not equal(got, wanted):
                what = f"it gave {text_of(got)} bytes; they are {text_of(wanted)}"
                raise Wrong(case, what, ROUNDED if isclose(got, wanted, rel_tol=0.3) else OTHER_N)
    yield "without headers, and where n does not divide X: exact"


UNEVEN = [(3, 10), (7, 1_000_000)]  # ranks, X


@tabulate(lambda: [(name, *size) for name in COLLECTIVES for size in UNEVEN])
def sum_sends(name, n, x) -> float:
    return float(sum(size for _, size in sends_of(name, n, Fraction(x))))


def sends_of(name, n, x) -> list[tuple]:
    """Return (receiver, bytes) of each piece that rank 0 sends in a collective, in order."""
    to_each = [(peer, x / n) for peer in range(1, n)]
    round_the_ring = [(1, x / n) for _ in range(n - 1)]
    ways = {"all_reduce": round_the_ring * 2, "all_to_all": to_each}
    return ways.get(name, round_the_ring)


ROUNDED = (
    "bytes are in proportion to X. Is the size of a chunk rounded, as by // or int()? Is a factor "
    "rounded, or are headers counted? A formula holds for every X, also where n does not divide it"
)

OTHER_N = (
    "it is right for 2, 3 and 4 ranks. A formula holds for every n: is there a table of factors in "
    "it, or a number of ranks?"
)

EXERCISE = Formula(
    "sent_bytes",
    cases={
        f"{name}, {n} ranks, X = 2.4 MB": [(name, n, X)] for n in (4, 3, 2) for name in COLLECTIVES
    },
    truth=read_sent_bytes,
    same=lambda got, wanted: isclose(got, wanted, rel_tol=0.01),  # messages have headers, too
    right=lambda calls, values: (
        f"{values[0] / 1e6:.2f} MB, {how(*calls[0][:2])} {read_sent_bytes(*calls[0]) / 1e6:.2f} MB"
    ),
    differs=lambda call, wanted, got: (
        f"it gave {got / 1e6:.2f} MB, {how(*call[:2])} {wanted / 1e6:.2f} MB"
    ),
    mistakes=MISTAKES,
    also=need_proportion,
    hints=(
        "Bytes are messages times the size of a message. In a ring every message is X / n.",
        "How many steps has a reduce-scatter? An all-gather? And an all-reduce is both.",
    ),
)  # fmt: skip

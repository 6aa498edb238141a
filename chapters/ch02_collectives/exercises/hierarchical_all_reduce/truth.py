"""The right results, and the results of known mistakes."""

import re
from pathlib import Path

import torch

from coursekit.answers.remote_answer import try_on_ranks
from coursekit.kit import Rejection, Wrong
from pedagogy_lib.basics.units import format_bytes

from ..shared.misconceptions import hang_between_neighbours
from .cases import FIRST, Case, run_answer
from .two_levels import BY_HAND, IN_TURNS, count_sent_bytes, crossings, judge

CASES = [
    FIRST,
    Case(2, 2, (7,)),
    Case(1, 3, (5,)),
    Case(3, 1, (4,)),
    Case(2, 2, (3, 5)),
    Case(3, 2, (2,)),
    Case(2, 3, (10,)),
    Case(2, 3, (2,)),
    Case(2, 2, (), torch.int64),
    Case(2, 3, (7,), in_turns=True),
]

LARGE = [Case(machines, ranks, (480_000,)) for machines, ranks in ((2, 2), (3, 2), (2, 3))]

SMALL = Case(2, 2, (1200,), torch.float32)  # tried for the cost, where extra numbers show

TOLERANCE = 0.02  # share of the bytes, because chunks may differ in length


def try_case(case, answer):
    return try_on_ranks(
        str(case), run_answer, answer, case, world_size=case.n,
        explain=lambda error: why_it_fails(case, error),
    )  # fmt: skip


def why_it_fails(case, error) -> str:
    place, cause = getattr(error, "place", None), getattr(error, "exception", None)
    if isinstance(cause, Rejection):
        return cause.why
    in_the_rings = any(Path(p.filename).stem == "collectives" for p in places_of(error))
    if case.in_turns:
        return IN_TURNS
    if hasattr(error, "waits"):
        if "new_group" in str(error):
            return "dist.new_group has to be called by every rank of the world, for all groups."
        return NOT_ALL_TAKE_PART if in_the_rings else hang_between_neighbours(case, error)
    if place and re.search(rf"dist\.({COLLECTIVES})", place.source()):
        return BY_HAND
    if isinstance(cause, IndexError):
        return OTHER_SIZE if in_the_rings else ANOTHER_NUMBER
    if "not part of group" in str(error):
        return "`across` has as many ranks as there are machines: 1 or 3 as well as 2."
    return ANOTHER_NUMBER if "enforce fail" in str(error) else ""


def places_of(error) -> list:
    return [p for p in (getattr(error, "place", None), *getattr(error, "waits", {}).values()) if p]


COLLECTIVES = "all_reduce|reduce_scatter|all_gather|reduce|broadcast|gather|scatter|all_to_all"

OTHER_SIZE = (
    "a ring got another number of chunks than its group has ranks. Cut x into as many as `inside` "
    "has, and hand `inside` to both rings: without a group they run in the whole world."
)

ANOTHER_NUMBER = (
    "a rank has three numbers: dist.get_rank() is that in the world, dist.get_rank(inside) its "
    "place in its machine, and dist.get_rank(across) its machine. A peer is named by its number in "
    "the group only where the group is handed on. And no rank sends to itself."
)

NOT_ALL_TAKE_PART = (
    "in each step all ranks of a group have to take part, in the same order: those of `inside` in "
    "the first and in the last, those of `across` in the second. Does one of them leave a step "
    "out, or take another group?"
)


def cost(case, answer) -> str:
    run = try_case(case, answer)
    judge(case, run)
    nbytes, machines, ranks = run.values[0].nbytes, case.machines, case.ranks
    across, inside = count_sent_bytes(case, run, True), count_sent_bytes(case, run, False)
    leaving = [
        sum(across[r] for r in case.list_machine_ranks(machine)) for machine in range(machines)
    ]
    through_card = 2 * (machines - 1) / machines * nbytes
    of_a_rank = 2 * (ranks - 1) / ranks * nbytes
    if max(leaving) < (1 - TOLERANCE) * through_card:
        what = f"its messages carry {format_bytes(max(leaving))} away from a machine"
        raise Wrong(f"cost, {case}", f"{what}, {format_bytes(through_card)} are needed", BY_HAND)
    for most, needed, what, why in (
        (max(leaving), through_card, "{} leave a machine, {} are enough", why_so_much),
        (max(across), through_card / ranks, "a rank sends {} across, {} are enough", why_alone),
        (max(inside), of_a_rank, "a rank sends {} inside its machine, {} are enough", why_inside),
    ):
        if most > (1 + TOLERANCE) * needed:
            what = what.format(format_bytes(most), format_bytes(needed))
            other = other_numbers(case, most / needed)
            raise Wrong(f"cost, {case}", what, other or why(case, run, most / nbytes))
    least = f"{format_bytes(max(leaving))} leave each machine, the least there is"
    return f"cost, {case}: {least}; inside a rank sends {format_bytes(max(inside))}"


def other_numbers(case, times) -> str:
    """Diagnose wrong bytes in the small case, which is tried last: the steps are right."""
    if case != SMALL:
        return ""
    if abs(times - 2) < 2 * TOLERANCE:
        return (
            "the result is right, but each number takes twice as many bytes on its way as in x: "
            "send it in the dtype of x."
        )
    return (
        "for long tensors the cost is right, but here more numbers travel than x has. Chunks may "
        "differ by one element: x needs no filling up."
    )


def why_so_much(case, run, times) -> str:
    right = "the result is right, but "
    if abs(times - 2 * (case.machines - 1) / case.machines * case.ranks) < 0.1:
        return (
            f"{right}every rank sends its whole x across: then each card carries it {case.ranks} "
            "times. Of its machine's sum, a rank has to send one chunk across: the one that the "
            "reduce-scatter inside leaves with it."
        )
    first_sends = [crossed[0] for crossed in crossings(case, run) if crossed]
    if all(first_sends) or case.machines == 2:
        return (
            f"{right}too much goes from machine to machine. Only the all-reduce over `across`, of "
            "one chunk of each rank, has to."
        )
    return (
        f"{right}too much goes across: on {case.machines} machines a ring sends each chunk "
        f"2 ({case.machines} - 1) / {case.machines} times, and what sends it to everybody sends "
        f"it {times:.3g} times."
    )


def why_alone(case, run, times) -> str:
    return (
        "the result is right, but a rank sends across for all of its machine, while the others "
        "wait. Each is to send one chunk, all at once."
    )


def why_inside(case, run, times) -> str:
    return (
        "the result is right, but inside the machine more is sent than need be. A reduce-scatter "
        "and an all-gather send (n - 1) / n of x each; an all-reduce inside does both, and the "
        "all-gather at the end comes on top."
    )

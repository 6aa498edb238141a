"""An all-reduce that sends as little as possible from machine to machine."""

import os
import re
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist

from ...basics.closeness import close, close_in_float32
from ...basics.units import counted, format_bytes
from ...course.checking import Exercise, Wrong, try_on_ranks
from ...measuring.recorder import measure
from ..kit.contributions import contributions, ranks_text, told_contributions
from ..kit.differences import difference
from ..kit.trials import fine_numbers, same
from .misconceptions import hang_between_neighbours


class Case(NamedTuple):
    machines: int
    ranks: int  # of each machine
    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float64

    @property
    def n(self) -> int:
        return self.machines * self.ranks

    def __str__(self):
        of_each = f" of {counted(self.ranks, 'rank')}" + ("" if self.machines == 1 else " each")
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{counted(self.machines, 'machine')}{of_each}, {dtype}{list(self.shape)}"

    def before(self) -> list[torch.Tensor]:
        """What each rank has."""
        return [fine_numbers(rank, self.shape, self.dtype) for rank in range(self.n)]


CASES = [
    Case(2, 2, (8,)),
    Case(2, 2, (7,)),
    Case(1, 3, (5,)),
    Case(3, 1, (4,)),
    Case(2, 2, (3, 5)),
    Case(3, 2, (2,)),
    Case(2, 3, (10,)),
    Case(2, 3, (2,)),
    Case(2, 2, (), torch.int64),
]
LARGE = [Case(machines, ranks, (480_000,)) for machines, ranks in ((2, 2), (3, 2), (2, 3))]
TOLERANCE = 0.02  # of the bytes: a length need not divide


def examine(answer):
    for case in CASES:
        judge(case, tried(case, answer))
        yield str(case)
    for case in LARGE:
        yield cost(case, answer)


def tried(case, answer):
    return try_on_ranks(
        str(case), on_a_rank, answer, case, world_size=case.n,
        explain=lambda error: why_it_fails(case, error),
    )  # fmt: skip


def on_a_rank(answer, case):
    rank, size = dist.get_rank(), case.ranks
    os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"] = str(rank % size), str(size)
    os.environ["GROUP_RANK"] = str(rank // size)
    inside = [list(range(first, first + size)) for first in range(0, case.n, size)]
    across = [list(range(place, case.n, size)) for place in range(size)]
    groups = [(ranks, dist.new_group(ranks)) for ranks in inside + across]
    inside, across = (group for ranks, group in groups if rank in ranks)
    x = case.before()[rank]
    dist.barrier()
    with measure("answer"):
        answer(x, inside, across)
    return x


def why_it_fails(case, error) -> str:
    place = getattr(error, "place", None)
    in_the_rings = any(Path(p.filename).stem == "collectives" for p in places_of(error))
    if hasattr(error, "waits"):
        if "new_group" in str(error):
            return "dist.new_group has to be called by every rank of the world, for all groups."
        return NOT_ALL_TAKE_PART if in_the_rings else hang_between_neighbours(case, error)
    if place and re.search(rf"dist\.({COLLECTIVES})", place.source()):
        return BY_HAND
    if isinstance(error.exception, IndexError):
        return OTHER_SIZE if in_the_rings else ANOTHER_NUMBER
    if "not part of group" in str(error):
        return "`across` has as many ranks as there are machines: 1 or 3 as well as 2."
    return ANOTHER_NUMBER if "enforce fail" in str(error) else ""


def places_of(error) -> list:
    return [p for p in (getattr(error, "place", None), *getattr(error, "waits", {}).values()) if p]


COLLECTIVES = "all_reduce|reduce_scatter|all_gather|reduce|broadcast|gather|scatter|all_to_all"
BY_HAND = "use the rings of collectives.py: how torch.distributed does it, is told afterwards."
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


# ---- Values ---


def judge(case, run):
    need_by_hand(case, run)
    total = sum(case.before())
    for rank, got in enumerate(run.values):
        if not same(got, total):
            what = difference(f"rank {rank}: x", got, total)
            raise Wrong(str(case), what, next(filter(None, whys(case, run))))


def need_by_hand(case, run):
    calls = [call for calls in run["answer"].calls for call in calls]
    for call in calls:
        if call.peer is None and call.name != "barrier":
            raise Wrong(str(case), f"it calls dist.{call.name}", BY_HAND)


def whys(case, run):
    """What a wrong result may come from, the most telling first; "" where it does not."""
    found, before, total = run.values, case.before(), sum(case.before())
    yield unchanged(case, found, before)
    yield another_multiple(case, found, total)
    yield in_float32(found, total)
    yield sum_of_machines_alone(case, run, before)
    yield sum_of_places_alone(case, found, before)
    yield own_chunks_alone(case, run, total)
    yield last_elements_left_out(case, found, total)
    yield right_on_some(case, found, total)
    yield whose_numbers(case, found, before, total)
    yield (
        "after the reduce-scatter inside, rank k of the machine has the machine's sum of chunk k. "
        "That chunk, and nothing else, is to be summed over `across`."
    )


def unchanged(case, found, before) -> str:
    if not all(map(torch.equal, found, before)):
        return ""
    if case != CASES[0]:
        return "here x is as it was, and for other lengths it is summed: any length is possible."
    return "x is as it was: write the sums into its memory, by chunks that share it."


def another_multiple(case, found, total) -> str:
    names = {case.n: "ranks", case.machines: "machines", case.ranks: "ranks of a machine"}
    for times, name in names.items():
        if times > 1 and all(close(got * times, total) for got in found):
            if times == case.n:
                return "this is the mean. The sum was asked for."
            return f"this is the sum divided by {times}, the number of {name}: do not divide."
        if times > 1 and all(close(got, total * times) for got in found):
            return f"this is {times} times the sum: it has been added up in one step too many."
    return ""


def in_float32(found, total) -> str:
    is_rounded = total.is_floating_point() and all(close_in_float32(got, total) for got in found)
    return "this is the sum, rounded to float32: keep the dtype of x." if is_rounded else ""


def sum_of_machines_alone(case, run, before) -> str:
    for rank, got in enumerate(run.values):
        first = rank // case.ranks * case.ranks
        if not same(got, sum(before[first : first + case.ranks])):
            return ""
    if not any(map(any, crossings(case, run))):
        return "each machine has its own sum: the step across machines is missing."
    return (
        "each machine has its own sum, though something has gone across. Did each rank sum the one "
        "chunk over `across` of which it has the machine's sum, and in the memory of x?"
    )


def sum_of_places_alone(case, found, before) -> str:
    sums = [sum(before[place :: case.ranks]) for place in range(case.ranks)]
    if not all(same(got, sums[rank % case.ranks]) for rank, got in enumerate(found)):
        return ""
    return "each rank has the sum over `across` alone: what its machine has is missing."


def own_chunks_alone(case, run, total) -> str:
    places = [rank % case.ranks for rank in range(case.n)]
    if not all(map(chunk_is_right, run.values, [total] * case.n, places, [case.ranks] * case.n)):
        return ""
    chunk = "each rank has its own chunk of the whole sum, and the rest is unfinished: "
    if any(crossed and crossed[-1] for crossed in crossings(case, run)):
        return chunk + (
            "the all-gather inside the machine is missing. It is the last step, behind the one "
            "across, in `inside`."
        )
    return chunk + (
        "the all-gather inside is there, but does not bring it. Does it work on the chunks of x, "
        "and with as many as the machine has ranks?"
    )


def chunk_is_right(got, total, place, ranks) -> bool:
    mine, right = (x.view(-1).tensor_split(ranks)[place] for x in (got, total))
    return same(mine, right)


def last_elements_left_out(case, found, total) -> str:
    whole = total.numel() // case.ranks * case.ranks
    heads = (got.flatten()[:whole] for got in found)
    if not all(same(head, total.flatten()[:whole]) for head in heads):
        return ""
    return (
        "the last elements are not summed: chunks of length // n leave a rest. "
        "x.view(-1).tensor_split(n) makes chunks that differ by one element at most."
    )


def right_on_some(case, found, total) -> str:
    right = [rank for rank, got in enumerate(found) if same(got, total)]
    wrong = [rank for rank in range(case.n) if rank not in right]
    if not right:
        return ""
    return (
        f"{ranks_text(right)} {'has' if len(right) == 1 else 'have'} the sum, and "
        f"{ranks_text(wrong)} {'has' if len(wrong) == 1 else 'have'} not: every rank of `across` "
        "needs the sum of its chunk, and every rank of `inside` all chunks."
    )


def whose_numbers(case, found, before, total) -> str:
    """Of the first chunk that is wrong: whose numbers are in it, and how often."""
    for rank, got in enumerate(found):
        for k in range(case.ranks):
            mine, right, *parts = (
                x.view(-1).tensor_split(case.ranks)[k] for x in (got, total, *before)
            )
            if same(mine, right):
                continue
            times = contributions(mine, parts)
            if times is None or not any(times):
                return ""
            return f"in rank {rank}'s chunk {k} (of {case.ranks}), {told_contributions(times)}."
    return ""


# ---- Traffic ---


def crossings(case, run) -> list[list[bool]]:
    """Of each rank's messages, in their order: whether it goes to another machine."""
    return [
        [call.peer // case.ranks != rank // case.ranks for call in calls if call.name == "send"]
        for rank, calls in enumerate(run["answer"].calls)
    ]


def sent(case, run, across) -> list[int]:
    """Bytes that each rank has sent to other machines, or to ranks of its own."""
    return [
        sum(call.sent_bytes for call in calls if call.name == "send"
            and across == (call.peer // case.ranks != rank // case.ranks))
        for rank, calls in enumerate(run["answer"].calls)
    ]  # fmt: skip


def cost(case, answer) -> str:
    run = tried(case, answer)
    judge(case, run)
    nbytes, machines, ranks = run.values[0].nbytes, case.machines, case.ranks
    across, inside = sent(case, run, True), sent(case, run, False)
    leaving = [sum(across[first : first + ranks]) for first in range(0, case.n, ranks)]
    through_card = 2 * (machines - 1) / machines * nbytes
    of_a_rank = 2 * (ranks - 1) / ranks * nbytes
    for most, needed, what, why in (
        (max(leaving), through_card, "{} leave a machine, {} are enough", why_so_much),
        (max(across), through_card / ranks, "a rank sends {} across, {} are enough", why_alone),
        (max(inside), of_a_rank, "a rank sends {} inside its machine, {} are enough", why_inside),
    ):
        if most > (1 + TOLERANCE) * needed:
            what = what.format(format_bytes(most), format_bytes(needed))
            raise Wrong(f"cost, {case}", what, why(case, run, most / nbytes))
    least = f"{format_bytes(max(leaving))} leave each machine, the least there is"
    return f"cost, {case}: {least}; inside a rank sends {format_bytes(max(inside))}"


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


EXERCISE = Exercise(
    "2.14",
    "hierarchical_all_reduce",
    examine,
    (
        "Three of the functions that you know, one for each step: the first and the last in "
        "`inside`, the second in `across`.",
        "Cut x.view(-1) into as many chunks as the machine has ranks. After reduce_scatter_ring "
        "inside, which chunk does this rank have the sum of?",
        "chunks[dist.get_rank(inside)] is what goes across, in all_reduce_ring.",
    ),
    lab="across_machines",
    needs=("2.6", "2.7", "2.8"),
)

"""An all-reduce that sends as little as possible from machine to machine."""

import torch
import torch.distributed as dist

from ...basics.closeness import close
from ...basics.units import counted, format_bytes
from ...course.checking import Exercise, Wrong, try_on_ranks
from ...measuring.recorder import measure
from ..kit.trials import fine_numbers
from .misconceptions import hang_between_neighbours

# (machines, ranks of each, shape); the last one is large, for its cost
CASES = [
    (2, 2, (8,)),
    (2, 2, (7,)),
    (1, 3, (5,)),
    (3, 1, (4,)),
    (2, 2, (3, 5)),
    (3, 2, (2,)),
    (2, 3, (10,)),
]
LARGE = (2, 2, (480_000,))
TOLERANCE = 0.02  # of the bytes: a length need not divide


def examine(answer):
    for case in CASES:
        judge(case, tried(case, answer))
        yield name_of(case)
    yield cost(LARGE, answer)


def name_of(case) -> str:
    machines, ranks, shape = case
    of_each = f" of {counted(ranks, 'rank')}" + ("" if machines == 1 else " each")
    return f"{counted(machines, 'machine')}{of_each}, float64{list(shape)}"


def tried(case, answer):
    machines, ranks, shape = case
    return try_on_ranks(
        name_of(case), on_a_rank, answer, ranks, shape, world_size=machines * ranks,
        explain=lambda error: why_it_fails(case, error),
    )  # fmt: skip


def on_a_rank(answer, local_size, shape):
    rank, n = dist.get_rank(), dist.get_world_size()
    inside = [list(range(first, first + local_size)) for first in range(0, n, local_size)]
    across = [list(range(place, n, local_size)) for place in range(local_size)]
    groups = [(ranks, dist.new_group(ranks)) for ranks in inside + across]
    inside, across = (group for ranks, group in groups if rank in ranks)
    x = fine_numbers(rank, shape, torch.float64)
    dist.barrier()
    with measure("answer"):
        answer(x, inside, across)
    return x


def why_it_fails(case, error) -> str:
    if not hasattr(error, "waits"):
        return ""
    return hang_between_neighbours(
        case, error, "reduce_scatter_ring, all_reduce_ring and all_gather_ring do that"
    )


# ---- Values ---


def judge(case, run):
    machines, ranks, shape = case
    n = machines * ranks
    before = [fine_numbers(rank, shape, torch.float64) for rank in range(n)]
    total = sum(before)
    for rank, got in enumerate(run.values):
        if not close(got, total, steps=4):
            what = f"rank {rank} has {brief(got)}, expected {brief(total)}"
            raise Wrong(name_of(case), what, why(case, run.values, before))


def brief(x) -> str:
    numbers = ", ".join(f"{number:.6g}" for number in x.flatten()[:4].tolist())
    return f"[{numbers}{', …' if x.numel() > 4 else ''}]"


def why(case, found, before) -> str:
    machines, ranks, _ = case
    n = machines * ranks
    total = sum(before)
    of_machine = [sum(before[first : first + ranks]) for first in range(0, n, ranks)]
    of_place = [sum(before[place::ranks]) for place in range(ranks)]
    if all(map(torch.equal, found, before)):
        return "x is as it was: write the sums into its memory, by chunks that share it."
    if all(close(got * n, total, steps=4) for got in found):
        return "this is the mean. The sum was asked for."
    if all(close(found[rank], of_machine[rank // ranks], steps=4) for rank in range(n)):
        return "each machine has its own sum: the step across machines is missing."
    if all(close(found[rank], of_place[rank % ranks], steps=4) for rank in range(n)):
        return "each rank has the sum over `across` alone: what its machine has is missing."
    if all(has_own_chunk(found[rank], total, rank % ranks, ranks) for rank in range(n)):
        return (
            "each rank has its own chunk of the whole sum, and the rest is unfinished: the "
            "all-gather inside the machine is missing."
        )
    if close(found[0].flatten()[: x_whole(total, ranks)], total.flatten()[: x_whole(total, ranks)]):
        return (
            "the last elements are not summed: chunks of length // n leave a rest. "
            "x.view(-1).tensor_split(n) makes chunks that differ by one element at most."
        )
    return (
        "after the reduce-scatter inside, rank k of the machine has the machine's sum of chunk k. "
        "That chunk, and nothing else, is to be summed over `across`."
    )


def has_own_chunk(got, total, place, ranks) -> bool:
    mine, right = (x.view(-1).tensor_split(ranks)[place] for x in (got, total))
    return close(mine, right, steps=4)


def x_whole(x, ranks) -> int:
    return x.numel() // ranks * ranks


# ---- Cost ---


def cost(case, answer) -> str:
    machines, ranks, _ = case
    run = tried(case, answer)
    judge(case, run)
    nbytes = run.values[0].nbytes
    needed = 2 * (machines - 1) / machines * nbytes
    leaving = [0] * machines
    for rank, calls in enumerate(run["answer"].calls):
        for call in calls:
            if call.peer is None:
                why = f"it calls dist.{call.name}: use the rings of collectives.py"
                raise Wrong(name_of(case), "this is not written by hand", why)
            if call.name == "send" and call.peer // ranks != rank // ranks:
                leaving[rank // ranks] += call.sent_bytes
    most = max(leaving)
    if most > (1 + TOLERANCE) * needed:
        what = f"{format_bytes(most)} leave a machine, {format_bytes(needed)} are enough"
        raise Wrong(f"cost, {name_of(case)}", what, why_so_much(most / nbytes, machines, ranks))
    return f"cost, {name_of(case)}: {format_bytes(most)} leave each machine, the least there is"


def why_so_much(times, machines, ranks) -> str:
    whole = 2 * (machines - 1) / machines * ranks
    if abs(times - whole) < 0.1:
        return (
            "the result is right, but every rank sends its whole x across: then each card carries "
            f"it {ranks} times. First a reduce-scatter inside: then each rank has one chunk only "
            "to send."
        )
    return (
        "the result is right, but too much goes from machine to machine. Only the all-reduce over "
        "`across`, of one chunk of each rank, has to."
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

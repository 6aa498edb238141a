"""The verdict on an all-reduce across machines, and the misconceptions behind wrong results."""

import torch

from coursekit.kit import Wrong
from coursekit.kit.diagnoses import (
    contributions,
    describe_contributions,
    first_difference,
    ranks_text,
    same,
)
from pedagogy_lib.basics.closeness import close, close_in_float32

from .cases import FIRST

BY_HAND = "use the rings of collectives.py. How torch.distributed does it is told afterwards."


# ---- Values ---


def judge(case, run):
    need_by_hand(case, run)
    total = sum(case.make_inputs())
    for rank, got in enumerate(run.values):
        if not same(got, total):
            what = f"rank {rank}: x {first_difference(got, total)}"
            raise Wrong(str(case), what, next(filter(None, whys(case, run))))


def need_by_hand(case, run):
    calls = [call for calls in run["answer"].calls for call in calls]
    for call in calls:
        if call.peer is None and call.name != "barrier":
            raise Wrong(str(case), f"it calls dist.{call.name}", BY_HAND)


def whys(case, run):
    """Yield possible causes of a wrong result, most specific first; "" where one does not apply."""
    found, before, total = run.values, case.make_inputs(), sum(case.make_inputs())
    yield diagnose_unchanged(case, found, before)
    yield another_multiple(case, found, total)
    yield diagnose_float32(found, total)
    yield sum_of_machines_alone(case, run, before)
    yield sum_of_places_alone(case, found, before)
    yield own_chunks_alone(case, run, total)
    yield IN_TURNS if case.in_turns else ""
    yield last_elements_left_out(case, found, total)
    yield right_on_some(case, found, total)
    yield whose_numbers(case, found, before, total)
    yield (
        "after the reduce-scatter inside, rank k of the machine has the machine's sum of chunk k. "
        "That chunk, and nothing else, is to be summed over `across`."
    )


IN_TURNS = (
    "where ranks are numbered machine by machine it is right. Here machine 0 has ranks 0, 2, …: "
    "ask the groups. dist.get_rank(inside) is the place of this rank in its machine."
)


def diagnose_unchanged(case, found, before) -> str:
    if not all(map(torch.equal, found, before)):
        return ""
    if case != FIRST:
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


def diagnose_float32(found, total) -> str:
    is_rounded = total.is_floating_point() and all(close_in_float32(got, total) for got in found)
    return "this is the sum, rounded to float32: keep the dtype of x." if is_rounded else ""


def sum_of_machines_alone(case, run, before) -> str:
    for rank, got in enumerate(run.values):
        if not same(
            got, sum(before[other] for other in case.list_machine_ranks(case.machine(rank)))
        ):
            return ""
    if not any(map(any, crossings(case, run))):
        return "each machine has its own sum: the step across machines is missing."
    return (
        "each machine has its own sum, though something has gone across. Did each rank sum the one "
        "chunk over `across` of which it has the machine's sum, and in the memory of x?"
    )


def sum_of_places_alone(case, found, before) -> str:
    sums = [
        sum(before[rank] for rank in case.list_place_ranks(place)) for place in range(case.ranks)
    ]
    if not all(same(got, sums[case.place(rank)]) for rank, got in enumerate(found)):
        return ""
    return "each rank has the sum over `across` alone: what its machine has is missing."


def own_chunks_alone(case, run, total) -> str:
    places = [case.place(rank) for rank in range(case.n)]
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
    """Describe whose numbers are in the first wrong chunk, and how often."""
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
            return f"in rank {rank}'s chunk {k} (of {case.ranks}), {describe_contributions(times)}."
    return ""


# ---- Traffic ---


def crossings(case, run) -> list[list[bool]]:
    """Return, for each message of each rank in order, whether it goes to another machine."""
    return [
        [case.machine(call.peer) != case.machine(rank) for call in calls if call.name == "send"]
        for rank, calls in enumerate(run["answer"].calls)
    ]


def count_sent_bytes(case, run, across) -> list[int]:
    """Return the bytes that each rank sent to other machines, or to ranks on its own machine."""
    return [
        sum(call.sent_bytes for call in calls if call.name == "send"
            and across == (case.machine(call.peer) != case.machine(rank)))
        for rank, calls in enumerate(run["answer"].calls)
    ]  # fmt: skip

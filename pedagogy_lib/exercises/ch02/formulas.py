"""Collectives: what `check("2.…")` tries, and what `hint` says."""

import math

import torch
import torch.distributed as dist

from ...course.checking import Wrong
from ...measuring.recorder import measure
from ...ranks.launcher import launch


def number_from(answer, *args) -> float:
    """What a formula in a cell gives; raises `Wrong` if that is no number."""
    case = f"{args}" if len(args) > 1 else f"({args[0]})"
    try:
        value = answer(*args)
    except Exception as error:
        raise Wrong(case, f"it raised {type(error).__name__}: {error}") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Wrong(case, f"it gave {value!r}, not a number", "" if value is not None else
                    "a function without `return` gives None.")  # fmt: skip
    return float(value)


# ---- 2.5: which chunk goes next --------------------------------------------------------------


def examine_chunk_to_send(answer):
    for n in (4, 2, 3, 5):
        sends = [
            [int(number_from(answer, rank, step, n)) for step in range(n - 1)] for rank in range(n)
        ]
        ring(sends, n)
        yield f"{n} ranks: rank 0 sends chunks {sends[0]}"


def ring(sends, n):
    """Play the reduce-scatter of these sends; raise `Wrong` at the first offence."""
    has = [[{rank} for _ in range(n)] for rank in range(n)]  # whose numbers are in each chunk
    case = f"{n} ranks"
    for rank, of_rank in enumerate(sends):
        for step, chunk in enumerate(of_rank):
            if not 0 <= chunk < n:
                what = f"rank {rank} sends chunk {chunk} in step {step}"
                raise Wrong(case, what, "chunks have numbers from 0 to n - 1: take % n.")
    for step in range(n - 1):
        moving = [(rank, sends[rank][step]) for rank in range(n)]
        packets = [(rank, chunk, set(has[rank][chunk])) for rank, chunk in moving]
        for rank, chunk, packet in packets:
            has[(rank + 1) % n][chunk] |= packet
    for rank in range(n):
        if len(has[rank][rank]) < n:
            raise Wrong(case, *offence(sends, has, rank, n))


def offence(sends, has, rank, n) -> tuple[str, str]:
    what = (
        f"rank {rank}'s chunk {rank} has the numbers of ranks {sorted(has[rank][rank])} alone, "
        f"after its {n - 1} sends of chunks {sends[rank]}"
    )
    complete = [chunk for chunk in range(n) if len(has[rank][chunk]) == n]
    if len(set(sends[rank])) == 1 and n > 2:
        return what, (
            "a rank always sends the same chunk: then nothing adds up on the way. It passes on, "
            "in each step, the chunk that it received in the step before."
        )
    if all(of_rank == sends[0] for of_rank in sends):
        return what, (
            "all ranks send the same chunk in a step. In a ring all chunks travel at once: what a "
            "rank sends depends on its number."
        )
    if complete:
        return what, (
            f"the steps are right, and chunk {complete[0]} is complete on rank {rank}. It should "
            f"be chunk {rank}: begin with another one. Rank k's chunk has to travel from rank "
            "k + 1 all the way round."
        )
    return what, (
        "in each step a rank passes on the chunk that has just come from the rank before it, and "
        "that rank's chunk numbers go down by one a step."
    )


# ---- 2.9: bytes ------------------------------------------------------------------------------

X_BYTES = 2_400_000  # 2, 3 and 4 divide it


def four_collectives():
    """Each on X_BYTES: of the whole result in an all-gather, of the input elsewhere."""
    x = torch.ones(X_BYTES // 8, dtype=torch.float64)
    chunks = list(x.chunk(dist.get_world_size()))
    part = torch.ones_like(chunks[0])
    with measure("all_reduce"):
        dist.all_reduce(x)
    with measure("all_gather"):
        dist.all_gather(chunks, part)
    with measure("reduce_scatter"):
        dist.reduce_scatter(part, chunks)
    with measure("all_to_all"):
        dist.all_to_all_single(torch.empty_like(x), x)


def examine_sent_bytes(answer):
    for n in (4, 3, 2):
        run = launch(four_collectives, world_size=n, device="cpu")
        for name in run.labels:
            wanted, how = run[name].sent_bytes[0], run[name].wire
            if name == "reduce_scatter":  # Gloo sends more than it has to: see the chapter
                wanted, how = sum(call.sent_bytes for call in run[name].calls[0]), "needed"
            got = number_from(answer, name, n, X_BYTES)
            compare_bytes(f"{name}, {n} ranks, X = 2.4 MB", got, wanted, how, name, n)
            yield f"{name}, {n} ranks: {got / 1e6:.2f} MB, {how} {wanted / 1e6:.2f} MB"


def compare_bytes(case, got, wanted, how, name, n):
    if math.isclose(got, wanted, rel_tol=0.01):
        return
    x = X_BYTES
    misconceptions = [
        (wanted / 1e6, "this is in MB, and so is X only if you are told so: X is in bytes."),
        (wanted * n, "this is what all ranks send together; one of them sends an nth of it."),
        ((n - 1) * x, "the whole tensor would travel n - 1 times. In each step of a ring only one "
                      "chunk of X / n does."),
        (2 * n * x / n, "one step too many in each half: a ring of n ranks has n - 1 steps."),
        (n * x / n, "one step too many: what a rank has itself needs not travel."),
        ((n - 1) * x / n, "this is half of it: an all-reduce is a reduce-scatter and an "
                          "all-gather."),
        (2 * (n - 1) * x / n, "twice too much: only an all-reduce goes round the ring twice."),
        (x / n, "this is one message; a rank sends n - 1 of them."),
    ]  # fmt: skip
    fitting = [why for value, why in misconceptions if math.isclose(got, value, rel_tol=0.01)]
    what = f"it gave {got / 1e6:.2f} MB, {how} {wanted / 1e6:.2f} MB"
    raise Wrong(case, what, fitting[0] if fitting else "")

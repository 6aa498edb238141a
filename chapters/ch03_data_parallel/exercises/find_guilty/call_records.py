"""Calls recorded on ranks, of which one fell out of step, for exercise find_guilty."""

from contextlib import suppress
from datetime import timedelta

import torch
import torch.distributed as dist

from pedagogy_lib.basics.torch_private import read_flight_records
from pedagogy_lib.ranks.launcher import launch

LEFT, OPERATION, SHAPE = MISTAKES = ("it left", "another operation", "another shape")
WRONG = {LEFT: 5, OPERATION: 5, SHAPE: 6}  # the call at which each mistake shows
SECONDS = 0.4  # for which a rank waits for the others


def record_mistake(mistake, guilty) -> tuple[list[list[dict]], int]:
    """Return the calls of three ranks, and the number of the call at which the guilty differs."""
    return launch(record_rank_calls, mistake, guilty, world_size=3, device="cpu").values, WRONG[
        mistake
    ]


def record_rank_calls(mistake, guilty) -> list[dict]:
    group = dist.new_group(timeout=timedelta(seconds=SECONDS))
    with suppress(RuntimeError):  # raised in a call that others did not make
        make_calls(group, mistake if dist.get_rank() == guilty else "")
    entries = read_flight_records(group)
    dist.barrier()  # of the world, so that no rank leaves before all have read
    return [{key: entry[key] for key in ("number", "name", "shape")} for entry in entries]


def make_calls(group, mistake):
    for step in range(5):
        is_wrong = step == 2
        if is_wrong and mistake == LEFT:
            return
        if is_wrong and mistake == OPERATION:
            dist.barrier(group=group)
        dist.all_reduce(torch.ones(68), group=group)
        dist.all_reduce(torch.ones(3 if is_wrong and mistake == SHAPE else 2), group=group)

"""The cases, and the code that runs next to the answer."""

import os
from typing import NamedTuple

import torch
import torch.distributed as dist

from coursekit.kit.collective_exercise import fine_numbers
from coursekit.kit.observed_calls import Requests
from pedagogy_lib.basics.units import format_count
from pedagogy_lib.measuring.recorder import measure


class Case(NamedTuple):
    machines: int
    ranks: int  # on each machine
    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float64
    in_turns: bool = False  # rank 0 on machine 0, rank 1 on machine 1, …

    @property
    def n(self) -> int:
        return self.machines * self.ranks

    def machine(self, rank) -> int:
        return rank % self.machines if self.in_turns else rank // self.ranks

    def place(self, rank) -> int:
        return rank // self.machines if self.in_turns else rank % self.ranks

    def list_machine_ranks(self, machine) -> list[int]:
        return [rank for rank in range(self.n) if self.machine(rank) == machine]

    def list_place_ranks(self, place) -> list[int]:
        return [rank for rank in range(self.n) if self.place(rank) == place]

    def __str__(self):
        of_each = f" of {format_count(self.ranks, 'rank')}" + (
            "" if self.machines == 1 else " each"
        )
        dtype = str(self.dtype).removeprefix("torch.")
        turns = ", ranks in turns" if self.in_turns else ""
        return (
            f"{format_count(self.machines, 'machine')}{of_each}{turns}, {dtype}{list(self.shape)}"
        )

    def make_inputs(self) -> list[torch.Tensor]:
        """Return the tensor of each rank."""
        return [fine_numbers(rank, self.shape, self.dtype) for rank in range(self.n)]


FIRST = Case(2, 2, (8,))  # tried before all others


def run_answer(answer, case):
    rank, size = dist.get_rank(), case.ranks
    os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"] = str(case.place(rank)), str(size)
    os.environ["GROUP_RANK"] = str(case.machine(rank))
    inside = [case.list_machine_ranks(machine) for machine in range(case.machines)]
    across = [case.list_place_ranks(place) for place in range(size)]
    groups = [(ranks, dist.new_group(ranks)) for ranks in inside + across]
    inside, across = (group for ranks, group in groups if rank in ranks)
    x = case.make_inputs()[rank]
    dist.barrier()
    with measure("answer"), Requests() as requests:
        answer(x, inside, across)
    requests.need_waited()
    return x

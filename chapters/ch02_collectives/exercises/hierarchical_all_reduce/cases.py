"""What is tried, and what runs next to the answer."""

import os

import torch.distributed as dist

from coursekit.kit.observed_calls import Requests
from pedagogy_lib.measuring.recorder import measure


def on_a_rank(answer, case):
    rank, size = dist.get_rank(), case.ranks
    os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"] = str(case.place(rank)), str(size)
    os.environ["GROUP_RANK"] = str(case.machine(rank))
    inside = [case.inside(machine) for machine in range(case.machines)]
    across = [case.across(place) for place in range(size)]
    groups = [(ranks, dist.new_group(ranks)) for ranks in inside + across]
    inside, across = (group for ranks, group in groups if rank in ranks)
    x = case.before()[rank]
    dist.barrier()
    with measure("answer"), Requests() as requests:
        answer(x, inside, across)
    requests.need_waited()
    return x

"""The cases, and the code that runs next to the answer."""

import torch.distributed as dist

from coursekit.kit import measure_answer
from coursekit.kit.reference_training import state_of

from ..shared.branches import branches, bytes_of_branch
from ..shared.gradients_on_ranks import descend, gradients_of
from ..shared.state_snapshot import StateSnapshot
from .bucket_watch import Watch

# Steps; a step is some backwards, of which the last one synchronises. A backward has for each place
# the branches that it takes, from right to left. The order of the buckets is a, b, c, d, e.
ONE_ORDER = ((("edcba",) * 3,),) * 3

# Place 1 takes all branches, in the order of the buckets; the others lack some, and their buckets
# become ready in another order.
ANY_ORDER = ((("abd", "edcba", "bdca", "dac"),),)

IN_TURN = ((("abc",) * 3, ("cab",) * 3, ("ba",) * 3),)  # the last backward is without c


def take_steps(answer, group, case):
    """Return the events of each step, the gradients after the first and the final weights."""
    steps, is_watched = case.args
    place, mine = dist.get_rank(group), model_for(steps)
    watch = Watch(mine, group)
    options = {"all_reduce": watch.all_reduce} if is_watched else {}
    watch.follow(answer(mine, bucket_bytes=bytes_of_branch(mine), group=group, **options))
    left_alone, found = StateSnapshot(mine), {"events": [], "names": watch.names}
    for number, step in enumerate(steps):
        with measure_answer():
            found["events"].append(watch.step([orders[place] for orders in step], place, number))
        found.setdefault("grad", gradients_of(mine))
        descend(mine)
    return found | {"touched": left_alone.find_changes(), "weights": state_of(mine)}


def model_for(steps):
    (model,) = branches()
    return model.float() if steps == ANY_ORDER else model

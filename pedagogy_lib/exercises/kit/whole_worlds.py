"""Some ranks of a launch as a world of their own, for an answer that knows no groups."""

import contextlib

from torch.distributed import distributed_c10d

NAMES_OF_ITS_OWN = 1000  # groups that an answer makes in a world are numbered from a multiple on


@contextlib.contextmanager
def as_world(group):
    """Within it, on the ranks of `group`, these are all ranks there are.

    The ranks have to be the first ones, so that they keep their numbers.
    """
    world = distributed_c10d._get_default_group()
    count = distributed_c10d._world.group_count
    distributed_c10d._update_default_pg(group)
    distributed_c10d._world.group_count = NAMES_OF_ITS_OWN * (1 + group.size())
    try:
        yield
    finally:
        distributed_c10d._update_default_pg(world)
        distributed_c10d._world.group_count = count

"""Other functions in the place of torch.distributed's."""

import contextlib

import torch.distributed as dist

MODULES = (dist, dist.distributed_c10d)  # send, recv and batch_isend_irecv take them from there


@contextlib.contextmanager
def replace_calls(**functions):
    """Put other functions in the place of torch.distributed's."""
    originals = {name: getattr(dist, name) for name in functions}
    put(functions)
    try:
        yield
    finally:
        put(originals)


def put(functions):
    for module in MODULES:
        for name, function in functions.items():
            setattr(module, name, function)

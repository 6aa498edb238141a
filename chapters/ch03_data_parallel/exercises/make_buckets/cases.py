"""The parts that the check and the truth share."""

import torch
from torch import nn

DTYPE, BYTES = torch.float16, 2  # per element: not 4 or 8, which answers might assume

ANOTHER = "a Parameter of another model"


def make_tensor(size):
    """Return a tensor of `size` elements: a single one without axes, an even number with two."""
    shape = () if size == 1 else (2, size // 2) if size % 2 == 0 else (size,)
    return torch.zeros(shape, dtype=DTYPE)


def number_buckets(make_buckets):
    """Wrap an answer to take the parameters' sizes and return their numbers in each bucket."""

    def numbers_of(sizes, frozen, bucket_bytes):
        parameters = parameters_of(sizes, frozen)
        number = {id(parameter): index for index, parameter in enumerate(parameters)}
        buckets = make_buckets((p for p in parameters), bucket_bytes)  # like model.parameters()
        for some in [buckets, *buckets] if isinstance(buckets, (list, tuple)) else [buckets]:
            if not isinstance(some, (list, tuple)):
                return some if some is None else f"a {type(some).__name__}"
        return [[number.get(id(item), name_item(item)) for item in bucket] for bucket in buckets]

    return numbers_of


def parameters_of(sizes, frozen) -> list:
    parameters = [nn.Parameter(make_tensor(size)) for size in sizes]
    for index in frozen:
        parameters[index].requires_grad_(False)
    return parameters


def changes_by(make_buckets, sizes, frozen, bucket_bytes) -> list[str]:
    """Return the changes that a call makes in the parameters that it is given."""
    parameters = parameters_of(sizes, frozen)
    make_buckets(iter(parameters), bucket_bytes)
    return list(changes_of(parameters, frozen))


def changes_of(parameters, frozen):
    if [p.requires_grad for p in parameters] != [k not in frozen for k in range(len(parameters))]:
        yield "requires_grad of a parameter has changed"
    if any(p.grad is not None for p in parameters):
        yield "a parameter has a `.grad` now"


def name_item(item) -> str:
    return ANOTHER if isinstance(item, nn.Parameter) else f"a {type(item).__name__}"

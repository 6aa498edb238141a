"""The formula's right and wrong values, which the check and the truth share."""

from functools import cache

import torch
from torch.autograd.graph import saved_tensors_hooks

from coursekit.labs import find_lab


@cache
def measure_saved_bytes(samples, context, width, heads, size=4) -> int:
    """Return the bytes that autograd saves in a block's forward, each storage once."""
    dtype = {4: torch.float32, 8: torch.float64}[size]
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):
        block = find_lab("language_model").Block(width, heads).to(dtype)
        x = torch.randn(samples, context, width, dtype=dtype, requires_grad=True)
    kept = []
    with saved_tensors_hooks(lambda tensor: kept.append(tensor), lambda _: None):
        block(x)
    parameters = {p.untyped_storage().data_ptr() for p in block.parameters()}
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in kept}
    return sum(s.nbytes() for at, s in storages.items() if at not in parameters)


SCORES = "scaled_dot_product_attention never has them all at once"

AGAIN = f"{SCORES}, and keeps a number for each token and head to compute them again"

OF_WIDTH = {
    "4 * width for each token are missing: GELU's input, or its output, which is the last "
    "linear layer's input": -4,
    "8 * width for each token are missing: GELU's input, and its output, which is the last "
    "linear layer's input": -8,
    "3 * width for each token are missing: q, k and v; or a tensor within the MLP, which is "
    "4 * width wide, is taken to be `width`": -3,
    "6 * width for each token are missing: within the MLP, two tensors are 4 * width wide": -6,
    "`width` for each token is missing: a norm's input or output, one of q, k and v, or the "
    "output of attention": -1,
    "2 * width for each token are missing: two of q, k and v; or inputs or outputs of the two "
    "norms": -2,
    "`width` for each token is too much. A tensor counts once: x is the first norm's input, and "
    "the output of attention is its output layer's input. What the block returns is kept by who "
    "needs it next": 1,
    "2 * width for each token are too much. A tensor counts once, also if two operations keep it; "
    "and a sum keeps nothing": 2,
    "3 * width for each token are too much. q, k and v are three parts of one tensor, which "
    "counts once": 3,
    "4 * width for each token are too much: GELU's output is the last linear layer's input, and "
    "counts once": 4,
}

IN_ATTENTION = {
    "the log-sum-exp is missing: a number for each token and head":
        lambda context, heads: -heads,
    "the log-sum-exp has a number for each head, not only for each token":
        lambda context, heads: 1 - heads,
    f"attention's scores are counted, heads * context for each token: {SCORES}":
        lambda context, heads: heads * context,
    f"attention's scores are counted, and not the log-sum-exp: {AGAIN}":
        lambda context, heads: heads * (context - 1),
    f"attention's scores are counted, and what softmax makes of them: {SCORES}":
        lambda context, heads: 2 * heads * context,
    f"attention's scores are counted, and what softmax makes of them, and not the log-sum-exp: "
    f"{AGAIN}": lambda context, heads: heads * (2 * context - 1),
}  # fmt: skip

IN_NORMS = {
    "the norms' statistics are missing: each norm keeps two numbers for each token":
        lambda size, heads: -4,
    "two of the norms' numbers are missing: there are two norms, and each keeps a mean and a "
    "1/deviation for each token": lambda size, heads: -2,
    "the norms' statistics are taken to have 4 bytes each: on a CPU they are of the dtype of x, "
    "so they have `size` bytes, too": lambda size, heads: 4 * (4 / size - 1),
    "the norms' statistics and the log-sum-exp are taken to have 4 bytes a number: on a CPU they "
    "are of the dtype of x, so they have `size` bytes, too":
        lambda size, heads: (4 + heads) * (4 / size - 1),
    "the log-sum-exp is taken to have 4 bytes a number: on a CPU it is of the dtype of x, so it "
    "has `size` bytes, too": lambda size, heads: heads * (4 / size - 1),
}  # fmt: skip

OF_ALL = {
    "this is the number of numbers: each takes `size` bytes":
        lambda samples, context, size: 1 / size,
    "`size` is not used: 4 bytes are taken for each number":
        lambda samples, context, size: 4 / size,
    "this is for one sample: each of them is kept": lambda samples, context, size: 1 / samples,
    "this is for one token of each sample": lambda samples, context, size: 1 / context,
    "this is for one token: there are as many as samples and context give":
        lambda samples, context, size: 1 / samples / context,
}  # fmt: skip


def wrong(samples, context, width, heads, size=4, sentences=()) -> float:
    """Return the number of bytes to which these misconceptions lead together."""
    more = factor = 0
    for why in sentences:
        more += OF_WIDTH.get(why, 0) * width
        more += IN_ATTENTION[why](context, heads) if why in IN_ATTENTION else 0
        more += IN_NORMS[why](size, heads) if why in IN_NORMS else 0
        factor = OF_ALL[why](samples, context, size) if why in OF_ALL else factor
    right = measure_saved_bytes(samples, context, width, heads, size)
    return (right + samples * context * size * more) * (factor or 1)

"""What is split over the ranks, and what that costs: exercises 6.1, 6.2 and 6.13."""

import torch

from ...basics.closeness import close
from ...course.checking import Wrong
from ..kit.answers import attempt
from ..kit.differences import first_difference
from ..kit.outcomes import NO_RETURN
from ..kit.trials import numbers

# ---- 6.2: flat and padded --------------------------------------------------------------------

TENSORS = {  # case: (shapes, n, dtype)
    "padding": ([(2, 3), (3,)], 4, torch.float64),
    "n divides": ([(4,), (2, 2)], 4, torch.float32),
    "one tensor, n divides": ([(3, 2)], 3, torch.float64),
    "fewer numbers than ranks": ([(1, 2)], 5, torch.float32),
    "one without dimensions": ([(), (3,)], 3, torch.float64),
    "bfloat16": ([(5,), (2, 4)], 4, torch.bfloat16),
    "one rank": ([(2,), (5, 1)], 1, torch.float64),
    "a transposed one": ([(4, 3), (2,)], 4, torch.float64),
}
FLATTEN_ERRORS = {
    "not compatible with input tensor's size": "view(-1) needs numbers that lie one after another "
    "in memory, which those of a transposed tensor do not: reshape(-1) copies if it has to",
    "zero-dimensional": "torch.cat takes no tensor without dimensions: reshape(-1) makes it one "
    "with one dimension",
    "Sizes of tensors must match": "torch.cat lays tensors of one dimension one after another: "
    "reshape(-1) each of them first",
    "Tensors must have same number of dimensions": "torch.cat lays tensors of one dimension one "
    "after another: reshape(-1) each of them first",
    "not generator": "torch.cat takes a list, no generator: [… for x in tensors]",
    "can't be negative": "a negative number of zeros: how many are missing is -elements % n, "
    "from 0 to n - 1",
    "negative dimension": "a negative number of zeros: how many are missing is -elements % n, "
    "from 0 to n - 1",
}


def examine_flatten_padded(answer):
    for title, (shapes, n, dtype) in TENSORS.items():
        case = f"{title}: shapes {' '.join(str(list(s)) for s in shapes)}, n = {n}"
        tensors = [numbers(0, shape, dtype, salt) for salt, shape in enumerate(shapes)]
        if title == "a transposed one":
            tensors[0] = tensors[0].t()
        got = flat_from(case, answer, tensors, n)
        wanted = flat_truth(tensors, n)
        if not close(got, wanted):
            what = f"it {first_difference(got, wanted)}"
            raise Wrong(case, what, why_flat(tensors, n, got, wanted))
        need_new_memory(case, got, tensors)
        yield f"{case}: {len(got)} numbers"


def flat_from(case, answer, tensors, n):
    """The answer's tensor; raises `Wrong` if there is none, or if it changes its arguments."""
    given, before = list(tensors), [x.clone() for x in tensors]
    try:
        got = attempt(case, answer, given, n)
    except Wrong as wrong:
        why = next((why for words, why in FLATTEN_ERRORS.items() if words in wrong.what), "")
        raise Wrong(case, wrong.what, why) from None
    if not isinstance(got, torch.Tensor):
        why = NO_RETURN if got is None else "asked is one tensor: whoever needs chunks cuts it"
        raise Wrong(case, f"it gave {got!r:.60}", why)
    if len(given) != len(tensors) or any(a is not b for a, b in zip(given, tensors)):
        why = "`tensors` belongs to the caller: put zeros into a list of your own"
        raise Wrong(case, "the list that was given is another one now", why)
    if any(not close(x, old) for x, old in zip(tensors, before)):
        raise Wrong(case, "the tensors that were given have changed", "they are only to be read")
    return got


def flat_truth(tensors, n):
    """Number by number."""
    values = [value for x in tensors for value in x.flatten().tolist()]
    return tensors[0].new_tensor(values + [0.0] * (-len(values) % n))


def why_flat(tensors, n, got, wanted) -> str:
    if got.dtype != wanted.dtype:
        return (
            "torch.zeros makes float32, and torch.cat the wider of two types: tensors[0].new_zeros "
            "makes zeros of that tensor's type, on its device"
        )
    if got.shape != wanted.shape and close(got.reshape(-1), wanted):
        return "the numbers are right: leave them in one dimension, unit.flat.chunk(n) cuts them"
    total = sum(x.numel() for x in tensors)
    same_start = got.ndim == 1 and len(got) >= total and close(got[:total], wanted[:total])
    if same_start and len(got) == len(wanted):
        return "what follows the numbers is not zero: torch.empty takes memory as it finds it"
    guesses = guesses_at_flat(tensors, n, wanted[:total])
    return next((why for why, guess in guesses.items() if close(got, guess)), "")


def guesses_at_flat(tensors, n, plain):
    """{sentence: flat tensor}; plain is without padding."""
    total, zeros = len(plain), plain.new_zeros
    rest = total % n
    padded = lambda x: torch.cat([x, x.new_zeros(-len(x) % n)])  # noqa: E731
    return {
        "without padding: zeros have to follow, until n divides the length": plain,
        "n zeros too many: if n divides the length already, nothing is to be added. "
        "n - elements % n is n then, -elements % n is 0": torch.cat([plain, zeros(n - rest)]),
        "elements % n zeros are added. That is how many stick out over the last multiple of n; "
        "missing to the next one are -elements % n": torch.cat([plain, zeros(rest)]),
        "n zeros are added: only as many as are missing to a multiple of n":
            torch.cat([plain, zeros(n)]),
        "each tensor is padded by itself: padding comes once, at the end of all":
            torch.cat([padded(x.reshape(-1)) for x in tensors]),
        "the zeros come first: they are to follow the numbers":
            torch.cat([zeros(-total % n), plain]),
        "the numbers that stick out over a multiple of n are cut off: the last parameters would "
        "be lost": plain[: total - rest],
        "the tensors come in another order: the first one first":
            padded(torch.cat([x.reshape(-1) for x in reversed(tensors)])),
        "a transposed tensor is read in the order of its memory: row by row, as it looks, is "
        "what reshape(-1) does": padded(torch.cat([x.t().reshape(-1) if x.ndim == 2 else
                                                   x.reshape(-1) for x in tensors])),
    }  # fmt: skip


def need_new_memory(case, got, tensors):
    place = got.untyped_storage().data_ptr()
    if any(x.untyped_storage().data_ptr() == place for x in tensors):
        raise Wrong(case, "the result shares memory with the tensor that was given", (
            "a new tensor is asked for. view and reshape make none, and pad by 0 may make none "
            "either: gradients would be written over while they are reduced. torch.cat copies"
        ))  # fmt: skip

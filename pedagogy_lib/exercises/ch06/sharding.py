"""What is split over the ranks, and what that costs: exercises 6.1, 6.2 and 6.13."""

import torch

from ...basics.closeness import close, close_in_float32
from ...course.checking import Wrong
from ..kit.answers import attempt, numbers_of, require
from ..kit.differences import first_difference
from ..kit.outcomes import NO_RETURN, number_from
from ..kit.trials import numbers

# ---- 6.1: bytes of a rank --------------------------------------------------------------------

KINDS = ("parameters", "gradients", "optimizer_state")
SPLIT_FROM = dict(zip(KINDS, (3, 2, 1)))  # the first stage in which it is split
MODELS = [  # parameters, n, each: None is what the function takes by itself
    (100, 64, None),
    (1003, 8, (4, 4, 8)),
    (3, 4, (2, 4, 16)),
    (100, 4, (8, 4, 20)),
    (7, 1, None),
]


def examine_bytes_of_rank(answer):
    for parameters, n, each in MODELS:
        model, totals = f"{parameters} parameters, n = {n}", []
        for stage in range(4):
            case = f"{model}, stage {stage}" + (f", each = {each}" if each else "")
            result = attempt(case, answer, parameters, n, stage, *([each] if each else []))
            got = bytes_from(case, result)
            wanted = kept(parameters, -(-parameters // n), each, stage)
            guesses = guesses_at_kept(parameters, n, each, stage)
            require(case, KINDS, got, wanted, guesses)
            totals.append(f"{sum(wanted):,}")
        yield f"{model}: stages 0 to 3 keep {', '.join(totals)} bytes"


def bytes_from(case, result) -> list[float]:
    if not isinstance(result, dict) or set(result) != set(KINDS):
        what = f"expected a dictionary of {', '.join(KINDS)}; got {result!r:.70}"
        raise Wrong(case, what, NO_RETURN if result is None else "these three keys, and no others")
    return numbers_of(case, [result[kind] for kind in KINDS], KINDS, "each value is a number")


def kept(whole, part, each, stage, split_from=SPLIT_FROM) -> list[float]:
    """Bytes of each kind, if `part` numbers are left of `whole` ones that are split."""
    counts = [part if stage >= split_from[kind] else whole for kind in KINDS]
    return [count * size for count, size in zip(counts, each or (2, 2, 12))]


def guesses_at_kept(P, n, each, stage):
    """{sentence: bytes of each kind}; P parameters."""
    part, sizes = -(-P // n), each or (2, 2, 12)
    shifted = lambda by: {kind: first + by for kind, first in SPLIT_FROM.items()}  # noqa: E731
    return {
        f"parts of {P}/{n} numbers: nobody can have a fraction of a number. Padding makes the "
        "whole divisible by n, so a part is rounded up": kept(P, P / n, each, stage),
        "rounded down, and what is left over is on no rank: a part is rounded up":
            kept(P, P // n, each, stage),
        "rounded to the nearest, and with some n a rest is on no rank: a part is rounded up":
            kept(P, round(P / n), each, stage),
        "one number more than a rank needs where n divides the parameters: then there is no "
        "padding": kept(P, P // n + 1, each, stage),
        "bytes are rounded up; numbers have to be: a rank has whole numbers, and then their bytes":
            [-(-size * P // n) if stage >= first else size * P
             for size, first in zip(sizes, SPLIT_FROM.values())],
        "a stage too early: stage 0 splits nothing, stage 1 the optimizer's state":
            kept(P, part, each, stage, shifted(-1)),
        "a stage too late: stage 1 splits the optimizer's state, stage 2 the gradients as well, "
        "stage 3 everything": kept(P, part, each, stage, shifted(1)),
        "the other way round: the optimizer's state is split first, as it is the largest, and the "
        "parameters last": kept(P, part, each, stage, dict(zip(KINDS, (1, 2, 3)))),
        "the kinds are mixed up: parameters and gradients change places":
            kept(P, part, each, stage, dict(zip(KINDS, (2, 3, 1)))),
        "a stage splits what those before it split, too: stage 2 the optimizer's state and the "
        "gradients, stage 3 all three":
            [size * (part if stage == first else P)
             for size, first in zip(sizes, SPLIT_FROM.values())],
        "everything is split, whatever the stage": kept(P, part, each, 3),
        "what is not split is not padded. In stage 0 nothing is split, so nothing is padded":
            kept(part * n, part, each, stage),
        "nothing is split, whatever the stage": kept(P, P, each, 0),
        "these are counts; multiply each by its bytes, from `each`":
            kept(P, part, (1, 1, 1), stage),
        "`each` is an argument: other bytes are possible than 2, 2 and 12":
            kept(P, part, None, stage),
        "`each` is in the order parameters, gradients, optimizer_state":
            kept(P, part, sizes[::-1], stage),
        "these are the bytes of all ranks together; asked is one rank's":
            [n * size for size in kept(P, part, each, stage)],
    }  # fmt: skip


# ---- 6.13: what a step sends -----------------------------------------------------------------

STEPS = [(4, 1), (4, 3), (2, 5), (8, 2), (1, 4)]  # n, micro-batches
# stage: halves of an all-reduce for each micro-batch, and for each step
HALVES = {0: (0, 2), 1: (0, 2), 2: (1, 1), 3: (3, 0)}


def examine_models_sent(answer):
    for n, micro_batches in STEPS:
        found, steps = [], f"n = {n}, micro-batches: {micro_batches}"
        for stage, (each, once) in HALVES.items():
            case = f"stage {stage}, {steps}"
            given = () if micro_batches == 1 else (micro_batches,)
            got = number_from(case, answer, stage, n, *given)
            wanted = (micro_batches * each + once) * (n - 1) / n
            if not close_in_float32(got, wanted):
                guesses = guesses_at_sent(stage, n, micro_batches).items()
                fits = (w for w, wrong in guesses if any(close_in_float32(got, x) for x in wrong))
                why = next(fits, "")
                raise Wrong(case, f"expected {wanted:g} models, got {got:g}", why)
            found.append(f"{wanted:g}")
        yield f"{steps}: stages 0 to 3 send {', '.join(found)} models"


def guesses_at_sent(stage, n, m):
    """{sentence: what this misconception gives}; m micro-batches."""
    each, once = HALVES[stage]
    halves, ring = each * m + once, (n - 1) / n
    return {why: [count * ring for count in counts]
            for why, counts in wrong_halves(stage, m).items()} | {
        "this is what all ranks together send; asked is one of them": [n * halves * ring],
        "in a ring a rank sends all chunks but its own: (n - 1)/n of the bytes, in a "
        "reduce-scatter as in an all-gather": [halves],
        "1/n of the bytes is one chunk; a reduce-scatter or an all-gather sends n - 1 of them":
            [halves / n],
    }  # fmt: skip


def wrong_halves(stage, m):
    """{sentence: how many reduce-scatters and all-gathers of the model this counts}."""
    gloo = (
        "this counts a reduce-scatter as an all-reduce, as Gloo does it. The labs have a ring, "
        "which sends (n - 1)/n"
    )
    return [
        {
            "under no_sync gradients add up on the rank: only the last backward of a step sends":
                [2 * m],
            "this is a half: an all-reduce is a reduce-scatter and an all-gather": [1],
        },
        {
            "gradients add up in `.grad` until step(): however many micro-batches there are, "
            "stage 1 reduces once, and gathers once": [2 * m, m + 1],
            "this is a half: gradients are reduced, and parameters gathered": [1],
            gloo: [3],
        },
        {
            "each backward reduces its gradients, because nobody keeps them whole until the step; "
            "the all-gather comes once, in the step": [2, 2 * m],
            "the step sends as well: the parameters are gathered": [m],
            gloo: [2 * m + 1],
        },
        {
            "each micro-batch gathers a unit for the forward, gathers it again for the backward, "
            "and reduces its gradients. The step gathers nothing: ranks keep shards alone":
                [3, 3 * m + 1, 2 * m + 1],
            "the backward gathers as well: after the forward, a unit is disposed of": [2 * m],
            "this gathers once for all micro-batches, but each backward disposes of the "
            "parameters: the next micro-batch gathers them anew": [m + 2, m + 1],
            gloo: [4 * m],
        },
    ][stage]  # fmt: skip


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

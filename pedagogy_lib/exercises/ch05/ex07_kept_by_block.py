"""What a block keeps for its backward: measured by the hooks through which autograd keeps it."""

import itertools
from functools import cache, partial

import torch
from torch.autograd.graph import saved_tensors_hooks

from ...course.labs import find_lab
from ..kit import Formula

BLOCKS = [  # samples, context, width, heads, size, which is 4 if it is left out
    (3, 7, 96, 6), (2, 10, 24, 2), (1, 48, 64, 4), (5, 1, 12, 12), (3, 7, 96, 6, 8),
    (4, 33, 16, 1, 8),
]  # fmt: skip

KEPT_AS_CODE = ("truth",)  # in a handout, too: it measures, and the formula is not in it


@cache
def measured(samples, context, width, heads, size=4) -> int:
    """The truth: what a block's forward gives autograd to keep, each storage once."""
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


# ---- Mistakes: numbers for each token that are missing (-), or too many -----------------------

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
    """What these misconceptions lead to together."""
    more = factor = 0
    for why in sentences:
        more += OF_WIDTH.get(why, 0) * width
        more += IN_ATTENTION[why](context, heads) if why in IN_ATTENTION else 0
        more += IN_NORMS[why](size, heads) if why in IN_NORMS else 0
        factor = OF_ALL[why](samples, context, size) if why in OF_ALL else factor
    right = measured(samples, context, width, heads, size)
    return (right + samples * context * size * more) * (factor or 1)


def several_at_once(found, case) -> str:
    """The fewest misconceptions that together lead to all that was found."""
    calls = [(call, got) for each in found for call, got in zip(EXERCISE.cases[each], found[each])]
    groups = ([None, *group] for group in (OF_ALL, OF_WIDTH, IN_ATTENTION, IN_NORMS))
    together = [list(filter(None, some)) for some in itertools.product(*groups)]
    for sentences in sorted(together, key=len):
        if EXERCISE.agrees(partial(wrong, sentences=sentences), calls):
            return "; and ".join(sentences)
    return ""


def differs(call, right, got) -> str:
    each = call[0] * call[1] * (call[4] if len(call) > 4 else 4)
    what = f"expected {right:,} bytes, got {got:,.10g}"
    return f"{what}: for each token {right / each:,g} numbers, got {got / each:,g}"


EXERCISE = Formula(
    "5.7",
    "kept_by_block",
    cases={
        "samples {}, context {}, width {}, heads {}, size {}".format(*(*block, 4)[:5]): [block]
        for block in BLOCKS
    },
    truth=measured,
    unit=" bytes",
    differs=differs,
    explain=several_at_once,
    mistakes=[
        *((why, partial(wrong, sentences=[why]))
          for group in (OF_WIDTH, IN_ATTENTION, IN_NORMS, OF_ALL) for why in group),
        *(("means and scales, or log-sum-exps, are counted for one sample alone: each token of "
           "each sample has its own",
           lambda samples, context, width, heads, size=4, number=number:
           measured(samples, context, width, heads, size)
           - (samples - 1) * context * size * number(heads))
          for number in (lambda heads: 4 + heads, lambda heads: 4, lambda heads: heads)),
        ("this is the formula of Korthikanti et al. for 16-bit numbers. It has dropout, and "
         "attention that keeps its scores: this block has neither",
         lambda samples, context, width, heads, size=4:
         samples * context * (34 * width + 5 * heads * context)),
        ("this is the formula of Korthikanti et al., times the bytes of a number. It has dropout, "
         "and attention that keeps its scores: this block has neither",
         lambda samples, context, width, heads, size=4:
         samples * context * (34 * width + 5 * heads * context) * size / 2),
        ("the parameters are counted as well: they are there anyhow, for every step",
         lambda samples, context, width, heads, size=4:
         wrong(samples, context, width, heads, size) + size * (12 * width**2 + 13 * width)),
    ],
    hints=(
        "First count for one token, line by line, as the text before it lists them: how many "
        "numbers does each tensor have? Then multiply by the tokens, and by `size`.",
        "Most tensors have `width` numbers for each token. Between the last two linear layers "
        "they are 4 * width wide. q, k and v have `width` each.",
        "Count each tensor once: x is the first norm's input. So: norms, 2 inputs; linear "
        "layers, 4 inputs, of which one is wide; q, k, v; GELU, 1 wide input. That is all "
        "with `width` in it.",
        "What is left are single numbers for each token: two for each norm, one for each "
        "head.",
    ),
)  # fmt: skip

"""The bytes that a block saves for its backward, measured with autograd's saved-tensor hooks."""

import itertools
from functools import partial

from coursekit.kit import Formula

from .cases import IN_ATTENTION, IN_NORMS, OF_ALL, OF_WIDTH, measure_saved_bytes, wrong
from .truth import MISTAKES

BLOCKS = [  # samples, context, width, heads, and size (default 4)
    (3, 7, 96, 6), (2, 10, 24, 2), (1, 48, 64, 4), (5, 1, 12, 12), (3, 7, 96, 6, 8),
    (4, 33, 16, 1, 8),
]  # fmt: skip


def several_at_once(found, case) -> str:
    """Return the fewest misconceptions that together explain all values that were found."""
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
    "kept_by_block",
    cases={
        "samples {}, context {}, width {}, heads {}, size {}".format(*(*block, 4)[:5]): [block]
        for block in BLOCKS
    },
    truth=measure_saved_bytes,
    unit=" bytes",
    differs=differs,
    explain=several_at_once,
    mistakes=MISTAKES,
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

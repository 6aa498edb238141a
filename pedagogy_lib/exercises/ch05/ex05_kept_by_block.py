"""Exercise 5.5: kept_by_block."""

from ...course.checking import Exercise
from .activations import examine_kept_by_block

EXERCISE = Exercise(
    "5.5", "kept_by_block", examine_kept_by_block,
    (
        "First count for one letter, line by line, as the text before it lists them: how many "
        "numbers does each tensor have? Then multiply by the letters, and by `size`.",
        "Most tensors have `width` numbers for each letter. Between the last two linear layers "
        "they are 4 * width wide. q, k and v have `width` each.",
        "Count each tensor once: x is the first norm's input. So: norms, 2 inputs; linear "
        "layers, 4 inputs, of which one is wide; q, k, v; GELU, 1 wide input. That is all "
        "with `width` in it.",
        "What is left are single numbers for each letter: two for each norm, one for each "
        "head.",
    ),
)  # fmt: skip

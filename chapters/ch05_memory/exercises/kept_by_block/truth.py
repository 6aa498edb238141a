"""The results of known mistakes."""

from functools import partial

from .cases import IN_ATTENTION, IN_NORMS, OF_ALL, OF_WIDTH, measure_saved_bytes, wrong

MISTAKES = [
    *((why, partial(wrong, sentences=[why]))
      for group in (OF_WIDTH, IN_ATTENTION, IN_NORMS, OF_ALL) for why in group),
    *(("means and scales, or log-sum-exps, are counted for one sample alone: each token of "
       "each sample has its own",
       lambda samples, context, width, heads, size=4, number=number:
       measure_saved_bytes(samples, context, width, heads, size)
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
]  # fmt: skip

"""Causal attention in which keys and values travel round a ring."""

from coursekit.kit import Equals, RankExercise, never

from .cases import CASES, go_round
from .truth import mistakes, need_little_memory, need_ring, truth

EXERCISE = RankExercise(
    "ring_attention",
    lab="long_contexts",
    needs=("merge",),
    cases=CASES,
    work=go_round,
    facts=[
        never("changed", "{0[0]} has changed",
              "the caller still needs its tensors: the backward computes with them again"),
        Equals("out", truth(0), mistakes(0), "what comes out"),
        Equals("lse", truth(1), mistakes(1), "lse"),
        need_ring,
        need_little_memory,
    ],
    right="as attention to all keys in one process",
    errors={
        "Pair is not connected": "one rank alone has nobody to pass its keys to: n - 1 times are "
        "none then",
        "min(): Expected reduction": "a block without keys has no scores: only blocks that "
        "`blocks` gives are computed",
        "list index out of range": "the ranks before this one are (rank - step) % n",
    },
    on_hang="all ranks pass their keys on, and receive, equally often: also those whose queries "
    "see nothing of what comes",
    hints=(
        "At step s, whose keys lie on this rank, if each passes its keys to the next one?",
        "Begin with out of zeros and lse of -inf: that is attention to nothing. Each block is "
        "merged into it. blocks(mine, theirs) gives slices of queries and of keys.",
        "The keys of rank (rank - step) % n are here at step s. After each step but the last: "
        "k, v = passed_on([k, v], group).",
    ),
)  # fmt: skip

"""The samples that a rank of a mesh computes with: those of its copy of the model."""

from coursekit.kit import Equals, RankExercise, never

from .cases import CASES, take_share
from .truth import mistakes, share

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "share_of_copy",
    cases=CASES,
    work=take_share,
    facts=[
        Equals("share", share, mistakes, "the share"),
        never("changed", lambda _: "the batch has changed",
              "it belongs to the caller: look at it, and leave it as it is"),
    ],
    right="ranks of one copy have the same samples, other copies have others",
    errors={
        "KeyError": "mesh.sizes and mesh.at are dicts with the keys dp, pp and tp",
        "is not subscriptable": "mesh.sizes and mesh.at are dicts: mesh.at[\"dp\"]",
    },
    hints=(
        "Which ranks have to compute with the same sample? Those of one tp group, for example. Do "
        "they, with dist.get_rank()?",
        'mesh.sizes["dp"] is the number of copies, mesh.at["dp"] the number of this rank\'s copy.',
    ),
)  # fmt: skip

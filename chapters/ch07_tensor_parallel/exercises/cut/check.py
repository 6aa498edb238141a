"""A part of a tensor for each rank: exercise cut."""

from coursekit.kit import RankExercise, World, never
from coursekit.kit.forward_backward import right
from coursekit.kit.message_costs import SendLimit
from coursekit.kit.rank_trials import IN_A_GROUP

from .cases import Cut, cut_on_rank
from .truth import UNEVEN, part_of, sizes

EXERCISE = RankExercise(
    "cut", lab="tensor_parallel",
    cases=[
        Cut(World(3), what=", rows", shape=(7, 4)),
        Cut(World(3), what=", columns", shape=(2, 10), dim=1),
        Cut(World(3), what=", a negative dim", shape=(2, 4, 3), dim=-2),
        Cut(World(3), what=", groups", shape=(12, 2), together=3),
        Cut(World(3), what=", a transposed one", shape=(5, 3), dim=1, is_turned=True),
        Cut(World(1), what=", rows", shape=(2, 3)),
        Cut(World(3, (1, 2)), what=", rows", shape=(7, 2)),
    ],
    work=cut_on_rank,
    facts=[
        never("is_changed", "x has changed", "the whole is only to be read"),
        right("part", part_of, called="its part"),
        never("is_view", "its part is a view into x",
              "the numbers are right, but as long as the part lives, all of x keeps its memory: "
              "nothing would be gained. contiguous() copies only what is not contiguous already; "
              "clone() always does"),
        never("is_x", "its part is x itself, or a view into it",
              "one rank's part is all of it, and so it is contiguous already: contiguous() returns "
              "x itself. clone() always copies"),
        never("surplus", "its part keeps {} bytes beside its own",
              "it is a view into a copy of the whole: copy the part alone"),
        never("is_strided", "its part is not contiguous",
              "clone() keeps the order in memory that x has, transposed here: "
              "clone(memory_format=torch.contiguous_format)"),
        never("is_tracked", "its part requires a gradient", "cut only copies"),
        SendLimit(lambda trial: 0, "a cut sends", "all ranks have the whole: nothing has to travel",
                "calls"),
    ],
    right=lambda trial: f"parts of {sizes(trial)}",
    errors={
        "index out of range": UNEVEN,
        "split_sizes to sum": "x.split cuts along dim 0 unless it is told another one",
        "doesn't match tensor size": "the sizes are those of another dim, or not in groups",
        "cannot be cut into": "part_sizes takes the length along `dim`: x.shape[dim]",
        "exceeds dimension size": "a part begins where those before it end: sum(sizes[:rank])",
    },
    explain=lambda case, error: IN_A_GROUP if case.is_group else "",
    hints=(
        "part_sizes says how long each part is. Where does this rank's begin?",
        "x.split(sizes, dim) gives views of all parts; the rank's own one is to be copied.",
        "clone() copies, but keeps the order in memory that x has; with "
        "memory_format=torch.contiguous_format it is contiguous.",
    ),
)  # fmt: skip

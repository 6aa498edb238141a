"""Gradients of which each rank gets its part."""

from coursekit.kit import GROUP, Equals, Holds, RankCase, RankExercise, Sends, World, never
from coursekit.kit.collective_exercise import LARGE

from .cases import reduce_twice
from .truth import GLOO, NO_GRADIENT, PADDED, mean_part, mistakes, why_left, why_not_given

EXERCISE = RankExercise(
    "reduce_gradients",
    lab="zero",
    needs=("flatten_padded", "reduce_scatter_ring"),
    cases=[
        RankCase(World(2), (False, False)),
        RankCase(World(3), (True, False), ", shards in memory of their own"),
        RankCase(World(1), (False, False)),
        RankCase(GROUP, (False, False)),
        RankCase(World(4), (True, True), ", shards in memory of their own"),
    ],
    work=reduce_twice,
    facts=[
        never("changed", "the parameters themselves have changed",
              "unit.chunks are views into unit.flat, which holds the parameters: make a flat "
              "tensor of the gradients, and cut that one"),
        Holds("part", lambda part: None not in part.values(), "unit.shard.grad is None",
              why_not_given),
        Equals("part", mean_part, mistakes, "shard.grad after"),
        never("left", lambda left: "shard.grad is right, but parameters still have a `.grad`: "
              f"{len(left)} in two calls", why_left),
        never("kept", "shard.grad keeps {} bytes alive beside its own",
              "a chunk is a view: as long as it lives, the memory of the whole flat tensor does. "
              "Give shard.grad a tensor of its own: what a division returns is one, clone() makes "
              "one"),
        never("noted", lambda names: f"afterwards the unit has unit.{names[0]}",
              "what is put there stays in memory until the next call: nothing else is to be kept"),
        Sends(
            lambda trial, place: trial.case.args[1]
            and 8 * -(-(LARGE + 1) // trial.n) * (trial.n - 1),
            "a reduce-scatter sends",
            {
                "reduce_scatter": GLOO,
                "all_reduce": "everybody gets the whole sum, and keeps a part: an all-reduce sends "
                "twice as much as a reduce-scatter",
                "all_gather": "everybody's gradients travel to everybody, and each rank needs a "
                "part of them alone",
                "": "a rank sends on more than its part: in a reduce-scatter all share the load",
            },
        ),
    ],
    right="each has its part of the mean; a second one is added",
    errors={
        "out of range": "",
        "NoneType": NO_GRADIENT,
        "expected Tensor as element": NO_GRADIENT,
        "attempting to assign a gradient of size": "the shard's gradient is as large as the shard: "
        "this rank's chunk of the mean, and no more",
        "EnforceNotMet": "ranks send what differs in length. Is a parameter without a gradient "
        "passed over? It counts as zeros: gradients_of(unit) gives them",
        "must match the size of tensor": PADDED,
        "inconsistent tensor size": PADDED,
        "divisible by": PADDED,
    },
    on_hang="every rank has to make the same calls, with tensors of the same size",
    hints=(
        "In this order: a flat tensor of the gradients, let go of the parameters' own, "
        "reduce-scatter, mean, add it to the shard's gradient.",
        "flatten_padded(gradients_of(unit), unit.n).chunk(unit.n) are n chunks of the "
        "gradients. reduce_scatter_ring(chunks, unit.group) leaves the sum in this rank's.",
        "Divide by unit.n, into a new tensor: a view, as a chunk is one, would keep the memory "
        "of all chunks.",
        "mean = chunks[unit.rank] / unit.n; then shard.grad is mean, or shard.grad + mean. And "
        "p.grad = None for each p of unit.parameters.",
    ),
)  # fmt: skip

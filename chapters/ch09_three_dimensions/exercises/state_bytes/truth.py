"""The right results, and the results of known mistakes."""

BYTES = {"parameters": 2, "gradients": 2, "optimizer": 12}  # per parameter

SHARDED = {"optimizer": 1, "gradients": 2, "parameters": 3}  # the first stage that shards it


def truth(parameters, sizes, stage):
    """Return the bytes on a rank, added up kind by kind."""
    part, total = parameters / sizes["tp"] / sizes["pp"], 0.0
    for kind, each in BYTES.items():
        total += part * each / (sizes["dp"] if stage >= SHARDED[kind] else 1)
    return total


def guess(each=16, stages=(0, 12, 14, 16), over="dp", cut=("tp", "pp")):
    """Return a wrong formula.

    each    bytes per parameter
    stages  bytes per parameter that are sharded in stage 0, 1, 2 and 3
    over    the axes over which they are sharded
    cut     the axes that divide the model
    """

    def value(parameters, sizes, stage):
        part, sharded = parameters, stages[stage]
        for axis in cut:
            part /= sizes[axis]
        n = 1
        for axis in over.split():
            n *= sizes[axis]
        return part * (each - sharded + sharded / n)

    return value


MISTAKES = [
    ("a parameter has 2 bytes, its gradient 2, and the optimizer keeps 12 for it: 16 together",
     guess(each=12, stages=(0, 8, 10, 12))),
    ("this is as if ZeRO did nothing: it shards along dp", guess(stages=(0, 0, 0, 0))),
    ("stage 1 shards the optimizer's 12 bytes, stage 2 the gradients' 2 as well, stage 3 all",
     guess(stages=(0, 2, 4, 16))),
    ("stage 1 shards the optimizer's 12 bytes, stage 2 the gradients' 2 as well, stage 3 all",
     guess(stages=(0, 12, 2, 2))),
    ("stage 0 shards nothing; stage 1 the optimizer's 12 bytes",
     guess(stages=(12, 14, 16, 16))),
    ("stage 3 shards the parameters, too: nothing of a rank's part is there in every copy",
     guess(stages=(0, 12, 14, 14))),
    ("stages cut the model, as tp does: a rank has the layers of its own stage",
     guess(cut=("tp",))),
    ("tp cuts every matrix: a rank has its part of each", guess(cut=("pp",))),
    ("copies do not make anything smaller: without ZeRO, dp does not count",
     guess(cut=("tp", "pp", "dp"), stages=(0, 0, 0, 0))),
    ("tp and pp divide the model among tp × pp ranks", guess(cut=())),
    ("ZeRO shards along dp alone: ranks along tp and pp have other parameters",
     guess(over="dp tp pp")),
]  # fmt: skip

"""The right results, and the results of known mistakes."""

from types import SimpleNamespace

from coursekit.kit.tables import tabulate

from .cases import (
    BATCH,
    CASES,
    GRANULARITY,
    LAYERS,
    METHOD,
    MICRO,
    PLAIN,
    SEQUENCE,
    SIZES,
    VIRTUAL,
    ZERO,
)


def layers_of_chunk(plan, layers) -> int:
    """Return the layers of a chunk, dealt out one by one to all chunks of all stages."""
    chunks = [0] * (plan.pp * plan.chunks)
    for layer in range(layers):
        chunks[layer % len(chunks)] += 1
    return max(chunks)


TABLE = {  # {option: (whether a plan needs it, its value)}
    **{option: (lambda p: True, lambda p, b, n, axis=axis: getattr(p, axis))
       for option, axis in SIZES.items()},
    MICRO: (lambda p: True, lambda p, b, n: p.micro_batch),
    BATCH: (lambda p: True, lambda p, b, n: b),
    SEQUENCE: (lambda p: p.sequence and p.tp != 1, lambda p, b, n: True),
    ZERO: (lambda p: p.zero == 1, lambda p, b, n: True),
    VIRTUAL: (lambda p: p.chunks != 1, lambda p, b, n: layers_of_chunk(p, n)),
    GRANULARITY: (lambda p: p.recompute in ("full", "selective"), lambda p, b, n: p.recompute),
    METHOD: (lambda p: p.recompute == "full", lambda p, b, n: "uniform"),
    LAYERS: (lambda p: p.recompute == "full", lambda p, b, n: 1),
}  # fmt: skip


def arguments_of(case) -> tuple:
    changed, batch, layers = CASES[case]
    return SimpleNamespace(**PLAIN | changed), batch, layers


@tabulate(lambda: [(case,) for case in CASES])
def truth(case) -> dict:
    plan, batch, layers = arguments_of(case)
    return {option: value(plan, batch, layers)
            for option, (is_there, value) in TABLE.items() if is_there(plan)}  # fmt: skip


VALUES = {
    BATCH: [
        (lambda p, b, n: b // p.micro_batch, "the global batch counts samples, and not "
         "micro-batches"),
        (lambda p, b, n: b // p.dp, "the global batch has the samples of all copies"),
        (lambda p, b, n: b // p.cp, "the ranks of cp share the tokens of a sample: the number of "
         "samples stays"),
        (lambda p, b, n: b * p.dp, "batch are the samples of all copies already"),
        (lambda p, b, n: p.micro_batch * p.dp, "a copy may go through several micro-batches in a "
         "step: the samples of a step are given"),
        (lambda p, b, n: b // (p.dp * p.micro_batch), "this is how many micro-batches a copy goes "
         "through; the global batch counts the samples of all copies"),
    ],
    MICRO: [
        (lambda p, b, n: b // p.dp, "this is what a copy gets in a step; a micro-batch is what "
         "goes through the model at a time"),
        (lambda p, b, n: p.micro_batch * p.dp, "a micro-batch belongs to one copy"),
    ],
    VIRTUAL: [
        (lambda p, b, n: n // p.pp * p.chunks, "a division comes before the product that stands "
         "behind it: the layers are divided by stages and by chunks"),
        (lambda p, b, n: p.chunks, "this is the number of chunks; the option counts the layers of "
         "a chunk"),
        (lambda p, b, n: n // p.chunks, "the stages share out the layers first, and then each "
         "stage its chunks"),
        (lambda p, b, n: n // p.pp, "these are the layers of a whole stage; it has several chunks"),
        (lambda p, b, n: p.pp * p.chunks, "this is how many chunks there are in all; the option "
         "counts the layers of one"),
    ],
    METHOD: [(lambda p, b, n: "block", "with block only some layers of a stage are recomputed; "
              "asked is uniform")],
    **{option: [(lambda p, b, n, axis=axis: getattr(p, axis), f"this is {axis}: tensor belongs to "
                 "tp, pipeline to pp, context to cp") for axis in SIZES.values()]
       for option in SIZES},
    LAYERS: [(lambda p, b, n: n, "then one input is kept for all layers together; asked is one for "
              "each")],
}  # fmt: skip


@tabulate(lambda: [(case,) for case in CASES])
def wrong_values(case) -> dict[str, list[tuple]]:
    arguments = arguments_of(case)
    return {option: [(f(*arguments), why) for f, why in known] for option, known in VALUES.items()}

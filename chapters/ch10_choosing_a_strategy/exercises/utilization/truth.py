"""The right results, and the results of known mistakes."""


def products(width, context) -> list[int]:
    """Return the multiplications per token in a block: with each matrix, and for the scores."""
    attention = [width * width] * 4
    mlp = [width * 4 * width, 4 * width * width]
    scores = [width * context, context * width]
    return [*attention, *mlp, *scores]


def flops_of_step(layers, width, vocabulary, context, batch, passes_of_blocks=3) -> float:
    """Return a step's FLOPs; in `passes_of_blocks`, a forward counts 1 and a backward 2."""
    of_blocks = 2 * sum(products(width, context)) * layers * passes_of_blocks
    of_output = 2 * width * vocabulary * 3
    return float(batch * context * (of_blocks + of_output))


def truth(layers, width, vocabulary, context, batch, seconds, gpus, peak):
    of_step = (layers, width, vocabulary, context, batch)
    model = flops_of_step(*of_step) / (seconds * gpus)
    return {
        "model": model,
        "hardware": flops_of_step(*of_step, passes_of_blocks=4) / (seconds * gpus),
        "mfu": model / peak,
    }


def but(model=None, hardware=None):
    """Return the truth with other FLOPs per token, from layers, width, vocabulary, context."""

    def mistaken(layers, width, vocabulary, context, batch, seconds, gpus, peak):
        args, of_token = (layers, width, vocabulary, context), batch * context / (seconds * gpus)
        found = truth(*args, batch, seconds, gpus, peak)
        if model:
            found["model"] = float(model(*args) * of_token)
            found["mfu"] = found["model"] / peak
        if hardware:
            found["hardware"] = float(hardware(*args) * of_token)
        return found

    return mistaken


def scale_truth(factor):
    """Return the truth times a factor that depends on the arguments."""

    def mistaken(*args):
        return {name: value * factor(*args) for name, value in truth(*args).items()}

    return mistaken


def convert_to_tera(*args):
    found = truth(*args)
    return {name: found[name] * (1 if name == "mfu" else 1e-12) for name in found}


def mfu_of_hardware(*args):
    found = truth(*args)
    return found | {"mfu": found["hardware"] / args[-1]}


def mfu_of_all(*args):
    return truth(*args) | {"mfu": truth(*args)["model"] / args[-1] / args[-2]}


MISTAKES = [
    (
        "this leaves out the scores: each token is multiplied with all places of its context, "
        "once for the scores, and once for the values.",
        but(
            lambda n, w, v, s: 6 * (n * 12 * w * w + w * v),
            lambda n, w, v, s: 6 * (n * 12 * w * w + w * v) + 2 * n * 12 * w * w,
        ),
    ),
    (
        "this leaves out the output layer: width × vocabulary multiplications for each token.",
        but(
            lambda n, w, v, s: 6 * n * (12 * w * w + 2 * w * s),
            lambda n, w, v, s: 8 * n * (12 * w * w + 2 * w * s),
        ),
    ),
    (
        "attention needs two products, queries with keys and scores with values, and all pairs "
        "count. This has half of that.",
        but(
            lambda n, w, v, s: 6 * (n * (12 * w * w + w * s) + w * v),
            lambda n, w, v, s: 6 * (n * (12 * w * w + w * s) + w * v)
            + 2 * n * (12 * w * w + w * s),
        ),
    ),
    (
        "the embedding at the input looks up a row, and multiplies nothing: width × vocabulary "
        "counts once.",
        but(
            lambda n, w, v, s: 6 * (n * (12 * w * w + 2 * w * s) + 2 * w * v),
            lambda n, w, v, s: 8 * n * (12 * w * w + 2 * w * s) + 12 * w * v,
        ),
    ),
    (
        "under model, the scores are missing; under hardware they are there.",
        but(lambda n, w, v, s: 6 * (n * 12 * w * w + w * v)),
    ),
    (
        "the output layer stands once behind all blocks, not in each of them.",
        but(
            lambda n, w, v, s: 6 * n * (12 * w * w + 2 * w * s + w * v),
            lambda n, w, v, s: 8 * n * (12 * w * w + 2 * w * s + w * v),
        ),
    ),
    (
        "the output layer stands once behind all blocks, not in each of them.",
        but(
            lambda n, w, v, s: 6 * n * (12 * w * w + 2 * w * s + w * v),
            lambda n, w, v, s: 8 * n * (12 * w * w + 2 * w * s) + 6 * n * w * v,
        ),
    ),
    (
        "each block has its own scores: this counts those of one block.",
        but(
            lambda n, w, v, s: 6 * (n * 12 * w * w + 2 * w * s + w * v),
            lambda n, w, v, s: 8 * (n * 12 * w * w + 2 * w * s) + 6 * w * v,
        ),
    ),
    (
        "one token meets `context` others, and not their square: the tokens of a sample are "
        "counted already.",
        but(
            lambda n, w, v, s: 6 * (n * (12 * w * w + 2 * w * s * s) + w * v),
            lambda n, w, v, s: 8 * n * (12 * w * w + 2 * w * s * s) + 6 * w * v,
        ),
    ),
    (
        "one multiplication with its addition is two FLOPs, in what is recomputed, too.",
        but(hardware=lambda n, w, v, s: 7 * n * (12 * w * w + 2 * w * s) + 6 * w * v),
    ),
    (
        "under hardware, the scores are computed a second time, too.",
        but(
            hardware=lambda n, w, v, s: 8 * n * 12 * w * w + 6 * (n * 2 * w * s + w * v)
        ),
    ),
    (
        "under hardware, the products with the matrices are computed a second time, too.",
        but(
            hardware=lambda n, w, v, s: 6 * (n * 12 * w * w + w * v) + 8 * n * 2 * w * s
        ),
    ),
    (
        "model and hardware are exchanged: what is recomputed counts under hardware.",
        lambda *args: truth(*args) | {
            "model": truth(*args)["hardware"], "hardware": truth(*args)["model"]},
    ),
    (
        "model and hardware are FLOP/s here, without tera or giga.",
        convert_to_tera,
    ),
    (
        "model and hardware are FLOP/s here, without tera or giga.",
        scale_truth(lambda *args: 1e-12),
    ),
    (
        "mfu is the model's FLOP/s divided by the peak, and not the other way round.",
        lambda *args: truth(*args) | {"mfu": 1 / truth(*args)["mfu"]},
    ),
    (
        "mfu compares the model's FLOP/s with the peak, and not with those of the hardware.",
        lambda *args: truth(*args) | {
            "mfu": truth(*args)["model"] / truth(*args)["hardware"]},
    ),
    (
        "a step has `batch` samples: this counts one.",
        scale_truth(lambda n, w, v, s, batch, *rest: 1 / batch),
    ),
    (
        "one multiplication with its addition is two FLOPs.",
        scale_truth(lambda *args: 0.5),
    ),
    (
        "this is the forward alone. The backward needs twice as much again.",
        but(
            lambda n, w, v, s: 2 * (n * (12 * w * w + 2 * w * s) + w * v),
            lambda n, w, v, s: 2 * (2 * n * (12 * w * w + 2 * w * s) + w * v),
        ),
    ),
    (
        "this is the backward alone, or counts it as much as the forward: together they are "
        "three forwards.",
        but(
            lambda n, w, v, s: 4 * (n * (12 * w * w + 2 * w * s) + w * v),
            lambda n, w, v, s: 4 * (n * (12 * w * w + 2 * w * s) + w * v)
            + 2 * n * (12 * w * w + 2 * w * s),
        ),
    ),
    (
        "under hardware, only the blocks are computed a second time. The output layer is not.",
        but(hardware=lambda n, w, v, s: 8 * (n * (12 * w * w + 2 * w * s) + w * v)),
    ),
    (
        "under hardware, only the forward is computed a second time, not the backward.",
        but(
            hardware=lambda n, w, v, s: 12 * n * (12 * w * w + 2 * w * s) + 6 * w * v
        ),
    ),
    (
        "under hardware stands the recomputation alone: it comes on top of the model's FLOPs.",
        but(hardware=lambda n, w, v, s: 2 * n * (12 * w * w + 2 * w * s)),
    ),
    (
        "under hardware, the blocks' forward is missing: it is computed a second time.",
        lambda *args: truth(*args) | {"hardware": truth(*args)["model"]},
    ),
    (
        "mfu is the share that the model's own FLOPs have of the peak. What is recomputed does "
        "not count.",
        mfu_of_hardware,
    ),
    (
        "mfu compares one GPU's FLOP/s with one GPU's peak. This divides by the GPUs twice.",
        mfu_of_all,
    ),
    (
        "mfu is a share, such as 0.4, and not a percentage.",
        lambda *args: truth(*args) | {"mfu": 100 * truth(*args)["mfu"]},
    ),
    (
        "a step has batch samples, and each has context tokens. This counts samples.",
        scale_truth(lambda n, w, v, s, *rest: 1 / s),
    ),
    (
        "this is of all GPUs together; asked is one GPU.",
        scale_truth(lambda n, w, v, s, batch, seconds, gpus, peak: gpus),
    ),
    (
        "this is FLOPs for each GPU; asked are FLOPs for each second.",
        scale_truth(lambda n, w, v, s, batch, seconds, gpus, peak: seconds),
    ),
]  # fmt: skip

"""What decides about each of the five numbers, and all arguments."""

NAMES = ("gathered", "product", "output", "loss", "reduced")
STORED, HALF = 4, 2  # bytes of a number in float32, and in bfloat16


RULES = {
    "gathered": "param_dtype alone decides what is gathered. Without it, weights are gathered as "
    "they are stored, in float32, under autocast as well",
    "product": "under autocast, products are computed in bfloat16, whatever the weights are; "
    "without it, in the dtype of the gathered weights",
    "output": "output_dtype decides about the output, under autocast as well. Without it, the "
    "output has the dtype of the product",
    "loss": "under autocast the loss is computed in float32; without it, it has the dtype of the "
    "output",
    "reduced": "reduce_dtype decides about the gradients. Without it, they have the dtype of the "
    "gathered weights, under autocast as well",
}


def inputs():
    sizes = (HALF, STORED, None)
    return [(param, reduce, output, autocast) for param in sizes for reduce in sizes
            for output in sizes for autocast in (False, True)]  # fmt: skip

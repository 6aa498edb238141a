"""The right results, and the results of known mistakes."""

from coursekit.kit.tables import tabulate

from .rules import HALF, NAMES, STORED, inputs


@tabulate(inputs)
def bytes_in_step(param, reduce, output, autocast) -> list[int]:
    """Return the bytes per number, in the order of NAMES; a test compares them with FSDP2."""
    found = dict.fromkeys(NAMES, STORED)
    if param is not None:
        found.update(dict.fromkeys(NAMES, param))
    if autocast:
        found["product"] = found["output"] = HALF
    if output is not None:
        found["output"] = output
    found["loss"] = STORED if autocast else found["output"]
    if reduce is not None:
        found["reduced"] = reduce
    return [found[name] for name in NAMES]


def wrong_in(name, change):
    """Return a function that is right but for one of the five; change takes what it replaces."""

    def function(param, reduce, output, autocast):
        right = dict(zip(NAMES, bytes_in_step(param, reduce, output, autocast)))
        right[name] = change(right, param, reduce, output, autocast)
        return [right[each] for each in NAMES]

    return function


MISTAKES = [
    ("autocast gathers nothing in bfloat16: it casts weights for each operation, after they have "
     "been gathered as they are stored. The policy's param_dtype is what travels",
     wrong_in("gathered", lambda right, p, r, o, a: HALF if a else right["gathered"])),
    ("autocast decides about products, and the dtype of the weights does not matter there",
     wrong_in("product", lambda right, p, r, o, a: right["gathered"])),
    ("products are computed in param_dtype if the policy names one: nothing is cast back",
     wrong_in("product", lambda right, p, r, o, a: HALF if a else STORED)),
    ("the output is the result of a product: without output_dtype it is not cast back to float32",
     wrong_in("output", lambda right, p, r, o, a: o or STORED)),
    ("output_dtype casts what the model returns, whatever its last product was",
     wrong_in("output", lambda right, p, r, o, a: right["product"])),
    ("under autocast the cross-entropy is computed in float32, whatever the logits are",
     wrong_in("loss", lambda right, p, r, o, a: right["output"])),
    ("without autocast nothing turns the logits into float32: the cross-entropy has their dtype",
     wrong_in("loss", lambda right, p, r, o, a: STORED)),
    ("without reduce_dtype, gradients travel in the dtype of the gathered weights, and not in that "
     "of the stored ones", wrong_in("reduced", lambda right, p, r, o, a: r or STORED)),
    ("autocast casts gradients back to the dtype of the weights that it was given, so that they do "
     "not travel in its bfloat16",
     wrong_in("reduced", lambda right, p, r, o, a: r or (HALF if a else p or STORED))),
    ("reduce_dtype decides about the gradients, whatever param_dtype is",
     wrong_in("reduced", lambda right, p, r, o, a: p or r or STORED)),
]  # fmt: skip

"""The right results, and the results of known mistakes."""


def truth(tokens, layers, matrices, width, context, output):
    total = 0
    for passes in (1, 2):  # forward; backward with respect to inputs and weights
        for _ in range(layers):
            total += passes * 2 * tokens * matrices
            total += passes * 2 * (2 * tokens * context * width)  # q kᵀ, and scores times values
        total += passes * 2 * tokens * output
    return total


def factor(of_matrices=6, of_scores=12, of_output=6, pairs=lambda tokens, width, context: context):
    """Return the formula with other factors; `pairs` gives how many keys a token's query meets."""

    def mistaken(tokens, layers, matrices, width, context, output):
        met = pairs(tokens, width, context)
        blocks = layers * (of_matrices * matrices + of_scores * met * width)
        return tokens * (blocks + of_output * output)

    return mistaken


MISTAKES = [
    (
        "this is the forward alone. The backward has two products for each one of the "
        "forward: by the inputs, and by the weights.",
        factor(2, 4, 2),
    ),
    (
        "a product multiplies and adds: these are two operations for each number of a matrix "
        "and each token.",
        factor(3, 6, 3),
    ),
    (
        "this is twice the forward. The backward has two products for each one of the "
        "forward: together they are three times the forward.",
        factor(4, 8, 4),
    ),
    (
        "this computes the forward twice, as recomputation does. Model FLOPs count each "
        "product once.",
        factor(8, 16, 8),
    ),
    (
        "this computes the forward of the blocks twice, as recomputation does. Model FLOPs "
        "count each product once.",
        factor(8, 16, 6),
    ),
    (
        "these are the scores of the forward alone. Their backward has two products for each "
        "one, too.",
        factor(of_scores=4),
    ),
    (
        "the scores' backward has two products for each one of their forward: together they "
        "are three times the forward.",
        factor(of_scores=8),
    ),
    (
        "these are the FLOPs of the output matrix in the forward alone. Its backward has two "
        "products, too.",
        factor(of_output=2),
    ),
    (
        "a token's query meets the keys of its own sample, not those of all tokens in the step.",
        factor(pairs=lambda tokens, width, context: tokens),
    ),
    (
        "each pair of a query and a key costs `width` multiplications and additions, not one.",
        factor(pairs=lambda tokens, width, context: context / width),
    ),
    (
        "each token's query meets `context` keys. This has the scores of one sample; a step "
        "has several.",
        lambda t, layers, m, w, c, o: truth(t, layers, m, 0, c, o) + 12 * layers * c * c * w,
    ),
    (
        "each token's query meets `context` keys. This has the scores of one token; a step has "
        "several.",
        lambda t, layers, m, w, c, o: truth(t, layers, m, 0, c, o) + 12 * layers * c * w,
    ),
    (
        "these are the scores of one layer: each layer has its own.",
        lambda t, layers, m, w, c, o: truth(t, layers, m, 0, c, o) + 12 * t * c * w,
    ),
    (
        "these are the matrices of one layer: each layer has its own.",
        lambda t, layers, m, w, c, o: truth(t, 1, m, 0, c, o) + 12 * t * layers * c * w,
    ),
    (
        "the scores are missing: each token's query meets every key of its sample, in each layer.",
        factor(of_scores=0),
    ),
    (
        "the scores count half. Attention has two products: queries with keys, and scores with "
        "values; and here all pairs count, masked ones too.",
        factor(of_scores=6),
    ),
    (
        "the output matrix is missing: it makes a score for each letter of the vocabulary.",
        factor(of_output=0),
    ),
    (
        "the output matrix works on each token. This has one token; a step has several.",
        lambda t, layers, m, w, c, output: truth(t, layers, m, w, c, 0) + 6 * output,
    ),
    (
        "the output matrix stands once behind the last layer, not in each of them.",
        lambda t, layers, m, w, c, output: factor()(t, layers, m, w, c, layers * output),
    ),
    (
        "this is one layer: there are several.",
        lambda t, layers, *rest: truth(t, 1, *rest),
    ),
    (
        "this is for one token. A step has several.",
        lambda t, layers, m, w, c, o: truth(1, layers, m, w, c, o),
    ),
]

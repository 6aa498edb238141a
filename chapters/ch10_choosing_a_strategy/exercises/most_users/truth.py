"""The right results, and the results of known mistakes."""


def count_user_bytes(tp, layers, kv_heads, size, tokens) -> int:
    """Return a user's bytes on one GPU, head by head; a GPU has at least one whole head."""
    here = sum(1 for head in range(kv_heads) if head % tp == 0)
    return sum(2 * 2 * size * tokens for _ in range(layers) for _ in range(here))


def count_users_with(each, states=lambda parameters, tp: parameters / tp):
    def count_users(memory, parameter_bytes, tp, layers, kv_heads, size, tokens):
        users, used = 0, states(parameter_bytes, tp)
        one = each(tp, layers, kv_heads, size, tokens)
        while used + (users + 1) * one <= memory:
            users += 1
        return users

    return count_users


truth = count_users_with(count_user_bytes)

MISTAKES = [
    (
        "keys and values: there are two of them for each token, head and layer.",
        count_users_with(lambda *args: count_user_bytes(*args) / 2),
    ),
    (
        "a key's number has 2 bytes, and a value's number 2 more: together 4.",
        count_users_with(lambda *args: count_user_bytes(*args) / 4),
    ),
    (
        "a number has 2 bytes here, not 4.",
        count_users_with(lambda *args: count_user_bytes(*args) * 2),
    ),
    (
        "each user's heads are shared out: tp GPUs serve the same users, and not tp times as many.",
        lambda memory, parameters, tp, *rest: tp * truth(memory, parameters, tp, *rest),
    ),
    (
        "`memory` is that of each GPU, and not of all of them.",
        lambda memory, parameters, tp, *rest: truth(memory / tp, parameters, tp, *rest),
    ),
    (
        "`memory` is that of all GPUs here, but what a user takes is that of one.",
        lambda memory, parameters, tp, *rest: count_users_with(count_user_bytes, lambda p, tp: p)(
            memory * tp, parameters, tp, *rest
        ),
    ),
    (
        "each head has keys and values of its own.",
        count_users_with(lambda tp, layers, heads, *rest: count_user_bytes(1, layers, 1, *rest)),
    ),
    (
        "the rest is too little for one more: round down.",
        lambda memory, p, tp, *rest: max(0.0, (memory - p / tp) / count_user_bytes(tp, *rest)),
    ),
    (
        "this counts one user more than fit.",
        lambda memory, p, tp, *rest: truth(memory, p, tp, *rest) + 1 if p / tp <= memory else 0,
    ),
    (
        "this counts one user fewer than fit.",
        lambda *args: max(0, truth(*args) - 1),
    ),
    (
        "where nobody fits, the answer is 0.",
        lambda *args: max(1, truth(*args)),
    ),
    (
        "each layer keeps keys and values of its own.",
        count_users_with(lambda tp, layers, *rest: count_user_bytes(tp, 1, *rest)),
    ),
    (
        "each GPU keeps its share of the heads, not all of them.",
        count_users_with(lambda tp, *rest: count_user_bytes(1, *rest)),
    ),
    (
        "with more GPUs than heads of keys, each GPU still keeps one whole head.",
        count_users_with(lambda tp, layers, heads, size, n: 4 * layers * heads / tp * size * n),
    ),
    (
        "the parameters are cut: each GPU has one part of tp.",
        count_users_with(count_user_bytes, lambda parameters, tp: parameters),
    ),
    (
        "the parameters need room, too.",
        count_users_with(count_user_bytes, lambda parameters, tp: 0),
    ),
    (
        "if the parameters alone do not fit, nobody can be served: 0.",
        lambda memory, p, tp, *rest: int((memory - p / tp) // count_user_bytes(tp, *rest)),
    ),
    (
        "whoever just fits, fits.",
        lambda memory, *rest: truth(memory - 0.001, *rest),
    ),
    (
        "the rest is too little for one more: round down.",
        lambda memory, p, tp, *rest: max(0, round((memory - p / tp) / count_user_bytes(tp, *rest))),
    ),
    (
        "the rest is too little for one more: round down.",
        lambda memory, *rest: (
            truth(memory, *rest)
            + (truth(memory + count_user_bytes(*rest[1:]) - 0.001, *rest) > truth(memory, *rest))
        ),
    ),
]

"""The right results, and the results of known mistakes."""

from functools import cache

import torch
import torch.nn.functional as F

from .cases import OWN, SHARED, SIZE, has, owners, weight_of, x_and_slope


@cache
def one_process(heads, kv_heads) -> dict:
    """Return one process's gradients of x, the fused weight and bias, and the output matrix."""
    width, fused = heads * SIZE, (heads + 2 * kv_heads) * SIZE
    shapes = (fused, width), (fused,), (width, width), (width,)
    x, slope = x_and_slope(heads)
    weights = [weight_of(salt, shape) for salt, shape in enumerate(shapes)]
    leaves = x, weight, bias, output, output_bias = [t.requires_grad_() for t in (x, *weights)]
    parts, owner = F.linear(x, weight, bias), owners(heads, kv_heads)
    q, k, v = (
        torch.stack([parts[..., rows(kind, of, heads, kv_heads)] for of in of_heads], 1)
        for kind, of_heads in (("query", range(heads)), ("key", owner), ("value", owner))
    )
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    y = F.linear(mixed.transpose(1, 2).flatten(2), output, output_bias)
    found = torch.autograd.grad((y * slope).sum(), leaves)
    return dict(zip(("x", "weight", "bias", "output"), found))


def right_heads(trial, place):
    return has(trial.case, place, trial.n)


def wrong_heads(trial, place):
    (heads, kv_heads), n, right = trial.case.args, trial.n, right_heads(trial, place)
    head, owner = right["head"], owners(heads, kv_heads)
    of_head = [k for k, of in enumerate(owner) if of == head]
    turns = (
        "the key-value heads are dealt out in turns. The query heads of a rank stand in a row, and "
        "so do the ranks that share a key-value head"
    )
    return {
        turns: right | {"head": place % kv_heads},
        "each rank has every query head that uses its key-value head. So some ranks compute the "
        "same, and their sum counts it several times. A rank has heads / n query heads":
            right | {"query_heads": of_head},
        "every rank has all query heads: each is to have heads / n of them":
            right | {"query_heads": list(range(heads))},
        "these are every n-th of the query heads. They need several key-value heads: a rank's "
        "query heads stand in a row": right | {"query_heads": list(range(place, heads, n))},
        "every rank has key-value head 0: which one do this rank's query heads use?":
            right | {"head": 0},
        "rank and head have got mixed up: which key-value head do this rank's query heads use? "
        "heads / kv_heads query heads in a row use the same one": right | {"head": place},
        "this is the number of the first query head: which key-value head does it use?":
            right | {"head": right["query_heads"][0]},
        "every rank has the first query heads: rank 0 has these, rank 1 the next ones":
            right | {"query_heads": list(range(heads // n))},
    }  # fmt: skip


def rows(kind, head, heads, kv_heads) -> list[int]:
    """Return a head's rows in the fused matrix, where each key follows its queries.

    A key's value comes right after it, before the queries of the next key.
    """
    queries = heads // kv_heads
    at = {"query": head % queries, "key": queries, "value": queries + 1}[kind]
    first = ((head // queries if kind == "query" else head) * (queries + 2) + at) * SIZE
    return list(range(first, first + SIZE))


def right_gradients(trial, place):
    (heads, kv_heads), whole = trial.case.args, one_process(*trial.case.args)
    has_here = right_heads(trial, place)
    queries = [row for k in has_here["query_heads"] for row in rows("query", k, heads, kv_heads)]
    head = has_here["head"]
    pair = [row for kind in ("key", "value") for row in rows(kind, head, heads, kv_heads)]
    columns = [k * SIZE + j for k in has_here["query_heads"] for j in range(SIZE)]
    return {
        "key_value.weight": whole["weight"][pair], "key_value.bias": whole["bias"][pair],
        "query.weight": whole["weight"][queries], "query.bias": whole["bias"][queries],
        "output.weight": whole["output"][:, columns],
    }  # fmt: skip


def wrong_gradients(trial, place):
    right = right_gradients(trial, place)
    own = trial[place].before
    every = trial.collect_values("before")
    head = right_heads(trial, place)["head"]
    sharers = [of for k, of in enumerate(every) if right_heads(trial, k)["head"] == head]
    total = lambda of, name: sum(each[name] for each in of)  # noqa: E731
    shared = {name: right[name] for name in SHARED}
    halves = {name: torch.cat([right[name][:SIZE], own[name][SIZE:]]) for name in SHARED}
    others = {name: torch.cat([own[name][:SIZE], right[name][SIZE:]]) for name in SHARED}
    return {
        "the gradients of the key and the value are still those of this rank's query heads alone. "
        "Other ranks have the same key and value, and their query heads use it as well":
            right | {name: own[name] for name in SHARED},
        "the mean is taken. In one process the gradients of all query heads that use a key are "
        "added up": right | {name: x / len(sharers) for name, x in shared.items()},
        "the gradients of all ranks are added up. Only some ranks have this key-value head; the "
        "others' belong to other weights":
            right | {name: total(every, name) for name in SHARED},
        "the gradients of the queries are added up, too. Each rank has query heads of its own: "
        "these are complete":
            right | {name: total(sharers, name) for name in SHARED + OWN[:2]},
        "all gradients of the layer are added up, also of what no other rank has":
            right | {name: total(sharers, name) for name in SHARED + OWN},
        "the gradients of the key and the value are gone: the sum belongs in p.grad, where the "
        "optimizer finds it": right | dict.fromkeys(SHARED),
        "it is added up twice": right | {name: len(sharers) * x for name, x in shared.items()},
        "the key's gradient is complete, the value's is not: a layer of both is shared":
            right | halves,
        "the value's gradient is complete, the key's is not: a layer of both is shared":
            right | others,
        "the weight's gradient is complete, the bias's is not: every parameter of self.key_value "
        "is shared": right | {"key_value.bias": own["key_value.bias"]},
        "these are the gradients of one of the ranks: a broadcast copies, and adds nothing up":
            right | {name: sharers[0][name] for name in SHARED},
    }  # fmt: skip


def bytes_of_sum(trial):
    heads, kv_heads = trial.case.args
    sharers, width = trial.n // kv_heads, heads * SIZE
    return 2 * (sharers - 1) / sharers * 2 * SIZE * (width + 1) * 8

"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import RankCase, Rejection
from coursekit.kit.collective_exercise import numbers
from coursekit.kit.observed_calls import all_waited

SIZE = 2  # width of a head

SHARED = ("key_value.weight", "key_value.bias")

OWN = ("query.weight", "query.bias", "output.weight")


def make_case(world, heads, kv_heads):
    return RankCase(world, (heads, kv_heads), f", {heads} query heads, {kv_heads} key-value heads")


def weight_of(salt, shape):
    """Return numbers that are equal on all ranks and so small that no softmax is nearly 0 or 1."""
    drawn = numbers(5, shape, torch.float64, salt)
    return (drawn - drawn.mean()) / 8


def fill_weights(attention):
    with torch.no_grad():
        for salt, parameter in enumerate(attention.parameters()):
            parameter.copy_(weight_of(salt, parameter.shape))
    return attention


def x_and_slope(heads):
    return (numbers(7, (2, 3, heads * SIZE), torch.float64, salt) / 8 for salt in (8, 9))


def attend(answer, group, case):
    heads, kv_heads = case.args
    width, make = heads * SIZE, answer.lab.Attention
    layer = answer(fill_weights(make(width, heads, kv_heads).double()), group)
    found = {"has": {"query_heads": whole_numbers(layer, "query_heads"), "head": number(layer)}}
    wanted = has(case, dist.get_rank(group), dist.get_world_size(group))
    is_right = torch.tensor(float(found["has"] == wanted))
    dist.all_reduce(is_right, dist.ReduceOp.MIN, group)  # so that no rank waits for others in vain
    if not is_right:
        return found
    x, slope = x_and_slope(heads)
    leaf = x.clone().requires_grad_()
    (layer(leaf) * slope).sum().backward()
    before, weights = gradients(layer), [p.detach().clone() for p in layer.parameters()]
    with all_waited() as calls:
        layer.sum_shared_gradients()
    return found | {
        "before": before, "after": gradients(layer), "calls": calls.made, "x": leaf.grad,
        "changed": not all(map(torch.equal, weights, layer.parameters())),
    }  # fmt: skip


def whole_numbers(layer, name) -> list[int]:
    try:
        return [int(k) for k in getattr(layer, name)]
    except (AttributeError, TypeError, ValueError):
        what = f"self.{name} is {getattr(layer, name, 'not there')!r:.40}"
        raise Rejection(what, "a list of numbers of heads is asked") from None


def number(layer) -> int:
    try:
        return int(layer.head)
    except (AttributeError, TypeError, ValueError, RuntimeError):
        what = f"self.head is {getattr(layer, 'head', 'not there')!r:.40}"
        raise Rejection(what, "a rank has one key-value head: its number is asked") from None


def gradients(layer) -> dict:
    got = {name: p.grad for name, p in layer.named_parameters()}
    return {name: None if got.get(name) is None else got[name].clone() for name in SHARED + OWN}


def owners(heads, kv_heads) -> list[int]:
    """Return the key-value head of each query head, counted one by one."""
    return [k for k in range(kv_heads) for _ in range(heads // kv_heads)]


def has(case, place, n) -> dict:
    """Return a rank's heads, with query heads shared out one after another."""
    heads, kv_heads = case.args
    mine = torch.arange(heads).tensor_split(n)[place].tolist()
    return {"query_heads": mine, "head": owners(heads, kv_heads)[mine[0]]}

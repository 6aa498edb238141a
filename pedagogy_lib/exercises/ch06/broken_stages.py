"""Programs of ZeRO's stages 2 and 3 with a bug: what `check` tries, and what `hint` says.

The truth is one process that has all weights, and the samples of all ranks.
"""

from functools import partial
from math import ceil
from types import SimpleNamespace

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...basics.closeness import close, told_gap
from ...course.checking import Wrong, try_on_ranks
from ...measuring.bytes_of_calls import tensors_in
from ..ch03.broken_loops import pieces_of, table_of, told_pieces
from ..kit.differences import ratio, recognise
from ..kit.one_process import model_of, why_raised
from ..kit.outcomes import plain
from ..kit.trials import kind_of

# ---- 6.12: layers whose weight is in parts ---------------------------------------------------

NETWORKS = {"one layer": (1, 4, 6), "three layers": (3, 6, 6)}  # layers, outputs, inputs
ROWS = 3
SHARDED_HANG = "every rank has to make the same calls, in the same order, in the backward as well"
SHARDED_ERRORS = {
    "modified by an inplace operation": "save_for_backward() has kept the buffer itself, not its "
    "numbers, and watches over it: the forward of another layer has written into it",
    "invalid gradient": "a gradient has the shape of its argument: x's is as x, the shard's is a "
    "part as long as the shard",
    "incorrect number of gradients": "backward returns one for each argument of forward, None for "
    "buffer",
    "invalid tensor size": "the shard is flat: it goes into flat parts of the buffer, "
    "buffer.view(-1).chunk(n)",
    "not have been used in the graph": "backward returns None for x or shard: they have gradients",
    "Backward' object has no attribute": "ctx has what forward has put there, and nothing else",
}
NOT_A_FUNCTION = (
    "it is to remain a class ShardedLinear(torch.autograd.Function), with forward and backward; "
    "give check() the class itself"
)
FORWARD = "the forward was right as it was"
TOO_LATE = (
    "they come out as if the slopes passed through the weight of the layer behind, for each layer "
    "but the last: what the backward needs is there too late"
)
KEPT = (
    "all gradients are right, but now each layer keeps its weight until its backward: stage 3 "
    "splits the weights so that nobody has to. What can be had again need not be kept"
)


class Layers:
    """How the layers of a network compute, from their weights, each (outputs, inputs).

    through  of which layer's weight the slopes of x pass through a layer in the backward
    """

    def __init__(self, weights, through=lambda k: k):
        self.weights, self.through = weights, through

    def __call__(self, x, k):
        weight = self.weights[self.through(k)].detach()
        return x.detach() @ self.weights[k].T + (x - x.detach()) @ weight.T


class Shards:
    """The same from this rank's shards, by the answer."""

    def __init__(self, answer, shards, shape):
        self.answer, self.shards = answer, shards
        self.buffer = torch.zeros(shape, dtype=torch.float64)

    def __call__(self, x, k):
        return self.answer.apply(x, self.shards[k], self.buffer)


def weights_at(network, step):
    """The weight of each layer in a step: others, as after an update."""
    source = torch.Generator().manual_seed(step)
    draw = torch.randn(*network, generator=source, dtype=torch.float64)
    return [weight.requires_grad_() for weight in draw]


def input_of(rank, step, network):
    source = torch.Generator().manual_seed(100 * rank + step)
    x = torch.randn(ROWS, network[2], generator=source, dtype=torch.float64)
    return x.requires_grad_()


def backward_of(layer, leaves, x) -> SimpleNamespace:
    """Outputs of layers in a row, and the gradients of x and of each layer's weight or shard."""
    outputs = x
    for k in range(len(leaves)):
        outputs = torch.tanh(layer(outputs, k))
    gradients = torch.autograd.grad((outputs**2).mean(), [x, *leaves])
    return SimpleNamespace(outputs=outputs.detach(), x=gradients[0], leaves=gradients[1:])


def try_sharded(answer, network):
    """On a rank: what two steps give, and the bytes that a layer keeps for its backward."""
    rank, n = dist.get_rank(), dist.get_world_size()
    shards = [w.detach().view(-1).chunk(n)[rank].clone().requires_grad_()
              for w in weights_at(network, 0)]  # fmt: skip
    layer, steps = Shards(answer, shards, network[1:]), []
    for step in range(2):
        for shard, weight in zip(shards, weights_at(network, step)):
            shard.data.copy_(weight.detach().view(-1).chunk(n)[rank])
        steps.append(backward_of(layer, shards, input_of(rank, step, network)))
    return steps, kept_bytes(layer, input_of(rank, 0, network))


def kept_bytes(layer, x) -> int:
    """What the graph of a layer keeps besides x, its shard, the buffer and its outputs."""
    outputs = layer(x, 0)
    node = outputs.grad_fn  # the learner's `ctx`
    kept = tensors_in([list(node.saved_tensors), list(vars(node).values())])
    sizes = {storage.data_ptr(): storage.nbytes() for storage in map(storage_of, kept)}
    for known in (x, layer.shards[0], layer.buffer, outputs):
        sizes.pop(storage_of(known).data_ptr(), None)
    return sum(sizes.values())


def storage_of(tensor):
    return tensor.untyped_storage()


def examine_sharded(answer):
    if not (isinstance(answer, type) and issubclass(answer, torch.autograd.Function)):
        raise Wrong("your class", f"check() was given {answer!r:.60}", NOT_A_FUNCTION)
    for n in (2, 3):
        for name, network in NETWORKS.items():
            case = f"{n} ranks, {name}"
            run = try_on_ranks(
                case, try_sharded, answer, network, world_size=n,
                explain=partial(why_raised, SHARDED_ERRORS, SHARDED_HANG),
            )  # fmt: skip
            for step in range(2):
                judge_sharded(case, [steps[step] for steps, _ in run.values], step, network)
            kept = max(kept for _, kept in run.values)
            if kept:
                weight = 8 * network[1] * network[2]
                what = f"a layer keeps {kept} bytes more than x and its shard"
                raise Wrong(case, f"{what}; its whole weight has {weight}", KEPT)
            yield f"{case}: gradients of one process; the graph keeps x and the shard alone"


def judge_sharded(case, found, step, network):
    n, weights = len(found), weights_at(network, step)
    right = [backward_of(Layers(weights), weights, input_of(rank, step, network))
             for rank in range(n)]  # fmt: skip
    for rank, (of, own) in enumerate(zip(found, right)):
        if not close(of.outputs, own.outputs):
            what = f"rank {rank}: the outputs are off by up to {told_gap(of.outputs, own.outputs)}"
            raise Wrong(case, what, FORWARD)
        wanted = [own.x, *parts_of(right, rank, lambda of_ranks: of_ranks.mean(0))]
        got = [of.x, *of.leaves]
        names = ["x", *(f"layer {k}'s shard" for k in range(1, network[0] + 1))]
        off = [name for name, a, b in zip(names, got, wanted) if not close(a, b)]
        if off:
            fine = [name for name in names if name not in off]
            what = f"rank {rank}: wrong is the gradient of {', '.join(off)}"
            what += f"; right is that of {', '.join(fine)}" if fine else ""
            why = why_one(got, rank, right) if network[0] == 1 else ""
            raise Wrong(case, what, why or why_several(got, rank, n, step, network))


def parts_of(of_ranks, rank, combine):
    """This rank's part of each weight's gradients, combined from (ranks, elements)."""
    n = len(of_ranks)
    whole = [torch.stack([g.reshape(-1) for g in gs]) for gs in zip(*(o.leaves for o in of_ranks))]
    return [combine(gradients).chunk(n)[rank] for gradients in whole]


def why_one(got, rank, right) -> str:
    """What is wrong with the gradients of x and of a single layer's shard."""
    n, (x, shard) = len(right), got
    part = lambda combine: parts_of(right, rank, combine)[0]  # noqa: E731
    slopes = torch.stack([of.x for of in right])
    of_shard = recognise(shard, {
        "the shard's gradient is the sum over the ranks; asked is the mean":
            part(lambda of_ranks: of_ranks.sum(0)),
        "the shard's gradient is divided by the number of ranks twice":
            part(lambda of_ranks: of_ranks.mean(0) / n),
        "the shard has the gradient of this rank's own loss: those of the others are to count, too":
            part(lambda of_ranks: of_ranks[rank]),
        "the shard has the gradient of this rank's own loss, divided by n: nothing has been added "
        "to it": part(lambda of_ranks: of_ranks[rank] / n),
    })  # fmt: skip
    of_x = "x belongs to this rank, and so does its loss: "
    return of_shard or recognise(x, {
        of_x + "its gradient is not to be divided by n": slopes[rank] / n,
        of_x + "its gradient is not to be added up over the ranks": slopes.sum(0),
        of_x + "its gradient is not to be averaged": slopes.mean(0),
    })  # fmt: skip


def why_several(got, rank, n, step, network) -> str:
    """Through which weights the slopes have passed, if there are several layers."""
    weights, last = weights_at(network, step), network[0] - 1
    guesses = {
        f"they come out as if the slopes of all layers passed through the weight of layer "
        f"{last + 1}": lambda k: last,
        TOO_LATE: lambda k: min(k + 1, last),
    }
    for why, through in guesses.items():
        layer = Layers(weights, through)
        of_ranks = [backward_of(layer, weights, input_of(k, step, network)) for k in range(n)]
        wrong = [of_ranks[rank].x, *parts_of(of_ranks, rank, lambda gs: gs.mean(0))]
        if all(map(close, got, wrong)):
            return why
    return ""


# ---- 6.14: accumulation in parts -------------------------------------------------------------

ACCUMULATED = ((2, 3), (3, 4), (4, 1))  # ranks, micro-batches of each
PART_HANG = "every rank has to make the same calls, for each of its micro-batches"
PART_ERRORS = {
    "sizes().vec()": "the chunks have to be as long as the tensor that receives: pad the flat "
    "gradient until n divides it",
    "'NoneType' object has no attribute": "torch.autograd.grad returns the gradients, and leaves "
    "nothing in `.grad`; backward() does the opposite",
}
LEFT = (
    "the part is right, but behind it the whole gradient stays, on every rank: that is not stage "
    "2. torch.autograd.grad leaves nothing in `.grad`"
)
COUNT_DIVISIONS = (
    "what is summed over, and what is divided by? Follow one micro-batch's "
    "gradient through all lines"
)


def try_part(answer, pieces):
    """On a rank: what it gives, how much is in `.grad`, and whether the weights have changed."""
    model = model_of()
    got = plain(answer(model, F.mse_loss, pieces[dist.get_rank()]))
    left = [p.grad.nbytes for p in model.parameters() if p.grad is not None]
    changed = not all(map(torch.equal, model.parameters(), model_of().parameters()))
    return SimpleNamespace(got=got, left=left, changed=changed)


def examine_part(answer):
    for n, number in ACCUMULATED:
        case = f"{n} ranks, {told_pieces(number)} each"
        pieces = pieces_of(n, 0, number)
        run = try_on_ranks(case, try_part, answer, pieces, world_size=n,
                           explain=partial(why_raised, PART_ERRORS, PART_HANG))  # fmt: skip
        judge_part(case, run.values, table_of(model_of(), pieces))
        yield f"{case}: each has its part of the mean over all {n * number}"


def judge_part(case, found, table):
    """table: gradients of each rank's micro-batches, (ranks, micro-batches, parameters)."""
    n, _, length = table.shape
    for rank, of in enumerate(found):
        wanted = cut(table.mean((0, 1)), rank, n)
        need_numbers(case, rank, of.got, len(wanted), {
            length - rank * len(wanted): "with padding all parts are equally long; leave it there",
            len(wanted) * n: "that is all of it, with padding: return this rank's part",
            length: "that is all of it: return this rank's part",
        })  # fmt: skip
        if of.changed:
            raise Wrong(case, f"rank {rank}: the model's weights have changed")
        if not close(of.got, wanted):
            raise Wrong(case, *told_part(rank, of.got, wanted, table))
        if of.left:
            what = f"rank {rank}: `.grad` of {len(of.left)} parameters has {sum(of.left)} bytes"
            raise Wrong(case, what, LEFT)


def told_part(rank, got, wanted, table) -> tuple[str, str]:
    """What is wrong with a rank's part, and why."""
    n, pieces, _ = table.shape
    factor = ratio(got, wanted)
    if factor is not None:
        what = f"rank {rank}: the part is {factor:.4g} times what it should be, in every element"
        return what, recognise(got, {why: f * wanted for why, f in factors(n, pieces).items()})
    what = f"rank {rank}: the part has norm {got.norm():.4f}, expected {wanted.norm():.4f}"
    guesses = {
        why: cut(torch.einsum("rm,rmp->p", share, table.roll(-rank, 0)), rank, n)
        for why, share in shares(n, pieces).items()
    } | {f"this is rank {k}'s part": cut(table.mean((0, 1)), k, n) for k in range(n) if k != rank}
    return what, next((why for why, guess in guesses.items() if ratio(got, guess) is not None), "")


def factors(n, pieces):
    """{sentence: how many times too large a part is}."""
    return {
        COUNT_DIVISIONS: 1 / n,
        "nothing is divided by the number of ranks: what reduce_scatter gives is a sum": n,
        "the micro-batches are summed up: nothing is divided by how many there are": pieces,
        "this is the sum over all micro-batches of all ranks; asked is the mean": n * pieces,
        "it is divided by the number of ranks three times (ReduceOp.AVG divides, too)": 1 / n**2,
        "it is divided by the number of micro-batches twice": 1 / pieces,
        "it is divided by the number of ranks twice, and by that of micro-batches twice": (
            1 / (n * pieces)
        ),
        "it is divided by the number of ranks twice, and not by that of micro-batches": pieces / n,
    }


def shares(n, pieces):
    """{sentence: how much the gradient of each rank's micro-batches counts, up to a factor}.

    Shapes  (n, pieces), the rank's own first
    """
    everybody, own = torch.ones(n, pieces).double(), torch.zeros(n, pieces).double()
    own[0] = 1
    first, last = torch.zeros(pieces).double(), torch.zeros(pieces).double()
    first[0] = last[-1] = 1
    return {
        "this is the gradient of the rank's own micro-batches: those of the others count, too": own,
        "only the last micro-batch counts: what the others gave has been overwritten":
            everybody * last,
        "only the first micro-batch counts": everybody * first,
        "an early micro-batch counts several times: what has added up is sent, and added, again":
            everybody * torch.arange(pieces, 0, -1),
    }  # fmt: skip


def need_numbers(case, rank, got, length, why):
    """Raise `Wrong` unless a result is a flat float64 tensor of this length.

    why  {length: what it means to return as many}
    """
    if not isinstance(got, torch.Tensor):
        what = f"rank {rank} returned {got!r:.60}; expected a tensor"
        raise Wrong(case, what, "a function without `return` gives None" if got is None else "")
    wanted = torch.empty(length, dtype=torch.float64)
    if kind_of(got) != kind_of(wanted):
        what = f"rank {rank} returned {kind_of(got)}; expected {kind_of(wanted)}"
        raise Wrong(case, what, why.get(got.numel(), "") if got.dim() == 1 else "")


def cut(flat, rank, n):
    """A rank's part of a flat tensor: what is there, in zeros."""
    each = ceil(len(flat) / n)
    part, own = flat.new_zeros(each), flat[rank * each :][:each]
    part[: len(own)] = own
    return part

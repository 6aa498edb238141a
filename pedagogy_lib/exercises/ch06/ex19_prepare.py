"""A recipe for FSDP2 with three mistakes that raise nothing. The truth is one process."""

import gc
import warnings
from functools import partial
from itertools import pairwise

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close_in_float32
from ...course.checking import Wrong
from ..kit import At, Equals, Holds, RankExercise, World, never
from ..kit.one_process import flat

FINDS_A_BUG = True
BLOCKS, WIDTH, STEPS, SAMPLES, RATE = 3, 6, 3, 4, 0.3
FREE, LIMIT = 1e9, 0.2


class Small(nn.Module):
    """Blocks, and a layer; of weights that belong to a rank."""

    def __init__(self, rank):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(BLOCKS))
        self.last = nn.Linear(WIDTH, 5)
        source = torch.Generator().manual_seed(7 + rank)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.4, generator=source)
        self.double()

    def forward(self, x):
        for block in self.blocks:
            x = torch.tanh(block(x)) + x
        return self.last(x)


def make_optimizer(parameters):
    return torch.optim.SGD(parameters, lr=RATE, momentum=0.9)


def batch_of(rank, step):
    source = torch.Generator().manual_seed(100 * rank + step)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    return draw(SAMPLES, WIDTH), draw(SAMPLES, 5)


# ---- On a rank ---


def whole(model):
    tensors = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return flat(tensors).clone()


def bytes_held() -> int:
    """Return the bytes of all tensors that Python holds."""
    gc.collect()  # FSDP2 may not exchange tensors that `measure` has seen, so no `measure` here
    tensors = (x for x in gc.get_objects() if type(x) in (torch.Tensor, torch.nn.Parameter))
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in tensors}
    return sum(storages.values())


def try_recipe(answer, group, case):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule

    (limit,), rank = case.args, dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(rank)
    given = answer(partial(Small, rank), mesh, make_optimizer, limit)
    if not (isinstance(given, tuple) and len(given) == 2 and callable(given[1])):
        return {"given": f"{given!r:.60}"}
    model, step = given
    found = {"start": whole(model), "weights": [], "losses": [], "graph": False, "alive": []}
    found["units"] = sum(isinstance(block, FSDPModule) for block in model.blocks)
    found["root"] = isinstance(model, FSDPModule)
    for number in range(STEPS):
        found["gathers"], loss = count_gathers(step, *batch_of(rank, number))
        found["graph"] |= getattr(loss, "requires_grad", False)
        found["losses"].append(None if loss is None else float(loss))
        del loss
        found["alive"].append(bytes_held() - sum(x.nbytes for x in found["weights"]))
        found["weights"].append(whole(model))
    found["grows"] = max(0, min(after - now for now, after in pairwise(found["alive"])))
    found["left"] = sum(p.grad is not None and bool((p.grad != 0).any()) if not
                        hasattr(p.grad, "to_local") else bool((p.grad.to_local() != 0).any())
                        for p in model.parameters())  # fmt: skip
    return found


def count_gathers(step, x, y) -> tuple:
    """Take a step: how many all-gathers it makes for parameters, and what it returns."""
    from torch.distributed.tensor.debug import CommDebugMode

    with warnings.catch_warnings(), CommDebugMode() as counted:
        warnings.simplefilter("ignore")  # of hooks that the counting sets
        loss = step(x, y)
    counts = counted.get_comm_counts().items()
    return sum(count for call, count in counts if "gather" in str(call)), loss


# ---- What is right, and what is not ---


def pieces(n, tensor):
    """The parts of a tensor that FSDP2 gives to the ranks, along its first dimension."""
    parts = list(tensor.chunk(n))
    return parts + [tensor[:0]] * (n - len(parts))


def clip_all(gradients, limit, n):
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    return [g * min(1.0, float(limit / norm)) for g in gradients]


def clip_shards(gradients, limit, n):
    """Each rank by the norm of its own shards."""
    cut = [pieces(n, g) for g in gradients]
    scales = []
    for rank in range(n):
        norm = torch.cat([c[rank].flatten() for c in cut]).norm()
        scales.append(min(1.0, float(limit / norm)) if norm > 0 else 1.0)
    return [torch.cat([part * scale for part, scale in zip(c, scales)]) for c in cut]


def clip_each(gradients, limit, n):
    return [g * min(1.0, float(limit / g.norm())) for g in gradients]


def clip_numbers(gradients, limit, n):
    return [g.clamp(-limit, limit) for g in gradients]


def summed_norms(gradients, limit, n):
    """The norms of the ranks' shards added up, and not their squares."""
    cut = [pieces(n, g) for g in gradients]
    norm = sum(torch.cat([c[rank].flatten() for c in cut]).norm() for rank in range(n))
    return [g * min(1.0, float(limit / norm)) for g in gradients]


def trained(trial, mixed=False, factor=1.0, clip=clip_all, keep=False):
    """One process that follows the mean over the ranks: the start, and weights after each step.

    mixed  whether the model is put together from shards of each rank's own weights
    keep   whether gradients are never cleared
    """
    n, (limit,) = trial.n, trial.case.args
    model = Small(0)
    if mixed:
        others = [list(Small(rank).parameters()) for rank in range(n)]
        for number, p in enumerate(model.parameters()):
            p.data = torch.cat([pieces(n, of[number].data)[k] for k, of in enumerate(others)])
    losses = []
    start, after = flat(model.parameters()).clone(), []
    optimizer = make_optimizer(model.parameters())
    for step in range(STEPS):
        batches = [batch_of(rank, step) for rank in range(n)]
        each = [F.mse_loss(model(x), y) for x, y in batches]
        losses.append([loss.item() for loss in each])
        loss = sum(each) / n * factor
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        if keep:
            olds = [0 if p.grad is None else p.grad for p in model.parameters()]
            gradients = [g + old for g, old in zip(gradients, olds)]
        for p, g in zip(model.parameters(), clip(list(gradients), limit, n)):
            p.grad = g.clone()
        optimizer.step()
        after.append(flat(model.parameters()).clone())
    return start, after, losses


def of_rank(trial, place):
    return [each[place] for each in trained(trial)[2]]


def wrong_losses(trial, place):
    n, each = trial.n, trained(trial)[2]
    return {
        "step() returns the mean over the ranks; asked is this rank's loss":
            [sum(losses) / n for losses in each],
        "step() returns the sum over the ranks; asked is this rank's loss":
            [sum(losses) for losses in each],
        "step() returns a part of this rank's loss: it is divided by the number of ranks":
            [losses[place] / n for losses in each],
        "step() returns nothing: this rank's loss is asked": [None] * STEPS,
    }  # fmt: skip


def wrong_starts(trial, place):
    n = trial.n
    first = [pieces(n, p.detach())[0] for p in Small(0).parameters()]
    parts = [torch.cat([own] * n)[: len(p)] for own, p in zip(first, Small(0).parameters())]
    return {
        "each rank has made a model of its own, and FSDP2 has put the sharded model together from "
        "their parts: unlike DDP, it does not broadcast rank 0's weights": trained(trial, True)[0],
        "every rank has rank 0's shard: what was sent was a part of each weight. Send the whole "
        "weights before they are cut": flat(parts),
        "this is the mean of the ranks' weights; asked are rank 0's":
            sum(flat(Small(k).parameters()) for k in range(n)) / n,
        **{f"this is rank {k}'s model; asked is rank 0's": flat(Small(k).parameters())
           for k in range(1, n)},
    }  # fmt: skip


def wrong_weights(trial, place):
    n = trial.n
    twice = "the gradient is divided by the number of ranks twice: FSDP2 has averaged already"
    times = "the gradient is multiplied by the number of ranks: FSDP2 gives the mean"
    shards = (
        "each rank clips by the norm of its own shards. These norms differ, so ranks scale their "
        "parts by different factors: the norm of the gradient is that of all shards together"
    )
    return {
        **{why: trained(trial, factor=factor)[1] for why, factor in ((twice, 1 / n), (times, n))},
        shards: trained(trial, clip=clip_shards)[1],
        "nothing clears the gradients: each step follows those of all steps before it, too":
            trained(trial, keep=True)[1],
        "nothing is clipped. Clipping changes gradients, so it comes before the step":
            trained(trial, clip=lambda gradients, limit, n: gradients)[1],
        "each parameter is clipped by itself; asked is the norm of the whole gradient":
            trained(trial, clip=clip_each)[1],
        "each number is clipped by itself; asked is the norm of the whole gradient":
            trained(trial, clip=clip_numbers)[1],
        "the norms of the shards are added up: squares add up, and the root comes last":
            trained(trial, clip=summed_norms)[1],
        "no step is taken: the weights are those of the start. Was the optimizer made of the "
        "parameters before FSDP2 put others in their place?": [trained(trial)[0]] * STEPS,
    }  # fmt: skip


def need_pair(trial):
    given = trial.of("given")
    if given and any(given):
        raise Wrong(str(trial.case), f"prepare() returns {given[0]}",
                    "asked are two values: the model, and the function step")  # fmt: skip


def why_gathers(trial, place) -> str:
    found = trial[place].gathers
    if found == 2 * BLOCKS + 2:
        return ("the root is released after the forward, and gathered again at once: the backward "
                "begins with it. FSDP2 keeps it, unless it is told otherwise")  # fmt: skip
    if found == BLOCKS + 1:
        return ("the blocks stay gathered from the forward to the backward: that is the whole "
                "model. Only the root does")  # fmt: skip
    return "each block is gathered for its forward and for its backward, the root once"


EXERCISE = RankExercise(
    "6.19",
    "prepare",
    cases=[At(World(n), (limit,), how)
           for limit, how in ((FREE, ", nothing to clip"), (LIMIT, ", clipped")) for n in (2, 3)],
    work=try_recipe,
    facts=[
        need_pair,
        Holds("units", lambda count: count == BLOCKS, "{} of 3 blocks are units of FSDP2",
              "a unit for each block: so one block is whole at a time, and not the model. "
              "fully_shard goes from the inside out: the blocks come first"),
        Holds("root", bool, "the model itself is no unit of FSDP2",
              "what is in no block is neither split nor averaged over the ranks then"),
        Equals("start", lambda trial, place: trained(trial)[0], wrong_starts,
               "the whole weights at the start",
               "is there a parameter that has other weights than rank 0's?"),
        Equals("weights", lambda trial, place: trained(trial)[1], wrong_weights,
               "the weights after steps", same=close_in_float32),  # torch adds 1e-6 to a norm
        Holds("gathers", lambda count: count == 2 * BLOCKS + 1,
              "a step makes {} all-gathers, expected 7", why_gathers),
        never("left", "gradients are left after the step",
              "the next step would add to them: clear them"),
        Equals("losses", of_rank, wrong_losses, "what step() returns", same=close_in_float32),
        never("graph", "what step() returns has a graph",
              "it keeps the activations of the step alive: detach it"),
        never("grows", "after each step {} bytes more are alive than after the step before",
              "something grows with the steps, a list of tensors for example. It would go on like "
              "that for the whole training: keep numbers, loss.item() is one"),
    ],
    told="rank 0's weights at the start, and the steps of one process",
    errors={
        "got mixed torch.Tensor and DTensor": "a parameter is a shard where a whole one is needed. "
        "Either the model itself is no unit: it is sharded last, with all that is left. Or "
        "forward() was called in place of the model, and no hook has gathered its units",
        "'NoneType' object has no attribute 'to_local'": "a parameter has no gradient here: is "
        "this the place, and are these the parameters of the sharded model?",
    },
    lost="every rank has to make the same calls: clipping communicates, too",
    warm=True,
    hints=(
        "Three mistakes. The first line of the table: which rank's weights does the model have at "
        "the start? FSDP2 cuts what it finds on each rank.",
        "The third line: each rank has a norm of its own shards, and two ranks have two. Which "
        "call takes the norm of a whole DTensor?",
        "The last line: which unit does the backward need first, and what has it been told?",
    ),
)  # fmt: skip

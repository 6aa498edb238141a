"""A program for FSDP2 whose training changes nothing: find the bug.

The truth is one process that follows the mean of the losses of all ranks.
"""

import torch
import torch.nn.functional as F
from torch import nn

from ...course.checking import Wrong
from ..kit import At, Equals, RankExercise, World
from ..kit.one_process import flat
from ..kit.values import EXIT

FINDS_A_BUG = True
BLOCKS, WIDTH, STEPS = 3, 8, 4


class Small(nn.Module):
    """A layer, blocks, and a layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, WIDTH)
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(BLOCKS))
        self.last = nn.Linear(WIDTH, 2)
        source = torch.Generator().manual_seed(3)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.4, generator=source)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = torch.tanh(block(x)) + x
        return self.last(x)


def make_optimizer(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def batch_of(copy_number, step):
    source = torch.Generator().manual_seed(100 * copy_number + step)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    return draw(6, 4), draw(6, 2)


# ---- On a rank ---


def try_shard(answer, group, case):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    (sizes,) = case.args
    mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))["dp"]
    model, losses = Small().double(), []
    optimizer = answer(model, make_optimizer, mesh)
    if not isinstance(optimizer, torch.optim.Optimizer):
        return {"optimizer": f"{optimizer!r:.60}"}
    for step in range(STEPS):
        x, y = batch_of(mesh.get_local_rank(), step)
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return {
        "losses": losses,
        "weights": flat(whole),
        "units": [name or "the model" for name, module in model.named_modules()
                  if isinstance(module, FSDPModule)],
        "shared": all(isinstance(block, FSDPModule) for block in model.blocks)
        and len(set(map(fully_shard.state, model.blocks))) < BLOCKS,
        "kept": sum(p.to_local().numel() if hasattr(p, "to_local") else p.numel()
                    for p in model.parameters()),
    }  # fmt: skip


# ---- What is right, and what is not ---


def alone(copies, place, trained=("first", "blocks", "last"), follows=None):
    """Losses of one copy's batches, and the weights at the end, of one process.

    trained  names of the parts whose parameters are updated
    follows  copies whose losses count; all of them unless given
    """
    model, losses = Small().double(), []
    chosen = [p for name, p in model.named_parameters() if name.split(".")[0] in trained]
    optimizer = make_optimizer(chosen) if chosen else None
    for step in range(STEPS):
        model.zero_grad()
        each = {k: F.mse_loss(model(x), y)
                for k in range(copies) for x, y in [batch_of(k, step)]}  # fmt: skip
        losses.append(each[place].item())
        of = list(range(copies)) if follows is None else follows
        (sum(each[k] for k in of) / len(of)).backward()
        if optimizer:
            optimizer.step()
    return losses, flat(model.parameters())


def without_the_whole(copies) -> list:
    """Losses of each copy, if the gradients of the blocks alone are averaged."""
    models = [Small().double() for _ in range(copies)]
    optimizers, losses = [make_optimizer(m.parameters()) for m in models], [[] for _ in models]
    for step in range(STEPS):
        for k, model in enumerate(models):
            model.zero_grad()
            x, y = batch_of(k, step)
            loss = F.mse_loss(model(x), y)
            loss.backward()
            losses[k].append(loss.item())
        for parameters in zip(*(model.blocks.parameters() for model in models)):
            mean = sum(p.grad for p in parameters) / copies
            for p in parameters:
                p.grad = mean.clone()
        for optimizer in optimizers:
            optimizer.step()
    return losses


def copies_of(trial):
    return trial.case.args[0]["dp"]


def at(trial, place) -> int:
    """The number of the copy that a rank belongs to: dp is the first axis."""
    return place * copies_of(trial) // trial.n


def losses(trial, place):
    return alone(copies_of(trial), at(trial, place))[0]


def mistakes_in_losses(trial, place):
    n, k = copies_of(trial), at(trial, place)
    return {
        "the losses are those of weights that never change: the optimizer steps, and holds other "
        "tensors than the model computes with. Which parameters does the model have after "
        "fully_shard?": alone(n, k, trained=())[0],
        "the blocks learn, and the rest of the model does not: the optimizer does not hold what "
        "the rest has after the whole model was sharded": alone(n, k, trained=("blocks",))[0],
        "the first and the last layer learn, and the blocks do not: the optimizer was made before "
        "the blocks were sharded, or does not hold their parameters":
            alone(n, k, trained=("first", "last"))[0],
        "each rank trains on its own batch alone: nothing averages the gradients":
            alone(n, k, follows=[k])[0],
        "the first and the last layer follow each rank's own batch: they are in no block, so the "
        "whole model has to be a unit, too": without_the_whole(n)[k],
    }  # fmt: skip


def need_optimizer(trial):
    found = trial.of("optimizer")
    if found is not None:
        what = f"it returned {found[0]}"
        raise Wrong(str(trial.case), what, "asked is the optimizer that make_optimizer gives")


def need_units(trial):
    """Each block is a unit, and what is left is one more."""
    if any(trial.of("shared") or ()):
        what = "units that fully_shard has made: one of all blocks, and the model"
        why = "of a list, fully_shard makes one unit: each block is to be a unit of its own"
        raise Wrong(str(trial.case), what, why)
    for units in trial.of("units") or ():
        if len(units) == BLOCKS + 1 and "the model" in units:
            continue
        what = f"units that fully_shard has made: {', '.join(units) or 'none'}"
        if units == ["the model"]:
            why = ("the losses are right, but the whole model is one unit: each forward gathers "
                   "all of it at once. Each block is to be a unit of its own")  # fmt: skip
        elif not units:
            why = "the losses are right, but nothing is sharded: each rank keeps the whole model"
        else:
            why = "each block is to be a unit, and the whole model one more, for what is left"
        raise Wrong(str(trial.case), what, why)


def share_of(place, n) -> int:
    """Numbers on a rank if the rows of each parameter are dealt out in n equal pieces."""
    pieces = (list(p.detach().chunk(n)) for p in Small().parameters())
    return sum(piece[place].numel() for piece in pieces if place < len(piece))


def need_share(trial):
    n, total = copies_of(trial), sum(p.numel() for p in Small().parameters())
    for place, kept in enumerate(trial.of("kept") or ()):
        wanted = share_of(at(trial, place), n)
        if kept != wanted:
            what = f"{trial.who(place)} keeps {kept} of {total} numbers, expected {wanted}"
            why = "the ranks of `mesh` share out the parameters, not those of the whole world"
            raise Wrong(str(trial.case), what, why)


EXERCISE = RankExercise(
    "10.20",
    "shard",
    cases=[
        At(World(2), ({"dp": 2},), ", dp 2"),
        At(World(4), ({"dp": 2, "tp": 2},), ", dp 2 × tp 2"),
        At(World(3), ({"dp": 3},), ", dp 3"),
    ],
    work=try_shard,
    facts=[
        need_optimizer,
        Equals("losses", losses, mistakes_in_losses, "the loss of a step",
               otherwise="which parameters does the optimizer hold, and which gradients does it "
               "find there?"),
        need_units,
        need_share,
        Equals("weights", lambda trial, place: alone(copies_of(trial), at(trial, place))[1],
               called="the weight at the end"),
    ],
    told="losses and weights of one process; each block is a unit",
    errors={
        "Invariant encountered": "the whole model was sharded first, and took the parameters of "
        "the blocks into its own unit: the blocks come first, the whole model last",
        "overlapping meshes": "a parameter that is sharded already is sharded a second time: the "
        "blocks come first, the whole model last, and each module once",
        "value was None when it should not be": "the whole model was sharded first, and took the "
        "parameters of the blocks into its own unit: the blocks come first, the whole model last",
        "empty parameter list": "an optimizer needs parameters: model.parameters() is a generator, "
        "and gives them once",
        "is not iterable": "make_optimizer takes the parameters of the model, and no model",
        "only optimize Tensors": "make_optimizer takes parameters, without their names",
        "non-leaf Tensor": "the optimizer holds the parameters themselves, and nothing that is "
        "computed from them",
        "must have the same dtype": "the model keeps its dtype: it is given in float64 here",
        "SystemExit": EXIT,
        "fully_shard does not support": "fully_shard takes one module: a block, and not the list "
        "of all blocks",
        "mixed torch.Tensor and DTensor": "something computes with parameters that are not "
        "gathered: whose forward gathers them? The whole model has to be a unit, too",
    },
    lost="every rank has to shard the same modules in the same order",
    warm=True,
    hints=(
        "The program raises no error, and the losses are those of the first weights. What does "
        "the optimizer change?",
        "fully_shard puts new parameters, of which a rank has a part, in the place of the old "
        "ones. Print id(next(model.parameters())) before and after.",
        "The optimizer has to be made from the parameters that the model has at the end.",
    ),
)  # fmt: skip

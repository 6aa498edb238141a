"""The work of the checks of Zero1 and Zero2: training, and the traffic of a step."""

import torch
import torch.distributed as dist
from torch import nn

from pedagogy_lib.measuring.recorder import measure, traffic_in

from .stage_training import OPTIMIZERS, train_on_rank

LAYERS, FEATURES, BACKWARDS = 6, 201, 2  # of the model whose bytes are measured


def work(answer, group, case, **watching):
    on_rank = train_on_rank if case.args else cost_on_rank
    return on_rank(answer, group, case, **watching)


def cost_on_rank(answer, group, case, **watching):
    """Return how many models a rank sends in several backwards, a step and an update alone."""
    model = nn.Sequential(*(nn.Linear(FEATURES, FEATURES) for _ in range(LAYERS))).double()
    zero = answer(model, OPTIMIZERS["Adam"], list(model), group)
    dist.barrier(group)
    for _ in range(BACKWARDS):
        loss = model(torch.ones(1, FEATURES, dtype=torch.float64)).square().mean()
        with measure("backward"):
            loss.backward()
    with measure("step"):
        zero.step()
    for unit in zero.units.values():
        unit.shard.grad = torch.ones_like(unit.shard)
    with measure("update"):
        zero.update()
    padded = sum(unit.flat.nbytes for unit in zero.units.values())
    sent = {part: traffic_in(part) for part in WHAT}
    names = {part: {call.name for call in calls} for part, (calls, *_) in sent.items()}
    return {"names": names, "models": {part: sent[part][1] / padded for part in sent}}


WHAT = {
    "backward": f"in {BACKWARDS} backwards together, a rank",
    "step": "in step(), a rank",
    "update": "in update() alone, a rank",
}

"""The code that runs next to the answer."""

import logging
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from coursekit.kit import measure_answer
from coursekit.kit.reference_training import FEATURES, batch_of, flat, gradients_in, uneven_loss

STEPS = 2
WIDE = 2_000  # hidden units, where bytes are compared with a formula


class Small(nn.Module):
    """Two layers, whose weights are the same on every rank."""

    def __init__(self, hidden=3):
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, hidden), nn.Linear(hidden, 1)
        source = torch.Generator().manual_seed(5)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.5, generator=source)
        self.double()
        self.plain_forwards = []

    def forward(self, x):
        if not torch.compiler.is_compiling():  # compiled code leaves this branch out
            self.plain_forwards.append(len(x))
        return self.second(self.first(x).tanh())


def try_step(answer, group, case):
    import torch._dynamo  # torch._logging knows its logger from here on

    torch._logging.set_logs(dynamo=logging.ERROR)
    model, rank, ran, made = Small(*case.args), dist.get_rank(), [], []
    before = flat(model.parameters())

    def run_noting(graph, inputs):
        def run(*inputs):
            ran.append(sum("tanh" in str(node.target) for node in graph.graph.nodes))
            return graph.forward(*inputs)

        return run

    def compile_it(module):
        made.append("compile_it()")
        return torch.compile(module, backend=run_noting)

    def init(self, *args, **kwargs):
        made.append("DistributedDataParallel()")
        return usual_init(self, *args, **kwargs)

    step = answer(model, compile_it, uneven_loss)
    if not callable(step):
        return {"is_function": False}
    made.clear()
    found = {"is_function": True, "gradients": [], "losses": [], "graph": False}
    usual_init = DistributedDataParallel.__init__
    with patch.object(DistributedDataParallel, "__init__", init):
        for number in range(STEPS):
            with measure_answer(memory=False):  # torch.compile allows no follower of tensors
                loss = step(*batch_of(rank, number))
            found["graph"] |= getattr(loss, "requires_grad", False)
            found["losses"].append(None if loss is None else float(loss))
            found["gradients"].append(gradients_in(model))
    return found | {
        "compiled": sum(ran), "plain": len(model.plain_forwards), "made": made,
        "evaluates": not model.training,
        "changed": not torch.equal(flat(model.parameters()), before),
    }  # fmt: skip

"""The code that runs next to the answer."""

import torch.distributed as dist
import torch.nn.functional as F

from coursekit.kit.reference_training import batch_of, flat, model_of
from coursekit.kit.results import detach_result
from pedagogy_lib.basics.closeness import close


def pieces_of(rank, case):
    return [batch_of(rank, 0, piece) for piece in range(case.args[0])]


def try_part(answer, group, case):
    model = model_of()
    weights = flat(model.parameters())
    part = detach_result(answer(model, F.mse_loss, pieces_of(dist.get_rank(), case)))
    left = [p.grad.nbytes for p in model.parameters() if p.grad is not None]
    return {"part": part, "left": left, "changed": not close(flat(model.parameters()), weights)}

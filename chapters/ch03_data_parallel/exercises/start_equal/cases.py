"""The cases, and the code that runs next to the answer."""

import contextlib
from unittest import mock

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from coursekit.kit import Rejection, World
from coursekit.kit.collective_exercise import numbers
from coursekit.kit.observed_calls import note_bypassed
from coursekit.kit.reference_training import EveryKind, loss_of, state_of, tensors_of
from pedagogy_lib.basics.waits import WaitsNoticed

from ..shared.large_models import cost_of_large
from ..shared.state_snapshot import StateSnapshot

LAST_WORLD = World(4)

LARGE = {"words": 5001, "width": 203}  # of the model whose bytes are compared with a formula


def start_on_rank(answer, group, case):
    """Return a model's state after the answer and, in the last world, the cost of a large one."""
    model = fill(EveryKind(), dist.get_rank(group))
    objects, names, alone = parameters_of(model), list(tensors_of(model)), StateSnapshot(model)
    with (
        mock.patch.object(DistributedDataParallel, "__init__", refuse_ddp),
        asynchronous() as begun,
    ):
        answer(model, group)
    now, after = parameters_of(model), state_of(model)
    found = {
        "after": {name: after.get(name) for name in names},
        "replaced": [name for name in objects if objects[name] is not now.get(name)],
        "switched": [n for n in objects if n in now and now[n].requires_grad == ("frozen" in n)],
        "waiting": len(begun),
        "touched": alone.find_changes(),
    }
    with note_bypassed() as passed, contextlib.suppress(RuntimeError):
        loss_of(model, 0, slice(None), 1.0).backward()
    found["passed"] = passed
    return found | (cost_of_start(answer, group) if case.world == LAST_WORLD else {})


@contextlib.contextmanager
def asynchronous():
    """Yield a list of the requests of dist.broadcast that nobody has waited for."""
    begun, broadcast = [], dist.broadcast

    def note_broadcast(*args, **kwargs):
        request = broadcast(*args, **kwargs)
        begun.extend([request] * (request is not None))
        return request

    def drop_request(request):
        begun[:] = [other for other in begun if other is not request]

    with WaitsNoticed(drop_request), mock.patch.object(dist, "broadcast", note_broadcast):
        yield begun


def refuse_ddp(*args, **kwargs):
    raise Rejection(
        "it makes a DistributedDataParallel", "that starts equal by itself. Here it is to be "
        "written by hand: which tensors have to travel, and from whom?",
    )  # fmt: skip


def cost_of_start(answer, group):
    large = fill(EveryKind(**LARGE).float(), dist.get_rank(group))
    return cost_of_large(lambda: answer(large, group), lambda: state_of(large), group)


def fill(model, place):
    """Fill parameters and buffers with numbers of the place, which are not exact in float32."""
    for salt, tensor in enumerate([*model.parameters(), *model.buffers()]):
        values = numbers(place, tensor.shape, tensor.dtype, salt) + 8 * place
        tensor.detach().copy_(values / 3 if tensor.is_floating_point() else values)
    return model


def parameters_of(model):
    """Return the parameters by all their names, so that a tied one appears twice."""
    return dict(model.named_parameters(remove_duplicate=False))

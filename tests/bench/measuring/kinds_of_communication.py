"""Kinds of communication that two ranks may make inside `measure`.

Each returns what it has computed, and is registered with the bytes that both ranks send together by
the formulas of `bytes_of_calls`: a number, LIKE_KERNEL where only the kernel's count is compared,
or NOT_COUNTED.
"""

import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

LENGTH = 10_000
X = 4 * LENGTH  # bytes of a vector
LIKE_KERNEL, NOT_COUNTED = "like the kernel", "not counted"
KINDS = {}


def kind(sent):
    """Register a kind of communication, and the bytes that both ranks send together."""

    def register(function):
        KINDS[function.__name__] = function, sent
        return function

    return register


def vector(dtype=torch.float32, length=LENGTH):
    return (torch.arange(length) % 7 + dist.get_rank()).to(dtype)


def layers(width=64):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))


def train(model, steps=2, width=64):
    for step in range(steps):
        model(torch.ones(2, width) * (step + dist.get_rank())).square().mean().backward()
    return [p.grad for p in model.parameters()]


# ---- Collectives ----


@kind(sent=2 * X * 7)
def sums_of_all_dtypes():
    """Sum as many bytes as 7 vectors of float32 have: 1 + 2 + 2 + ½ + ½ + ¼ + ¼ + ½."""
    kinds = torch.float32, torch.float64, torch.complex64, torch.float16, torch.bfloat16
    results = [vector(dtype) for dtype in (*kinds, torch.uint8, torch.int8, torch.float16)]
    for one in results:
        dist.all_reduce(one)
    return results


@kind(sent=2 * X // 4)
def truths():
    x = vector() > 3
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    return x


@kind(sent=0)
def empty():
    x, y = torch.empty(0), torch.tensor(3.0)
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    return x, y


@kind(sent=6 * X)
def gathers():
    x, parts = vector(), [torch.empty(LENGTH) for _ in range(2)]
    dist.all_gather(parts, x)
    whole = torch.empty(2 * LENGTH)
    dist.all_gather_into_tensor(whole, x)
    dist.all_gather(parts, x[::2].contiguous().repeat(2))
    return parts, whole


@kind(sent=2 * X)
def rooted():
    x = vector()
    dist.broadcast(x, 0)
    parts = [torch.empty(LENGTH) for _ in range(2)] if dist.get_rank() == 1 else None
    dist.gather(x, parts, dst=1)
    return x, parts


@kind(sent=2 * X)
def scattered_and_reduced():
    x, y = torch.empty(LENGTH), vector()
    dist.scatter(x, [vector(), vector() * 2] if dist.get_rank() == 0 else None, src=0)
    dist.reduce(y, 0)
    return x, y if dist.get_rank() == 0 else None


@kind(sent=X + X + X)
def uneven_exchanges():
    """Of X bytes, rank 0 sends 3/4 and rank 1 sends 1/4, in the last two; half each in the first."""
    me = dist.get_rank()
    sizes = [LENGTH // 4, 3 * LENGTH // 4]
    incoming = [LENGTH // 4 if me == 0 else 3 * LENGTH // 4] * 2
    x, outputs = vector(), [torch.empty(LENGTH // 2) for _ in incoming]
    dist.all_to_all(outputs, list(x.chunk(2)))
    y = torch.empty(sum(incoming))
    dist.all_to_all_single(y, x, incoming, sizes)
    z = functional.all_to_all_single(x, incoming, sizes, dist.group.WORLD)
    return outputs, y, z.wait() if hasattr(z, "wait") else z


@kind(sent=4 * X)
def messages():
    me, x, y = dist.get_rank(), vector(), torch.empty(LENGTH)
    operations = [dist.P2POp(dist.isend, x, 1 - me), dist.P2POp(dist.irecv, y, 1 - me)]
    for request in dist.batch_isend_irecv(operations):
        request.wait()
    z = torch.empty(LENGTH)
    requests = [dist.isend(y, 1 - me), dist.irecv(z, 1 - me)]
    for request in requests:
        request.wait()
    return y, z


@kind(sent=8 * X)
def coalesced():
    x, y = vector(), vector()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.all_reduce_coalesced([x, y])
    z = vector()
    with dist._coalescing_manager(async_ops=True) as manager:
        dist.all_reduce(z)
        dist.all_reduce(w := vector())
    manager.wait()
    return x, y, z, w


@kind(sent=LIKE_KERNEL)
def objects():
    gathered, sent = [None] * 2, [{"a": "x" * 20_000, "rank": dist.get_rank()}]
    dist.all_gather_object(gathered, sent[0])
    dist.broadcast_object_list(sent, 0)
    dist.barrier()
    dist.monitored_barrier()
    return gathered, sent


@kind(sent=NOT_COUNTED)
def sparse_sum():
    x = torch.sparse_coo_tensor([[0, 2 + dist.get_rank()]], torch.ones(2, LENGTH), (5, LENGTH))
    dist.all_reduce(x)
    return x.coalesce()


@kind(sent=NOT_COUNTED)
def operator_without_formula():
    other, x, y = 1 - dist.get_rank(), vector(), torch.empty(LENGTH)
    group, both = dist.group.WORLD.group_name, [other, other]
    sends = torch.ops._c10d_functional.batch_p2p_ops(["isend", "irecv"], both, [0, 0], [x, y], group)
    for tensor in sends:
        functional.wait_tensor(tensor)
    return y


@kind(sent=2 * X)
def asynchronous():
    x = vector()
    request = dist.all_reduce(x, async_op=True)
    future = request.get_future().then(lambda future: future.value()[0] * 2)
    return future.wait(), x


@kind(sent=2 * X)
def wrong_calls():
    errors = []
    for call in (
        lambda: dist.all_reduce([1, 2]),
        lambda: dist.all_gather_into_tensor(torch.empty(3), vector()),
        lambda: dist.send(vector(), dist.get_rank()),
    ):
        try:
            call()
        except Exception as error:
            errors.append((type(error).__name__, str(error).splitlines()[0]))
    dist.all_reduce(x := vector())
    return errors, x


# ---- Functional collectives and DTensor ----


@kind(sent=8 * X)
def functional_collectives():
    group = dist.group.WORLD
    x = vector().requires_grad_()
    y = functional.all_reduce(x.detach(), "sum", group)
    z = functional.all_gather_tensor(x.detach(), 0, group)
    parts = functional.all_gather_tensor_autograd(x, 0, group)
    parts.square().sum().backward()  # a reduce-scatter of 2 X: each rank sends X
    return y + 0, z + 0, x.grad


@kind(sent=2 * X)
def compiled_collective():
    def add(x):
        return functional.all_reduce(x * 2, "sum", dist.group.WORLD) + 1

    return torch.compile(add, backend="aot_eager")(vector())


@kind(sent=LIKE_KERNEL)
def autograd_collectives():
    from torch.distributed.nn import functional as nn_functional

    x = vector().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (nn_functional.all_reduce(x) * vector()).sum().backward()
    return x.grad


@kind(sent=LIKE_KERNEL)
def dtensors():
    mesh = dist.init_device_mesh("cpu", (2,))
    torch.manual_seed(2)
    a, b = torch.randn(80, 80), torch.randn(80, 80)
    rows, columns = distribute_tensor(a, mesh, [Shard(0)]), distribute_tensor(b, mesh, [Shard(1)])
    product = rows.redistribute(placements=[Replicate()]) @ columns
    rows = rows.detach().requires_grad_()
    (rows * 2).exp().sum().full_tensor().backward()
    partial = DTensor.from_local(torch.ones(3), mesh, [Partial()])
    turned = product.redistribute(placements=[Shard(0)])
    return product.full_tensor(), rows.grad.full_tensor(), partial.full_tensor(), turned.to_local()


@kind(sent=LIKE_KERNEL)
def dtensor_with_modes():
    from torch.distributed.tensor.debug import CommDebugMode

    mesh = dist.init_device_mesh("cpu", (2,))
    with CommDebugMode() as mode:
        x = distribute_tensor(torch.ones(LENGTH), mesh, [Shard(0)])
        whole = (x + 1).full_tensor()
    return whole, {str(call): count for call, count in mode.get_comm_counts().items()}


@kind(sent=LIKE_KERNEL)
def tensor_parallel():
    mesh = dist.init_device_mesh("cpu", (2,))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    model = parallelize_module(layers(), mesh, plan)
    model(torch.ones(100, 64)).sum().backward()
    return [p.grad.full_tensor() for p in model.parameters()]


# ---- Engines ----


@kind(sent=LIKE_KERNEL)
def ddp():
    results = []
    for options in ({}, {"static_graph": True}, {"find_unused_parameters": True}):
        model = DistributedDataParallel(layers(), **options)
        results.append(train(model))
    with model.no_sync():
        train(model, 1)
    return results


@kind(sent=LIKE_KERNEL)
def ddp_hooks():
    halved = DistributedDataParallel(layers())
    halved.register_comm_hook(None, default_hooks.fp16_compress_hook)

    def hook(state, bucket):
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(lambda future: future.value()[0])

    own = DistributedDataParallel(layers())
    own.register_comm_hook(None, hook)
    return train(halved), train(own)


@kind(sent=NOT_COUNTED)
def ddp_with_sparse_gradients():
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(100, 64, sparse=True)))
    model(torch.tensor([1, 2, 3 + dist.get_rank()])).sum().backward()
    return model.module[0].weight.grad


@kind(sent=LIKE_KERNEL)
def ddp_with_uneven_inputs():
    model = DistributedDataParallel(layers())
    with Join([model]):
        train(model, 1 + dist.get_rank())
    return [p.grad for p in model.parameters()]


@kind(sent=LIKE_KERNEL)
def zero_optimizer():
    model = DistributedDataParallel(layers())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
    train(model)
    optimizer.step()
    return list(model.parameters())


@kind(sent=LIKE_KERNEL)
def fsdp2():
    model = fully_shard(layers(), reshard_after_forward=True)
    optimizer = torch.optim.Adam(model.parameters())
    train(model)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return [p.full_tensor() for p in model.parameters()], norm.full_tensor()


@kind(sent=LIKE_KERNEL)
def fsdp1():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FullyShardedDataParallel(layers(), device_id=torch.device("cpu"))
        return [None if grad is None else grad + 0 for grad in train(model)]


@kind(sent=LIKE_KERNEL)
def distributed_checkpoint():
    model = fully_shard(layers())
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(model.state_dict(), checkpoint_id=folder[0])
        other = fully_shard(layers())
        dcp.load(state := other.state_dict(), checkpoint_id=folder[0])
    return [one.full_tensor() for one in state.values()]

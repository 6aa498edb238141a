"""Memory by kind where torch's own engines take and free it: DDP, FSDP2, checkpointing, DTensor."""

import pytest
import torch
import torch.distributed as dist
from helpers import launch_on_cpu as launch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from pedagogy_lib import measure

WIDTH, BATCH, LAYERS = 64, 8, 4
LAYER_BYTES = WIDTH * WIDTH * 4
MODEL_BYTES = LAYERS * LAYER_BYTES
OUTPUT_BYTES = BATCH * WIDTH * 4  # of one layer


def layers():
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])


def train(model):
    model(torch.ones(BATCH, WIDTH)).sum().backward()


# ---- DDP ------------------------------------------------------------------------------------


def train_ddp(as_views):
    model = DistributedDataParallel(layers(), gradient_as_bucket_view=as_views)
    for label in ("first", "rebuilds its buckets", "steady"):
        with measure(label):
            train(model)


@pytest.mark.parametrize("as_views", [False, True])
def test_ddp(as_views):
    """Its buckets are a second copy of the gradients, unless gradients are views of them."""
    run = launch(train_ddp, as_views, world_size=2)
    for label in ("first", "steady"):
        peak = run[label].peak_bytes[0]
        assert peak["parameters"] == MODEL_BYTES
        assert peak["activations"] == LAYERS * OUTPUT_BYTES
        assert MODEL_BYTES <= peak["gradients"] <= MODEL_BYTES + as_views * LAYER_BYTES
        assert peak["communication"] == (0 if as_views else MODEL_BYTES)


# ---- FSDP2 ----------------------------------------------------------------------------------


def train_fsdp(reshard):
    model = layers()
    for part in (*model, model):
        fully_shard(part, reshard_after_forward=reshard)
    optimizer = torch.optim.Adam(model.parameters())
    with measure("at rest"):
        pass
    for label in ("first", "second"):
        with measure(label):
            train(model)
            optimizer.step()
            optimizer.zero_grad()
    with measure("at rest again"):
        pass


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("reshard", [True, False])
def test_fsdp(reshard, world_size):
    run = launch(train_fsdp, reshard, world_size=world_size)
    shard_bytes = MODEL_BYTES // world_size
    whole_layers = 1 if reshard else LAYERS
    for rank in range(world_size):
        peaks = {label: run[label].peak_bytes[rank] for label in run.labels}
        for label in ("at rest", "at rest again"):
            assert peaks[label]["parameters"] == shard_bytes
            assert peaks[label]["gradients"] == peaks[label]["activations"] == 0
        for label in ("first", "second"):
            assert peaks[label]["parameters"] == shard_bytes + whole_layers * LAYER_BYTES
            assert peaks[label]["gradients"] == shard_bytes + LAYER_BYTES
            assert peaks[label]["activations"] == LAYERS * OUTPUT_BYTES
            assert peaks[label]["optimizer_state"] == 2 * shard_bytes + LAYERS * 4


# ---- Activation checkpointing ---------------------------------------------------------------


def train_in_segments(reentrant):
    model = nn.ModuleList(nn.Sequential(layers(), nn.Tanh()) for _ in range(3))
    x = torch.ones(BATCH, WIDTH, requires_grad=True)
    with measure("it"):
        for segment in model:
            x = checkpoint(segment, x, use_reentrant=reentrant)
        x.sum().backward()


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_keeps_one_tensor_a_segment_and_recomputes_one_segment(reentrant):
    """Three inputs; and of the recomputed one 4 outputs, as its input is there already."""
    peak = launch(train_in_segments, reentrant, world_size=1)["it"].peak_bytes[0]
    assert peak["activations"] == (3 + LAYERS) * OUTPUT_BYTES


def test_activations_offloaded_by_others_hooks():
    """Also a copy of an activation is one; here the originals are freed."""

    def step():
        model = nn.Sequential(*[nn.Tanh() for _ in range(5)])
        x = torch.ones(1000, requires_grad=True)
        with measure("it"), torch.autograd.graph.save_on_cpu():
            y = model(x)
        return y

    peak = launch(step, world_size=1)["it"].peak_bytes[0]
    assert peak["activations"] == 5 * 4000


# ---- DTensor --------------------------------------------------------------------------------


def multiply_dtensors():
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    a = distribute_tensor(torch.ones(100, 100), mesh, [Shard(0)])
    b = distribute_tensor(torch.ones(100, 100), mesh, [Replicate()])
    with measure("it"):
        c = a @ b
    return c.to_local().sum().item(), mesh.mesh.nbytes


def test_dtensor_counts_what_is_local():
    """DTensor tries a new operation on tensors without memory first: these do not count."""
    run = launch(multiply_dtensors, world_size=2)
    assert run.values == [(50 * 100 * 100, 2 * 4)] * 2  # the mesh is a tensor too
    assert run["it"].peak_bytes[0]["total"] == (2 * 50 * 100 + 100 * 100) * 4 + 2 * 4


def test_fake_tensors_have_no_memory():
    def step():
        with measure("it"), FakeTensorMode():
            x = torch.ones(10**6)
            y = x + 1
        return x.shape + y.shape

    assert launch(step, world_size=1)["it"].peak_bytes[0]["total"] == 0

"""The same functions on GPUs: NCCL where there is one for each rank, shared over Gloo elsewhere."""

import needs
import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab
from torch import nn

from pedagogy_lib import HangError, RankError, launch, measure
from pedagogy_lib.basics.closeness import relative_gap, rounding

pytestmark = pytest.mark.gpu
GPUS = torch.cuda.device_count()
FLOATS = 1_000_000


def all_reduce():
    x = torch.ones(FLOATS) * (dist.get_rank() + 1)
    with measure("all_reduce"):
        dist.all_reduce(x)
    return x[0].item(), x.device.type, x[:3]


def train():
    model = nn.Linear(500, 400)
    optimizer = torch.optim.Adam(model.parameters())
    with measure("step"):
        model(torch.ones(8, 500)).sum().backward()
        optimizer.step()
    return sum(p.numel() for p in model.parameters())


def test_a_gpu_for_each_rank_means_nccl():
    run = launch(all_reduce, world_size=GPUS)
    assert run.backend == "nccl"
    assert run.devices == [f"cuda:{rank}" for rank in range(GPUS)]
    total = GPUS * (GPUS + 1) / 2
    assert [value[:2] for value in run.values] == [(total, "cuda")] * GPUS
    assert not [value for value in run.values if value[2].device.type != "cpu"]


def test_bytes_are_counted_from_the_calls_under_nccl():
    block = launch(all_reduce, world_size=GPUS)["all_reduce"]
    assert block.wire == "counted"
    assert block.sent_bytes == [2 * (GPUS - 1) * FLOATS * 4 // GPUS] * GPUS
    assert [[call.name for call in calls] for calls in block.calls] == [["all_reduce"]] * GPUS


def test_more_ranks_than_gpus_share_them_over_gloo():
    run = launch(all_reduce, world_size=2 * GPUS, device="cuda")
    n = 2 * GPUS
    assert run.backend == "gloo"
    assert [value[:2] for value in run.values] == [(n * (n + 1) / 2, "cuda")] * n
    assert "shared by the ranks" in run.title()
    assert run["all_reduce"].wire == "measured"
    expected = 2 * (n - 1) / n * FLOATS * 4
    assert run["all_reduce"].sent_bytes == pytest.approx([expected] * n, rel=0.005)


def test_auto_prefers_the_cpu_to_sharing():
    assert launch(all_reduce, world_size=2 * GPUS).device == "cpu"


def test_memory_on_the_gpu_is_exact():
    run = launch(train, world_size=1)
    assert run.device == "cuda:0"
    peak, size = run["step"].peak_bytes[0], run.values[0] * 4
    assert peak["parameters"] == size
    assert peak["gradients"] == size
    assert 2 * size <= peak["optimizer_state"] <= 2 * size + 16


def test_time_includes_what_the_gpu_still_has_to_do():
    def many_products():
        a = torch.randn(4096, 4096)
        a @ a
        with measure("queued"):
            for _ in range(50):
                a @ a
        began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        began.record()
        for _ in range(50):
            a @ a
        ended.record()
        torch.cuda.synchronize()
        return began.elapsed_time(ended) / 1e3

    run = launch(many_products, world_size=1)
    assert run["queued"].seconds[0] > 0.5 * run.values[0]


def test_an_error_on_a_gpu_names_the_line():
    def wrong_shape():
        return torch.ones(4) @ torch.ones(5)

    with pytest.raises(RankError, match=r"torch.ones\(4\) @ torch.ones\(5\)"):
        launch(wrong_shape, world_size=1, device="cuda")


def test_a_hang_on_shared_gpus_is_told():
    def one_rank_forgets():
        if dist.get_rank() == 0:
            dist.all_reduce(torch.ones(4))

    with pytest.raises(HangError, match="all_reduce"):
        launch(one_rank_forgets, world_size=2 * GPUS, device="cuda", timeout=10)


@needs.mark("two GPUs")
def test_a_hang_under_nccl_is_told():
    def one_rank_forgets():
        x = torch.ones(4)
        if dist.get_rank() == 0:
            dist.all_reduce(x)
        return x.cpu()

    with pytest.raises(HangError):
        launch(one_rank_forgets, world_size=GPUS, timeout=20)


def split_training(tensor_parallel, models):
    """How far a transformer in parts is from the whole one, after some steps on the same letters.

    The loss, and what is the same on all ranks: norms, biases, places.
    """
    torch.set_default_dtype(torch.float64)
    text, made = models.standard_library(5_000), []
    for _ in range(2):
        torch.manual_seed(0)
        made.append(models.Transformer(width=32, layers=1, heads=4))
    tensor_parallel.parallelize(made[1])
    optimizers = [torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-6) for model in made]
    for step in range(3):
        inputs, targets = models.draw_batch(text, 4, step)
        whole = models.mean_loss(made[0](inputs), targets)
        split = tensor_parallel.split_cross_entropy(made[1](inputs), targets)
        for optimizer, loss in zip(optimizers, (whole, split)):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    pairs = zip(made[0].parameters(), made[1].parameters())
    gaps = [relative_gap(b, a) for a, b in pairs if not hasattr(b, "cut_dim")]
    return max(*gaps, relative_gap(split, whole))


def test_tensor_parallel_training_on_shared_gpus():
    labs = load_solved_lab("tensor_parallel"), load_solved_lab("language_model")
    assert max(launch(split_training, *labs, world_size=2, device="cuda").values) <= rounding(
        steps=3
    )


def pass_on():
    rank, n = dist.get_rank(), dist.get_world_size()
    x = torch.full((1000,), float(rank))
    got = torch.empty_like(x)
    requests = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, x, (rank + 1) % n), dist.P2POp(dist.irecv, got, (rank - 1) % n),
    ])  # fmt: skip
    for request in requests:
        request.wait()
    return got.unique().tolist(), got.device.type


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_messages_between_ranks_that_share_gpus(device):
    n = 2 * GPUS
    kind = "cuda" if device == "cuda" else "cpu"
    values = launch(pass_on, world_size=n, device=device).values
    assert values == [([float((rank - 1) % n)], kind) for rank in range(n)]


def compare_pipeline_gradients(pipeline_parallel, schedules, models):
    """How far gradients of a pipeline are from those of the whole model, on this rank."""
    torch.set_default_dtype(torch.float64)
    made = []
    for _ in range(2):
        torch.manual_seed(0)
        made.append(models.Transformer(width=32, layers=4, heads=4))
    inputs, targets = models.draw_batch(models.standard_library(5_000), 8, 0)
    models.mean_loss(made[0](inputs), targets).backward()
    pipeline = pipeline_parallel.my_pipeline(made[1])
    actions = schedules.one_f_one_b(pipeline.rank, pipeline.ranks, 4)
    pipeline.step(actions, inputs.tensor_split(4), targets.tensor_split(4))
    pairs = zip(made[0].parameters(), made[1].parameters())
    return max(relative_gap(b.grad, a.grad) for a, b in pairs if b.grad is not None)


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_pipeline_on_gpus(world_size):
    labs = (
        load_solved_lab("pipeline_parallel"),
        load_solved_lab("schedules"),
        load_solved_lab("language_model"),
    )
    run = launch(compare_pipeline_gradients, *labs, world_size=world_size, device="cuda")
    assert max(run.values) <= rounding()

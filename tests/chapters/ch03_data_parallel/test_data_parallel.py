"""Data parallel training in every form equals one process: weights after five steps, float64."""

from contextlib import suppress

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab, need_close
from selection import parametrize
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import RankError, launch, measure

SAMPLES, CONTEXT, STEPS, BUCKET_BYTES = 11, 8, 5, 5_000


SIMPLE, VISUALIZER = load_solved_lab("simple_ddp"), load_solved_lab("gradient_sync_visualizer")
DATA_PARALLEL, MODELS = load_solved_lab("data_parallel"), load_solved_lab("language_model")
SERVER, COUNTED = load_solved_lab("parameter_server"), load_solved_lab("counted_over_ranks")
ACCUMULATION = load_solved_lab("gradient_accumulation")


def make_model():
    """A transformer with tied weights, one frozen layer and one unused one."""
    model = MODELS.Transformer(8, layers=1, heads=2, context=CONTEXT, tied=True).double()
    model.blocks[0].mlp[0].requires_grad_(False)
    model.unused = torch.nn.Linear(2, 2).double()
    return model


def average_separately(model):
    SIMPLE.start_equal(model)
    return model, lambda: SIMPLE.average_gradients(model)


def average_in_buckets(model):
    SIMPLE.start_equal(model)
    buckets = VISUALIZER.make_buckets(model.parameters(), BUCKET_BYTES)
    return model, lambda: VISUALIZER.average_buckets(buckets)


def meanwhile(model):
    ddp = DATA_PARALLEL.DDP(model, BUCKET_BYTES)
    return ddp, ddp.finish


def average_by_ring(model):
    ring = DATA_PARALLEL.make_async(load_solved_lab("collectives").all_reduce_ring)
    ddp = DATA_PARALLEL.DDP(model, BUCKET_BYTES, ring)
    return ddp, ddp.finish


def real(model):
    return DistributedDataParallel(model, find_unused_parameters=True), lambda: None


WAYS = [average_separately, average_in_buckets, meanwhile, average_by_ring, real]


def train(way, micro_batches):
    """Five steps with uneven shards; the weights of this rank at the end."""
    rank, n = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model = make_model()
    ddp, finish = way(model)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.5, momentum=0.9)
    text = MODELS.standard_library(5_000)
    for step in range(STEPS):
        inputs, targets = MODELS.draw_batch(text, SAMPLES, step, CONTEXT)
        shares = [x.tensor_split(n)[rank] for x in (inputs, targets)]
        optimizer.zero_grad()
        pieces = list(zip(*(share.tensor_split(micro_batches) for share in shares), strict=True))
        for number, (some, wanted) in enumerate(pieces, 1):
            quiet = number < micro_batches and hasattr(ddp, "synchronizing")
            with DATA_PARALLEL.no_sync(ddp) if quiet else torch.enable_grad():
                loss = MODELS.mean_loss(ddp(some), wanted) * len(some) * n / SAMPLES
                loss.backward()
        finish()
        optimizer.step()
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


@pytest.fixture(scope="module")
def alone():
    return launch(train, average_separately, 1, world_size=1, device="cpu").values[0]


@parametrize("n", [3, 2, 1, 4], quick=2)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_equals_one_process(way, n, alone):
    run = launch(train, way, 1, world_size=n, device="cpu")
    need_close(run.values, alone, STEPS)


@pytest.mark.parametrize(
    "way", [average_separately, meanwhile, average_by_ring], ids=lambda way: way.__name__
)
def test_accumulation_equals_one_process(way, alone):
    run = launch(train, way, 3, world_size=2, device="cpu")
    need_close(run.values, alone, STEPS)


@pytest.mark.gpu
@pytest.mark.parametrize("way", [average_separately, meanwhile, real], ids=lambda way: way.__name__)
def test_equals_one_process_on_a_gpu(way):
    (alone,) = launch(
        train, average_separately, 1, world_size=1, device="cuda"
    ).values  # its own numbers
    run = launch(train, way, 1, world_size=2, device="cuda")
    need_close(run.values, alone, STEPS)


def test_ddp_sends_what_pytorchs_ddp_sends():
    def step():
        ours = DATA_PARALLEL.DDP(MODELS.Transformer(32))
        theirs = DistributedDataParallel(MODELS.Transformer(32))
        letters = torch.zeros(1, 8, dtype=torch.long)
        for label, ddp, finish in ("ours", ours, ours.finish), ("theirs", theirs, lambda: None):
            loss = ddp(letters).square().mean()
            with measure(label):
                loss.backward()
                finish()

    run = launch(step, world_size=4, device="cpu")
    pairs = zip(run["ours"].sent_bytes, run["theirs"].sent_bytes, strict=True)
    off = {rank: ours / theirs - 1 for rank, (ours, theirs) in enumerate(pairs)}
    assert {rank: share for rank, share in off.items() if abs(share) >= 0.005} == {}


def test_the_language_model_learns_and_writes():
    torch.manual_seed(0)
    model, text = MODELS.Transformer(32, layers=1, context=16), MODELS.standard_library(50_000)
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-2), []
    for step in range(60):
        inputs, targets = MODELS.draw_batch(text, 16, step, 16)
        loss = MODELS.mean_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 4.5
    assert sum(losses[-10:]) / 10 < 3.3
    written = MODELS.continue_text(model, "def ", 10)
    assert written.startswith("def ")
    assert len(written) == 14


# ---- Gradients and models of other kinds --------------------------------------------------------


def average_transposed():
    """Parameters that do not lie in a row in memory; rank 0 has no gradient for them."""
    weights = [
        torch.nn.Parameter(torch.arange(6.0).view(2, 3).T),
        torch.nn.Parameter(torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)),
    ]
    if dist.get_rank():
        for p in weights:
            (p * torch.arange(p.numel()).view(p.shape)).sum().backward()
    VISUALIZER.average_buckets([weights])
    return [p.grad for p in weights]


def test_gradients_of_transposed_parameters():
    for rank in launch(average_transposed, world_size=2, device="cpu").values:
        for grad in rank:
            assert torch.equal(grad, torch.arange(grad.numel()).view(grad.shape) / 2)


def serve_in_bfloat16(serve):
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1).bfloat16()

    def compute_gradients(number):
        model.zero_grad()
        model(torch.ones(1, 2, dtype=torch.bfloat16)).sum().backward()

    if dist.get_rank() == 0:
        optimizer = torch.optim.SGD(model.parameters(), 0.5)
        getattr(SERVER, serve)(model, optimizer, lambda updates: updates == 3)
        return model.bias.item()
    SERVER.work(model, compute_gradients)


@pytest.mark.parametrize(("serve", "updates"), [("serve_together", 3), ("serve_as_they_come", 3)])
def test_a_server_of_a_model_in_bfloat16(serve, updates):
    torch.manual_seed(0)
    before = torch.nn.Linear(2, 1).bfloat16().bias.item()
    after = launch(serve_in_bfloat16, serve, world_size=2, device="cpu").values[0]
    assert after == pytest.approx(before - 0.5 * updates, rel=0.05)


def two_backwards(finish_between):
    ddp = DATA_PARALLEL.DDP(nn.Linear(2, 1).double())
    for _ in range(2):
        ddp(torch.ones(1, 2).double()).sum().backward()
        if finish_between:
            ddp.finish()
    ddp.finish()
    return ddp.model.weight.grad.tolist()


def test_a_second_backward_before_finish_is_refused_on_all_ranks():
    with pytest.raises(RankError, match="call finish"):
        launch(two_backwards, False, world_size=2)
    assert launch(two_backwards, True, world_size=2).values == [[[2.0, 2.0]]] * 2


class TwoBranches(nn.Module):
    """Two layers after one another, or either of them alone."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(2)).double()

    def forward(self, x, path=(0, 1), fails=False):
        for number in path:
            x = torch.tanh(self.layers[number](x))
            if fails and number == 0:
                x.register_hook(raise_error)
        return x.square().sum()


def raise_error(gradient):
    raise MemoryError


def go_backward(model, step, path=(0, 1), fails=False):
    chance = torch.Generator().manual_seed(10 * step + dist.get_rank())
    model(torch.randn(3, 2, generator=chance, dtype=torch.float64), path, fails).backward()


def backward_after_one_that_raised(guilty, path):
    ddp = DATA_PARALLEL.DDP(TwoBranches(), bucket_bytes=1)
    with suppress(MemoryError):
        go_backward(ddp, 0, fails=dist.get_rank() in guilty)
    ddp.zero_grad()
    go_backward(ddp, 1, path=path)


@pytest.mark.parametrize("path", [(0, 1), (0,)])
@pytest.mark.parametrize("guilty", [(0, 1), (1,)])
def test_a_backward_that_raised_is_not_forgotten(guilty, path):
    with pytest.raises(
        RankError, match=r"call finish\(\) after each backward, even after one that"
    ):
        launch(backward_after_one_that_raised, guilty, path, world_size=2)


def steps_around_one_that_raised(guilty):
    """Take steps, one of which some ranks could not end and all discard; return all gradients."""
    found, twins = [], [DATA_PARALLEL.DDP(TwoBranches(), bucket_bytes=1)]
    twins.append(DistributedDataParallel(TwoBranches()))
    for step in range(3):
        if step == 1:
            with suppress(MemoryError):
                go_backward(twins[0], 50, fails=dist.get_rank() in guilty)
            twins[0].finish()
        for model in twins:
            model.zero_grad()
            go_backward(model, step)
        twins[0].finish()
        found.append([[p.grad.clone() for p in model.parameters()] for model in twins])
    return found


@pytest.mark.parametrize("guilty", [(0, 1), (1,)])
def test_a_step_that_some_ranks_could_not_end_is_discarded_by_finish(guilty):
    for of_rank in launch(steps_around_one_that_raised, guilty, world_size=2).values:
        for ours, theirs in of_rank:
            need_close([ours], theirs, 1)


def no_sync_after_an_unfinished_backward():
    ddp = DATA_PARALLEL.DDP(TwoBranches(), bucket_bytes=1)
    go_backward(ddp, 0)
    with torch.no_grad():
        ddp(torch.ones(1, 2).double())  # which changes no gradient
    with DATA_PARALLEL.no_sync(ddp):
        go_backward(ddp, 1)


def test_gradients_that_finish_would_overwrite_are_refused():
    with pytest.raises(RankError, match=r"call finish\(\)"):
        launch(no_sync_after_an_unfinished_backward, world_size=2)


def count_with_another_default_device(way):
    """Use a lab's function with a model on the CPU, while new tensors would lie somewhere else.

    Returns the devices of the tensors that were summed over the ranks.
    """
    devices, all_reduce = set(), dist.all_reduce

    def note_device(x, *args, **kwargs):
        devices.add(x.device.type)
        return all_reduce(x, *args, **kwargs)

    dist.all_reduce = note_device
    if way == "backward_tokens":
        model = nn.Sequential(nn.Embedding(3, 2), nn.Linear(2, 3)).double()
        model = DistributedDataParallel(model)
        words = torch.tensor([[dist.get_rank(), 2]])
        torch.set_default_device("meta")
        COUNTED.backward_tokens(model, [(words, words)])
    else:
        model = nn.Linear(2, 1).double()
        model(torch.ones(1, 2).double()).sum().backward()
        torch.set_default_device("meta")
        ACCUMULATION.average_over_ranks(model, dist.get_rank() + 1)
    return devices


@pytest.mark.parametrize("way", ["backward_tokens", "average_over_ranks"])
def test_a_count_lies_where_the_gradients_lie(way):
    run = launch(count_with_another_default_device, way, world_size=2, device="cpu")
    assert run.values == [{"cpu"}, {"cpu"}]


def apart_with_a_nan(broken):
    model = nn.Linear(2, 2)
    if dist.get_rank() == broken:
        model.weight.data[0, 0] = torch.nan
    return DATA_PARALLEL.apart(model)


@pytest.mark.parametrize("broken", [0, 1])
def test_a_replica_with_a_nan_is_not_equal_to_others(broken):
    assert launch(apart_with_a_nan, broken, world_size=2).values == [float("inf")] * 2

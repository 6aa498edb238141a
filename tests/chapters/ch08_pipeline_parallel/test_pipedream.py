"""Pipelines without a flush are delayed gradient descent; slices of a sample are the whole one."""

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from helpers import load_solved_lab
from torch.func import functional_call

from pedagogy_lib import launch
from pedagogy_lib.basics.closeness import relative_gap, rounding

PIPES, DREAM, SLICES, SCHEDULES, MODELS = map(
    load_solved_lab,
    ("pipeline_parallel", "pipedream", "sequence_slices", "schedules", "language_model"),
)
COUNT, LR, CONTEXT = 12, 0.5, 8  # COUNT: micro-batches, each a batch of its own
SIZES = {"width": 16, "layers": 4, "heads": 2, "context": CONTEXT}
TEXT = MODELS.standard_library(5_000)


def make_model(lab=MODELS):
    """lab: whose classes its layers have; a stage in slices knows those of its own lab."""
    torch.manual_seed(0)
    return lab.Transformer(**SIZES)


# ---- Without a flush ----------------------------------------------------------------------------


def batches():
    drawn = [MODELS.draw_batch(TEXT, 2, i, CONTEXT) for i in range(COUNT)]
    return [x for x, _ in drawn], [y for _, y in drawn]


def delays_of(way, n, rank, every) -> list[int]:
    """How many updates late each micro-batch's gradient is."""
    if way == "stashing":
        return [min(i, n - 1 - rank) for i in range(COUNT)]
    return [int(i >= every) for i in range(COUNT)]


def one_process(way, n, every):
    """Delayed gradient descent: the losses, and the last weights of each stage."""
    layers = PIPES.layers_of(make_model())
    pieces = PIPES.pieces_of(layers, PIPES.even_sizes(len(layers), n))
    versions = [[{k: p.detach() for k, p in piece.named_parameters()}] for piece in pieces]
    per_update, losses, sums = every if way == "two versions" else 1, [], [{} for _ in pieces]
    for i, (x, targets) in enumerate(zip(*batches())):
        used = [
            {k: w.clone().requires_grad_() for k, w in
             of[i // per_update - delays_of(way, n, s, every)[i]].items()}
            for s, of in enumerate(versions)
        ]  # fmt: skip
        for piece, weights in zip(pieces, used):
            x = functional_call(piece, weights, (x,))
        losses.append(MODELS.mean_loss(x, targets))
        losses[-1].backward()
        for of, weights in zip(sums, used):
            for k, w in weights.items():
                of[k] = of.get(k, 0) + w.grad / per_update
        if i % per_update == per_update - 1:
            for s, of in enumerate(versions):
                of.append({k: w - LR * sums[s][k] for k, w in of[-1].items()})
            sums = [{} for _ in pieces]
    return [loss.item() for loss in losses], [of[-1] for of in versions]


def gap_without_flush(way, every):
    rank, n = dist.get_rank(), dist.get_world_size()
    options = {"every": every} if way == "two versions" else {}
    make = lambda piece: DREAM.WAYS[way](piece, LR, **options)  # noqa: E731
    (stage,) = PIPES.my_stages(make_model(), make=make)
    pipeline = DREAM.AsynchronousPipeline([stage], MODELS.mean_loss, SIZES["width"])
    pipeline.step(list(SCHEDULES.one_f_one_b(rank, n, COUNT)), *batches())
    losses, weights = one_process(way, n, every)
    gaps = [(w - weights[rank][k]).abs().max().item() for k, w in newest(stage).items()]
    if rank == n - 1:
        gaps += [abs(a.item() - b) for a, b in zip(pipeline.losses, losses, strict=True)]
    assert not stage.stash and not stage.kept and not stage.began_at
    return {
        "gap": max(gaps), "delays": stage.delays == delays_of(way, n, rank, every),
        "versions": stage.most_versions,
    }  # fmt: skip


def newest(stage):
    return stage.weights[stage.version]


# ---- Slices -------------------------------------------------------------------------------------


def gap_of_slices(slices, at=None, rounds=2):
    """How far gradients are off, relative to the largest; several batches in turn, which add up.

    at  where to cut, in place of even slices
    """
    whole, split = make_model(SLICES), make_model(SLICES)
    pipeline = SLICES.my_pipeline(split, make=SLICES.SlicedStage)
    gaps = []
    for number in range(rounds):
        inputs, targets = MODELS.draw_batch(TEXT, 3, number, CONTEXT)
        loss = MODELS.mean_loss(whole(inputs), targets)
        loss.backward()
        parts = [x.tensor_split(at or slices, dim=1) for x in (inputs, targets)]
        actions = SLICES.slice_by_slice(pipeline.rank, pipeline.ranks, slices)
        ours = pipeline.step(list(actions), *parts)
        if pipeline.rank == pipeline.ranks - 1:
            gaps.append(relative_gap(ours, loss.item()))
    mine = {id(p) for p in pipeline.stages[0].piece.parameters()}
    pairs = zip(whole.parameters(), split.parameters())
    gaps += [relative_gap(q.grad, p.grad) for p, q in pairs if id(q) in mine]
    assert not pipeline.stages[0].kept
    return max(gaps)


def gap_without_mask(slices):
    """The same, of a model in which letters look at later ones, too."""
    attention = F.scaled_dot_product_attention
    F.scaled_dot_product_attention = lambda q, k, v, **_: attention(q, k, v)
    try:
        return gap_of_slices(slices)
    finally:
        F.scaled_dot_product_attention = attention


CUTS = {"1": (1,), "2": (2,), "3": (3,), "8": (8,), "1, 5, 2": (3, (1, 6))}


def try_all(every):
    torch.set_default_dtype(torch.float64)
    return {
        **{way: gap_without_flush(way, every) for way in DREAM.WAYS},
        "slices": {name: gap_of_slices(*cut) for name, cut in CUTS.items()},
        "both ways": [gap_without_mask(slices) for slices in (1, 2)],
    }


# ---- Both ---------------------------------------------------------------------------------------

EVERY = {1: 3, 2: 2, 4: 6}


@pytest.fixture(scope="module", params=EVERY)
def run(request):
    n = request.param
    return launch(try_all, EVERY[n], world_size=n, device="cpu", seed=list(range(n)))


@pytest.mark.parametrize("way", ["stashing", "two versions"])
def test_without_a_flush_it_is_delayed_gradient_descent(run, way):
    """Bit for bit."""
    n = run.world_size
    for rank, found in enumerate(run.values):
        versions = n - rank if way == "stashing" else 2
        assert found[way] == {"gap": 0, "delays": True, "versions": versions}


def test_slices_are_one_pass_over_whole_samples(run):
    for found in run.values:
        assert max(found["slices"].values()) <= rounding(), found["slices"]


def test_a_model_that_looks_both_ways_cannot_be_sliced(run):
    for one, two in [found["both ways"] for found in run.values]:
        assert one <= rounding()
        assert two > 1e-3


# ---- Weights that have no part in a micro-batch -------------------------------------------------


class OneOfTwo(torch.nn.Module):
    """Multiplies by one weight where the input is positive, and by the other elsewhere."""

    def __init__(self):
        super().__init__()
        self.up, self.down = (torch.nn.Parameter(torch.tensor([w])) for w in (2.0, 3.0))

    def forward(self, x):
        return x * (self.up if x.item() > 0 else self.down)


def run_alone(stage, *inputs):
    for i, x in enumerate(inputs):
        stage.forward(i, torch.tensor([x]))
        stage.backward(i, torch.ones(1))
    return {name: weight.item() for name, weight in newest(stage).items()}


def test_a_weight_without_a_part_in_the_micro_batch_stays_the_same():
    assert run_alone(DREAM.StashingStage(OneOfTwo(), lr=0.5), 1.0) == {"up": 1.5, "down": 3.0}
    assert run_alone(DREAM.StashingStage(OneOfTwo(), lr=0.5), 1.0, -4.0) == {"up": 1.5, "down": 5.0}


def test_a_later_micro_batch_without_a_gradient_loses_no_earlier_one():
    two = DREAM.TwoVersionsStage(OneOfTwo(), lr=0.5, every=2)
    assert run_alone(two, 1.0, -4.0) == {"up": 1.75, "down": 4.0}


class RaisesOnce(torch.nn.Module):
    """Returns its input; the first backward through it raises."""

    def __init__(self):
        super().__init__()
        self.raised = False

    def forward(self, x):
        y = x.clone()
        if y.requires_grad:
            y.register_hook(self.raise_once)
        return y

    def raise_once(self, gradient):
        if not self.raised:
            self.raised = True
            raise ArithmeticError


@pytest.mark.parametrize("way", [DREAM.StashingStage, DREAM.GradientAccumulationStage])
def test_a_backward_that_raised_leaves_nothing_to_a_later_one(way):
    torch.manual_seed(0)
    layers = torch.nn.Linear(2, 2), RaisesOnce(), torch.nn.Linear(2, 2)
    stage, x = way(torch.nn.Sequential(*layers)), torch.ones(1, 2)
    fresh = way(torch.nn.Sequential(*layers))
    stage.forward(0, x)
    with pytest.raises(ArithmeticError):
        stage.backward(0, torch.ones(1, 2))
    stage.clear()
    for one in (stage, fresh):
        for i in range(4):  # as many as GradientAccumulationStage takes for an update
            one.forward(i, x)
            one.backward(i, torch.ones(1, 2))
    assert stage.version == fresh.version > 0
    for name, weight in newest(stage).items():
        assert torch.equal(weight, newest(fresh)[name])


def test_an_incomplete_group_makes_no_update_in_a_later_step():
    stage, fresh = (DREAM.GradientAccumulationStage(OneOfTwo(), lr=0.5, every=4) for _ in range(2))
    assert run_alone(stage, 1.0, 1.0) == {"up": 2.0, "down": 3.0}
    stage.clear()  # as a pipeline does at the beginning of a step
    assert run_alone(stage, *[1.0] * 4) == run_alone(fresh, *[1.0] * 4)

"""An output layer over all stages: its schedule, and the gradients of one process."""

import itertools
from functools import partial

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab
from selection import parametrize
from torch.nn.functional import cross_entropy

from pedagogy_lib import launch, measure
from pedagogy_lib.basics.closeness import rounding

VOCABULARY, ORDERS = map(load_solved_lab, ("vocabulary_pipeline", "vocabulary_schedules"))
MEASURED = load_solved_lab("vocabulary_measured")
TIMES = [{"F": 1.0, "B": 2.0, "S": 1.0, "T": 0.5}, {"F": 2.0, "B": 4.0, "S": 1.5, "T": 0.75}]


@pytest.mark.parametrize("seconds", TIMES)
def test_one_more_micro_batch_keeps_the_bubble_from_growing(seconds):
    for p in (2, 3, 4, 6):
        bubbles = {
            (extra, m): ORDERS.bubble_of(*ORDERS.list_schedule(p, m, seconds, extra))
            for extra, m in itertools.product((0, 1, 2), (2 * p, 4 * p))
        }
        assert bubbles[1, 2 * p] == pytest.approx(bubbles[1, 4 * p])
        assert bubbles[1, 4 * p] == pytest.approx(bubbles[2, 4 * p])
        assert bubbles[0, 4 * p] > bubbles[0, 2 * p] + 1


def test_each_action_comes_once_and_ranks_keep_what_was_allowed():
    for p, m, extra in itertools.product((1, 2, 4), (1, 3, 9), (0, 1)):
        rows, spans = ORDERS.list_schedule(p, m, TIMES[0], extra)
        for rank, row in enumerate(rows):
            assert sorted(row) == sorted((kind, i, 0) for kind in "FBST" for i in range(m))
            assert ORDERS.most_kept(rows)[rank] <= min(m, p - rank + extra)
            assert all(a <= b for a, b in spans[rank])
            assert all(x[1] <= y[0] for x, y in itertools.pairwise(spans[rank]))


@parametrize(
    "world_size, microbatches, options",
    [
        (3, 5, {}),
        (2, 4, {"ignored": True, "tied": True}),
        (3, 7, {"frozen": ("letters", "places", "blocks.0", "blocks.1")}),
        (2, 3, {"frozen": ("output",)}),
        (1, 3, {"tied": True}),
        (4, 7, {"ignored": True, "extra": 0}),
        (3, 6, {"tied": True, "frozen": ("letters",)}),
        (2, 7, {"extra": 2}),
    ],
    quick=4,
)
def test_loss_and_gradients_are_those_of_one_process(world_size, microbatches, options):
    work = partial(VOCABULARY.gap, **options)
    run = launch(work, 37, microbatches, world_size=world_size, device="cpu")
    assert max(run.values) <= min(rounding(), 1e-12)


def run_refused(change) -> str:
    """Return the error of a step of a changed model or batch, on a rank that then goes on."""
    lab, rank, ranks = VOCABULARY, dist.get_rank(), dist.get_world_size()
    model = lab.make_model(37, blocks=ranks + 1)
    inputs, targets = lab.draw_pairs(lab.standard_library(20_000), 8, 0, 16, 37)
    targets = targets.clone()
    if change == "a bias":
        model.output = torch.nn.Linear(32, 37)
    if change == "two dtypes":
        model.blocks[0].bfloat16()
    if change == "a target beyond the vocabulary":
        targets[-1, -1] = 37
    if change == "an input beyond the vocabulary":
        inputs = inputs + 1
    context = torch.autocast("cpu", torch.bfloat16, enabled=change == "autocast")
    rows, _ = ORDERS.list_schedule(ranks, 4, TIMES[0])
    try:
        with context:
            pipeline = lab.VocabularyPipeline(model)
            pipeline.step(rows[rank], inputs.chunk(4), targets.chunk(4))
    except (ValueError, IndexError) as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize(
    "change, words",
    [
        ("a bias", "the output layer has a bias"),
        ("two dtypes", "all parameters need one dtype"),
        ("a target beyond the vocabulary", "37, but a vocabulary of 37 has 0 to 36"),
        ("an input beyond the vocabulary", "37, but a vocabulary of 37 has 0 to 36"),
        ("autocast", "leave out autocast"),
    ],
)
def test_what_would_be_wrong_is_refused_on_all_ranks(change, words):
    found = launch(run_refused, change, world_size=3, device="cpu", timeout=20).values
    assert all(words in error for error in found), found


def test_sums_of_a_model_in_bfloat16_are_in_float32():
    chance = torch.Generator().manual_seed(0)
    weight = (torch.randn(16_384, 64, generator=chance) / 4).bfloat16()
    y = torch.randn(48, 64, generator=chance).bfloat16()
    targets = torch.randint(16_384, (48,), generator=chance)
    parts, first = [], 0
    for part in weight.tensor_split(4):
        parts.append(VOCABULARY.OutputPart(torch.nn.Parameter(part), first, y, targets))
        first += len(part)
    packed = torch.stack([part.pack() for part in parts])
    statistics, vectors, _ = packed.split([3, 64, 64], dim=2)
    losses, log_sums, mean_rows = VOCABULARY.merge_parts(statistics.transpose(1, 2), vectors)
    wanted = cross_entropy((y @ weight.T).double(), targets, reduction="none")
    assert (losses - wanted).abs().max() < 1e-4
    assert {one.dtype for one in (losses, log_sums, mean_rows)} == {torch.float32}
    share = torch.full((48,), 1 / 48)
    for part in parts:
        part.add_weight_gradient(log_sums, share)
    got = torch.cat([part.weight.grad for part in parts])
    exact = weight.double().requires_grad_()
    cross_entropy(y.double() @ exact.T, targets).backward()
    assert got.dtype == torch.bfloat16
    assert (got - exact.grad).norm() < 0.01 * exact.grad.norm()


def step_in_bfloat16() -> tuple:
    """Return the loss of a step in bfloat16, and that of one process."""
    lab, rank, ranks = VOCABULARY, dist.get_rank(), dist.get_world_size()
    split, alone = (lab.make_model(300, blocks=ranks).bfloat16() for _ in range(2))
    inputs, targets = lab.draw_pairs(lab.standard_library(20_000), 8, 0, 16, 300)
    rows, _ = ORDERS.list_schedule(ranks, 4, TIMES[0])
    loss = lab.VocabularyPipeline(split).step(rows[rank], inputs.chunk(4), targets.chunk(4))
    return loss, cross_entropy(alone(inputs).flatten(0, 1).float(), targets.flatten()).item()


def test_a_model_in_bfloat16_has_the_loss_of_one_process():
    *_, (loss, alone) = launch(step_in_bfloat16, world_size=2, device="cpu").values
    assert loss == pytest.approx(alone, rel=1e-3)


def measure_steps(counts):
    """Measure steps of so many micro-batches, as "4 micro-batches"."""
    lab, rank, ranks = VOCABULARY, dist.get_rank(), dist.get_world_size()
    pipeline = lab.VocabularyPipeline(lab.make_model(64, width=64, blocks=ranks, context=64))
    text = lab.standard_library(50_000)
    for count in counts:
        rows, _ = ORDERS.list_schedule(ranks, count, TIMES[0])
        parts = [part.chunk(count) for part in lab.draw_pairs(text, 4 * count, 0, 64, 64)]
        pipeline.step(rows[rank], *parts)
        with measure(f"{count} micro-batches"):
            pipeline.step(rows[rank], *parts)


def test_no_rank_keeps_more_with_more_micro_batches():
    run = launch(measure_steps, [8, 32], world_size=2, device="cpu")
    fewer, more = (run[f"{count} micro-batches"].peak_bytes for count in (8, 32))
    batch = 24 * 2 * 4 * 64 * 8  # the tokens and targets of 24 micro-batches more
    one = 4 * 64 * 64 * 4  # the activations of a micro-batch
    for before, after in zip(fewer, more):
        assert after["total"] - before["total"] < batch + 2 * one


def test_the_ranks_send_what_the_text_says():
    """Per token: an activation and a gradient, y to all others, 2 * width + 3 numbers back."""
    p, m, h, vocabulary = 3, 4, 256, 512
    rows, _ = ORDERS.list_schedule(p, m, TIMES[0])
    sizes = {"width": h, "blocks": p, "heads": 4}
    work = partial(MEASURED.run_step, sizes=sizes)
    run = launch(work, rows, {}, vocabulary, 2, world_size=p, device="cpu")
    planned = MEASURED.plan_bytes(p, m, 2, vocabulary, h)
    assert run["step"].sent_bytes == pytest.approx(planned, rel=0.05)
    tokens = 4 * 2 * m * 16
    assert sum(planned) == pytest.approx(
        tokens * ((p - 1) * 2 * h + (p - 1) * (h + 1 + 2 * h + 3)) + looked_up(p, m, h), rel=1e-6
    )


def looked_up(p, m, h) -> int:
    """Return the bytes of vectors that other ranks than 0 have, and of their gradients."""
    inputs, _ = VOCABULARY.draw_pairs(VOCABULARY.standard_library(20_000), 2 * m, 0, 16, 512)
    elsewhere = inputs >= len(torch.arange(512).tensor_split(p)[0])
    return 2 * 4 * h * elsewhere.sum().item()

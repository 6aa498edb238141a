"""Spikes and silent faults: one decision on all ranks, and nothing left of what is left out."""

import itertools
import math

import pytest
import torch
import torch.distributed as dist
from helpers import launch_on_cpu, load_solved_lab

from pedagogy_lib import close

SPIKES = load_solved_lab("loss_spikes")
SILENT = load_solved_lab("silent_corruption")
RESUMABLE = load_solved_lab("resumable_data")
BATCH, LENGTH = SPIKES.BATCH, 300  # an epoch ends in the middle of the tenth step


def data():
    chance = torch.Generator().manual_seed(0)
    images = torch.rand(LENGTH, 64, generator=chance)
    labels = (images @ torch.randn(64, 10, generator=chance)).argmax(1)
    return images, labels, images[:50], labels[:50]


# ---- The training ---


def train(n, answer, steps, spoilt=None, **settings):
    def run():
        return SPIKES.train(answer, steps, spoilt, data=data(), every=8, beyond=3, **settings)

    records = launch_on_cpu(run, world_size=n).values
    for record in records:
        assert record.alarms == records[0].alarms
        assert same_bits(record.weights, records[0].weights)
    return records[0]


def same_bits(one, other):
    return torch.equal(one.view(torch.int64), other.view(torch.int64))


def one_process(steps, seed=0):
    """The same steps with autograd's mean over the whole batch, and torch's optimizer."""
    images, labels, *_ = data()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = torch.nn.Sequential(
            torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
        ).double()
    rate = SPIKES.RATE * (1 - SPIKES.MOMENTUM)
    optimizer = torch.optim.SGD(model.parameters(), rate, SPIKES.MOMENTUM)
    stream = RESUMABLE.samples_from(0, LENGTH, BATCH, 0, 1, seed)
    for keys in itertools.islice(stream, steps):
        chosen = [sample for _, sample in keys]
        loss = torch.nn.functional.cross_entropy(model(images[chosen].double()), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


@pytest.mark.kernels
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_any_number_of_ranks_trains_as_one_process(n):
    record = train(n, "roll back", 25, seed=n)
    assert record.alarms == []
    assert close(record.weights, one_process(25, seed=n))


def resume(until, state=None):
    training = SPIKES.Training(data())
    if state:
        training.load_state_dict(state)
    while training.position < until * BATCH:
        flat = training.gradient_of(training.rank)
        assert SPIKES.sum_and_judge(flat, training.norms)
        training.update(flat)
    return training.weights(), training.norms, training.state_dict()


def test_a_state_goes_on_to_the_same_bits():
    whole, norms, _ = launch_on_cpu(resume, 70, world_size=2).values[0]
    *_, state = launch_on_cpu(resume, 33, world_size=2).values[0]
    resumed, resumed_norms, _ = launch_on_cpu(resume, 70, state, world_size=2).values[0]
    assert torch.equal(resumed, whole) and resumed_norms == norms and len(norms) == SPIKES.WINDOW


# ---- Four answers ---


SPOILT = {  # a part of the stream, and how many alarms it raises at least if it is skipped
    "pixels": (SPIKES.Spoilt("pixels", 20 * BATCH, 21 * BATCH), 1),
    "two samples": (SPIKES.Spoilt("pixels", 20 * BATCH + 3, 20 * BATCH + 5), 0),
    "NaN": (SPIKES.Spoilt("NaN", 21 * BATCH + 5, 21 * BATCH + 6), 1),
    "many": (SPIKES.Spoilt("pixels", 17 * BATCH + 1, 25 * BATCH - 1), 8),
}


@pytest.mark.parametrize("what", SPOILT)
@pytest.mark.parametrize(("n", "answer"), [(1, "skip"), (2, "skip"), (2, "roll back"),
                                           (3, "roll back")])  # fmt: skip
def test_nothing_is_left_of_what_is_left_out(what, n, answer):
    spoilt, alarms = SPOILT[what]
    record = train(n, answer, 40, spoilt)
    assert len(record.alarms) >= (alarms if answer == "skip" else min(alarms, 1))
    never = train(n, "go on", 40, spoilt, unused=record.unused)
    assert same_bits(never.weights, record.weights)
    if alarms:
        clean = train(n, "go on", 40, unused=record.unused)
        assert same_bits(clean.weights, record.weights)


def test_going_on_and_clipping_keep_a_nan():
    spoilt, _ = SPOILT["NaN"]
    for answer in ("go on", "clip"):
        assert train(2, answer, 24, spoilt).weights.isnan().all()


def test_clipping_takes_the_step_with_the_usual_norm():
    spoilt, _ = SPOILT["pixels"]
    clipped, skipped = (train(2, answer, 21, spoilt) for answer in ("clip", "skip"))
    assert clipped.alarms == skipped.alarms == [20]
    flat = (skipped.weights - clipped.weights) / (SPIKES.RATE * (1 - SPIKES.MOMENTUM))
    assert not torch.equal(clipped.weights, skipped.weights) and flat.norm() < 100


# ---- Checks ---


FINDERS = {
    "loud": {"norm of the sum", "replay"},
    "weight": {"replicas", "replay"},
    "gradient": {"replay"},
    "message": {"messages"},
    "a few labels": set(),
    "software": set(),
}


def watch(what, rank, after):
    return SILENT.watch(SILENT.Fault(what, rank, after), 25, data())


@pytest.mark.parametrize("what", SILENT.FAULTS)
def test_each_fault_is_found_by_its_checks_on_all_ranks_alike(what):
    found, *others = launch_on_cpu(watch, what, 1, 15, world_size=3).values
    assert all(other == found for other in others)
    assert set(found) == FINDERS[what]
    names = {"replay": [1], "replicas": [1], "messages": [(2, 1)], "norm of the sum": ["a spike"]}
    for check, (step, named) in found.items():
        assert named == names[check]
        assert step == 15 + (what == "weight" and check == "replay")


def sum_up(length, dtype):
    chance = torch.Generator().manual_seed(dist.get_rank())
    flat = torch.randn(length, generator=chance, dtype=torch.float64).to(dtype)
    wanted = flat.clone()
    dist.all_reduce(wanted)
    damaged = SILENT.sum_with_checksums(flat)
    return flat, wanted, damaged


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("length", [1, 10])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_messages_with_checksums_add_up_to_an_all_reduce(n, length, dtype):
    values = launch_on_cpu(sum_up, length, dtype, world_size=n).values
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.1}[dtype]
    for flat, wanted, damaged in values:
        assert damaged == [] and flat.dtype == dtype
        assert (flat - wanted).abs().max() < tolerance
        assert torch.equal(flat, values[0][0])


def damage_two():
    def damage(messages):
        if dist.get_rank() == 2:
            messages[0, 0] ^= 1
            messages[3, 5] ^= 128

    return SILENT.sum_with_checksums(torch.ones(40, dtype=torch.float64), damage=damage)


def test_the_links_of_damaged_messages_are_named_on_all_ranks():
    assert launch_on_cpu(damage_two, world_size=4).values == [[(0, 2), (3, 2)]] * 4


# ---- Rolling back ---


def replay(after, every, newest=False):
    """Train with wrong gradients on rank 1 after so many steps; None: without a fault."""
    fault = None if after is None else SILENT.Fault("gradient", 1, after)
    choose = (lambda saved, *_: max(saved)) if newest else SILENT.clean_checkpoint
    return SILENT.train_and_replay(fault, every, 5, 40, choose, data())


@pytest.mark.parametrize(("every", "after"), [(1, 12), (4, 13), (7, 14), (7, 8)])
def test_a_run_rolls_back_to_a_clean_checkpoint_and_ends_undisturbed(every, after):
    quiet = launch_on_cpu(replay, None, every, world_size=3).values[0]
    for run in launch_on_cpu(replay, after, every, world_size=3).values:
        assert run.found == 1
        assert run.at == math.ceil(after / every) * every
        assert run.back == (run.at - every) // 5 * 5
        assert torch.equal(run.weights, quiet.weights)
    assert quiet.gradients == 40 + math.ceil(40 / every)


def test_the_newest_checkpoint_may_be_wrong():
    quiet = launch_on_cpu(replay, None, 7, world_size=3).values[0]
    newest = launch_on_cpu(replay, 8, 7, True, world_size=3).values[0]
    assert newest.back == 10
    assert not torch.equal(newest.weights, quiet.weights)


def test_the_best_period_is_the_root_of_the_steps_per_fault():
    costs = {every: SILENT.predict_overhead(every, 100, 10_000) for every in range(1, 1000)}
    assert min(costs, key=costs.get) == 100
    assert costs[100] == pytest.approx(1 / 100 + 150 / 10_000)

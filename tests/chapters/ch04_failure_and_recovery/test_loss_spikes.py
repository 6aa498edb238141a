"""Spikes and silent faults: one decision on all ranks, and nothing left of what is left out."""

import itertools
import math
import statistics

import pytest
import torch
import torch.distributed as dist
from helpers import launch_on_cpu, load_solved_lab
from selection import parametrize

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
    settings = {"every": 8, "before": 1, "beyond": 3, "times": 4.0} | settings

    def run():
        return SPIKES.train(answer, steps, spoilt, data=data(), **settings)

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


@parametrize("what", SPOILT, quick=1)
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


def clip_with_torch(steps, spoilt):
    """The same steps with one process, torch's optimizer and torch's clipping, in every step."""
    training, norms = SPIKES.Training(data(), spoilt=spoilt), []
    optimizer = torch.optim.SGD(
        training.model.parameters(), SPIKES.RATE * (1 - SPIKES.MOMENTUM), SPIKES.MOMENTUM
    )
    for _ in range(steps):
        images, labels = training.samples_of(0)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(training.model(images), labels).backward()
        usual = statistics.median(norms or [1e300])
        norm = torch.nn.utils.get_total_norm([p.grad for p in training.parameters]).item()
        total = torch.tensor(norm, dtype=torch.float64)
        torch.nn.utils.clip_grads_with_norm_(training.parameters, usual, total)
        optimizer.step()
        if len(norms) < SPIKES.AT_LEAST or norm <= 4 * usual:
            norms = [*norms, norm][-SPIKES.WINDOW :]
        training.move_on()
    return training.weights()


def test_clipping_acts_in_every_step_as_torch_does():
    spoilt, _ = SPOILT["pixels"]
    clipped = train(2, "clip", 30, spoilt)
    wanted = launch_on_cpu(clip_with_torch, 30, spoilt, world_size=1).values[0]
    assert 20 in clipped.alarms
    assert (clipped.weights - wanted).abs().max() < 1e-5  # torch divides by the norm + 1e-6
    assert (clipped.weights - train(2, "go on", 30, spoilt).weights).abs().max() > 1e-3


BAD = 15 * BATCH, 25 * BATCH  # a checkpoint is saved after 16 steps, with one bad one in it


def roll_back(before, times):
    """Whether a run that rolls back is one that never saw the bad data; and where it went back."""
    spoilt = SPIKES.Spoilt("pixels", *BAD)
    record = train(2, "roll back", 40, spoilt, before=before, times=times, beyond=10)
    clean = train(2, "go on", 40, spoilt, unused=[BAD, *record.unused])
    return same_bits(clean.weights, record.weights), record.unused[0][0] // BATCH


def test_a_checkpoint_near_the_alarm_may_have_bad_data_in_it():
    seen = train(2, "go on", 40, SPIKES.Spoilt("pixels", *BAD))
    times = seen.ratios[15] * 1.01  # the first bad step passes, and a later one does not
    assert max(seen.ratios[step] for step in range(16, 25)) > times
    assert roll_back(0, times) == (False, 16)
    assert roll_back(8, times) == (True, 8)


def test_a_second_alarm_loads_no_checkpoint_that_the_first_has_rejected():
    training = launch_on_cpu(reject_and_load, world_size=1).values[0]
    assert training == ([8], 8, 21)


def reject_and_load():
    training, saved = SPIKES.Training(data()), []
    for step in (8, 16):
        training.position = step * BATCH
        saved.append(training.state_dict())
    training.position = 17 * BATCH
    first, position = SPIKES.leave_out(training, "roll back", saved, 3, 3)
    return [state["position"] // BATCH for state in saved], first // BATCH, position // BATCH


@pytest.mark.parametrize("answer", ["skip", "roll back"])
def test_a_run_whose_steps_are_all_left_out_ends_on_all_ranks(answer):
    spoilt = SPIKES.Spoilt("pixels", 60 * BATCH, 400 * BATCH)

    def run():
        with pytest.raises(RuntimeError, match="20 steps in a row were not sane"):
            SPIKES.train(answer, 400, spoilt, data=data(), times=4.0)
        return True

    assert launch_on_cpu(run, world_size=2).values == [True, True]


def test_ten_norms_of_zero_do_not_let_a_run_go_on_silently():
    def run():
        with pytest.raises(RuntimeError):
            for in_a_row in range(1, 100):
                assert not SPIKES.sum_and_judge(torch.tensor([1e-9]), [0.0] * 10)
                SPIKES.need_progress(in_a_row)
        return in_a_row

    assert launch_on_cpu(run, world_size=1).values == [SPIKES.IN_A_ROW]


def judge_half(length):
    flat, norms = torch.full((length,), 1000.0, dtype=torch.float16), []
    return SPIKES.sum_and_judge(flat, norms), norms


def test_a_float16_sum_may_have_a_norm_that_float16_cannot_hold():
    sane, norms = launch_on_cpu(judge_half, 10_000, world_size=1).values[0]
    assert sane and norms == [pytest.approx(100_000)]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 16])
def test_a_few_labels_are_wrong_on_each_rank(n):
    spoilt = SPIKES.Spoilt("a few labels", 24 * BATCH, 34 * BATCH)
    for rank in range(n):
        places = range(24 * BATCH + rank, 34 * BATCH, n)
        share = sum(map(spoilt.contains, places)) / len(places)
        assert 0.05 <= share <= 0.6


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


@parametrize("what", SILENT.FAULTS, quick=2)
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


@parametrize("n", [3, 1, 2, 4], quick=1)
@pytest.mark.parametrize("length", [1, 10])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_messages_with_checksums_add_up_to_an_all_reduce(n, length, dtype):
    values = launch_on_cpu(sum_up, length, dtype, world_size=n).values
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.1}[dtype]
    for flat, wanted, damaged in values:
        assert damaged == [] and flat.dtype == dtype
        assert (flat - wanted).abs().max() < tolerance
        assert torch.equal(flat, values[0][0])


def damage_two(where):
    def damage(call, messages):
        if (call, dist.get_rank()) == (where, 2):
            messages[0, 0] ^= 1
            messages[3, 5] ^= 128

    return SILENT.sum_with_checksums(torch.ones(40, dtype=torch.float64), damage=damage)


@pytest.mark.parametrize("where", ["all-to-all", "all-gather"])
def test_the_links_of_damaged_messages_are_named_on_all_ranks(where):
    assert launch_on_cpu(damage_two, where, world_size=4).values == [[(0, 2), (3, 2)]] * 4


# ---- Rolling back ---


def replay(after, every, newest=False, shows=1.0):
    """Train with wrong gradients on rank 1 after so many steps; None: without a fault."""
    fault = None if after is None else SILENT.Fault("gradient", 1, after, shows)
    choose = (lambda saved, *_: max(saved)) if newest else SILENT.clean_checkpoint
    return SILENT.train_and_replay(fault, every, 5, 40, choose, data())


@parametrize("every, after", [(1, 12), (1, 15), (4, 13), (4, 15), (7, 14),
                                               (7, 8)], quick=2)  # fmt: skip
def test_a_run_rolls_back_to_a_clean_checkpoint_and_ends_undisturbed(every, after):
    quiet = launch_on_cpu(replay, None, every, world_size=3).values[0]
    for run in launch_on_cpu(replay, after, every, world_size=3).values:
        assert run.found == 1
        assert run.at == math.ceil((after + 1) / every) * every
        assert run.back == (run.at - every) // 5 * 5
        assert torch.equal(run.weights, quiet.weights)
    assert quiet.gradients == 40 + 40 // every


def test_with_a_replay_in_each_step_no_clean_checkpoint_is_thrown_away():
    run = launch_on_cpu(replay, 15, 1, world_size=3).values[0]
    assert (run.at, run.back) == (16, 15)


@pytest.mark.deep
def test_a_fault_that_comes_and_goes_may_pass_the_last_good_check():
    quiet = launch_on_cpu(replay, None, 4, world_size=3).values[0]
    ends = [launch_on_cpu(replay, after, 4, False, 0.3, world_size=3).values[0]
            for after in (5, 7, 9, 11)]  # fmt: skip
    named = [run for run in ends if run.found is not None]
    assert named and all(run.found == 1 for run in named)
    assert any(not torch.equal(run.weights, quiet.weights) for run in named)


def test_the_newest_checkpoint_may_be_wrong():
    quiet = launch_on_cpu(replay, None, 7, world_size=3).values[0]
    newest = launch_on_cpu(replay, 8, 7, True, world_size=3).values[0]
    assert newest.back == 10
    assert not torch.equal(newest.weights, quiet.weights)


def test_the_best_period_is_the_root_of_the_steps_per_fault():
    costs = {every: SILENT.predict_overhead(every, 100, 10_000) for every in range(1, 1000)}
    assert min(costs, key=costs.get) == 100
    assert costs[100] == pytest.approx(1 / 100 + 150 / 10_000)

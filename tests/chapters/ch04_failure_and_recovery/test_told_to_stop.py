"""Jobs that are told to stop: one last step for all ranks, and the data goes on where it was."""

import itertools
import json
import os
import signal
import tempfile

import pytest
import torch
import torch.distributed as dist
from helpers import launch_on_cpu, load_solved_lab

from pedagogy_lib import LaunchError, close

RESUMABLE = load_solved_lab("resumable_data")
STOPPING = load_solved_lab("told_to_stop")
GOODPUT = load_solved_lab("goodput")
SIGNALS = load_solved_lab("passing_signals")
STEPS, LENGTH = 14, 40  # an epoch ends in the middle of the fourth step


def data():
    chance = torch.Generator().manual_seed(0)
    return torch.rand(LENGTH, 64, generator=chance), torch.randint(10, (LENGTH,), generator=chance)


# ---- The stream of samples ---


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("position", [0, 7, 10, 33])
def test_the_ranks_read_the_stream_and_each_sample_once(position, n):
    length, batch, steps = 10, 7, 6
    ranks = [RESUMABLE.samples_from(position, length, batch, rank, n) for rank in range(n)]
    read = [
        pair for each in itertools.islice(zip(*ranks), steps) for share in each for pair in share
    ]
    places = range(position, position + steps * batch)
    wanted = [(k // length, RESUMABLE.order_of(k // length, length)[k % length]) for k in places]
    assert sorted(read) == sorted(wanted)
    assert len({*read}) == len(read)


def test_a_position_in_the_future_is_where_the_stream_would_be():
    from_zero = RESUMABLE.samples_from(0, 10, 4, 1, 2, seed=3)
    later = RESUMABLE.samples_from(12, 10, 4, 1, 2, seed=3)
    assert list(itertools.islice(from_zero, 3, 6)) == list(itertools.islice(later, 3))


def hand_out(used):
    before = torch.get_rng_state()
    loader = RESUMABLE.ResumableLoader(RESUMABLE.Keys(LENGTH), 4)
    read = [keys.tolist() for keys in itertools.islice(loader, used)]
    unchanged = torch.equal(before, torch.get_rng_state())
    return loader.state_dict(), read, unchanged


def test_a_loader_counts_the_batches_that_it_has_handed_out():
    state, read, unchanged = launch_on_cpu(hand_out, 3, world_size=1).values[0]
    assert state == {"position": 12} and len(read) == 3
    assert unchanged, "the workers' seed is drawn from the global generator"


# ---- The training ---


def go_on(data, until, state=None, workers=2):
    training = STOPPING.Training(data, workers)
    if state:
        training.load_state_dict(state)
    while training.steps < until:
        training.step()
    training.close()
    return training.weights(), training.state_dict()


def train(until, n, state=None, workers=0):
    return launch_on_cpu(go_on, data(), until, state, workers, world_size=n).values[0]


def one_process(until):
    """The same steps with autograd's mean over the batch, and torch's optimizer."""
    images, labels = data()
    digits = RESUMABLE.ShiftedDigits((images, labels))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = torch.nn.Linear(64, 10).double()
    optimizer = torch.optim.SGD(model.parameters(), STOPPING.RATE * (1 - STOPPING.MOMENTUM),
                                STOPPING.MOMENTUM)  # fmt: skip
    stream = RESUMABLE.samples_from(0, LENGTH, STOPPING.BATCH, 0, 1)
    for keys in itertools.islice(stream, until):
        inputs, targets = zip(*map(digits.__getitem__, keys))
        loss = torch.nn.functional.cross_entropy(model(torch.stack(inputs)), torch.stack(targets))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


@pytest.mark.kernels
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_any_number_of_ranks_trains_as_one_process(n):
    assert close(train(STEPS, n)[0], one_process(STEPS))


def test_the_same_ranks_resume_in_mid_epoch_to_the_same_bits():
    whole, (_, state) = train(STEPS, 2, workers=2), train(5, 2, workers=2)
    assert torch.equal(train(STEPS, 2, state, workers=2)[0], whole[0])


@pytest.mark.kernels
def test_other_ranks_resume_in_mid_epoch():
    _, state = train(5, 2)
    for n in (1, 3):
        assert close(train(STEPS, n, state)[0], one_process(STEPS))


def sum_up(dtype, told):
    rank = dist.get_rank()
    flat = torch.arange(5).to(dtype) + rank
    return STOPPING.reduce_with_notice(flat, rank == told), flat


@pytest.mark.parametrize("told", [None, 2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_one_rank_that_is_told_stops_all(dtype, told):
    values = launch_on_cpu(sum_up, dtype, told, world_size=3).values
    for stops, flat in values:
        assert stops is (told is not None)
        assert torch.equal(flat, (3 * torch.arange(5) + 3).to(dtype))


# ---- Notice, grace and kill ---


def live(place, data, life=None):
    """Train; the last rank is told after `life` steps of this life."""
    first = []

    def tell(training):
        first.append(training.steps)
        if life == training.steps - first[0] and dist.get_rank() == dist.get_world_size() - 1:
            os.kill(os.getpid(), signal.SIGTERM)

    return STOPPING.train(place, STEPS, 6, data, tell).steps


def test_a_job_that_is_told_again_and_again_loses_nothing(tmp_path):
    ends = [launch_on_cpu(live, tmp_path, data(), 3, world_size=2).values for _ in range(4)]
    assert ends == [[4, 4], [8, 8], [12, 12], [14, 14]]
    steps = [said["steps"] for said in STOPPING.log_of(tmp_path) if said["what"] == "step"]
    assert steps == [*range(1, STEPS + 1)]
    weights = load_solved_lab("restart").load_weights(tmp_path)
    assert torch.equal(weights, train(STEPS, 2)[0])


def be_slow(place, data, ballast):
    return STOPPING.train(place, 10_000, 4, data, None, ballast, 0.005).steps


@pytest.fixture
def place_for_leftovers(monkeypatch):
    """A short path, as workers make sockets there and leave them behind when they are killed."""
    with tempfile.TemporaryDirectory() as place:
        monkeypatch.setenv("TMPDIR", place)
        yield


@pytest.mark.usefixtures("place_for_leftovers")
@pytest.mark.parametrize("grace", [30.0, 0.0])
def test_the_scheduler_tells_and_kills(tmp_path, grace):
    with STOPPING.Scheduler(tmp_path, 2, 6, grace):
        if grace:
            first, second = launch_on_cpu(be_slow, tmp_path, data(), 0, world_size=2).values
            assert first == second
        else:
            with pytest.raises(LaunchError, match="SIGKILL"):
                launch_on_cpu(be_slow, tmp_path, data(), 0, world_size=2)
    what = [said["what"] for said in STOPPING.log_of(tmp_path)]
    assert ("told" in what, "killed" in what) == (grace > 0, grace == 0)
    assert not grace or STOPPING.steps_lost(tmp_path) == 0


# ---- Goodput ---


def write_log(place, lines):
    """Write a log of (what, seconds, step); "starts" and "ends" are the scheduler's."""
    with open(place / "log", "w") as file:
        for what, at, steps in lines:
            rank = -1 if what in ("starts", "ends", "killed") else 0
            line = {"what": what, "time": 100.0 + at, "rank": rank, "pid": 1, "steps": steps}
            file.write(json.dumps(line) + "\n")


KILLED_AND_DONE = [
    ("starts", 0, 0), ("begins", 1, 0), ("step", 3, 1), ("step", 4, 2), ("saved", 6, 2),
    ("step", 7, 3), ("killed", 7.5, 0), ("ends", 8, 0),
    ("starts", 10, 0), ("begins", 11, 2), ("step", 12, 3), ("step", 13, 4), ("saved", 15, 4),
    ("ends", 15, 0),
]  # fmt: skip


def test_goodput_counts_the_steps_that_no_later_life_takes_again(tmp_path):
    write_log(tmp_path, KILLED_AND_DONE)
    seconds = {kind: 15 * share for kind, share in GOODPUT.shares_of(tmp_path).items()}
    assert seconds == pytest.approx(
        {"steps that count": 4, "steps lost": 1, "saving": 4, "starting, leaving": 4,
         "in the queue": 2}
    )  # fmt: skip
    assert GOODPUT.plot_goodput({"a\njob": tmp_path}).alt.startswith("a job, 15.0 s: steps that co")


def test_goodput_by_the_formula():
    times = {"start": 3.0, "queue": 2.0, "save": 1.0, "step": 0.5}
    told = GOODPUT.predict_goodput(**times, life=10, every=4, told=True)
    killed = GOODPUT.predict_goodput(**times, life=10, every=4, told=False)
    assert told == pytest.approx(5 / (3 + 5 + 3 + 2))
    assert killed == pytest.approx(4 / (3 + 5 + 2 + 2))
    assert GOODPUT.predict_goodput(**times, life=10, every=11, told=False) == 0


# ---- Signals ---


@pytest.mark.deep
def test_workers_that_do_not_ignore_sigterm_end_their_rank():
    for reads, fails in (("plain", True), ("deaf", False)):
        run = SIGNALS.Torchrun("--shutdown-timeout=2", reads=reads)
        heard = run.tell(signal.SIGTERM, 60).heard
        run.close()
        for lines in heard:
            assert "SIGTERM" in lines
            assert any(line.startswith("fails") for line in lines) is fails, lines

"""A machine's state comes back from the memory of another one: nothing is read from a disk."""

import os

import pytest
import torch
import torch.distributed as dist
from crews import Fault, data, own_faults, put_in
from helpers import launch_on_cpu, load_solved_lab, wait_until
from machines_here import needs_machines

from coursekit.kit.rank_exercise import warm_up
from pedagogy_lib import Machines, RankError

COPIES = load_solved_lab("memory_copies")
STEPS = 8
PATIENCE, TIMEOUT = 30.0, 5.0  # s: whoever is awaited comes; busy machines are slow


# ---- On a rank ------------------------------------------------------------------------------


def no_disk(*args, **kwargs):
    raise AssertionError("somebody uses a disk")


def keep_copies(folder, data, n, shift, faults, patience, seconds):
    rank, disk = int(os.environ["RANK"]), (torch.save, torch.load)
    torch.save = torch.load = no_disk
    training, copies = COPIES.ShardedTraining(rank, n, data), COPIES.Copies(rank, n, shift)
    training.compute_seconds = seconds
    crew = COPIES.Crew(COPIES.FolderStore(folder / "store"), n, patience, TIMEOUT)
    faults = own_faults(faults)
    begun = put_in(faults, training, crew)
    exchange = copies.exchange

    def exchange_or_die(step, state):
        for fault in faults:
            if fault.where == "exchange" and fault.number == step - 1:
                fault.strike()
        exchange(step, state)

    copies.exchange = exchange_or_die
    if patience < PATIENCE and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)):
        wait_until(lambda: crew.last_meeting() > 1, PATIENCE)
    went_on = COPIES.train(training, crew, copies, STEPS)
    torch.save, torch.load = disk
    return {
        "went_on": went_on,
        "weights": torch.nn.utils.parameters_to_vector(training.model.parameters()).detach(),
        "begun": begun["compute"],
        "held": sorted(copies.held),
    }


# ---- Here -----------------------------------------------------------------------------------


def run_of(folder, n, shift, faults, patience=PATIENCE, machines=None, seconds=0.0):
    args = folder, data(), n, shift, faults, patience, seconds
    settings = {"world_size": n, "replacements": 2 * n, "timeout": 30}
    return launch_on_cpu(keep_copies, *args, machines=machines, **settings)


def alone() -> torch.Tensor:
    training = COPIES.Training(data())
    for _ in range(STEPS):
        training.update(training.compute(0, 1))
    return torch.nn.utils.parameters_to_vector(training.model.parameters()).detach()


def need_right(run):
    """All have the weights of one process, and no step is taken more than once again."""
    weights = alone()
    for value in run.values:
        assert torch.equal(value["weights"], run.values[0]["weights"])
        torch.testing.assert_close(value["weights"], weights, rtol=1e-12, atol=1e-14)
        again = len(value["begun"]) - len({*value["begun"]})
        assert again <= len(run.lost)


@pytest.mark.parametrize("n", [1, 2, 3, pytest.param(4, marks=pytest.mark.deep)])
def test_without_a_fault_it_is_one_process(tmp_path, n):
    shift = max(1, n // 2)
    run = run_of(tmp_path, n, shift, [])
    need_right(run)
    for rank, value in enumerate(run.values):
        owners = {rank, (rank - shift) % n}
        assert value["held"] == [(owner, step) for owner in sorted(owners) for step in (7, 8)]


@pytest.mark.parametrize(
    ("half", "where"),
    [
        ((2, 3), "before"),
        *(
            pytest.param(half, where, marks=pytest.mark.deep)
            for where in ("before", "in", "after", "updated", "exchange")
            for half in ((0, 1), (2, 3))
            if (half, where) != ((2, 3), "before")
        ),
    ],
)
def test_one_half_is_killed_at_once(tmp_path, half, where):
    run = run_of(tmp_path, 4, 2, [Fault(rank, where, 4) for rank in half])
    need_right(run)
    assert {lost.rank for lost in run.lost} == {*half}
    assert not [
        value for value in run.values if not (value["went_on"] and {*value["went_on"]} <= {3, 4, 5})
    ]


def test_a_new_rank_s_keeper_may_be_killed_before_the_next_step_ends(tmp_path):
    run = run_of(tmp_path, 4, 2, [Fault(1, "before", 4), Fault(3, "after", 4)])
    need_right(run)
    assert [lost.rank for lost in run.lost] == [1, 3]


@pytest.mark.deep
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("where", ["in", "updated", "exchange"])
def test_one_of_few_is_killed(tmp_path, n, where):
    need_right(run_of(tmp_path, n, 1, [Fault(0, where, 4)]))


@pytest.mark.deep
def test_one_half_and_then_the_other_one(tmp_path):
    first = [Fault(rank, "before", 2) for rank in (0, 1)]
    second = [Fault(rank, "in", 5) for rank in (2, 3)]
    run = run_of(tmp_path, 4, 2, first + second)
    need_right(run)
    assert len(run.lost) == 4


@pytest.mark.deep
@pytest.mark.parametrize(
    "where",
    [
        "before",
        "after",
        "updated",
    ],
)
def test_one_is_killed_in_the_first_step(tmp_path, where):
    """There are no copies yet."""
    need_right(run_of(tmp_path, 2, 1, [Fault(1, where, 0)]))


@pytest.mark.deep
@pytest.mark.parametrize("where", ["updated", "exchange"])
def test_one_is_killed_in_the_last_step(tmp_path, where):
    need_right(run_of(tmp_path, 2, 1, [Fault(1, where, STEPS - 1)]))


@pytest.mark.deep
def test_who_comes_after_the_patience_of_the_others_is_awaited(tmp_path):
    need_right(run_of(tmp_path, 4, 2, [Fault(3, "before", 4)], patience=1.0))


@pytest.mark.deep
@needs_machines
def test_a_machine_is_killed_and_comes_back(tmp_path):
    warm_up()  # so that it is not killed while it imports an optimizer
    machines = Machines(2).kill(1, after_seconds=1.2).revive(1, after_seconds=1.6)
    run = run_of(tmp_path, 4, 2, [], machines=machines, seconds=0.12)
    need_right(run)
    assert {lost.rank for lost in run.lost} == {2, 3}
    assert not [value for value in run.values if not value["went_on"]]


# ---- The parts -------------------------------------------------------------------------------


def hold(n, shift, steps):
    copies = COPIES.Copies(dist.get_rank(), n, shift)
    for step in range(1, steps + 1):
        copies.exchange(step, torch.tensor([10.0 * step + copies.rank]))
    return {key: state.item() for key, state in copies.held.items()}


@pytest.mark.parametrize(("n", "shift"), [(2, 1), (3, 1), (4, 2)])
def test_each_rank_holds_two_steps_of_two_ranks(n, shift):
    for rank, held in enumerate(launch_on_cpu(hold, n, shift, 3, world_size=n).values):
        owners = rank, (rank - shift) % n
        assert held == {(o, step): 10.0 * step + o for o in owners for step in (2, 3)}


class BareTraining:
    """What restore() uses of a training."""

    def state(self):
        return torch.zeros(1)

    def load_state(self, step, state):
        self.loaded = step, state.item()

    def gather_weights(self):
        pass


def count_batches(n, shift):
    """The messages of each batch that exchange() and restore() start, and what was restored."""
    batches, start = [], dist.batch_isend_irecv

    def start_and_note(messages):
        batches.append(sorted(message.op.__name__ for message in messages))
        return start(messages)

    dist.batch_isend_irecv = start_and_note
    copies, training = COPIES.Copies(dist.get_rank(), n, shift), BareTraining()
    copies.exchange(1, torch.tensor([10.0 + copies.rank]))
    if copies.rank == 1:
        copies.held.clear()
    COPIES.restore(training, copies)
    dist.batch_isend_irecv = start
    return batches, training.loaded


def test_messages_both_ways_are_one_batch():
    """Over NCCL, two ranks that send to each other without a batch may wait forever."""
    values = launch_on_cpu(count_batches, 3, 1, world_size=3).values
    both = ["irecv", "isend"]
    assert [batches for batches, _ in values] == [[both], [both, ["irecv"]], [both, ["isend"]]]
    assert [loaded for _, loaded in values] == [(1, 10.0), (1, 11.0), (1, 12.0)]


def shards_of(data, n):
    training = COPIES.ShardedTraining(dist.get_rank(), n, data)
    before = torch.nn.utils.parameters_to_vector(training.model.parameters()).detach().clone()
    training.gather_weights()
    after = torch.nn.utils.parameters_to_vector(training.model.parameters()).detach()
    return torch.equal(before, after), training.shard.numel()


@pytest.mark.parametrize("n", [1, 3, pytest.param(4, marks=pytest.mark.deep)])
def test_shards_are_the_whole(n):
    length = 64 * 32 + 32 + 32 * 10 + 10
    values = launch_on_cpu(shards_of, data(), n, world_size=n).values
    assert values == [(True, -(-length // n))] * n


def test_a_state_that_is_on_no_rank_any_more_is_told(tmp_path):
    """A rank dies, and so does the one that kept its copy."""
    faults = [Fault(0, "before", 4), Fault(2, "before", 4)]
    with pytest.raises(RankError, match="only a checkpoint helps"):
        run_of(tmp_path, 4, 2, faults)


def restore_from(held):
    training = COPIES.ShardedTraining(dist.get_rank(), 4, data())
    copies = COPIES.Copies(dist.get_rank(), 4, 2)
    copies.held = dict.fromkeys(held[dist.get_rank()], training.state())
    return COPIES.restore(training, copies)


def test_a_rank_lost_in_the_first_exchange_has_lost_nothing():
    held = [[(0, 0), (2, 0)], [], [(2, 0), (0, 0)], []]
    assert launch_on_cpu(restore_from, held, world_size=4).values == [None] * 4
    with pytest.raises(RankError, match="only a checkpoint helps"):
        launch_on_cpu(restore_from, [[(0, 1), (2, 1)], [], [(2, 1), (0, 1)], []], world_size=4)

"""Who finds out that a rank has failed, after how long, and whom is it taken for."""

import os
import signal
import time

import pytest
import torch
import torch.distributed as dist
from helpers import launch_on_cpu, load_solved_lab
from selection import parametrize

FINDING = load_solved_lab("finding_out")
TIMEOUT = 2.0
KNOWN = {"killed": 2.0, "stopped": TIMEOUT + 2, "waits": TIMEOUT + 2}  # s; busy machines are slow


def lose(folder, data, fault, timeout, patience=None):
    return FINDING.train_until_lost(folder, data, fault, timeout, patience)


def lose_rank(tmp_path, what, rank=1, n=4, timeout=TIMEOUT, patience=None):
    fault = FINDING.Fault(what, rank, 10)
    run = launch_on_cpu(
        lose, tmp_path, data(), fault, timeout, patience, world_size=n, replacements=0
    )
    assert [one.rank for one in run.lost] == ([rank] if what in KNOWN else [])
    return [value for other, value in enumerate(run.values) if other != rank]


def data():
    chance = torch.Generator().manual_seed(0)
    images = torch.rand(320, 64, generator=chance)
    return images, torch.randint(10, (320,), generator=chance)


@pytest.mark.parametrize(("what", "seconds"), KNOWN.items())
@parametrize("rank", [0, 3], quick=1)
def test_all_know_of_a_rank_that_is_lost(tmp_path, what, seconds, rank):
    for value in lose_rank(tmp_path, what, rank):
        least = 0 if what == "killed" else TIMEOUT / 2
        assert least < value["after"] < seconds


@pytest.mark.parametrize(
    ("what", "found"), [("stopped", "no sign of life"), ("waits", "alive, but does not come")]
)
@parametrize("n", [2, 5], quick=1)
def test_guards_name_the_rank_that_all_wait_for(tmp_path, what, found, n):
    for value in lose_rank(tmp_path, what, rank=1, n=n, timeout=60, patience=1.0):
        assert (value["found"], value["ranks"]) == (found, [1])
        assert value["after"] < 3.0


def test_guards_find_nothing_if_nothing_is_wrong(tmp_path):
    assert lose_rank(tmp_path, "nothing", patience=2.0) == [None, None, None]


def sleep_as_a_whole(folder):
    """All ranks stand still for longer than the guards' patience, as on a machine that pauses."""
    _, store = FINDING.meet(folder, 60)
    rank, n = dist.get_rank(), dist.get_world_size()
    guard = FINDING.Guard(store, rank, n, patience=1.0)
    dist.barrier()
    if rank == 0:
        time.sleep(0.3)
        pids = [guard.read_status(other)[2] for other in range(n)]
        pause_all(pids)
    time.sleep(0.5)
    found = guard.read_finding()
    dist.barrier()
    guard.end()
    return found


def pause_all(pids):
    """Stop them, this one included, and let them go on after two seconds."""
    if os.fork() == 0:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(2)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        os._exit(0)
    os.wait()


@pytest.mark.deep
def test_a_guard_that_was_asleep_itself_accuses_nobody(tmp_path):
    assert launch_on_cpu(sleep_as_a_whole, tmp_path, world_size=3).values == [None] * 3


def look_after_each_step(data, fault):
    return FINDING.train_and_check(data, fault)


@pytest.mark.parametrize(
    ("what", "found"),
    [("wrong gradients", "computes wrong gradients"), ("wrong weights", "has other weights")],
)
@pytest.mark.parametrize("after", [0, 4])
def test_a_wrong_number_is_found_in_its_step(what, found, after):
    for rank in (0, 2):
        fault = FINDING.Fault(what, rank, after)
        values = launch_on_cpu(look_after_each_step, data(), fault, world_size=3).values
        assert values == [{"what": found, "ranks": [rank], "steps": 1}] * 3


def losses_of(data, fault):
    training, differing = FINDING.Training(data, fault), []
    for _ in range(fault.after + 4):
        training.step()
        differing.append(FINDING.differing_replicas(training.model))
    return training.losses, differing


def test_the_flipped_bit_belongs_to_a_weight_that_counts():
    """With the course's images, of which some pixels are always black."""
    data = load_solved_lab("gradient_accumulation").digits()

    def losses_with(what, *where):
        fault = FINDING.Fault(what, 2, 5, *where)
        return launch_on_cpu(losses_of, data, fault, world_size=3).values

    undisturbed, flipped = losses_with("nothing"), losses_with("wrong weights")
    assert flipped[2][0][:6] == undisturbed[2][0][:6]  # a loss is computed before the update
    assert flipped[2][0][7:] != undisturbed[2][0][7:]  # in a batch, its unit may be off
    assert flipped[0][1][4:6] == [[], [2]]
    black = losses_with("wrong weights", 30, 0)  # even the highest bit of such a weight is unseen
    assert [value[0] for value in black] == [value[0] for value in undisturbed]
    assert black[0][1][5:] == [[2]] * 4


def test_a_bit_is_flipped_in_any_dtype():
    for dtype, integer in ((torch.float32, torch.int32), (torch.float64, torch.int64)):
        weights = torch.ones(4, 64, dtype=dtype, requires_grad=True)
        FINDING.flip_a_bit(weights, bit=3)
        changed = weights.detach().view(integer) ^ torch.ones(4, 64, dtype=dtype).view(integer)
        assert changed.nonzero().tolist() == [[2, 28]] and changed.sum() == 8


def test_a_slow_rank_is_named_within_ten_steps():
    fault = FINDING.Fault("slow", 2, 12)
    values = launch_on_cpu(look_after_each_step, data(), fault, world_size=4).values
    assert values == [{"what": "is slow", "ranks": [2], "steps": values[0]["steps"]}] * 4
    assert values[0]["steps"] <= 10


def test_a_checksum_changes_with_each_bit():
    tensors = [torch.tensor(1.5), torch.arange(3), torch.ones(2, dtype=torch.bfloat16).t()]
    before = FINDING.checksum(tensors)
    assert 0 <= before < 2**63
    for tensor in tensors:
        bits = tensor.view(-1).view(torch.uint8)
        bits[0] ^= 1
        assert FINDING.checksum(tensors) != before
        bits[0] ^= 1
    assert FINDING.checksum(tensors) == before


def test_the_guilty_one_has_entered_the_fewest_collectives():
    assert FINDING.furthest_behind({0: 41, 1: 41, 2: 40, 3: 41}) == [2]
    assert FINDING.furthest_behind({0: 41, 1: 41}) == []


def recompute_with_a_slip(rank, batch):
    """Rank `rank` is wrong once, when it computes the gradients of this batch."""

    def gradients_of(k):
        slips = (dist.get_rank(), k) == (rank, batch)
        return [torch.full((5,), k + float(slips))]

    try:
        return FINDING.wrong_by_recomputing(gradients_of)
    except FINDING.Disputed as error:
        return str(error)


@pytest.mark.parametrize("batch", [2, 3])
def test_a_rank_that_is_wrong_once_is_not_taken_for_all_right(batch):
    told = launch_on_cpu(recompute_with_a_slip, 2, batch, world_size=4).values
    assert told == [f"two ranks disagree about batch {batch}: compute it again"] * 4

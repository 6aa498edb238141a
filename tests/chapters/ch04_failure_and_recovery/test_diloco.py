"""DiLoCo goes on while workers die and come; nobody takes its inner steps again."""

import pytest
import torch
import torch.distributed as dist
from crews import Fault, own_faults
from helpers import failure, launch_on_cpu, load_solved_lab, wait_until

from pedagogy_lib import RankError

DILOCO = load_solved_lab("diloco")
ROUNDS = 4
PATIENCE, TIMEOUT, LONG = 1.0, 5.0, 30.0  # s; busy machines are slow


def data():
    chance = torch.Generator().manual_seed(0)
    labels = torch.randint(10, (360,), generator=chance)
    images = torch.rand(360, 64, generator=chance) / 2
    images[torch.arange(360), labels] += 1  # so that there is something to learn
    return images[:320], labels[:320], images[320:], labels[320:]


# ---- On a rank ------------------------------------------------------------------------------


def put_in(faults, worker):
    """where: "inner", at the third inner step of a round; or at the all-reduce of this number."""
    taken, sums, inner, all_reduce = [], [-1, 0], worker.optimizer.step, dist.all_reduce

    def strike(where):
        for fault in faults:
            if (fault.where, fault.number) == (where, worker.steps):
                fault.strike()

    def step(*args):
        taken.append(worker.steps)
        if taken.count(worker.steps) == 3:
            strike("inner")
        return inner(*args)

    def reduce_or_die(*args, **kwargs):
        sums[:] = worker.steps, 1 + sums[1] * (sums[0] == worker.steps)
        strike(f"sum {sums[1]}")
        return all_reduce(*args, **kwargs)

    worker.optimizer.step, dist.all_reduce = step, reduce_or_die
    return taken


def worker_on(data):
    """Without dropout, which draws at random."""
    worker = DILOCO.Worker(data)
    worker.model[2].p = 0.0
    return worker


def work(folder, data, n, faults, waits_at, patience):
    worker = worker_on(data)
    crew = DILOCO.Crew(DILOCO.FolderStore(folder / "store"), n, patience, TIMEOUT)
    taken = put_in(own_faults(faults), worker)

    def take_round(worker, crew):
        if worker.steps == waits_at and len(crew.names) < n:
            wait_until(crew.somebody_waits, LONG)
        return DILOCO.take_round(worker, crew)

    meetings = DILOCO.train(worker, crew, ROUNDS, take_round)
    return {
        "meetings": meetings,
        "whole": worker.whole,
        "mine": [parameter.detach() for parameter in worker.model.parameters()],
        "outer": [state["momentum_buffer"] for state in worker.outer.state.values()],
        "losses": worker.losses,
        "taken": taken,
    }


# ---- Here -----------------------------------------------------------------------------------


def run_of(folder, n, faults, replacements=0, waits_at=None):
    args = folder, data(), n, faults, waits_at, LONG if replacements else PATIENCE
    return launch_on_cpu(work, *args, world_size=n, replacements=replacements, timeout=30)


def need_right(run, who):
    """Those that are left agree, and have taken each of their inner steps once."""
    left = [rank for rank, value in enumerate(run.values) if value]
    assert left == sorted(who)
    first, lost = run.values[left[0]], {one.rank for one in run.lost}
    for rank in left:
        value = run.values[rank]
        for name in ("whole", "mine", "outer"):
            assert all(map(torch.equal, value[name], first[name]))
        assert all(map(torch.equal, value["whole"], value["mine"]))
        assert value["losses"] == first["losses"]
        rounds = [step for step in value["taken"] if value["taken"].count(step) != 20]
        assert not rounds
        if rank not in lost:
            assert sorted({*value["taken"]}) == list(range(ROUNDS))
    assert first["losses"][ROUNDS] < first["losses"][1]


def simulate_workers(n) -> list[torch.Tensor]:
    """n workers, one after another, with the formula of Nesterov's momentum."""
    workers = [worker_on(data()) for _ in range(n)]
    whole = [weights.clone() for weights in workers[0].whole]
    moving = [torch.zeros_like(weights) for weights in whole]
    for turn in range(ROUNDS):
        for rank, worker in enumerate(workers):
            worker.steps = turn
            worker.train_alone(rank)
        for k, weights in enumerate(whole):
            gradient = weights - sum(worker.mine[k] for worker in workers) / n
            moving[k] = 0.9 * moving[k] + gradient
            whole[k] = weights - 0.7 * (gradient + 0.9 * moving[k])
            for worker in workers:
                worker.mine[k].copy_(whole[k])
    return whole


@pytest.mark.parametrize("n", [3, *(pytest.param(n, marks=pytest.mark.deep) for n in (1, 2, 4))])
def test_without_a_fault_it_is_one_process(tmp_path, n):
    run = run_of(tmp_path, n, [])
    need_right(run, range(n))
    for got, wanted in zip(run.values[0]["whole"], simulate_workers(n)):
        torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("rank", "where"),
    [
        (1, "inner"),
        (0, "sum 3"),
        *(
            pytest.param(rank, where, marks=pytest.mark.deep)
            for where in ("inner", "sum 1", "sum 2", "sum 3", "sum 5")
            for rank in (0, 2)
            if (rank, where) != (0, "sum 3")
        ),
    ],
)
def test_a_worker_is_lost(tmp_path, rank, where):
    need_right(run_of(tmp_path, 3, [Fault(rank, where, 1)]), {0, 1, 2} - {rank})


@pytest.mark.deep
@pytest.mark.parametrize("where", ["inner", "sum 1", "sum 4"])
def test_a_worker_is_lost_and_another_one_comes(tmp_path, where):
    run = run_of(tmp_path, 3, [Fault(1, where, 1)], replacements=1, waits_at=2)
    need_right(run, range(3))
    assert run.values[0]["meetings"][-1][1] == 3


def make_a_mistake(folder, data):
    worker = DILOCO.Worker(data)
    crew = DILOCO.Crew(DILOCO.FolderStore(folder / "store"), 2, PATIENCE, TIMEOUT)
    worker.whole[0] = torch.ones(3, 3)
    return DILOCO.train(worker, crew, ROUNDS, DILOCO.take_round)


@pytest.mark.deep
def test_a_mistake_in_the_outer_step_is_told(tmp_path):
    error = failure(make_a_mistake, tmp_path, data(), world_size=2, replacements=0, timeout=4.0)
    assert isinstance(error, RankError)
    assert "must match the size" in str(error)


def masks_of_a_round(data):
    """Return which units the first inner step drops, and what this rank draws afterwards."""
    worker, masks = DILOCO.Worker(data), []
    worker.model[2].register_forward_pre_hook(lambda module, args: torch.ones_like(args[0]))
    worker.model[2].register_forward_hook(lambda module, args, y: masks.append(y == 0))
    worker.train_alone(dist.get_rank())
    return masks[0], torch.rand(1).item()


def test_workers_drop_units_of_their_own_and_leave_the_generator_alone():
    (one, then), (other, later) = launch_on_cpu(masks_of_a_round, data(), world_size=2).values
    assert not torch.equal(one, other)
    assert then == later  # equal seeds, as before

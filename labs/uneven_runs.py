# Built from chapters/ch10_choosing_a_strategy/labs/uneven_runs.py by `make build`.
"""The stages of labs/uneven_stages.py compared with one process, and timed; and measured links.

torchrun --nproc-per-node 4 labs/uneven_runs.py
"""

from functools import partial
from itertools import combinations

import torch
import torch.distributed as dist
from meshes import my_group
from operator_shardings import Cluster, Job, Link, mlp
from simple_ddp import now
from small_alpa import search
from tensor_parallel import whole
from uneven_stages import WIDTH, UnevenStages, draw_digits, loss_of, whole_model

# ---- Comparison with one process ------------------------------------------------------------


def compare_with_one_process(plan, hiddens, cluster, rows=16, microbatches=4, steps=2) -> float:
    """Train under a plan and in this process alone, in float64, and compare the results.

    Returns  the largest relative difference of this rank's weights and gradients, and on the last
             stage of the losses, from those of one process
    """
    from pedagogy_lib import relative_gap

    torch.set_default_dtype(torch.float64)
    make = lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9)  # noqa: E731
    alone, cut = whole_model(hiddens), whole_model(hiddens)
    engine = UnevenStages(cut, plan, cluster, rows, microbatches, make)
    optimizer, worst = make(alone.parameters()), 0.0
    batch = draw_digits(rows * microbatches)
    for _ in range(steps):
        loss = engine.step(*batch)
        optimizer.zero_grad()
        alone_loss = loss_of(alone(batch[0]), batch[1])
        alone_loss.backward()
        optimizer.step()
        worst = max(worst, loss_gap(loss, alone_loss.item(), engine))
    stage = plan[engine.pipeline.rank]
    for block, of in zip(engine.pipeline.stages[0].piece, alone[stage.first : stage.end]):
        for p, q in zip(block.parameters(), of.parameters(), strict=True):
            for part, all_of_it in ((p.detach(), q.detach()), (p.grad, q.grad)):
                worst = max(worst, relative_gap(whole(p, engine.group, part), all_of_it))
    return worst


def loss_gap(loss, alone, engine) -> float:
    """Return the relative gap of the last stage's loss, of which each of its ranks has a part."""
    total = torch.tensor(loss)
    if engine.group is not None:
        dist.all_reduce(total, group=engine.group)
    is_last = engine.pipeline.rank == engine.pipeline.ranks - 1
    return abs(total.item() / alone - 1) if is_last else 0.0


# ---- Measurements ---------------------------------------------------------------------------


def race(plans, hiddens, cluster, rows, microbatches, rounds=3) -> dict[str, list[float]]:
    """Return {name: seconds of each step, on its slowest rank} of plans that take turns.

    Products take as long as on devices of `cluster.flops`. One step before opens connections.
    """
    from pedagogy_lib import SlowProducts

    torch.set_num_threads(1)
    sgd = partial(torch.optim.SGD, lr=0.01)
    engines = {name: UnevenStages(whole_model(hiddens), plan, cluster, rows, microbatches, sgd)
               for name, plan in plans.items()}  # fmt: skip
    batch, times = draw_digits(rows * microbatches), {name: [] for name in plans}
    for engine in engines.values():
        engine.step(*batch)
    for name in [*engines] * rounds:
        dist.barrier()
        began = now()
        with SlowProducts(cluster.flops, measured=False):
            engines[name].step(*batch)
        taken = torch.tensor(now() - began)
        dist.all_reduce(taken, dist.ReduceOp.MAX)
        times[name].append(taken.item())
    return times


def rows_of_pairs(predicted, times, apart=1.1) -> list[list]:
    """Return rows on pairs of plans: how many there are, and how many take the predicted order.

    predicted  {name: seconds}
    times      result of `race`
    apart      the second row has the pairs whose predictions differ by more than this factor
    """
    from pedagogy_lib import compare_rounds

    found = []
    for quick, slow in combinations(sorted(predicted, key=predicted.get), 2):
        found.append(
            (predicted[slow] / predicted[quick], compare_rounds(times[quick], times[slow]))
        )
    rows = []
    for name, least in (("all", 0), ("predicted more than a tenth apart", apart)):
        words = [ratio.word for factor, ratio in found if factor > least]
        in_order, reverse = words.count("quicker"), words.count("slower")
        rows.append([name, len(words), in_order, reverse, len(words) - in_order - reverse])
    return rows


def measure_links(cluster, nbytes=1_000_000, times=5) -> dict[str, Link]:
    """Measure links inside a machine and across, as a ring's formula for all-reduces has them."""
    found = {}
    for name, n in (("inside", cluster.per_machine), ("across", cluster.devices)):
        groups = [list(range(k, k + n)) for k in range(0, cluster.devices, n)]
        group, seconds = my_group(groups, name), {}
        for numbers in (n, nbytes // 4):
            x, all_times = torch.zeros(numbers), []
            for _ in range(times):
                dist.barrier()
                began = now()
                dist.all_reduce(x, group=group)
                taken = torch.tensor(now() - began)
                dist.all_reduce(taken, dist.ReduceOp.MAX)
                all_times.append(taken.item())
            seconds[numbers] = min(all_times)
        latency = seconds[n] / (2 * (n - 1))
        rate = 2 * (n - 1) / n * nbytes / max(seconds[nbytes // 4] - seconds[n], 1e-9)
        found[name] = Link(latency, rate)
    return found


# ---- The program ----------------------------------------------------------------------------


def program() -> float:
    """Train under the plan of the search; return this rank's difference from one process."""
    ranks = dist.get_world_size()
    cluster = Cluster(1, ranks, 1e9, Link(1e-4, 1e9), Link(1e-4, 1e9))
    hiddens, job = [64, 64, 128, 512], Job(cluster, 32, 4)
    plan = search([mlp(WIDTH, hidden) for hidden in hiddens], job)
    return compare_with_one_process(plan, hiddens, cluster, job.rows, job.microbatches)


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, world_size=4)
    if run.rank == 0:
        is_equal = max(run.values) < 1e-12
        print(f"uneven stages on {run.world_size} ranks: as one process to 1e-12: {is_equal}")


if __name__ == "__main__":
    main()

"""torch.compile with DDP: where its graphs are cut, and what their gradients are."""

import copy

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab
from needs import without_compiler
from selection import parametrize
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import close, launch

COMPILED, SIMPLE = map(load_solved_lab, ("compiled_ddp", "simple_ddp"))


@parametrize("optimize_ddp, cap, told", [
    (True, None, "0 [1] 1 [7]"), (True, 1, "0 [1] 1 [1] 2 [1] 3 [1] 4 [1] 5 [1] 6 [1] 7 [1]"),
    (True, 2, "0 1 [2] 2 [2] 3 [2] 4 [2]"), (False, 2, "0 [2] [2] [2] [2]"),
], quick=1)  # fmt: skip
def test_graphs_end_where_buckets_do_unless_a_larger_cap_is_set(optimize_ddp, cap, told):
    run = launch(COMPILED.run_compiled, optimize_ddp, cap, world_size=2, device="cpu")
    assert {COMPILED.describe_events(events) for events, *_ in run.values} == {told}


@pytest.mark.deep
def test_no_graph_needs_a_compiler_of_cpp():
    run = launch(without_compiler, COMPILED.run_compiled, True, 2, world_size=2, device="cpu")
    assert COMPILED.describe_events(run.values[0][0]) == "0 1 [2] 2 [2] 3 [2] 4 [2]"


def test_bytes_that_start_before_the_last_graph_are_a_share():
    assert COMPILED.hidden_share(["0", 1.0, "1", 7.0]) == 1 / 8
    assert COMPILED.hidden_share(["0", 2.0, 2.0]) == 0


def compare_with_one_process(n):
    """Return whether a compiled step has one process's gradients, in float64, twice in turn."""
    COMPILED.silence_tracer()
    model = COMPILED.SmallModel().double()
    alone, ddp = copy.deepcopy(model), DistributedDataParallel(model)
    forward, found = torch.compile(ddp, backend="eager"), []
    for samples in (4 * n, 2 * n):  # another size: it is traced anew
        inputs, targets = COMPILED.draw_samples(samples)
        for each, call, batch in ((ddp, forward, SIMPLE.share_of_rank((inputs, targets))),
                                  (alone, alone, (inputs, targets))):  # fmt: skip
            each.zero_grad()
            torch.nn.functional.mse_loss(call(batch[0]), batch[1]).backward()
        found.append(all(close(p.grad, q.grad)
                         for p, q in zip(model.parameters(), alone.parameters())))  # fmt: skip
    return found, dist.get_rank()


@pytest.mark.deep
@pytest.mark.parametrize("n", [1, 3])
def test_a_compiled_step_has_the_gradients_of_one_process(n):
    values = launch(compare_with_one_process, n, world_size=n, device="cpu").values
    assert values == [([True, True], rank) for rank in range(n)]

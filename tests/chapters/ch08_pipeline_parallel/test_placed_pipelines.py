"""Schedules in other placements: their formulas, PyTorch's order, gradients of one process."""

import itertools

import cloudpickle
import in_order
import pytest
import torch.distributed as dist
from helpers import load_solved_lab
from in_order import messages_in_order
from selection import parametrize

from pedagogy_lib import check_schedule, launch, simulate
from pedagogy_lib.basics.closeness import rounding
from pedagogy_lib.basics.errors import WrongInput
from pedagogy_lib.schedules.timelines import ScheduleError

cloudpickle.register_pickle_by_value(in_order)


ZERO, PLACED, ENGINES = map(
    load_solved_lab, ("zero_bubbles", "placed_pipelines", "pipeline_engines")
)
NAMES = [*ZERO.SCHEDULES, *ZERO.TWO_COPIES]
SIZES = [(p, m) for p in (1, 2, 3, 4, 6) for m in (2 * p, 3 * p, 6 * p)]
BUBBLES = {  # what a step takes beyond 3m, in forwards, with F = I = W and m >= 2p
    "1F1B": lambda p: 3 * (p - 1), "interleaved": lambda p: 1.5 * (p - 1),
    "ZB-H1": lambda p: p - 1, "ZB-H2": lambda p: p - 1,
    "ZB-V": lambda p: (p - 1) / 2, "DualPipeV": lambda p: p - 1, "DualPipe": lambda p: p - 2,
}  # fmt: skip
KEPT = {
    "1F1B": lambda p: p, "ZB-H1": lambda p: p, "ZB-H2": lambda p: 2 * p - 1,
    "ZB-V": lambda p: p, "DualPipeV": lambda p: p + 0.5,
    "DualPipe": lambda p: p + 1,
}  # fmt: skip


@pytest.mark.parametrize("name", BUBBLES)
def test_the_papers_bubbles_come_out(name):
    sizes = [(p, m) for p, m in SIZES if name != "DualPipe" or p % 2 == 0]
    for p, m in sizes:
        one = ZERO.score_schedules([name], p, m)[name]
        assert one.copies == (2 if name == "DualPipe" else 1)
        assert one.length - 3 * m == pytest.approx(BUBBLES[name](p)), (p, m)
        if name in KEPT:
            assert one.kept == KEPT[name](p), (p, m)


@pytest.mark.parametrize("times", [ZERO.HALVES, {"F": 1.0, "I": 1.5, "W": 0.5, "B": 2.0}])
def test_the_bubble_of_pairs_is_that_of_deep_seeks_readme(times):
    """(PP / 2 - 1)(F&B + B - 3W) for PP stages, where F&B, the time of a pair, is F + B here."""
    pair = times["F"] + times["B"] + times["B"] - 3 * times["W"]
    ideal = sum(times[kind] for kind in "FIW")
    for p, m in SIZES:
        found = ZERO.score_schedules(ZERO.IN_PAIRS, p, m, times)
        assert found["DualPipeV"].length - m * ideal == pytest.approx((p - 1) * pair / 2), (p, m)
        if p % 2 == 0:
            assert found["DualPipe"].length - m * ideal == pytest.approx((p / 2 - 1) * pair)


@pytest.mark.parametrize("name", ["1F1B", "ZB-H1", "ZB-H2", "ZB-V"])
def test_blocks_of_one_action_are_simulated_as_the_bench_does(name):
    for p, m in SIZES:
        rows, stages = ZERO.rows_and_stages(name, p, m)
        alone = simulate(rows, {"F": 1.0, "B": 2.0, "I": 1.5, "W": 0.5}, stages=stages)
        assert ZERO.join_pairs(alone, stages).spans == alone.spans


@pytest.mark.parametrize("name", ["ZB-H2", "ZB-V"])
def test_in_a_long_run_there_is_no_bubble(name):
    for p, m in SIZES:
        assert ZERO.score_schedules([name], p, m)[name].further == pytest.approx(3 * m)


def is_none(name, p, m) -> bool:
    """Whether a schedule is not for so many ranks and micro-batches."""
    too_few = name.startswith("DualPipe") and m < 2 * p
    odd = name == "DualPipe" and (p % 2 or m % 2)
    return too_few or odd or (name == "interleaved" and m % p)


@pytest.mark.parametrize("name", NAMES)
def test_a_schedule_runs_or_is_refused_at_every_size(name):
    for p, m in itertools.product((1, 2, 3, 4, 5), range(1, 14)):
        assert ZERO.can_run(name, p, m) != bool(is_none(name, p, m)), (name, p, m)
        if is_none(name, p, m):
            with pytest.raises(ValueError, match="micro-batches"):
                ZERO.rows_and_stages(name, p, m)
            continue
        rows, stages = ZERO.rows_and_stages(name, p, m)
        check_schedule(rows, m, stages=stages)


PICTURE = (  # in DeepSeek's repository: 8 ranks, 20 micro-batches; the first half of the ranks
    "FFFFFFFf" + "iwf" * 3 + "FbfB" * 3 + "bfB" * 3 + "bI" + "WI" * 3 + "W",
    "FFFFFfFf" + "iwf" * 2 + "FbfB" * 4 + "bfB" * 2 + "bBiI" + "wIWI" + "WW",
    "FFFfFfFf" + "iwf" * 1 + "FbfB" * 5 + "bfB" * 1 + "bBbIiI" + "WI" + "wWW",
    "FfFfFfFf" + "FbfB" * 6 + "bBbBiIiI" + "wWwW",
)


def test_dual_pipe_is_that_of_the_authors_picture():
    rows, _ = ZERO.rows_and_stages("DualPipe", 8, 20)
    for row, letters in zip(rows, PICTURE):
        drawn = [a.kind.lower() if a.chunk else a.kind for a in row]
        assert "".join(drawn) == letters
        for letter in set(letters):
            numbers = [a.microbatch for a, drawn_as in zip(row, drawn) if drawn_as == letter]
            assert numbers == sorted(numbers)


def test_dual_pipe_is_dual_pipe_v_on_each_half_of_the_ranks():
    for p, m in SIZES:
        rows, stages = ZERO.rows_and_stages("DualPipe", 2 * p, 2 * m)
        for row, of_v in zip(rows, ZERO.rows_and_stages("DualPipeV", p, m)[0]):
            assert row == [a._replace(microbatch=a.chunk * m + a.microbatch) for a in of_v]
        mirrored = [
            [(kind, (i + m) % (2 * m), 1 - chunk) for kind, i, chunk in row] for row in rows[::-1]
        ]
        assert mirrored == rows
        assert [of_rank[::-1] for of_rank in stages[::-1]] == stages
        both = ZERO.score_schedules(["DualPipe"], 2 * p, 2 * m)["DualPipe"]
        half = ZERO.score_schedules(["DualPipeV"], p, m)[
            "DualPipeV"
        ]  # here a chunk is half of the unit
        assert (both.length, both.kept) == (2 * half.length, 2 * half.kept)
        assert both.idle == pytest.approx(half.idle)


@pytest.mark.parametrize("world_size", [2, pytest.param(4, marks=pytest.mark.deep)])
def test_the_orders_are_those_of_pytorch(world_size):
    m = 2 * world_size + 1
    run = launch(ENGINES.orders, list(ENGINES.IN_A_V), m, world_size=world_size, device="cpu")
    for name, rows in run.values[0].items():
        assert rows == ZERO.rows_and_stages(name, world_size, m)[0]


@parametrize("world_size", [2, 1, 4], quick=2)
def test_gradients_are_those_of_one_process(world_size):
    names = [name for name in NAMES if ZERO.can_run(name, world_size, 8)]
    run = launch(PLACED.gaps, names, 8, world_size=world_size, device="cpu")
    for found in run.values:
        assert max(found.values()) <= rounding(), found


def note_messages(name, microbatches):
    """Run a batch; return what this rank did, in order, as letters: r for receive, s for send."""
    done = []

    def noting(letter, do):
        return lambda *arguments, **options: (done.append(letter), do(*arguments, **options))[1]

    def around(action):
        done.append(action.kind)
        return PLACED.no_context(action)

    rows, stages = ZERO.rows_and_stages(name, dist.get_world_size(), microbatches)
    dist.recv, dist.isend = noting("r", dist.recv), noting("s", dist.isend)
    PLACED.one_batch(rows, stages, around, kind=PLACED.class_for(name))
    return "".join(done)


def test_a_pair_receives_both_inputs_then_computes_then_sends_both_results():
    run = launch(note_messages, "DualPipeV", 12, world_size=3, device="cpu")
    middle = run.values[1][len(run.values[1]) // 2 :]  # without the batch that warms up
    assert "rrFBss" in middle
    assert "FsrB" not in middle


def measure_both_orders(lab, names):
    found = []
    for one_order in (False, True):
        with messages_in_order(one_order):
            found.append(lab.gaps(names, 8))
    return found


@pytest.mark.parametrize("world_size", [2, pytest.param(4, marks=pytest.mark.deep)])
def test_messages_also_arrive_in_turn(world_size):
    """Where each pair has an order, and where each rank has: see in_order.py."""
    run = launch(
        measure_both_orders, PLACED, NAMES, world_size=world_size, device="cpu", timeout=60
    )
    for of_rank in run.values:
        assert max(max(found.values()) for found in of_rank) <= rounding()


# ---- The simulator ------------------------------------------------------------------------------


def test_a_wait_names_the_rank_and_its_chunk():
    rows = [[("F", 0, 0), ("F", 0, 1), ("B", 0, 1), ("B", 0, 0)],
            [("F", 0, 1), ("F", 0, 0), ("B", 0, 1), ("B", 0, 0)]]  # fmt: skip
    with pytest.raises(ScheduleError, match=r"rank 1 waits at F0\.1 for F0 of rank 1"):
        check_schedule(rows, stages=ZERO.place_v_stages(2))


def test_a_message_within_a_rank_takes_no_time():
    rows, stages = ZERO.rows_and_stages("ZB-V", 1, 2)
    assert simulate(rows, ZERO.HALVES, 5.0, stages=stages).seconds == 2 * 2 * 3


def test_messages_of_both_copies_take_equally_long():
    rows, stages = ZERO.rows_and_stages("DualPipe", 4, 8)
    timeline = simulate(rows, ZERO.HALVES, 0.25, stages=stages)
    assert timeline.spans == timeline.spans[::-1]
    assert timeline.chunks == 1
    assert timeline.spans[1][0][0] == 1.25


def test_a_micro_batch_goes_through_one_copy():
    rows, stages = ZERO.rows_and_stages("DualPipe", 2, 4)
    check_schedule(rows, most_kept=3, stages=stages)
    with pytest.raises(ScheduleError, match="rank 0 keeps 3 micro-batches"):
        check_schedule(rows, most_kept=2, stages=stages)
    other = [rows[0], [action._replace(chunk=1 - action.chunk) for action in rows[1]]]
    with pytest.raises(ScheduleError, match=r"rank 1 does F2, but on rank 0 .* begins on chunk 1"):
        check_schedule(other, stages=stages)
    of_one_copy = [rows[0], [action for action in rows[1] if action.chunk == 0]]
    with pytest.raises(ScheduleError, match=r"rank 1 never does F2\.1"):
        check_schedule(of_one_copy, stages=stages)
    late = [rows[0], sorted(rows[1], key=lambda action: action.chunk)]
    with pytest.raises(ScheduleError, match="nobody can go on"):
        check_schedule(late, stages=stages)


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ([[0, 1]], "for each of 2 ranks"),
        ([[0, 1], [1, 2]], "each once"),
        ([[0, 1], [0, 1]], "is a copy"),
        ([[0, 1], [1]], "is a copy"),
        ([[0], [1]], "chunk 1 occurs"),
    ],
)
def test_placements_that_are_none_are_refused(stages, said):
    rows, _ = ZERO.rows_and_stages("ZB-V", 2, 4)
    with pytest.raises(WrongInput, match=said):
        simulate(rows, stages=stages)

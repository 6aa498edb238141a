"""Interleaved schedules in groups of any size: their bubble and memory, one process's gradients."""

import itertools

import pytest
from helpers import load_solved_lab
from selection import parametrize

from pedagogy_lib import check_schedule, launch, simulate
from pedagogy_lib.basics.closeness import rounding

SCHEDULES, GROUPS = map(load_solved_lab, ("schedules", "grouped_schedules"))
SIZES = [(p, v, m) for p in (1, 2, 3, 4) for v in (1, 2, 3) for m in range(1, 3 * p + 3)]


def rows_in_groups(p, v, m, size):
    return SCHEDULES.rows_of(SCHEDULES.interleaved_in_groups, p, m, chunks=v, size=size)


def test_the_bubble_is_the_usual_one_if_every_group_has_a_micro_batch_for_each_rank():
    for p, v, m in SIZES:
        for size in range(1, m + 1):
            usual = 3 * (p - 1) / v
            enough = min(GROUPS.group_sizes(m, size)) >= p
            try:
                bubble = GROUPS.bubble_of(rows_in_groups(p, v, m, size), v)
            except ValueError as error:
                assert "nobody can go on" in str(error) and not enough
                continue
            is_usual = bubble == pytest.approx(usual)
            assert is_usual if enough or v == 1 else bubble > usual - 1e-9, (p, v, m, size)
            assert is_usual or not enough


def test_a_short_group_costs_time_with_several_chunks():
    short = [(p, v, m) for p, v, m in SIZES if p > 1 and v > 1 and m > p and m % p]
    for p, v, m in short:
        usual = 3 * (p - 1) / v
        try:
            assert GROUPS.bubble_of(rows_in_groups(p, v, m, p), v) > usual + 0.1, (p, v, m)
        except ValueError as error:
            assert "nobody can go on" in str(error)


def test_rank_0_keeps_what_the_formula_says():
    for p, v, m in SIZES:
        for size in range(p, m + 1):
            kept = GROUPS.most_kept(rows_in_groups(p, v, m, size))
            assert kept == min(2 * (p - 1) + (v - 1) * size + 1, v * m)


def test_ranks_hang_if_all_groups_have_fewer_micro_batches_than_ranks_less_one():
    for p, v in itertools.product((3, 4, 5, 6), (2, 3)):
        for size in range(1, p - 1):
            with pytest.raises(ValueError, match="nobody can go on"):
                GROUPS.bubble_of(rows_in_groups(p, v, 4 * size, size), v)
        usual = 3 * (p - 1) / v
        assert GROUPS.bubble_of(rows_in_groups(p, v, 4 * (p - 1), p - 1), v) > 3 * usual


def test_a_single_group_of_any_size_runs():
    for p, v in itertools.product((1, 2, 3, 4, 5, 6), (1, 2, 3)):
        for m in range(1, 2 * p + 1):
            check_schedule(rows_in_groups(p, v, m, m))


def test_groups_of_twice_the_ranks_hide_as_much_as_any():
    for p, share in itertools.product((2, 3, 4), (0.1, 0.2, 0.3, 0.5)):
        sizes = (p, 2 * p, 4 * p)
        smallest, twice, largest = (
            GROUPS.bubble_of(rows_in_groups(p, 2, 4 * p, size), 2, share) for size in sizes
        )
        assert smallest > twice + 0.1
        assert twice == pytest.approx(largest)


def test_a_single_group_is_breadth_first_only_forward():
    p, m, v = 4, 16, 2
    single = rows_in_groups(p, v, m, m)
    breadth = SCHEDULES.rows_of(SCHEDULES.breadth_first, p, m, chunks=v)
    for one, other in zip(single, breadth):
        forwards = [[a for a in row if a.kind == "F"] for row in (one, other)]
        assert forwards[0] == forwards[1]
    assert (GROUPS.most_kept(single) / v, GROUPS.most_kept(breadth) / v) == (11.5, 16)


def test_with_whole_groups_it_is_interleaved():
    for p, v, groups in itertools.product((1, 2, 3, 4), (2, 3), (1, 2, 3)):
        usual = SCHEDULES.rows_of(SCHEDULES.interleaved, p, groups * p, chunks=v)
        assert rows_in_groups(p, v, groups * p, None) == usual


def test_breadth_first_has_the_bubble_of_interleaved_and_keeps_everything():
    for p, v, m in SIZES:
        rows = SCHEDULES.rows_of(SCHEDULES.breadth_first, p, m, chunks=v)
        check_schedule(rows)
        assert simulate(rows).most_kept == [v * m] * p
        if m >= p:
            assert GROUPS.bubble_of(rows, v) == pytest.approx(3 * (p - 1) / v)


@parametrize("world_size", [3, 1, 2, 4], quick=1)
def test_gradients_and_loss_are_those_of_one_process(world_size):
    m = 2 * world_size + 1
    cases = [(m, world_size), (m, world_size + 1), (m, m), (2, 5), (m, "breadth-first")]
    run = launch(GROUPS.try_groups, cases, world_size=world_size, device="cpu")
    for found in run.values:
        assert max(found.values()) <= min(rounding(), 1e-12)

"""An output layer over all stages: its schedule, and the gradients of one process."""

import itertools
from functools import partial

import pytest
from helpers import load_solved_lab
from selection import parametrize

from pedagogy_lib import launch
from pedagogy_lib.basics.closeness import rounding

VOCABULARY, ORDERS = map(load_solved_lab, ("vocabulary_pipeline", "vocabulary_schedules"))
TIMES = [{"F": 1.0, "B": 2.0, "S": 1.0, "T": 0.5}, {"F": 2.0, "B": 4.0, "S": 1.5, "T": 0.75}]


@pytest.mark.parametrize("seconds", TIMES)
def test_one_more_micro_batch_keeps_the_bubble_from_growing(seconds):
    for p in (2, 3, 4, 6):
        bubbles = {
            (extra, m): ORDERS.bubble_of(*ORDERS.list_schedule(p, m, seconds, extra))
            for extra, m in itertools.product((0, 1, 2), (2 * p, 4 * p))
        }
        assert bubbles[1, 2 * p] == pytest.approx(bubbles[1, 4 * p])
        assert bubbles[1, 4 * p] == pytest.approx(bubbles[2, 4 * p])
        assert bubbles[0, 4 * p] > bubbles[0, 2 * p] + 1


def test_each_action_comes_once_and_ranks_keep_what_was_allowed():
    for p, m, extra in itertools.product((1, 2, 4), (1, 3, 9), (0, 1)):
        rows, spans = ORDERS.list_schedule(p, m, TIMES[0], extra)
        for rank, row in enumerate(rows):
            assert sorted(row) == sorted((kind, i, 0) for kind in "FBST" for i in range(m))
            assert ORDERS.most_kept(rows)[rank] <= min(m, p - rank + extra)
            assert all(a <= b for a, b in spans[rank])
            assert all(x[1] <= y[0] for x, y in itertools.pairwise(spans[rank]))


@parametrize(
    "world_size, microbatches, ignored",
    [(3, 5, False), (2, 4, True), (1, 3, False), (4, 7, True)],
    quick=2,
)
def test_loss_and_gradients_are_those_of_one_process(world_size, microbatches, ignored):
    work = partial(VOCABULARY.gap, ignored=ignored)
    run = launch(work, 37, microbatches, world_size=world_size, device="cpu")
    assert max(run.values) <= min(rounding(), 1e-12)


def test_the_ranks_send_what_the_text_says():
    """Per token: an activation and a gradient, y to all others, 2 * width + 3 numbers back."""
    p, m, h = 3, 4, 256
    rows, _ = ORDERS.list_schedule(p, m, TIMES[0])
    sizes = {"width": h, "blocks": p, "heads": 4}
    work = partial(VOCABULARY.run_step, sizes=sizes)
    sent = launch(work, rows, {}, 512, 2, world_size=p, device="cpu")["step"].sent_bytes
    tokens = 4 * 2 * m * 16
    embedded = 2 * (p - 1) / p * tokens * h  # an all-reduce
    last = tokens * (h + (p - 1) * (h + 1))
    middle = tokens * (2 * h + 2 * h + 3)
    broadcast = tokens * h  # of the embedded tokens' gradients: a tree, whose sender is rank 0
    assert sent[1] == pytest.approx(embedded + middle, rel=0.05) or sent[1] == pytest.approx(
        embedded + middle + broadcast, rel=0.05
    )
    assert sent[2] == pytest.approx(embedded + last, rel=0.05)

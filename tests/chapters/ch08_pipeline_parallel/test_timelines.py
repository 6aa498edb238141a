"""Schedules as timelines: the formulas of the papers come out, and what cannot run is refused."""

import itertools
import random
import re
import time
from types import SimpleNamespace

import pytest
from helpers import load_solved_lab

from pedagogy_lib import LaunchError
from pedagogy_lib.schedules.rules import check_schedule, text_of
from pedagogy_lib.schedules.simulations import simulate
from pedagogy_lib.schedules.timelines import ScheduleError, Timeline, count_in_flight, timeline_of

schedules = load_solved_lab("schedules")
SIZES = [(1, 1), (1, 5), (2, 2), (2, 7), (3, 1), (4, 2), (4, 8), (8, 16), (5, 3)]  # ranks, m
FOURTHS = {"F": 0.25, "B": 0.5, "I": 0.25, "W": 0.25}  # sums of these are exact


def rows_of(name, ranks, m, **options):
    return schedules.rows_of(schedules.SCHEDULES[name], ranks, m, **options)


def rows_from(*texts):
    """Rows from their texts: `F0 F0.1 B0`."""
    found = [re.findall(r"(\w)(\d+)(?:\.(\d+))?", text) for text in texts]
    return [[(kind, int(i), int(chunk or 0)) for kind, i, chunk in row] for row in found]


# ---- What the papers say -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["GPipe", "1F1B"])
@pytest.mark.parametrize(("p", "m"), SIZES)
def test_the_bubble_in_both_conventions(name, p, m):
    found = simulate(rows_of(name, p, m))
    assert found.seconds == 3 * (m + p - 1)
    assert found.busy_seconds == [3 * m] * p
    assert found.idle_share == pytest.approx((p - 1) / (m + p - 1))
    assert found.overhead == pytest.approx((p - 1) / m)


@pytest.mark.parametrize(("p", "m"), SIZES)
def test_one_micro_batch_at_a_time(p, m):
    found = simulate(rows_of("naive", p, m))
    assert found.seconds == 3 * m * p
    assert found.idle_share == pytest.approx((p - 1) / p)
    assert found.most_kept == [1] * p


@pytest.mark.parametrize(("p", "m", "chunks"), [(2, 4, 2), (4, 8, 2), (4, 12, 3), (3, 3, 4)])
def test_chunks_divide_the_bubble(p, m, chunks):
    found = simulate(rows_of("interleaved 1F1B", p, m, chunks=chunks))
    assert found.overhead == pytest.approx((p - 1) / m / chunks)


@pytest.mark.parametrize(("p", "m"), [(1, 3), (2, 4), (4, 4), (4, 8), (8, 16)])
def test_a_backward_in_halves_leaves_a_third(p, m):
    rows = rows_of("zero bubble", p, m)
    found = simulate(rows)
    assert found.overhead == pytest.approx((p - 1) / m / 3)
    assert max(found.most_kept) == min(m, p)  # as much as the first rank under 1F1B


@pytest.mark.parametrize(("p", "m"), SIZES)
def test_what_is_kept(p, m):
    assert simulate(rows_of("GPipe", p, m)).most_kept == [m] * p
    assert simulate(rows_of("1F1B", p, m)).most_kept == [min(m, p - rank) for rank in range(p)]


def test_a_large_one_is_simulated_and_checked_in_no_time():
    rows = rows_of("1F1B", 64, 512)
    began = time.process_time()
    found = simulate(rows)
    check_schedule(rows, 512, [64 - rank for rank in range(64)])
    assert time.process_time() - began < 5.0  # well under 1 on a quiet machine
    assert found.seconds == 3 * (512 + 63)


# ---- Seconds, stages and links -----------------------------------------------------------------


def test_the_slowest_stage_sets_the_pace():
    seconds = {"F": [1, 4, 1], "B": (2, 8, 2)}
    found = simulate(rows_of("GPipe", 3, 5), seconds)
    assert found.busy_seconds == [15, 60, 15]
    assert found.seconds == 1 + 5 * 4 + 1 + 2 + 5 * 8 + 2
    assert found.unit == "s" and simulate(rows_of("GPipe", 3, 5)).unit == "forwards"


def test_each_chunk_is_a_stage():
    rows = rows_from("F0 F0.1 B0.1 B0", "F0 F0.1 B0.1 B0")
    found = simulate(rows, {"F": [1, 2, 3, 4], "B": 1})
    assert found.spans[0] == [(0, 1), (3, 6), (11, 12), (13, 14)]
    assert found.spans[1] == [(1, 3), (6, 10), (10, 11), (12, 13)]


def test_a_link_delays_what_is_sent_and_its_sender_only_if_it_waits():
    rows = rows_from("F0 F1 B0 B1", "F0 F1 B0 B1")
    seconds = {"F": 1.0, "B": 1.0}
    goes_on = simulate(rows, seconds, link_seconds=3.0)
    assert goes_on.spans[0][:2] == [(0, 1), (1, 2)]
    assert goes_on.spans[1] == [(4, 5), (7, 8), (8, 9), (9, 10)]  # one after the other on the link
    assert goes_on.spans[0][2:] == [(12, 13), (15, 16)]
    waits = simulate(rows, seconds, link_seconds=3.0, waits=True)
    assert waits.spans[0][:2] == [(0, 1), (4, 5)]
    assert waits.spans[1] == [(4, 5), (8, 9), (9, 10), (13, 14)]
    assert waits.seconds == 18


def test_a_rank_alone_sends_nothing():
    rows = rows_of("interleaved 1F1B", 1, 3, chunks=2)
    assert simulate(rows, FOURTHS, 9.0, waits=True).seconds == 3 * 2 * 0.75


def test_halves_let_others_go_on_before_the_weights():
    rows = rows_from("F0 I0 W0", "F0 I0 W0")
    assert simulate(rows, {"F": 1, "I": 1, "W": 10}).spans == [
        [(0, 1), (3, 4), (4, 14)], [(1, 2), (2, 3), (3, 13)],
    ]  # fmt: skip


def test_seconds_that_are_missing_are_named():
    rows = rows_of("zero bubble", 2, 2)
    with pytest.raises(ValueError, match=r"'[IW]' is done, but `seconds` has only F, B"):
        simulate(rows, {"F": 1, "B": 2})
    with pytest.raises(ValueError, match=r"seconds\['F'\] has 1 numbers, and none for stage 1"):
        simulate(rows, {"F": [1], "I": 1, "W": 1})


def test_nothing_to_do_takes_no_time():
    found = simulate([[], []])
    assert (found.seconds, found.idle_share, found.overhead, found.most_kept) == (0, 0, 0, [0, 0])
    assert "simulated: 0 forwards; idle 0.0% of the whole" in repr(found)


def test_a_length_of_thousands_is_told_in_full():
    forwards = [schedules.Action("F", number) for number in range(17_250)]
    assert simulate([forwards]).length == "17,250 forwards"
    assert simulate([forwards], {"F": 0.01234}).length == "212.86 s"


def test_a_timeline_tells_its_figures():
    assert repr(simulate(rows_of("1F1B", 4, 8))) == (
        "simulated: 33 forwards; idle 27.3% of the whole, which is 37.5% over the ideal; "
        "at most [4, 3, 2, 1] micro-batches kept"
    )


# ---- Rules -------------------------------------------------------------------------------------

OFFENCES = {  # {the sentence: rows}
    "rank 0 does F0 twice": ["F0 F0 B0"],
    "rank 0 does B1 before F1: a backward needs what its forward has kept": ["F0 B0 B1 F1"],
    "rank 0 does B0.1 before F0.1: a backward": ["F0 B0.1 F0.1 B0"],
    "rank 1 does I0 before F0": ["F0 I0 W0", "I0 F0 W0"],
    "rank 0 does W0 before I0: the gradients of the weights need": ["F0 W0 I0"],
    "rank 0 does I0 and B0, both: I is the first half of B": ["F0 B0 I0 W0"],
    "rank 0 does B0 and I0, both: I is the first half of B": ["F0 I0 W0 B0"],
    "rank 0 does I0, but never W0": ["F0 I0"],
    "rank 0 never does F0": ["F1 B1"],
    "rank 1 never does F0": ["F0 B0", ""],
    "rank 1 never does B1": ["F0 F1 B0 B1", "F0 F1 B0"],
    "rank 0 never does F1.1": ["F0 F1 F0.1 B0.1 B0 B1"],
    "nobody can go on: rank 0 waits at B0 for B0 of rank 1; rank 1 waits at F1 for F1 of rank 0": [
        "F0 B0 F1 B1", "F0 F1 B0 B1",
    ],
    "nobody can go on: rank 0 waits at F0.1 for F0 of rank 0": ["F0.1 F0 B0.1 B0"],
    "nobody can go on: rank 1 waits at F1 for F1 of rank 0; rank 0 waits at B0 for B0 of rank 1": [
        "F0 B0 F1 B1", "F0 F1 B0 B1", "F0 F1 B1 B0",
    ],
}  # fmt: skip


@pytest.mark.parametrize("sentence", OFFENCES)
def test_each_rule_has_its_sentence(sentence):
    with pytest.raises(ScheduleError) as caught:
        check_schedule(rows_from(*OFFENCES[sentence]))
    told = str(caught.value)
    if told.startswith("nobody can go on"):  # a circle may be told from anyone in it
        assert set(told[18:].split("; ")) == set(sentence[18:].split("; "))
    else:
        assert told.startswith(sentence)


def test_how_many_micro_batches_there_are():
    rows = rows_of("GPipe", 2, 3)
    with pytest.raises(ScheduleError, match="rank 0 does F2: there are 2 micro-batches, from 0 to"):
        check_schedule(rows, 2)
    with pytest.raises(ScheduleError, match="rank 0 never does F3"):
        check_schedule(rows, 4)
    assert check_schedule(rows) is check_schedule(rows, 3) is None


def test_how_much_may_be_kept():
    check_schedule(rows_of("1F1B", 3, 5), most_kept=[3, 2, 1])
    check_schedule(rows_of("1F1B", 3, 5), most_kept=3)
    with pytest.raises(ScheduleError, match="rank 1 keeps 3 micro-batches after F2; at most 2 are"):
        check_schedule(rows_of("GPipe", 3, 5), most_kept=(9, 2, 1))


NO_ACTIONS = {
    "number 2 in the row of rank 1 is 'B0': an action is like": [[("F", 0)], [("F", 0), "B0"]],
    "number 1 in the row of rank 0 is ('X', 0)": [[("X", 0)]],
    "number 1 in the row of rank 0 is ('F', -1)": [[("F", -1)]],
    "number 1 in the row of rank 0 is ('F', 0.5)": [[("F", 0.5)]],
    "number 1 in the row of rank 0 is ('F',)": [[("F",)]],
    "number 1 in the row of rank 0 is (['F'], 0)": [[(["F"], 0)]],
    "the row of rank 0 is None: a row is a list of actions": [None],
    "the row of rank 0 is 'F0 B0'": ["F0 B0"],
    "the row of rank 0 is Action(kind='F', microbatch=0, chunk=0): a row is a list of": [
        schedules.Action("F", 0),
    ],
}


@pytest.mark.parametrize("sentence", NO_ACTIONS)
def test_what_is_no_action_is_refused(sentence):
    for function in (simulate, check_schedule):
        with pytest.raises(ScheduleError) as caught:
            function(NO_ACTIONS[sentence])
        assert str(caught.value).startswith(sentence)


def test_there_is_at_least_one_rank():
    with pytest.raises(ScheduleError, match="at least one row"):
        check_schedule([])


def test_a_rank_that_nobody_serves():
    with pytest.raises(ScheduleError) as caught:
        simulate(rows_from("F0", "F0", "F0 F1"))
    assert str(caught.value) == (
        "nobody can go on: rank 2 waits at F1 for F1 of rank 1, which is at its end"
    )


def test_texts():
    assert (text_of("F", 3), text_of("W", 0, 2)) == ("F3", "W0.2")


# ---- Schedules by chance -----------------------------------------------------------------------


def needs(rows):
    """{(rank, action): [(rank, action) before it]}, written out from what training needs."""
    ranks, found = len(rows), {}
    stages = ranks * (1 + max(chunk for row in rows for _, _, chunk in row))
    for rank, row in enumerate(rows):
        for kind, i, chunk in row:
            stage = chunk * ranks + rank
            before = {
                "F": [("F", stage - 1)],
                "B": [("F", stage), ("BI", stage + 1)],
                "I": [("F", stage), ("BI", stage + 1)],
                "W": [("I", stage)],
            }[kind]
            found[rank, (kind, i, chunk)] = [
                (other % ranks, (k, i, other // ranks))
                for k_s, other in before if 0 <= other < stages
                for k in k_s if (k, i, other // ranks) in rows[other % ranks]
            ]  # fmt: skip
    return found


def keeps_to_its_needs(timeline) -> bool:
    """Whether no action starts before what it needs has ended, nor two on a rank at a time."""
    rows = timeline.rows
    spans = {
        (rank, action): span
        for rank, row in enumerate(rows)
        for action, span in zip(row, timeline.spans[rank])
    }
    in_turn = all(
        end <= start
        for of_rank in timeline.spans
        for (_, end), (start, _) in itertools.pairwise(of_rank)
    )
    return in_turn and all(
        spans[before][1] <= spans[action][0]
        for action, others in needs(rows).items()
        for before in others
    )


def draw_valid_order(chance, rows):
    """The same actions in an order by chance in which all of them can be done."""
    waits, done = {action: set(others) for action, others in needs(rows).items()}, set()
    found = [[] for _ in rows]
    while waits:
        rank, action = chance.choice([one for one, others in waits.items() if others <= done])
        found[rank].append(action)
        done.add((rank, action))
        del waits[rank, action]
    return found


def shuffle_rows(chance, rows):
    """Some neighbours in some rows change places."""
    found = [[tuple(action) for action in row] for row in rows]
    for _ in range(chance.randint(1, 12)):
        row = chance.choice(found)
        k = chance.randrange(len(row) - 1)
        row[k], row[k + 1] = row[k + 1], row[k]
    return found


SMALL = [("1F1B", 3, 4), ("GPipe", 2, 3), ("interleaved 1F1B", 2, 4), ("zero bubble", 3, 4)]


@pytest.mark.parametrize(("name", "ranks", "m"), SMALL)
def test_what_can_be_done_in_some_order_is_never_refused(name, ranks, m):
    chance = random.Random(0)
    for _ in range(30):
        rows = draw_valid_order(chance, rows_of(name, ranks, m))
        check_schedule(rows, m)
        assert keeps_to_its_needs(simulate(rows))


@pytest.mark.parametrize(("name", "ranks", "m"), SMALL)
def test_a_shuffled_schedule_is_refused_or_can_be_done(name, ranks, m):
    chance, refused = random.Random(1), 0
    for _ in range(100):
        rows = shuffle_rows(chance, rows_of(name, ranks, m))
        try:
            check_schedule(rows, m)
        except ScheduleError:
            refused += 1
            continue
        assert keeps_to_its_needs(simulate(rows, FOURTHS, link_seconds=0.125))
        assert not [row for row in rows if count_in_flight(row)[-1] != 0]
    assert 0 < refused < 100


# ---- What was measured -------------------------------------------------------------------------


class RunStub:
    """As much of a Run as a timeline asks for: labels, and the spans of each."""

    def __init__(self, links="", **spans):
        self.labels, self.world_size = list(spans), len(next(iter(spans.values())))
        self.blocks = {label: SimpleNamespace(spans=of, links=links) for label, of in spans.items()}

    def __getitem__(self, label):
        return self.blocks[label]


def test_the_last_step_of_a_run_is_drawn():
    rows = rows_from("F0 B0", "F0 B0")
    run = RunStub(
        links="1 MB/s",
        forward=[[(1, 2), (11, 12)], [(2, 3), (12, 13)]],
        backward=[[(4, 5), (14, 15)], [(3, 4), (13, 14)]],
    )
    found = timeline_of(run, rows)
    assert isinstance(found, Timeline)
    assert found.spans == [[(0, 1), (3, 4)], [(1, 2), (2, 3)]]
    assert (found.note, found.unit) == ("measured", "s")
    assert found.conditions == ("1 MB/s",)


@pytest.mark.parametrize("texts", [["F0 F1 B0 B1"], ["F0 B0", "F0 B0"]])
def test_a_run_of_another_schedule_is_refused(texts):
    run = RunStub(forward=[[(0, 1)]], backward=[[(1, 2)]])
    with pytest.raises(LaunchError, match="were measured: run the same schedule in a pipeline"):
        timeline_of(run, rows_from(*texts))


def test_idle_shares_and_sizes_are_told_apart_only_by_most_rounds():
    emulated, sizes = map(load_solved_lab, ("emulated_pipelines", "micro_batch_sizes"))

    def rounds(*shares):
        return [SimpleNamespace(idle_share=share) for share in shares]

    turns = {
        "GPipe": rounds(0.2, 0.3, 0.25),
        "ZB-H1": rounds(0.1, 0.15, 0.12),
        "none": rounds(0, 0, 0),
    }
    assert emulated.compare_idle(turns, "ZB-H1", "GPipe").word == "quicker"
    turns["ZB-H1"] = rounds(0.1, 0.4, 0.3)
    assert emulated.compare_idle(turns, "ZB-H1", "GPipe").word == "no difference seen here"
    assert emulated.compare_idle(turns, "none", "GPipe").word == "quicker"
    times = {2: [1.0, 1.1, 0.9], 4: [1.0, 1.05, 0.95], 8: [2.0, 2.1, 1.9]}
    assert sizes.name_quickest(times) == "2 or 4 samples"
    assert sizes.name_quickest(times | {1: [0.5, 0.6, 0.4]}) == "1 sample"

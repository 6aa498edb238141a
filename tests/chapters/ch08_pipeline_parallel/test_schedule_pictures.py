"""Pipelines measured at a pace, their timelines drawn and written as traces; a button that runs."""

import json
import time

import pytest
import torch
import torch.distributed as dist
from helpers import holds_in_some_round, load_solved_lab
from helpers import launch_on_cpu as launch
from matplotlib.colors import to_rgb

from pedagogy_lib import (
    LaunchError,
    SlowLayer,
    measure,
    paced,
    plot_schedule,
    simulate,
    throttle,
    timeline_of,
)
from pedagogy_lib.pictures.schedule_pictures import COLUMNS, color_of

save_trace = load_solved_lab("traces").save_trace
GPIPE = [[("F", 0), ("F", 1), ("B", 0), ("B", 1)]] * 2  # two ranks, two micro-batches
PACE = {"F": 0.02, "B": [0.03, 0.05]}


def act(rows, around):
    """Does all actions at a pace, one after another: what a pipeline's ranks would wait for."""
    for kind, microbatch in rows[dist.get_rank()]:
        with around((kind, microbatch, 0)):
            pass


@pytest.fixture(scope="module")
def run():
    return launch(act, GPIPE, paced(PACE), world_size=2)


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_a_pace_is_kept_by_kind_and_stage(run):
    for rank, backward in enumerate(PACE["B"]):
        times = [end - start for start, end in timeline_of(run, GPIPE).spans[rank]]
        assert not [
            (took, least)
            for took, least in zip(times, [0.02, 0.02, backward, backward])
            if not took >= least
        ]


def test_a_pace_adds_no_time_of_its_own():
    def is_kept():
        spans = timeline_of(launch(act, GPIPE, paced(PACE), world_size=2), GPIPE).spans
        times = [sum(end - start for start, end in of_rank) for of_rank in spans]
        return all(took < 2 * (0.02 + each) + 0.05 for took, each in zip(times, PACE["B"]))

    assert holds_in_some_round(is_kept)


def test_without_a_pace_actions_take_what_they_take(run):
    assert run["forward"].seconds[0] >= 0.04
    free = [launch(act, GPIPE, paced(), world_size=2) for _ in range(5)]
    assert min(one["forward"].seconds[0] for one in free) < 0.04
    assert timeline_of(free[0], GPIPE).conditions == ()


def test_a_pace_for_what_is_no_kind():
    with pytest.raises(ValueError, match="kinds F, B, I, W"):
        paced({"forward": 0.02})


def test_a_measured_timeline_begins_at_0_and_says_what_was_emulated(run):
    timeline = timeline_of(run, GPIPE)
    assert min(spans[0][0] for spans in timeline.spans) == 0
    assert (timeline.note, timeline.conditions) == ("measured", ("computing emulated",))
    assert "computing emulated" in plot_schedule(timeline).alt


def test_of_several_steps_the_last_one_counts():
    def two_steps(rows, around):
        act(rows, around)
        act(rows, around)

    run = launch(two_steps, GPIPE, paced(), world_size=2)
    for rank, spans in enumerate(timeline_of(run, GPIPE).spans):
        measured = sorted(run["forward"].spans[rank] + run["backward"].spans[rank])[4:]
        lengths = [end - start for start, end in spans]
        assert lengths == pytest.approx([end - start for start, end in measured])


def test_slow_links_are_said_once():
    def step(rows, around):
        with throttle(1e6), measure("step", memory=False):
            act(rows, around)

    timeline = timeline_of(launch(step, GPIPE, paced({"F": 0.01, "B": 0.01}), world_size=2), GPIPE)
    assert sorted(timeline.conditions) == ["computing emulated", "links throttled to 1.00 MB/s"]


def test_a_run_of_another_schedule(run):
    with pytest.raises(LaunchError, match=r"rank 0 has 6 actions, but 4 were measured"):
        timeline_of(run, [[*GPIPE[0], ("F", 2), ("B", 2)]] * 2)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_layer_that_is_slow(is_late):
    def step(later):
        layer = SlowLayer(0.02, 0.03, 0.04, later)
        x = torch.ones(3, requires_grad=True)
        with measure("forward"):
            y = layer(x)
        with measure("backward"):
            (2 * y).sum().backward()
        with measure("later"):
            for do in later or ():
                do()
        return y.tolist(), x.grad.tolist(), len(later or ())

    run = launch(step, [] if is_late else None, world_size=1)
    assert run.values == [([1, 1, 1], [2, 2, 2], int(is_late))]
    assert run["forward"].seconds[0] >= 0.02
    assert run["backward"].seconds[0] >= (0.03 if is_late else 0.07)
    assert run["later"].seconds[0] >= 0.04 * is_late


# ---- Pictures -------------------------------------------------------------------------------


def test_bars_stand_where_the_timeline_says():
    (axes,) = plot_schedule(simulate(GPIPE)).figure.axes[:1]
    bars = [
        tuple(path.get_extents().intervalx)
        for bars in axes.collections
        for path in bars.get_paths()
    ]
    assert sorted(bars) == [(0, 1), (1, 2), (1, 2), (2, 3), (3, 5), (5, 7), (5, 7), (7, 9)]


def test_bars_are_numbered_and_rows_say_what_they_keep():
    figure = plot_schedule({"GPipe": simulate(GPIPE)}).figure
    assert texts(figure.axes[0]) == ["0", "1", "0", "1"] * 2
    (right,) = figure.axes[0].child_axes
    assert [label.get_text() for label in right.get_yticklabels()] == ["keeps 2", "keeps 2"]
    assert figure.axes[0].get_title(loc="left") == "GPipe"
    assert figure.axes[0].get_title(loc="right") == (
        "simulated · idle: 33.3% of the whole, 50.0% over the ideal"
    )


def test_rows_are_simulated():
    assert plot_schedule(GPIPE).alt == plot_schedule(simulate(GPIPE)).alt


def test_ideal_and_measured_share_one_scale(run):
    figure = plot_schedule({"a": simulate(GPIPE, PACE), "b": timeline_of(run, GPIPE)}).figure
    first, second = figure.axes
    assert first.get_xlim() == second.get_xlim()
    assert second.get_xlabel() == "time (ms); computing emulated"


def test_forwards_and_seconds_have_no_common_scale(run):
    with pytest.raises(LaunchError, match="give simulate\\(\\) seconds"):
        plot_schedule({"a": simulate(GPIPE), "b": timeline_of(run, GPIPE)})


def test_chunks_and_halves_have_colours_of_their_own():
    rows = [[("F", 0, 0), ("F", 0, 1), ("I", 0, 1), ("W", 0, 1), ("I", 0, 0), ("W", 0, 0)]]
    figure = plot_schedule(rows).figure
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named == [
        "forward", "forward, chunk 1", "input gradients", "input gradients, chunk 1",
        "weight gradients", "weight gradients, chunk 1", "idle",
    ]  # fmt: skip
    colors = {handle.get_facecolor() for handle in figure.legends[0].get_patches()}
    assert len(colors) == len(named)


def test_many_rows_are_lower_where_room_is_limited():
    rows = [[("F", 0)]] * 12
    heights = [plot_schedule(rows, most_inches=inches).size()[1] for inches in (None, 2.0, 20.0)]
    assert heights[1] < heights[0] == heights[2]


def test_very_many_actions_are_drawn_as_columns_of_colour():
    rows = [[("F", i) for i in range(2000)] + [("B", i) for i in range(2000)]]
    (image,) = plot_schedule(simulate(rows)).figure.axes[0].images
    picture = image.get_array()
    assert picture.shape == (1, COLUMNS, 3)
    assert picture[0, 0].tolist() == pytest.approx(to_rgb(color_of("F", 0)))
    assert picture[0, -1].tolist() == pytest.approx(to_rgb(color_of("B", 0)))


def test_nothing_to_draw():
    with pytest.raises(LaunchError, match="at least one timeline"):
        plot_schedule({})


# ---- Traces ---------------------------------------------------------------------------------


def slices(path) -> list[dict]:
    return [one for one in json.loads(path.read_text())["traceEvents"] if one["ph"] == "X"]


def test_a_timeline_as_a_trace(tmp_path):
    path = save_trace(simulate(GPIPE, {"F": 1, "B": 2}), tmp_path / "trace.json")
    found = slices(path)
    assert len(found) == 8
    assert found[0] == {
        "name": "F0", "cat": "forward", "ph": "X", "pid": 0, "tid": 0, "ts": 0.0, "dur": 1e6,
        "args": {"microbatch": 0},
    }  # fmt: skip
    names = [one for one in json.loads(path.read_text())["traceEvents"] if one["ph"] == "M"]
    assert [one["args"]["name"] for one in names] == ["rank 0", "rank 1"]


def test_a_run_as_a_trace(run, tmp_path):
    found = slices(save_trace(run, tmp_path / "trace.json"))
    assert {one["name"] for one in found} == {"forward", "backward"}
    assert len(found) == 8
    assert not [one for one in found if not (one["ts"] >= 0 and one["dur"] >= 0.02e6)]


def test_a_run_without_blocks_gives_no_trace(tmp_path):
    with pytest.raises(LaunchError, match="no measured blocks"):
        save_trace(launch(time.time, world_size=1), tmp_path / "trace.json")

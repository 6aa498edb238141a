"""What goes on at the same time: blocks measured in a second thread, and their lane in pictures."""

import threading
import time

import pytest
import torch
import torch.distributed as dist
from helpers import launch_on_cpu as launch
from matplotlib.colors import to_hex

from pedagogy_lib import LaunchError, measure, plot_timeline
from pedagogy_lib.measuring import recorder
from pedagogy_lib.pictures.rank_rows import BAR
from pedagogy_lib.pictures.style import COLORS

N_BYTES = 400_000
COMMUNICATION = COLORS["communication"].lower()


def overlap_all_reduce(memory=False, wire=None):
    """A thread sums up a tensor from the middle of "backward" to the middle of "finish"."""
    if wire:
        recorder._recorder.wire = wire
    begun, may_end = threading.Event(), threading.Event()

    def communicate():
        with measure("all_reduce", memory=False):
            dist.all_reduce(torch.ones(N_BYTES // 4))
            begun.set()
            may_end.wait()

    thread = threading.Thread(target=communicate)
    with measure("backward", memory=memory):
        kept = torch.ones(1000) + 1
        thread.start()
        begun.wait()
    time.sleep(0.05)
    with measure("finish", memory=memory):
        time.sleep(0.05)
        may_end.set()
        thread.join()
    return kept[0].item()


def measure_overlap():
    with measure("everything", memory=False):
        return overlap_all_reduce()


@pytest.fixture(scope="module")
def run():
    return launch(measure_overlap, world_size=2)


# ---- Measuring in a thread ------------------------------------------------------------------


def test_spans_of_a_thread_overlap_those_of_the_main_one(run):
    for rank in (0, 1):
        backward, finish = (run[label].spans[rank][0] for label in ("backward", "finish"))
        inside = run["all_reduce"].spans[rank][0]
        assert backward[0] < inside[0] < backward[1] < finish[0] < inside[1] < finish[1]
        assert inside[1] - inside[0] > 0.1


def test_bytes_of_a_thread_are_all_of_its_process_meanwhile(run):
    """They count in the blocks of both threads, so they must not be added up."""
    for label, expected in {"all_reduce": N_BYTES, "backward": N_BYTES, "finish": 0}.items():
        assert run[label].sent_bytes == pytest.approx([expected] * 2, rel=0.01, abs=1000)


@pytest.mark.parametrize("memory, wire", [(True, None), (True, "counted"), (False, "counted")])
def test_a_thread_beside_blocks_that_follow_memory(memory, wire):
    run = launch(overlap_all_reduce, memory, wire, world_size=2)
    assert run.values == [2.0, 2.0]
    assert run["all_reduce"].peak_bytes == [None, None]
    assert run["backward"].peak_bytes[0]["total"] == 2 * 4000
    assert len(run["backward"].memory[0]) == len(run["finish"].memory[0]) == 1
    assert run["finish"].spans[0][0][0] < run["all_reduce"].spans[0][0][1]


# ---- The picture ----------------------------------------------------------------------------


def lanes(picture):
    """The thread's bars and the others: (top, height, left, width), in the order of drawing."""
    found = {"all_reduce": [], "others": []}
    for bar in picture.figure.axes[0].patches:
        is_ours = to_hex(bar.get_facecolor()) == COMMUNICATION
        box = bar.get_y(), bar.get_height(), bar.get_x(), bar.get_width()
        found["all_reduce" if is_ours else "others"].append(box)
    return found


def test_a_lane_lies_in_its_row_under_the_other_bars(run):
    found = lanes(plot_timeline(run, below=["all_reduce"]))
    for rank, (top, height, *_) in enumerate(found["all_reduce"]):
        others = [box for box in found["others"] if abs(box[0] - rank) < 0.5]
        assert len(others) == 3
        assert rank - 0.5 < min(box[0] for box in others)
        assert max(box[0] + box[1] for box in others) < top < top + height < rank + 0.5
        assert height < 0.6 * max(box[1] for box in others)


def test_a_lane_is_on_the_same_clock(run):
    start = min(spans[0][0] for label in run.labels for spans in run[label].spans)
    found = lanes(plot_timeline(run, below=["all_reduce"]))["all_reduce"]
    for rank, (*_, left, width) in enumerate(found):
        begin, end = run["all_reduce"].spans[rank][0]
        assert left == pytest.approx((begin - start) * 1e3)
        assert width == pytest.approx((end - begin) * 1e3)


def test_bars_nest_within_their_own_lane_only(run):
    """The thread's block would be one level deeper, if "everything" contained it."""
    inside = plot_timeline(run, ["everything", "all_reduce"])
    beside = plot_timeline(run, ["everything", "all_reduce"], below=["all_reduce"])
    alone = plot_timeline(run, ["all_reduce"], below=["all_reduce"])
    heights = [lanes(picture)["all_reduce"][0][1] for picture in (inside, beside, alone)]
    assert heights[0] == pytest.approx(BAR * 0.75)
    assert heights[1] == pytest.approx(heights[2])
    assert list_texts(beside) == ["everything"] * 2 + ["all_reduce"] * 2
    assert list_texts(inside) == ["all_reduce"] * 2


def list_texts(picture):
    return [text.get_text() for text in picture.figure.axes[0].texts]


def test_without_a_lane_bars_fill_their_rows(run):
    for top, height, *_ in lanes(plot_timeline(run, ["backward", "all_reduce"]))["others"]:
        assert height == pytest.approx(BAR)
        assert top + height / 2 in (pytest.approx(0), pytest.approx(1))


def test_readers_are_told_of_the_lane(run):
    told = plot_timeline(run, below=["all_reduce"]).alt
    assert told.count("in a lane below") == 1
    assert "all_reduce took" in told
    assert "below" not in plot_timeline(run).alt


@pytest.mark.parametrize("below", [["all_gather"], "all_reduce"])
def test_only_labels_that_are_drawn_have_a_lane(run, below):
    with pytest.raises(LaunchError, match="`below` takes a list of some of these labels"):
        plot_timeline(run, below=below)

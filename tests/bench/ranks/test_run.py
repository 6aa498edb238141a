"""A `Run` adds up what its ranks report, and shows it. No processes needed."""

import copy
import html
import pickle
import re
import time

import numpy as np
import pytest

from pedagogy_lib.measuring.memory_log import KINDS
from pedagogy_lib.measuring.uses import Use
from pedagogy_lib.ranks.run import Run


def use(label, start, end, sent=0, received=0, peak=None, memory=None):
    """One use of a label, as a rank reports it. `peak` is the total; all of it is "other"."""
    used = Use(label, start, end, sent, received, memory=memory)
    if peak is not None:
        used.at_peak = dict.fromkeys(KINDS, 0) | {"other": peak}
        used.peak = used.at_peak | {"total": peak}
    return used


def run_of(*uses, values=None, wire="measured", **more):
    """A run of as many ranks as there are lists of uses, or else values."""
    values = values or [None] * len(uses)
    about = {"backend": "gloo", "devices": ["cpu"] * len(values), "seconds": 0.5} | more
    return Run(values, uses or [[]] * len(values), [""] * len(values), wire=wire, **about)


def cells_of(page) -> list[str]:
    """The text of every cell of an HTML table, as a browser shows it."""
    found = re.findall(r"<(?:td|th)\b[^>]*>(.*?)</(?:td|th)>", page)
    assert not [cell for cell in found if "<" in cell]  # a cell holds text alone
    return [html.unescape(cell) for cell in found]


def test_uses_of_a_label_add_up():
    first = use("it", 1.0, 1.5, sent=10, received=1, peak=7)
    second = use("it", 2.0, 2.25, sent=5, received=2, peak=9)
    third = use("it", 3.0, 3.0, peak=8)
    block = run_of([first, second, third], [])["it"]
    assert block.seconds == [0.75, 0]
    assert block.sent_bytes == [15, 0]
    assert block.received_bytes == [3, 0]
    assert block.spans == [[(1.0, 1.5), (2.0, 2.25), (3.0, 3.0)], []]
    assert block.peak_bytes[0]["total"] == block.peak_bytes[0]["other"] == 9
    assert block.at_peak[0] == dict.fromkeys(KINDS, 0) | {"other": 9}
    assert block.peak_bytes[1] is block.at_peak[1] is None


def test_memory_over_time_is_that_of_the_outermost_uses():
    history = np.zeros(2), np.zeros((2, len(KINDS)))
    block = run_of([use("it", 0, 1, memory=history), use("it", 2, 3)])["it"]
    assert block.memory == [[history]]


def test_many_labels_are_quickly_sorted_and_cut():
    uses = [use(f"label {number}", number, number + 1) for number in range(20_000)]
    began = time.process_time()
    run = run_of(uses, uses[::-1])
    text, page = repr(run), run._repr_html_()
    with pytest.raises(KeyError, match=r"'label 49', … and 19950 more"):
        run["label"]
    assert time.process_time() - began < 10  # in each of them, every other one: minutes
    assert run.labels == [f"label {number}" for number in range(20_000)]
    assert run["label 7"].spans == [[(7, 8)], [(7, 8)]]
    for shown in text, page:
        assert "label 49" in shown
        assert "label 50" not in shown
        assert "… and 19950 more labels (run.labels)" in shown


def test_ranks_and_labels_may_both_be_cut():
    run = run_of([use(f"{number}", 0, 1) for number in range(51)], *[[]] * 19)
    assert repr(run).endswith("… and 4 more ranks and 1 more label (run.labels)")


def test_a_value_that_cannot_be_shown():
    class Shy:
        def __repr__(self):
            raise ValueError("no")

    (row,) = run_of(values=[Shy()]).table().rows
    assert row[1] == "<Shy that cannot be shown: ValueError>"


def test_labels_come_in_the_order_in_which_any_rank_began_them():
    late = [use("b", 2, 3), use("a", 1, 9)]
    early = [use("c", 0, 1), use("b", 0.5, 1)]
    assert run_of(late, early).labels == ["c", "b", "a"]


def test_text_shows_every_rank_label_and_unit():
    block = use("my block", 0, 0.0125, sent=6_000_000, received=1_500, peak=4_100)
    text = repr(run_of([block], [use("my block", 0, 2)], values=[1.5, "two"]))
    title, heads, *rows = text.splitlines()
    assert title == "2 ranks · Gloo on the CPU · 500.0 ms · wire bytes measured"
    assert heads.split("  ")[0] == "rank"
    for quantity in ("sent", "received", "time", "peak memory"):
        assert f"my block: {quantity}" in heads
    assert "  ".join(rows[0].split()) == "0  1.5  6.00  MB  1.50  kB  12.5  ms  4.10  kB"
    assert "  ".join(rows[1].split()) == "1  'two'  0  B  0  B  2.00  s  –"


def test_page_has_the_same_cells():
    run = run_of([use("it", 0, 1, sent=2_000)], values=[3], wire="counted")
    assert cells_of(run._repr_html_()) == [
        *("", "it"),
        *("rank", "value", "sent", "received", "time", "peak memory"),
        *("0", "3", "2.00 kB", "0 B", "1.00 s", "–"),
    ]
    assert "wire bytes counted" in run._repr_html_()


def test_page_is_escaped():
    run = run_of([use("<i>label</i>", 0, 1)], values=["<b>&amp;"])
    cells = cells_of(run._repr_html_())
    assert "'<b>&amp;'" in cells
    assert "<i>label</i>" in cells


def test_a_label_of_several_lines_stays_on_one():
    run = run_of([use("two\nlines", 0, 1)])
    assert "two lines: sent" in repr(run)
    assert len(repr(run).splitlines()) == 1 + 1 + 1
    assert run["two\nlines"].seconds == [1]


def test_long_values_are_cut_and_stay_on_one_line():
    run = run_of(values=["line\n" * 50, list(range(1000))])
    for row in run.table().rows:
        assert len(row[1]) == 40
        assert row[1].endswith("…")
    assert len(repr(run).splitlines()) == 1 + 1 + 2


@pytest.mark.parametrize("world_size, rows, note", [(16, 16, ""), (20, 16, "… and 4 more ranks")])
def test_many_ranks(world_size, rows, note):
    run = run_of(values=list(range(world_size)))
    assert len(run.table().rows) == rows
    assert repr(run).endswith(note or "15")
    assert cells_of(run._repr_html_()).count("15") == 2  # rank and value
    assert "16" not in cells_of(run._repr_html_())


@pytest.mark.parametrize(
    "devices, backend, words",
    [
        (["cpu"], "gloo", "1 rank · Gloo on the CPU"),
        (["cuda:0", "cuda:1"], "nccl", "2 ranks · NCCL on 2 GPUs"),
        (["cuda:0"] * 3, "gloo", "3 ranks · Gloo on 1 GPU (shared by the ranks)"),
        (["cuda:0", "cuda:1"] * 2, "gloo", "4 ranks · Gloo on 2 GPUs (shared by the ranks)"),
    ],
)
def test_title_says_where_it_ran(devices, backend, words):
    run = run_of(values=[0] * len(devices), devices=devices, backend=backend)
    assert run.title() == f"{words} · 500.0 ms"


@pytest.mark.parametrize(
    "name, meant", [("value", "values"), ("worldsize", "world_size"), ("label", "labels")]
)
def test_a_misspelt_attribute_of_a_run_names_the_one_that_was_meant(name, meant):
    with pytest.raises(AttributeError, match=f"a Run has no '{name}': did you mean '{meant}'"):
        getattr(run_of([]), name)


def test_a_misspelt_attribute_of_a_block_names_the_one_that_was_meant():
    block = run_of([use("it", 0, 1)])["it"]
    for name, meant in {"sent": "sent_bytes", "peak": "peak_bytes", "second": "seconds"}.items():
        with pytest.raises(AttributeError, match=f"has no '{name}': did you mean '{meant}'"):
            getattr(block, name)
    with pytest.raises(AttributeError, match="a Block has no 'xyzzy'; it has at_peak, calls, "):
        block.xyzzy  # noqa: B018


def copy_by_pickle(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, copy_by_pickle])
def test_a_run_can_be_copied_and_pickled(again):
    run = again(run_of([use("it", 0, 1, sent=5)], values=[3]))
    assert run.values == [3]
    assert run["it"].sent_bytes == [5]


def test_tools_that_probe_for_attributes_find_none():
    run = run_of([])
    for name in ("_repr_png_", "_ipython_display_", "__array__", "_repr_mimebundle_"):
        assert not hasattr(run, name)

"""Pictures show what a run holds: the drawn shapes are compared with its numbers."""

import base64
import html
import re
import time
from pathlib import Path

import matplotlib.style
import numpy as np
import pytest
import torch
import torch.distributed as dist
from matplotlib import font_manager, rcParams
from matplotlib.colors import to_rgb
from PIL import Image
from torch import nn

from pedagogy_lib import (
    LaunchError,
    launch,
    measure,
    plot_against,
    plot_memory,
    plot_peak,
    plot_timeline,
)
from pedagogy_lib.basics.units import format_bytes
from pedagogy_lib.measuring.memory_log import KINDS
from pedagogy_lib.pictures import style
from pedagogy_lib.pictures.palette import COLORS as PALETTE_COLORS
from pedagogy_lib.pictures.palette import reduce_colors
from pedagogy_lib.pictures.picture_html import LEAST_WIDTH, html_of
from pedagogy_lib.pictures.style import COLORS, FONT, STYLE, colors_of, kind_of, label_ink

PNG = b"\x89PNG\r\n\x1a\n"


def step():
    model = nn.Linear(300, 200)
    optimizer = torch.optim.Adam(model.parameters())
    with measure("step"):
        with measure("forward"):
            loss = model(torch.ones(8, 300)).sum()
        with measure("backward"):
            loss.backward()
        with measure("all_reduce"):
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        with measure("optimizer"):
            optimizer.step()


@pytest.fixture(scope="module")
def run():
    return launch(step, world_size=2)


def bars(picture):
    """(row, left, width, is filled) of every bar, in the units of the axes."""
    (axes,) = picture.figure.axes
    return [
        (round(bar.get_y() + bar.get_height() / 2), bar.get_x(), bar.get_width(), bar.get_fill())
        for bar in axes.patches
    ]


@pytest.mark.parametrize(("theory", "unit"), [(4e6, "MB"), (4e9, "GB")])
def test_bytes_have_an_axis_in_a_unit_of_their_size(run, theory, unit):
    (axes,) = plot_peak(run, "step", predicted={"gradients": theory}).figure.axes
    assert axes.get_xlabel() == f"live tensors at the peak ({unit})"
    assert axes.xaxis.get_major_formatter()(theory, 0) == "4"


def test_a_timeline_has_one_bar_for_each_span_at_its_time(run):
    drawn = sorted((row, left, width) for row, left, width, _ in bars(plot_timeline(run)))
    start = min(span[0] for label in run.labels for spans in run[label].spans for span in spans)
    spans = sorted(
        (rank, (a - start) * 1e3, (b - a) * 1e3)
        for label in run.labels
        for rank in (0, 1)
        for a, b in run[label].spans[rank]
    )
    assert np.allclose(drawn, spans)


def test_a_name_that_fits_into_a_bar_is_written_there_however_late_the_bar_begins():
    def begin_late():
        time.sleep(0.5)
        with measure("forward"):
            time.sleep(0.05)

    (axes,) = plot_timeline(launch(begin_late, world_size=1)).figure.axes
    assert "forward" in [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("plot", [plot_memory, plot_peak, plot_timeline])
def test_axes_of_numbers_say_what_they_count(plot, run):
    label = [] if plot is plot_timeline else ["step"]
    figure = plot(run, *label).figure
    figure.draw_without_rendering()
    told = [axis.get_label_text() for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)
            if any(re.fullmatch(r"[\d.]+", tick.get_text()) and tick.get_visible()
                   for tick in axis.get_ticklabels())]  # fmt: skip
    assert told and all(told)


def test_a_timeline_can_show_some_blocks_only(run):
    assert len(bars(plot_timeline(run, ["forward"]))) == 2


def test_a_timeline_of_nothing_is_refused():
    with pytest.raises(LaunchError, match="no measured blocks"):
        plot_timeline(launch(lambda: None, world_size=1))


def test_the_peak_is_stacked_by_kind_up_to_the_total(run):
    predicted = {"parameters": 240_800, "gradients": 240_800, "optimizer_state": 481_608}
    picture = plot_peak(run, "step", predicted=predicted)
    ends = [left + width for row, left, width, fill in bars(picture) if fill and row == 1]
    assert max(ends) == pytest.approx(run["step"].peak_bytes[1]["total"])
    outlines = [width for row, _, width, fill in bars(picture) if not fill and row == 0]
    assert outlines == pytest.approx([240_800, 240_800, 481_608])


def test_the_peak_is_written_at_its_bar_and_the_outline_has_a_name(run):
    picture = plot_peak(run, "step", predicted={"parameters": 4e6}, outline="a full copy")
    (axes,) = picture.figure.axes
    totals = [format_bytes(peak["total"]) for peak in run["step"].peak_bytes]
    assert [text.get_text() for text in axes.texts] == totals
    assert "a full copy" in [text.get_text() for text in axes.get_legend().get_texts()]
    assert picture.alt.endswith("; a full copy parameters 4.00 MB")
    assert axes.get_xlim()[1] > 4e6


@pytest.mark.parametrize(
    ("predicted", "sentence"),
    [
        ({"paramters": 1}, r"there are no such kinds as \['paramters'\]: use parameters, "),
        (16e6, r"`predicted` takes \{kind: bytes\}, not 16000000\.0"),
    ],
)
def test_a_prediction_of_no_kind_is_refused(run, predicted, sentence):
    with pytest.raises(LaunchError, match=sentence):
        plot_peak(run, "step", predicted=predicted)


def test_measured_peaks_can_be_the_prediction(run):
    outlined = bars(plot_peak(run, "step", predicted=run["step"].at_peak[0] | {"total": 1}))
    assert [bar for bar in outlined if not bar[3]]


def test_a_picture_of_something_else_than_a_run_says_what_to_write(run):
    with pytest.raises(LaunchError, match=r"write plot_timeline\(run\), .* not one of its blocks"):
        plot_timeline(run["step"])
    for draw in (plot_memory, plot_peak):
        call = rf'write {draw.__name__}\(run, "label"\), with the run that launch\(\) returned'
        with pytest.raises(LaunchError, match=f"{call}, not 'step'"):
            draw("step", run)


def test_a_timeline_of_one_rank_says_so():
    def one():
        with measure("alone"):
            pass

    assert plot_timeline(launch(one, world_size=1)).alt.startswith("Timeline of 1 rank over")


def test_memory_over_time_is_stacked_up_to_the_peak(run):
    picture = plot_memory(run, "step")
    for rank, axes in enumerate(picture.figure.axes):
        highest = max(area.get_datalim(axes.transData).y1 for area in axes.collections)
        assert highest == pytest.approx(run["step"].peak_bytes[rank]["total"] / 1e6)


def test_memory_inside_another_block_says_why_there_is_no_picture(run):
    with pytest.raises(LaunchError, match="inside another block"):
        plot_memory(run, "forward")


def test_measured_lines_are_solid_and_predicted_ones_dashed():
    picture = plot_against([1, 2], {"a": [3, 4]}, "x", "y", predicted={"a": [5, 6]})
    dashed, solid = picture.figure.axes[0].lines
    assert list(solid.get_ydata()) == [3, 4]
    assert list(dashed.get_ydata()) == [5, 6]
    assert dashed.get_linestyle() == "--"
    assert solid.get_color() == dashed.get_color()


def test_large_numbers_on_an_axis_are_written_out():
    picture = plot_against([1.5, 2_000_000], {"a": [0.2, 3_000]}, "x", "y", logarithmic=True)
    axes = picture.figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1.5", "2,000,000"]
    assert axes.yaxis.get_major_formatter()(2000) == "2,000"


def test_many_ranks_stay_readable():
    many = launch(lambda: measure_nothing(), world_size=20)
    ticks = plot_timeline(many).figure.axes[0].get_yticks()
    assert len(ticks) <= 12


def measure_nothing():
    with measure("nothing"):
        pass


def test_every_kind_has_its_colour_and_collectives_are_communication():
    assert set(KINDS) < set(COLORS)
    assert len(set(COLORS.values())) == len(COLORS)
    assert kind_of("all-reduce of all") == kind_of("send again") == "communication"
    assert colors_of(["forward", "mine"])["forward"] == COLORS["forward"]
    assert colors_of(["mine", "yours"])["mine"] != colors_of(["mine", "yours"])["yours"]


def test_a_palette_keeps_the_colour_of_a_small_square():
    """A legend says which colour means what; sorted by pixels alone, a small one is mixed."""
    right, down = np.linspace(0, 1, 256)[None, :, None], np.linspace(0, 1, 256)[:, None, None]
    shades = np.array([0, 114, 178]) * (1 - right) + 255 * right
    shades = shades * (1 - down) + np.array([230, 159, 0]) * down
    picture = Image.fromarray(shades.astype(np.uint8))
    picture.paste((0, 158, 115), (9, 9, 19, 19))
    reduced = reduce_colors(picture)
    assert reduced.convert("RGB").getpixel((14, 14)) == (0, 158, 115)
    assert len(reduced.getcolors()) == PALETTE_COLORS + 1


@pytest.mark.parametrize("color", COLORS.values())
def test_text_on_a_colour_can_be_read(color):
    def luminance(rgb):
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted([luminance(to_rgb(color)), luminance(to_rgb(label_ink(color)))])[::-1]
    assert (light + 0.05) / (dark + 0.05) > 3


def test_a_picture_is_a_png_with_a_description(run):
    picture = plot_timeline(run)
    page = picture.html()
    source, alt = re.search(r'src="(.*?)"', page)[1], re.search(r'<img alt="(.*?)"', page)[1]
    assert base64.b64decode(source.removeprefix("data:image/png;base64,")).startswith(PNG)
    assert html.unescape(alt) == picture.alt == repr(picture)
    assert len(alt) > 40


def test_a_record_gets_a_png_file_and_a_person_gets_html(monkeypatch):
    picture = plot_against([1, 2], {"a": [1, 2]}, "x", "y")
    data, metadata = picture._repr_mimebundle_()
    assert base64.b64decode(data.pop("image/png")) == picture.png()
    assert data == {"text/plain": picture.alt}
    assert metadata == {"image/png": {"alt": picture.alt, "width": picture.size()[0]}}
    monkeypatch.setattr(style, "someone_watches", lambda: True)
    data, _ = picture._repr_mimebundle_()
    assert data == {"text/plain": picture.alt, "text/html": picture.html()}


def test_a_wide_picture_shrinks_as_long_as_its_texts_are_legible():
    picture = plot_against([1, 2], {"a": [1, 2]}, "x", "y")
    page, width = picture.html(), picture.size()[0]
    assert f"width:100%;max-width:{width}px;min-width:{LEAST_WIDTH}px" in page
    assert html_of(b"", "small", 300).count("300px") == 2


def test_a_picture_keeps_its_bytes_until_it_changes():
    """Matplotlib would draw this one with a text a pixel further when asked again."""
    picture = plot_against([1, 2], {"a": [1, 2]}, "x", "y")
    shown = picture.png()
    assert picture.png() == shown
    picture.figure.suptitle("changed")
    assert picture.png() != shown


def test_a_picture_is_drawn_the_same_twice(run):
    assert plot_timeline(run).png() == plot_timeline(run).png()


@pytest.mark.parametrize("weight", ["normal", "bold"])
def test_the_font_is_the_one_that_matplotlib_brings_along(weight):
    with matplotlib.style.context(STYLE):
        assert rcParams["font.family"] == [FONT]
        found = font_manager.findfont(font_manager.FontProperties(weight=weight))
    assert Path(found).is_relative_to(matplotlib.get_data_path())

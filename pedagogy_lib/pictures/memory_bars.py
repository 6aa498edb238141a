"""Stacked bars of the bytes in a memory, by kind."""

import math
from typing import NamedTuple

from matplotlib.patches import Patch

from ..basics.errors import need
from ..basics.units import byte_unit, format_bytes, short_bytes
from ..measuring.memory_log import KINDS
from .charts import wrap_name
from .kinds import name_of, need_kinds
from .legends import legend_above
from .style import (
    CENTERED,
    COLORS,
    INK,
    MUTED,
    Picture,
    label_ink,
    new_figure,
    tint,
    use_course_style,
)

FEW = 6  # bars; with more, the picture is wider, and their names are smaller
BAR = 0.6  # width, as a share of the room that a bar has
LEAST_PLACES = 3  # the room is divided into at least so many, so that one bar alone is no block
BARS_INCHES = 2.2  # about the height that the bars can have
MARGIN_INCHES, NAMES_INCHES = 0.8, 1.1  # about the widths to the left and right of the bars
LETTER = 0.55  # about the width, as a share of the size of the font
FAR = 4  # a limit more than so many times as high as the highest bar is not drawn
PALE = 0.22  # the share of its colour that a kind keeps if another one is highlighted
LEGEND_COLUMNS = 5


class Scale(NamedTuple):
    """The scale of a picture, in bytes: its highest bar, the upper end of the axes, their unit."""

    highest: float
    top: float
    unit: str
    size: float  # of the unit
    width: float  # of the picture, in inches
    place_inches: float  # the room that each bar and its name have


@use_course_style
def plot_stacks(
    stacks, predicted=None, limits=None, highlight=None, ylabel="memory", title=""
) -> Picture:
    """Draw a bar for each name, with its bytes stacked by kind and their total above.

    stacks     {name: {kind: bytes}}, the kinds as in `measure`; a "total" is ignored
    predicted  likewise, for some or all of these names: drawn as outlines, their total in brackets
    limits     {name: bytes}, each a dashed line; a limit that is far above all bars is only named
    highlight  a kind that keeps its colour, while the others are pale
    ylabel     a name for the bytes, to which their unit, B to TB, is added
    Raises     LaunchError if there is no bar, or for a name or a kind that does not exist
    """
    predicted, limits = predicted or {}, limits or {}
    check_bars(stacks, predicted, highlight)
    scale = scale_of(stacks, predicted, limits)
    colors = colors_with(highlight)
    figure, axes = new_figure(scale.width, 3.6)
    axes.set_ylim(0, scale.top / scale.size or 1)
    for place, (name, bar) in enumerate(stacks.items()):
        draw_stack(axes, place, bar, scale, colors, highlight)
        draw_outlines(axes, place, predicted.get(name, {}), scale)
        write_totals(axes, place, bar, predicted.get(name), scale)
    draw_limits(axes, limits, scale)
    set_places(axes, list(stacks), scale.place_inches)
    axes.set_ylabel(f"{ylabel} ({scale.unit})")
    rows = legend(axes, [*stacks.values(), *predicted.values()], colors, bool(predicted))
    axes.set_title(title, pad=13 + 15 * rows)
    told = describe_bars(stacks, predicted, limits)
    return Picture(figure, f"{title}. {ylabel[:1].upper()}{ylabel[1:]}. {told}".strip(". "))


def check_bars(stacks, predicted, highlight):
    need(stacks, "plot_stacks() takes {name of a bar: {kind: bytes}}, with at least one bar")
    strange = [name for name in predicted if name not in stacks]
    need(not strange, f"`predicted` has {strange}, of which there is no bar: {list(stacks)}")
    bars = [*stacks.values(), *predicted.values()]
    need_kinds({kind for bar in bars for kind in bar} | ({highlight} if highlight else set()))


def scale_of(stacks, predicted, limits) -> Scale:
    """Return a scale with room for the highest bar, its totals, and all limits not far above it."""
    highest = max(total_of(bar) for bar in [*stacks.values(), *predicted.values()])
    near = [size for size in limits.values() if size <= FAR * highest]
    top = max([highest * (1.22 if predicted else 1.13), *(1.06 * size for size in near)])
    width = 7.5 if len(stacks) <= FEW else 9.0
    room_inches = width - MARGIN_INCHES - NAMES_INCHES * bool(limits)
    place_inches = room_inches / max(len(stacks), LEAST_PLACES)
    return Scale(highest, top, *byte_unit(top), width, place_inches)


def total_of(bar) -> float:
    return sum(bar.get(kind, 0) for kind in KINDS)


def parts_of(bar):
    """Yield (kind, where it begins, bytes) from below, but not kinds without bytes."""
    bottom = 0
    for kind in KINDS:
        if bar.get(kind):
            yield kind, bottom, bar[kind]
            bottom += bar[kind]


def colors_with(highlight) -> dict[str, str]:
    """Return the colours of all kinds; if one is highlighted, pale ones for the others."""
    is_pale = {kind: highlight is not None and kind != highlight for kind in KINDS}
    return {kind: tint(COLORS[kind], PALE) if is_pale[kind] else COLORS[kind] for kind in KINDS}


def draw_stack(axes, place, bar, scale, colors, highlight):
    """Draw the parts of one bar, with their numbers where there is room."""
    unit_inches = BARS_INCHES / axes.get_ylim()[1]
    for kind, bottom, count in parts_of(bar):
        height, color = count / scale.size, colors[kind]
        axes.bar(place, height, BAR, bottom / scale.size, color=color, lw=0)
        text = short_bytes(count)
        is_high = height * unit_inches > 0.19
        is_wide = BAR * scale.place_inches > (len(text) + 1) * LETTER * 8 / 72
        if is_high and is_wide and highlight in (None, kind) and count < total_of(bar):
            middle = (bottom + count / 2) / scale.size
            box = {"facecolor": color, "lw": 0, "pad": 0.8}
            looks = {"fontsize": 8, "color": label_ink(color), "bbox": box}
            axes.text(place, middle, text, **CENTERED, **looks, zorder=4)  # in front of a limit


def draw_outlines(axes, place, bar, scale):
    looks = {"fill": False, "edgecolor": INK, "lw": 1.2, "zorder": 3}
    for _, bottom, count in parts_of(bar):
        axes.bar(place, count / scale.size, BAR + 0.12, bottom / scale.size, **looks)


def write_totals(axes, place, bar, predicted, scale):
    """Write the totals of a bar and of its outline above the higher of the two."""
    highest = max(total_of(bar), total_of(predicted or {}))
    lines = [(short_bytes(total_of(bar)), INK)]
    if predicted is not None:
        lines.append((f"({short_bytes(total_of(predicted))})", MUTED))
    box = {"facecolor": "white", "lw": 0, "pad": 0.6}  # a limit may lie behind it
    for line, (text, color) in enumerate(lines):
        offset = {"xytext": (0, 4 + 11 * line), "textcoords": "offset points"}
        looks = {"fontsize": 8.5, "color": color, "bbox": box, "zorder": 5}
        at = place, highest / scale.size
        axes.annotate(text, at, **offset, ha="center", va="bottom", **looks)


def draw_limits(axes, limits, scale):
    """Draw limits as lines, named on the right; write only the name of one that is far above."""
    far = {name for name, limit in limits.items() if limit > FAR * scale.highest}
    ordered = sorted(limits, key=lambda name: (name in far, limits[name]))
    ends = [1 if name in far else limits[name] / scale.top for name in ordered]
    in_axes = {"xycoords": "axes fraction", "textcoords": "axes fraction"}
    for name, end, place in zip(ordered, ends, spread(ends, gap=0.075)):
        looks = {"fontsize": 8.5, "va": "center"}
        if name in far:
            axes.annotate(f"↑ {name}", (1, end), (1.035, place), **in_axes, **looks, color=MUTED)
            continue
        axes.axhline(limits[name] / scale.size, color=INK, lw=1, ls=(0, (5, 3)), zorder=2.5)
        line = {"arrowstyle": "-", "color": INK, "lw": 0.6, "shrinkA": 1, "shrinkB": 0}
        looks |= {"color": INK, "arrowprops": line | {"relpos": (0, 0.5)}}
        axes.annotate(name, (1, end), (1.035, place), **in_axes, **looks)


def spread(places, gap) -> list[float]:
    """Return ascending places from 0 to 1, moved apart where they are closer than `gap`."""
    apart = []
    for place in places:
        apart.append(max(place, apart[-1] + gap) if apart else place)
    for index in reversed(range(len(apart))):
        ceiling = apart[index + 1] - gap if index + 1 < len(apart) else max(1, places[-1])
        apart[index] = min(apart[index], ceiling)
    return apart


def set_places(axes, names, place_inches):
    """Write a name under each bar, in lines as short as its room."""
    fontsize = 9.5 if len(names) <= FEW else 8
    letters = int(place_inches * 72 / (LETTER * fontsize))
    wrapped = [wrap_name(name, letters) for name in names]
    axes.set_xticks(range(len(names)), wrapped, fontsize=fontsize)
    middle, half = (len(names) - 1) / 2, max(len(names), LEAST_PLACES) / 2
    axes.set_xlim(middle - half, middle + half)
    axes.grid(False, axis="x")
    axes.grid(True, axis="y")


def legend(axes, bars, colors, with_outline) -> int:
    """Draw a legend of the kinds that occur, above the bars; return its number of lines."""
    present = [kind for kind in KINDS if any(bar.get(kind) for bar in bars)]
    handles = [Patch(color=colors[kind], label=name_of(kind)) for kind in present]
    if with_outline:
        handles.append(Patch(fill=False, edgecolor=INK, lw=1.2, label="(theory)"))
    rows = math.ceil(len(handles) / LEGEND_COLUMNS)
    legend_above(axes, handles, max(rows, 1))
    return rows


def describe_bars(stacks, predicted, limits) -> str:
    """Describe the bars and limits in words, with all their numbers."""
    bars = []
    for name, bar in stacks.items():
        expected = f"; theory {breakdown(predicted[name])}" if name in predicted else ""
        bars.append(f"{name}: {breakdown(bar)}{expected}")
    lines = ", ".join(f"{name} {format_bytes(count)}" for name, count in limits.items())
    return ". ".join([*bars, f"Limits: {lines}"] if limits else bars)


def breakdown(bar) -> str:
    parts = [f"{name_of(kind)} {format_bytes(count)}" for kind, _, count in parts_of(bar)]
    return format_bytes(total_of(bar)) + (f" ({', '.join(parts)})" if parts else "")

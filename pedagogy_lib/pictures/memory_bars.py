"""Stacked bars: what fills a memory, by kind."""

import math
import textwrap

from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Patch

from ..measuring.memory_log import KINDS
from .charts import in_words
from .run_plots import need
from .style import COLORS, INK, Picture, in_course_style, label_ink, new_figure

UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1))
FEW = 6  # bars; with more, the picture is wider, and their names are smaller
BAR = 0.6  # of the room that a bar has
LEAST_PLACES = 3  # the room is shared by at least so many, so that one bar alone is no block
BARS_INCHES = 2.2  # about as high as the bars can be
MARGIN_INCHES, NAMES_INCHES = 0.8, 1.1  # about as wide: what is beside the bars, left and right
LETTER = 0.55  # about as wide, of the size of the font
FAR = 4  # a limit so many times as high as the highest bar is not drawn
PALE = 0.22  # of the colour of a kind that is not highlighted
LEGEND_COLUMNS = 5
MUTED = "#5E5E5E"


@in_course_style
def plot_stacks(
    stacks, predicted=None, limits=None, highlight=None, ylabel="memory", title=""
) -> Picture:
    """One bar for each name: bytes by kind, one on top of the other, and their total above.

    stacks     {name: {kind: bytes}}, the kinds as in `measure`; a "total" is ignored
    predicted  the same, for some of these names or all: drawn as outlines, their total in brackets
    limits     {name: bytes}: a dashed line each; one that is far above all bars is only named
    highlight  a kind that keeps its colour, while the others are pale
    ylabel     what the bytes are; their unit, kB to TB, is added
    Raises     LaunchError if there is no bar, or a name or a kind that does not exist
    """
    predicted, limits = predicted or {}, limits or {}
    check_bars(stacks, predicted, highlight)
    highest = max(total_of(bar) for bar in [*stacks.values(), *predicted.values()])
    near = {name: size for name, size in limits.items() if size <= FAR * highest}
    top = max([highest * (1.22 if predicted else 1.13), *(1.06 * size for size in near.values())])
    unit, size = unit_of(top)
    width = 7.5 if len(stacks) <= FEW else 9.0
    figure, axes = new_figure(width, 3.6)
    axes.set_ylim(0, top / size or 1)
    colors = colors_with(highlight)
    room_inches = width - MARGIN_INCHES - NAMES_INCHES * bool(limits)
    place_inches = room_inches / max(len(stacks), LEAST_PLACES)
    for place, (name, bar) in enumerate(stacks.items()):
        draw_stack(axes, place, bar, size, colors, highlight, place_inches)
        draw_outlines(axes, place, predicted.get(name, {}), size)
        write_totals(axes, place, bar, predicted.get(name), size)
    draw_limits(axes, limits, near, top, size)
    set_places(axes, list(stacks), place_inches)
    axes.set_ylabel(f"{ylabel} ({unit})")
    rows = legend(axes, [*stacks.values(), *predicted.values()], colors, bool(predicted))
    axes.set_title(title, pad=13 + 15 * rows)
    told = told_of(stacks, predicted, limits)
    return Picture(figure, f"{title}. {ylabel[:1].upper()}{ylabel[1:]}. {told}".strip(". "))


def check_bars(stacks, predicted, highlight):
    need(stacks, "plot_stacks() takes {name of a bar: {kind: bytes}}, with at least one bar")
    strange = [name for name in predicted if name not in stacks]
    need(not strange, f"`predicted` has {strange}, of which there is no bar: {list(stacks)}")
    bars = [*stacks.values(), *predicted.values()]
    kinds = {kind for bar in bars for kind in bar} | ({highlight} if highlight else set())
    unknown = sorted(kinds - {*KINDS, "total"})
    need(not unknown, f"there are no such kinds as {unknown}: use {', '.join(KINDS)}")


def total_of(bar) -> float:
    return sum(bar.get(kind, 0) for kind in KINDS)


def parts_of(bar):
    """(kind, where it begins, bytes), from below; kinds without bytes are left out."""
    bottom = 0
    for kind in KINDS:
        if bar.get(kind):
            yield kind, bottom, bar[kind]
            bottom += bar[kind]


def unit_of(count) -> tuple[str, float]:
    """The largest unit that fits into a number of bytes."""
    return next(((unit, size) for unit, size in UNITS if count >= size), UNITS[-1])


def three_digits(count) -> str:
    """`16_250_000` as `16.2 MB`, `120_000_000` as `120 MB`."""
    unit, size = unit_of(float(f"{count:.3g}"))  # rounded first: 999.9 kB are 1.00 MB
    number = float(f"{count / size:.3g}")
    if unit == "B":
        return f"{number:g} B"  # bytes for each parameter, say, are no whole number
    digits = 0 if number >= 100 else 1 if number >= 10 else 2
    return f"{number:.{digits}f} {unit}"


def colors_with(highlight) -> dict[str, str]:
    """The colours of all kinds; if one is highlighted, pale ones for the others."""
    is_pale = {kind: highlight is not None and kind != highlight for kind in KINDS}
    return {kind: pale(COLORS[kind]) if is_pale[kind] else COLORS[kind] for kind in KINDS}


def pale(color) -> str:
    return to_hex([1 - PALE * (1 - part) for part in to_rgb(color)])


def draw_stack(axes, place, bar, size, colors, highlight, place_inches):
    """The parts of one bar; where there is room, with their numbers."""
    unit_inches = BARS_INCHES / axes.get_ylim()[1]
    for kind, bottom, count in parts_of(bar):
        axes.bar(place, count / size, BAR, bottom / size, color=colors[kind], lw=0)
        text = three_digits(count)
        is_high = count / size * unit_inches > 0.19
        is_wide = BAR * place_inches > (len(text) + 1) * LETTER * 8 / 72
        if is_high and is_wide and highlight in (None, kind) and count < total_of(bar):
            box = {"facecolor": colors[kind], "lw": 0, "pad": 0.8}  # in front of a limit
            axes.text(place, (bottom + count / 2) / size, text, ha="center", va="center",
                      fontsize=8, color=label_ink(colors[kind]), bbox=box, zorder=4)  # fmt: skip


def draw_outlines(axes, place, bar, size):
    for _, bottom, count in parts_of(bar):
        axes.bar(place, count / size, BAR + 0.12, bottom / size, fill=False, edgecolor=INK,
                 lw=1.2, zorder=3)  # fmt: skip


def write_totals(axes, place, bar, predicted, size):
    """Above the bar, and above its outline."""
    highest = max(total_of(bar), total_of(predicted or {}))
    lines = [(three_digits(total_of(bar)), INK)]
    if predicted is not None:
        lines.append((f"({three_digits(total_of(predicted))})", MUTED))
    for line, (text, color) in enumerate(lines):
        box = {"facecolor": "white", "lw": 0, "pad": 0.6}  # a limit may be just there
        axes.annotate(text, (place, highest / size), (0, 4 + 11 * line), ha="center", va="bottom",
                      textcoords="offset points", fontsize=8.5, color=color, bbox=box,
                      zorder=5)  # fmt: skip


def draw_limits(axes, limits, near, top, size):
    """Lines across, with their names to the right; of one that is far above, the name alone."""
    ordered = sorted(limits, key=lambda name: (name not in near, limits[name]))
    ends = [limits[name] / top if name in near else 1 for name in ordered]
    style = {"arrowstyle": "-", "color": INK, "lw": 0.6, "shrinkA": 1, "shrinkB": 0}
    for name, end, place in zip(ordered, ends, spread(ends, gap=0.075)):
        if name in near:
            axes.axhline(limits[name] / size, color=INK, lw=1, ls=(0, (5, 3)), zorder=2.5)
        axes.annotate(name if name in near else f"↑ {name}", (1, end), (1.035, place),
                      xycoords="axes fraction", textcoords="axes fraction", fontsize=8.5,
                      va="center", color=INK if name in near else MUTED,
                      arrowprops=style | {"relpos": (0, 0.5)} if name in near else None,
                      )  # fmt: skip


def spread(places, gap) -> list[float]:
    """Ascending places from 0 to 1, moved apart where they are closer than `gap`."""
    apart = []
    for place in places:
        apart.append(max(place, apart[-1] + gap) if apart else place)
    for index in reversed(range(len(apart))):
        ceiling = apart[index + 1] - gap if index + 1 < len(apart) else max(1, places[-1])
        apart[index] = min(apart[index], ceiling)
    return apart


def set_places(axes, names, place_inches):
    """A name under each bar, in lines as short as its room."""
    fontsize = 9.5 if len(names) <= FEW else 8
    letters = int(place_inches * 72 / (LETTER * fontsize))
    wrapped = ["\n".join(textwrap.wrap(in_words(str(n), letters), letters)) for n in names]
    axes.set_xticks(range(len(names)), wrapped, fontsize=fontsize)
    middle, half = (len(names) - 1) / 2, max(len(names), LEAST_PLACES) / 2
    axes.set_xlim(middle - half, middle + half)
    axes.grid(False, axis="x")
    axes.grid(True, axis="y")


def legend(axes, bars, colors, with_outline) -> int:
    """The kinds that there are, above the bars; returns in how many lines."""
    present = [kind for kind in KINDS if any(bar.get(kind) for bar in bars)]
    handles = [Patch(color=colors[kind], label=kind.replace("_", " ")) for kind in present]
    if with_outline:
        handles.append(Patch(fill=False, edgecolor=INK, lw=1.2, label="(predicted)"))
    rows = math.ceil(len(handles) / LEGEND_COLUMNS)
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), borderpad=0.2,
                ncols=math.ceil(len(handles) / max(rows, 1)) or 1, borderaxespad=0.2,
                handlelength=1.4, columnspacing=1.4)  # fmt: skip
    return rows


def told_of(stacks, predicted, limits) -> str:
    """All numbers."""
    bars = []
    for name, bar in stacks.items():
        expected = f"; predicted {breakdown(predicted[name])}" if name in predicted else ""
        bars.append(f"{name}: {breakdown(bar)}{expected}")
    lines = ", ".join(f"{name} {exact(count)}" for name, count in limits.items())
    return ". ".join([*bars, f"Limits: {lines}"] if limits else bars)


def breakdown(bar) -> str:
    parts = [f"{kind.replace('_', ' ')} {exact(count)}" for kind, _, count in parts_of(bar)]
    return exact(total_of(bar)) + (f" ({', '.join(parts)})" if parts else "")


def exact(count) -> str:
    unit, size = unit_of(count)
    return f"{count:.3g} B" if unit == "B" else f"{count / size:.2f} {unit}"

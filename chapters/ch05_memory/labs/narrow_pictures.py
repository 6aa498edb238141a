"""The picture of the numbers that formats have, on a logarithmic scale."""

import torch
from narrow_formats import OF_E2M1, list_numbers

from pedagogy_lib.basics.errors import need
from pedagogy_lib.pictures.style import COLORS, INK, Picture, new_figure, use_course_style

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "E5M2": torch.float8_e5m2,
          "E4M3": torch.float8_e4m3fn}  # fmt: skip
FINENESS = 100  # places for a line between neighbouring powers of two
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@use_course_style
def plot_numbers(lowest=-27, highest=20, title="") -> Picture:
    """Draw a line for each positive number of each format, from 2**lowest to 2**highest."""
    need(lowest < highest, "plot_numbers() takes the lower power of two first")
    rows = {name: list_numbers(dtype) for name, dtype in DTYPES.items()}
    rows["E2M1"] = torch.tensor(OF_E2M1)
    figure, axes = new_figure(7.5, 2.6)
    told = []
    for place, (name, numbers) in enumerate(rows.items()):
        powers = numbers[numbers > 0].log2()
        shown = powers[(powers >= lowest) & (powers <= highest)]
        shown = (FINENESS * shown).round().unique() / FINENESS  # what is closer shows as one
        axes.vlines(shown, place - 0.36, place + 0.36, color=COLORS["parameters"], linewidth=0.5)
        told.append(f"{name} from {2 ** powers[0].item():.2g} to {2 ** powers[-1].item():.2g}")
    axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(lowest, highest)
    ticks = range(5 * (-(-lowest // 5)), highest + 1, 5)
    axes.set_xticks(list(ticks), [f"2{str(tick).translate(RAISED)}" for tick in ticks])
    axes.set_xlabel("positive numbers, one line each")
    axes.grid(False)
    axes.set_title(title)
    return Picture(figure, f"{title}. Positive numbers of each format: {'; '.join(told)}")

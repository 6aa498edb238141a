"""The picture of the bytes that each rank of a run sent, or received."""

import numpy as np

from ..basics.errors import need
from ..basics.units import format_bytes, format_range
from .rank_rows import (
    BAR,
    bytes_along,
    draw_predicted,
    finish,
    need_run,
    rank_rows,
    write_bytes,
)
from .style import COLORS, Picture, in_course_style


@in_course_style
def plot_bytes(run, label, predicted=None, direction="sent", title="") -> Picture:
    """Bytes that each rank sent (or received) in a block.

    predicted  bytes, one number for all ranks or one for each: drawn as an outline
    direction  "sent" or "received"
    """
    need_run(run, 'plot_bytes(run, "label")')
    need(direction in ("sent", "received"), 'direction is "sent" or "received"')
    block = run[label]
    counts = block.sent_bytes if direction == "sent" else block.received_bytes
    expected = [] if predicted is None else np.broadcast_to(predicted, run.world_size)
    figure, axes = rank_rows(run.world_size, extra=1.0)
    looks = {"color": COLORS["communication"], "label": block.wire}
    axes.barh(range(run.world_size), counts, BAR, **looks)
    write_bytes(axes, counts)
    if len(expected):
        draw_predicted(axes, expected, run.world_size, label="theory")
    bytes_along(axes, max(*counts, *expected, 0), f"{direction} by each rank ({{}}), {label}")
    finish(axes, title)
    told = ", ".join(f"rank {rank} {format_bytes(count)}" for rank, count in enumerate(counts))
    more = f"; theory {format_range(expected, format_bytes)}" if len(expected) else ""
    return Picture(figure, f"Bytes {direction} in {label}: {told}{more}")

"""The right results, and the results of known mistakes."""


def blocks(layout, device, n) -> set[tuple[int, int]]:
    """Return the blocks (row, column) of an activation's n × n that a device has."""
    return {(row, column) for row in range(n) for column in range(n)
            if layout == "whole" or device == (row if layout == "samples" else column)}  # fmt: skip


def count_sent_bytes(nbytes, n, before, after) -> float:
    """Return the bytes that each device sends one way: an equal share of all that devices lack."""
    lacking = sum(len(blocks(after, d, n) - blocks(before, d, n)) for d in range(n))
    return lacking / n * nbytes / n**2


def truth(nbytes, n, before, after) -> float:
    return count_sent_bytes(nbytes, n, before, after) + count_sent_bytes(nbytes, n, after, before)


def when(case, other):
    """Return the truth, but `other` for pairs of layouts for which `case` is true."""

    def mistaken(nbytes, n, before, after):
        at = other if case(before, after) else truth
        return at(nbytes, n, before, after)

    return mistaken


def starts_whole(before, after):
    return before == "whole" != after


def ends_whole(before, after):
    return after == "whole" != before


def has_one_whole(before, after):
    return starts_whole(before, after) or ends_whole(before, after)


def swaps_dimensions(before, after):
    return {before, after} == {"samples", "features"}


STAYED = (  # costs of a layout that stays, if it is taken for another pair
    lambda x, n, *_: 2 * (n - 1) / n * x,
    lambda x, n, *_: (n - 1) / n * x,
    lambda x, n, *_: 2 * (n - 1) / n**2 * x,
    lambda x, n, *_: (n - 1) / n**2 * x,
)

MISTAKES = [
    *(("asked are bytes, and no other unit.",
       lambda x, n, a, b, factor=factor: truth(x, n, a, b) * factor)
      for factor in (1e-9, 1e-6, 1e-3, 8)),
    ("this is the forward alone. The gradient comes back the other way, and has to be "
     "resharded, too: what was cut out of a whole tensor is gathered then.", count_sent_bytes),
    ("this is the backward alone.", lambda x, n, a, b: count_sent_bytes(x, n, b, a)),
    ("from whole to a part, forward is free. Backward is not: each device has the gradient of "
     "its part, and the whole gradient is needed.",
     when(starts_whole, lambda *_: 0.0)),
    ("to whole, forward is an all-gather: only the gradient is free.",
     when(ends_whole, lambda *_: 0.0)),
    ("features are a layout such as samples: its change to whole costs as much.",
     when(lambda a, b: {a, b} == {"whole", "features"}, lambda *_: 0.0)),
    ("to whole, the gradient is whole on each device already: backward sends nothing.",
     when(ends_whole, lambda x, n, *_: 2 * (n - 1) / n * x)),
    ("with whole on one side, one direction is free: this counts two all-gathers.",
     when(has_one_whole, lambda x, n, *_: 2 * (n - 1) / n * x)),
    ("between samples and features a device keeps the part that it needs itself, and sends the "
     "n - 1 others.", when(swaps_dimensions, lambda x, n, *_: 2 * x / n)),
    ("between samples and features a device needs no whole activation: of each other device it "
     "needs 1/n of what that one has.",
     when(swaps_dimensions, lambda x, n, *_: 2 * (n - 1) / n * x)),
    ("between samples and features a device needs no whole activation: of each other device it "
     "needs 1/n of what that one has; and that for both directions.",
     when(swaps_dimensions, lambda x, n, *_: (n - 1) / n * x)),
    ("between samples and features there are n - 1 other devices: this sends to one.",
     when(swaps_dimensions, lambda x, n, *_: 2 * x / n**2)),
    ("between samples and features the gradient comes back in the same way: both directions "
     "count.", when(swaps_dimensions, lambda x, n, *_: (n - 1) / n**2 * x)),
    *(("if the layout stays, nothing is sent.", when(stays, cost))
      for stays in (lambda a, b: a == b, lambda a, b: a == b != "whole",
                    lambda a, b: a == b == "whole")
      for cost in STAYED),
    ("a device keeps its own part: it sends n - 1 parts of n in an all-gather.",
     when(has_one_whole, lambda x, n, *_: float(x))),
    ("an all-gather sends each device's part to the n - 1 others: (n - 1) / n of all.",
     when(has_one_whole, lambda x, n, *_: x / n)),
    ("n - 1 parts are sent, and a part is 1/n of the activation.",
     when(has_one_whole, lambda x, n, *_: (n - 1.0) * x)),
    ("this is what all devices send together; asked is what each one sends.",
     lambda x, n, a, b: n * truth(x, n, a, b)),
]  # fmt: skip

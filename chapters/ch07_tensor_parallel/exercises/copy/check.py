"""The entry to the parallel region: exercise Copy."""

from ..shared.regions_truth import region


def y_of(given, place):
    return given[place].x, {
        "the forward adds up, what every rank has already: all have the same x. It is the "
        "backward's work; the other way round is AllReduce": sum(of.x for of in given),
    }


def gradient_of(given, place):
    n, total = len(given), sum(of.through for of in given)
    return total, {
        "x gets no gradient: backward returns None for it": None,
        "this is the gradient that comes through this rank's part alone. x went into everybody's "
        "part, so the sum is its gradient; `total` returns it, in a new tensor":
            given[place].through,
        "the mean, not the sum. x went into every rank's part, so its gradient is the sum":
            total / n,
        "the sum is taken twice": n * total,
    }  # fmt: skip


EXERCISE = region(
    "Copy", "backward", y_of, gradient_of,
    when_right=("x as it is, nothing sent", "its gradient is the sum over these ranks"),
    touched="forward has nothing to compute: all ranks have the same x already",
    memory="a copy of x takes its memory once more, until the backward: return x as it is, or a "
    "view of it",
    sent="all ranks have the same x already: nothing has to travel",
    hints=(
        "forward has nothing to compute, and nothing to send. What will backward need?",
        "ctx.group = group, and the same for total; return x.",
        "backward: total(gradient, group) is x's gradient. One gradient for each argument of "
        "forward behind ctx: the other two are None.",
    ),
)  # fmt: skip

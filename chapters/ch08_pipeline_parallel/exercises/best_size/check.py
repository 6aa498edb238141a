"""The size of a micro-batch with which a step is shortest."""

from coursekit.kit import Formula

from .cases import BATCHES, list_valid_sizes, step_seconds
from .truth import MISTAKES, best


def format_step(call, size) -> str:
    if size not in list_valid_sizes(*call[:2]):
        return ""
    return f", which takes {step_seconds(*call, int(size)):.4g} s a step"


def differs(call, wanted, got) -> str:
    return (
        f"expected {wanted}{format_step(call, wanted)}, got {got:g}{format_step(call, got)}\n{call}"
    )


EXERCISE = Formula(
    "best_size",
    cases={case: [call] for case, call in BATCHES.items()},
    truth=best,
    right=lambda calls, sizes: (
        f"{sizes[0]:g}, a step takes {step_seconds(*calls[0], int(sizes[0])):.4g} s"
    ),
    differs=differs,
    shape="asked is the size alone, one of the keys",
    errors={"empty": "none of the sizes is left: a size divides the batch if samples % size == 0"},
    mistakes=MISTAKES,
    hints=(
        "Write a function of a size first: how long does a step take with it? Then take the "
        "best of those that are allowed.",
        "samples // size micro-batches, and the bubble: together a step lasts as long as "
        "samples // size + stages - 1 of them, each of seconds_of[size].",
        "min(sizes, key=…) gives the size for which a function is smallest; sizes are those of "
        "seconds_of with samples % size == 0.",
    ),
)  # fmt: skip

"""The gradients of one house."""

from coursekit.kit import Formula

from .truth import MISTAKES, differentiate_loss

HOUSES = [  # one prediction is above the price, one has more digits than are printed
    (3, 2, 9, 1.0, 2.0, 0.5), (4, 2.5, 7, 0.3125, -0.8125, 1.25), (0, 3, 2, -1.5, 1.25, -0.5),
]  # fmt: skip

NAMES = ("the gradient of w1", "of w2", "of b")

NEARLY = (
    "nearly right: the slope between two places is not yet the derivative at one of them. The "
    "chain rule gives it exactly"
)

THREE = "return the three numbers alone, in the order w1, w2, b: `return …, …, …`"


def explain(found, case) -> str:
    """Diagnose answers that match no mistake: another number of values, or nearly right ones."""
    got, wanted = found[case][0], EXERCISE.truth(*EXERCISE.cases[case][0])
    if len(got) != 3:
        return THREE
    near = all(abs(a - b) < 0.01 * max(map(abs, wanted)) for a, b in zip(got, wanted))
    rounded = any(round(number, 4) == number for number in got if number % 1)
    return NEARLY if near and not rounded else ""


def differs(house, wanted, got) -> str:
    if len(got) != 3:
        return f"expected 3 numbers, for {', '.join(NAMES)}; got {len(got)}"
    name, right, mine = next(x for x in zip(NAMES, wanted, got) if not EXERCISE.same(x[2], x[1]))
    return f"{name}: expected {right:.10g}, got {mine:.10g}"


EXERCISE = Formula(
    "house_gradients",
    cases={f"house {house[:2]} at {house[2]}, weights {list(house[3:])}": [house]
           for house in HOUSES},
    truth=differentiate_loss,
    right=lambda calls, values: "as autograd",
    differs=differs,
    asked="3 numbers",
    shape=THREE,
    explain=explain,
    mistakes=MISTAKES,
    hints=(
        "Call the error d = y − price. The loss is d², and its derivative by y is 2 d.",
        "y = x1·w1 + x2·w2 + b. If w1 grows by a little, y grows by x1 times as much.",
        "Chain rule: multiply 2 (y − price) by x1, by x2 and by 1.",
    ),
)  # fmt: skip

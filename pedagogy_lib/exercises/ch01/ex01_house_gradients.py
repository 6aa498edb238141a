"""The gradients of one house."""

import torch

from ..kit import Formula

HOUSES = [(3, 2, 9, 1.0, 2.0, 0.5), (4, 2.5, 7, 0.3, -0.8, 1.25), (0, 3, 2, -1.5, 0.25, -0.5)]


def by_autograd(x1, x2, price, *weights):
    w1, w2, b = (torch.tensor(w, dtype=torch.float64, requires_grad=True) for w in weights)
    error = x1 * w1 + x2 * w2 + b - price
    return [slope.item() for slope in torch.autograd.grad(error**2, (w1, w2, b))]


def error_of(x1, x2, price, w1, w2, b):
    return x1 * w1 + x2 * w2 + b - price


def by_slope(slope):
    """A wrong answer that multiplies another slope, of a house, by x1, x2 and 1."""

    def answer(*house):
        dy = slope(*house)
        return dy * house[0], dy * house[1], dy

    return answer


def differs(house, wanted, got) -> str:
    if not isinstance(got, list) or len(got) != 3:
        return f"expected three numbers, got {got}"
    names = ("w1", "w2", "b")
    name, right, mine = next((n, w, g) for n, w, g in zip(names, wanted, got) if w != g)
    return f"the gradient of {name}: expected {right:.10g}, got {mine:.10g}"


EXERCISE = Formula(
    "1.1",
    "house_gradients",
    cases={f"house {house[:2]} at {house[2]}, weights {house[3:]}": [house] for house in HOUSES},
    truth=by_autograd,
    told=lambda calls, values: "as autograd",
    differs=differs,
    shape="return the three numbers alone, in the order w1, w2, b: `return …, …, …`",
    mistakes=[
        ("these are the numbers of house 1; use the arguments",
         lambda *house: (-115.836, -38.612, -19.306)),
        ("each is half of what it should be: the derivative of a square, d², is 2 d",
         by_slope(error_of)),
        ("the sign is turned round: the error is (y − price), with the prediction first; "
         "stepping against your gradient would make the loss grow",
         by_slope(lambda *house: -2 * error_of(*house))),
        ("these are all the derivative by y: the chain rule goes on, from y to w1 by "
         "dy/dw1 = x1, and to w2 by x2", lambda *house: [2 * error_of(*house)] * 3),
        ("b is missing in your prediction: y = x1·w1 + x2·w2 + b",
         by_slope(lambda *house: 2 * error_of(*house[:5], 0))),
        ("y depends on b with a slope of 1, however large b is",
         lambda *house: (*by_autograd(*house)[:2], 2 * error_of(*house) * house[5])),
        ("you multiply by the weights; dy/dw1 is x1, what w1 is multiplied with",
         lambda *house: tuple(2 * error_of(*house) * x for x in (*house[3:5], 1))),
        ("you multiply by the squared error, the loss itself; its derivative is 2 (y − price)",
         by_slope(lambda *house: error_of(*house) ** 2)),
        ("these are the new weights after a step; asked are the gradients alone",
         lambda *house: [w - 0.001 * g for w, g in zip(house[3:], by_autograd(*house))]),
        ("all three are right, in another order: w1, w2, b is asked, and b is second here",
         lambda *house: [by_autograd(*house)[k] for k in (0, 2, 1)]),
        ("all three are right, in another order: w1, w2, b is asked, and b is first here",
         lambda *house: [by_autograd(*house)[k] for k in (2, 0, 1)]),
    ],
    hints=(
        "Call the error d = y − price. The loss is d², and its derivative by y is 2 d.",
        "y = x1·w1 + x2·w2 + b. If w1 grows by a little, y grows by x1 times as much.",
        "Chain rule: multiply 2 (y − price) by x1, by x2 and by 1.",
    ),
)  # fmt: skip

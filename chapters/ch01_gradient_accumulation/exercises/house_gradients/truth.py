"""The right results, and the results of known mistakes."""

import torch


def differentiate_loss(x1, x2, price, *weights) -> list[float]:
    w1, w2, b = (torch.tensor(w, dtype=torch.float64, requires_grad=True) for w in weights)
    loss = (x1 * w1 + x2 * w2 + b - price) ** 2
    return [slope.item() for slope in torch.autograd.grad(loss, (w1, w2, b))]


def error(x1, x2, price, w1, w2, b) -> float:
    return x1 * w1 + x2 * w2 + b - price


def slopes_of(distance, *house) -> list[float]:
    """Return the gradients as if the prediction were at this distance from the price."""
    return [2 * distance * x for x in (*house[:2], 1)]


def change_gradients(gradients_of):
    """Return a wrong function made of `gradients_of(right gradients, weights)`."""
    return lambda *house: gradients_of(differentiate_loss(*house), house[3:])


MISTAKES = [
    ("these are the numbers of house 1; use the arguments",
     lambda *house: [-115.836, -38.612, -19.306]),
    ("these are the numbers of the example; use the arguments",
     lambda *house: [-12.0, -6.0, -6.0]),
    ("the price is missing in your error, y − price", lambda x1, x2, price, *weights:
        differentiate_loss(x1, x2, 0.0, *weights)),
    ("x1 and x2 have changed places: w1 is multiplied with x1, so dy/dw1 is x1",
     change_gradients(lambda slopes, weights: [slopes[1], slopes[0], slopes[2]])),
    ("the last one has lost its 2: all three go through the derivative of the square, 2 d",
     change_gradients(lambda slopes, weights: [*slopes[:2], slopes[2] / 2])),
    ("dy/db is 1, and the chain rule goes on: multiply it by the derivative of the square",
     change_gradients(lambda slopes, weights: [*slopes[:2], 1.0])),
    ("b is a parameter like the others: if it grows by a little, y grows by as much",
     change_gradients(lambda slopes, weights: [*slopes[:2], 0.0])),
    ("the loss of one house is a square, and no mean: nothing is divided by 3",
     change_gradients(lambda slopes, weights: [slope / 3 for slope in slopes])),
    *(("this is the step that the optimizer takes; asked are the gradients, without the "
       "learning rate",
       change_gradients(lambda slopes, weights, by=by: [by * slope for slope in slopes]))
      for by in (0.001, -0.001)),
    ("each is half of what it should be: the derivative of a square, d², is 2 d",
     change_gradients(lambda slopes, weights: [slope / 2 for slope in slopes])),
    ("the sign is turned round: the error is (y − price), with the prediction first; stepping "
     "against your gradient would make the loss grow",
     change_gradients(lambda slopes, weights: [-slope for slope in slopes])),
    *(("the size of the error alone does not tell the direction: for a prediction above the "
       "price the slopes have another sign than for one below it. y − price keeps it",
       lambda *house, sign=sign: slopes_of(sign * abs(error(*house)), *house))
      for sign in (-1, 1)),
    *(("you go on from a rounded prediction, or a rounded error: what is printed has fewer "
       "digits than what is computed with",
       lambda *house, digits=digits: slopes_of(round(error(*house), digits), *house))
      for digits in range(4)),
    ("these are all the derivative by y: the chain rule goes on, from y to w1 by dy/dw1 = x1, "
     "and to w2 by x2", change_gradients(lambda slopes, weights: [slopes[2]] * 3)),
    ("b is missing in your prediction: y = x1·w1 + x2·w2 + b",
     lambda *house: differentiate_loss(*house[:5], 0.0)),
    ("y depends on b with a slope of 1, however large b is",
     change_gradients(lambda slopes, weights: [*slopes[:2], slopes[2] * weights[2]])),
    ("you multiply by the weights; dy/dw1 is x1, what w1 is multiplied with",
     change_gradients(lambda slopes, weights: [
         slopes[2] * weights[0], slopes[2] * weights[1], slopes[2]])),
    ("you multiply by the squared error, the loss itself; its derivative is 2 (y − price)",
     lambda *house: [x * error(*house) ** 2 for x in (*house[:2], 1)]),
    ("these are the new weights after a step; asked are the gradients alone",
     change_gradients(lambda slopes, weights: [
         w - 0.001 * slope for w, slope in zip(weights, slopes)])),
    ("all three are right, in another order: w1, w2, b is asked, and b is second here",
     change_gradients(lambda slopes, weights: [slopes[0], slopes[2], slopes[1]])),
    ("all three are right, in another order: w1, w2, b is asked, and b is first here",
     change_gradients(lambda slopes, weights: [slopes[2], slopes[0], slopes[1]])),
]  # fmt: skip

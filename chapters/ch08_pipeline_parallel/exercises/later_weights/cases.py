"""The cases, and the code that runs next to the answer."""

import contextlib
from dataclasses import dataclass

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from coursekit.kit.collective_exercise import make_noncontiguous
from coursekit.kit.results import outcome_of

from ..stage.cases import draw

INPUTS, OUTPUTS = 4, 3

NAMES = "weight", "bias"


@dataclass(frozen=True)
class Layer:
    """A case: a layer, its inputs and the gradients of its outputs.

    lead     the sizes of x before its last dimension
    bias     whether the layer has a bias
    frozen   the tensor that requires no gradient, if any: "x", "weight" or "bias"
    uses     how often the same weight is used, each time with another x
    reverse  whether the functions in `later` are called from the last to the first
    before   whether the weights already have a gradient
    turned   whether x and the gradient of the output are in another memory order
    hooked   whether hooks replace the saved tensors by other ones, as those of a memory meter or
             of offloading to the CPU do
    """

    lead: tuple[int, ...] = (5,)
    bias: bool = True
    frozen: str = ""
    uses: int = 1
    reverse: bool = False
    before: bool = False
    turned: bool = False
    hooked: bool = False

    def weights(self) -> dict:
        """Return {name: weight}, with None for a missing bias."""
        made = [draw(1, OUTPUTS, INPUTS), draw(2, OUTPUTS) if self.bias else None]
        found = dict(zip(NAMES, made))
        for name, weight in found.items():
            if weight is not None and self.before:
                weight.grad = torch.ones_like(weight)
            if weight is not None:
                weight.requires_grad_(name != self.frozen)
        return found

    def xs(self) -> list:
        made = [self.draw(3 + k, INPUTS) for k in range(self.uses)]
        return [x.requires_grad_(self.frozen != "x") for x in made]

    def slopes(self) -> list:
        """Return the gradients of the outputs."""
        return [self.draw(20 + k, OUTPUTS) for k in range(self.uses)]

    def draw(self, seed, width):
        x = draw(seed, *self.lead, width)
        return make_noncontiguous(x) if self.turned else x

    def hooks(self):
        if not self.hooked:
            return contextlib.nullcontext()
        return saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t)


def use(answer, place, case):
    """Run an answer's forward and backward, then the functions in `later`; return the findings."""
    (layer,), later, found = case.args, [], {"failed": None}
    weights, xs = layer.weights(), layer.xs()
    with layer.hooks():
        apply = getattr(answer.lab, answer.__name__).apply
        ys = [apply(x, *weights.values(), later) for x in xs]
        found["outputs"] = [y.detach() if isinstance(y, torch.Tensor) else y for y in ys]
        found["early"] = len(later)
        with FlopCounterMode(display=False) as flops:
            for y, slope in zip(ys, slopes := layer.slopes()):
                if isinstance(y, torch.Tensor) and y.requires_grad and y.shape == slope.shape:
                    y.backward(slope)
        of_x = 2 * sum(map(torch.numel, xs)) * OUTPUTS
        found["flops"] = max(0, flops.get_total_flops() - of_x)
        found["slope_changed"] = not all(map(torch.equal, slopes, layer.slopes()))
        found["of_xs"] = [x.grad for x in xs]
        found["at_once"] = gradients_in(weights)
        found["functions"] = len(later)
        found["has_none"] = None in later
        found["too_few"] = len(later) < layer.uses and layer.uses
        for function in later[:: -1 if layer.reverse else 1] if None not in later else []:
            outcome = outcome_of(function)
            found["failed"] = found["failed"] or (outcome if outcome.error else None)
    found["of_weights"] = gradients_in(weights)
    found["frozen"] = found["of_weights"].get(layer.frozen) is not None and layer.frozen
    found["graphs"] = [name for name, slope in found["of_weights"].items() if requires(slope)]
    return found


def gradients_in(weights) -> dict:
    """Return copies of the weights' current gradients, by name."""
    some = {name: w.grad for name, w in weights.items() if w is not None}
    return {name: None if slope is None else slope.clone() for name, slope in some.items()}


def requires(slope) -> bool:
    return slope is not None and slope.requires_grad


def read_initial_gradients(trial, place):
    (layer,) = trial.case.args
    return gradients_in(layer.weights())

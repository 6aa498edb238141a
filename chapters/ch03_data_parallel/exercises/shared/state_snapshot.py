"""A snapshot of the state that an answer must not change: modes, the seed, its arguments."""

import torch
from torch import nn

from coursekit.kit.reference_training import flat
from coursekit.kit.results import NOT_ITS_OWN

SEED = (
    "torch.manual_seed sets the generator that everything else draws from, too: after it, dropout "
    "would be the same on all ranks"
)

MODE = (
    "dropout and BatchNorm compute something else in evaluation mode. Whoever owns the model "
    "chooses its mode"
)

FROZEN = "who owns a model decides what is trained in it: frozen parameters stay frozen"

WEIGHTS = "only an optimizer's step changes weights: nobody has asked for a step here"

SILENT = (
    "DistributedDataParallel stays without communication: from now on, each rank would train on "
    "its own. What is switched off has to be switched on again, as no_sync() does at its end"
)


class StateSnapshot:
    """The state before an answer is called; `find_changes()` compares it with the state after.

    model    the model whose modes and frozen parameters are compared
    given    lists, tuples and tensors that the answer gets; parameters are compared by identity
    weights  whether the model's weights must stay the same, too
    seed     whether no random number may be drawn
    """

    def __init__(self, model=None, given=(), weights=False, seed=True):
        self.model, self.given, self.before = model, given, copy_inputs(given)
        self.looks = {"seed": torch.get_rng_state} if seed else {}
        if isinstance(model, nn.Module):
            self.looks |= {"mode": self.modes, "frozen": self.flags, "silent": self.is_silent}
            self.looks |= {"weights": lambda: flat(model.parameters())} if weights else {}
        self.saw = {name: look() for name, look in self.looks.items()}

    def modes(self):
        return [module.training for module in self.model.modules()]

    def flags(self):
        return [parameter.requires_grad for parameter in self.model.parameters()]

    def is_silent(self):
        return not getattr(self.model, "require_backward_grad_sync", True)

    def find_changes(self) -> list[tuple[str, str]]:
        """Return [(what has changed, why it must not)]."""
        looks = self.looks.items()
        found = [TOLD[name] for name, look in looks if not alike(look(), self.saw[name])]
        if not alike(self.given, self.before):
            found.append((describe_input_change(self.given, self.before), NOT_ITS_OWN))
        return found


TOLD = {
    "seed": ("the global generator of random numbers is not as it was", SEED),
    "mode": ("the model is in another mode than before: training or evaluation", MODE),
    "frozen": ("requires_grad of a parameter has changed", FROZEN),
    "silent": ("afterwards nothing is communicated any more", SILENT),
    "weights": ("the weights have changed", WEIGHTS),
}


def copy_inputs(value):
    """Copy lists, tuples and tensors, but keep parameters themselves."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(copy_inputs, value))
    is_plain = isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter)
    return value.detach().clone() if is_plain else value


def alike(now, before) -> bool:
    if isinstance(before, (list, tuple)):
        return (
            type(now) is type(before) and len(now) == len(before) and all(map(alike, now, before))
        )
    if isinstance(before, (nn.Parameter, nn.Module)):
        return now is before
    if isinstance(before, torch.Tensor):
        is_tensor = isinstance(now, torch.Tensor) and now.dtype == before.dtype
        return is_tensor and torch.equal(now, before)
    return now == before


def describe_input_change(now, before) -> str:
    for mine, was in [(now, before), *zip(now, before)]:
        if isinstance(was, list) and len(mine) < len(was):
            return f"the list that was given had {len(was)} entries, and has {len(mine)} now"
    return "what was given to it has changed"

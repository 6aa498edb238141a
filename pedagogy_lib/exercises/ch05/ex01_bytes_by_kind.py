"""What a model's states take, in the middle of a training."""

import copy
import sys
from functools import cache, partial

import torch
from torch import nn

from ...basics.closeness import close
from ..kit import Equals, Holds, never
from ..kit.alone import Alone, WarmExercise, alone, on_our_rank
from ..kit.values import NO_RETURN

KINDS = ("parameters", "gradients", "optimizer_state")
THREE_KINDS = (
    'return a dict of three numbers, with the keys "parameters", "gradients" and "optimizer_state"'
)


# ---- States -------------------------------------------------------------------------------------


class Several(nn.Module):
    """Parameters of every sort: tied, frozen, of another dtype, not used; and a buffer."""

    def __init__(self, dtype=torch.float32, frozen=False, unused=False, last=None):
        super().__init__()
        self.letters = nn.Embedding(7, 5, dtype=dtype)
        self.scores = nn.Linear(5, 7, bias=False, dtype=dtype)
        self.scores.weight = self.letters.weight
        self.last = nn.Linear(7, 3, dtype=last or dtype).requires_grad_(not frozen)
        self.unused = nn.Parameter(torch.ones(11, dtype=dtype)) if unused else None
        self.register_buffer("counts", torch.zeros(13))

    def forward(self, letters):
        return self.last(self.scores(self.letters(letters)).to(self.last.weight.dtype))


MODELS = {
    "a linear layer": lambda: nn.Linear(5, 3),
    "tied weights and a buffer": Several,
    "a frozen layer, a parameter without gradient": lambda: Several(frozen=True, unused=True),
    "float64 and a frozen layer": lambda: Several(torch.float64, frozen=True),
    "bfloat16, the last layer in float32": lambda: Several(torch.bfloat16, last=torch.float32),
}
OPTIMIZERS = {
    "Adam": torch.optim.Adam,
    "SGD": partial(torch.optim.SGD, lr=0.1),
    "SGD with momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "AdamW with amsgrad": partial(torch.optim.AdamW, amsgrad=True),
    "Adagrad": torch.optim.Adagrad,
}
STATES = [
    ("a linear layer", "Adam", "nothing done yet"),
    ("a linear layer", "Adam", "after a backward, and the weight frozen since"),
    ("a linear layer", "Adam", "after a step"),
    ("a linear layer", "Adam", "after a step and zero_grad()"),
    ("tied weights and a buffer", "SGD", "after a step"),
    ("tied weights and a buffer", "SGD with momentum", "after a step"),
    ("tied weights and a buffer", "Adam", "after a step"),
    ("a frozen layer, a parameter without gradient", "Adam", "after a step"),
    ("float64 and a frozen layer", "AdamW with amsgrad", "after a step"),
    ("bfloat16, the last layer in float32", "Adam", "after a step"),
    ("a linear layer", "Adagrad", "nothing done yet"),
]


# ---- On a rank ---


def made(model, optimizer, done) -> tuple:
    """A model and its optimizer, in such a state."""
    model = MODELS[model]()
    dims = (2,) if optimizer == "SGD" else (2, 1)  # it is not given the biases
    groups = [{"params": [p for p in model.parameters() if p.dim() == dim]} for dim in dims]
    optimizer = OPTIMIZERS[optimizer](groups)
    if done != "nothing done yet":
        inputs = torch.ones(2, 5) if isinstance(model, nn.Linear) else torch.tensor([1, 2])
        model(inputs).float().square().sum().backward()
    if "step" in done:
        optimizer.step()
    if "zero_grad" in done:
        optimizer.zero_grad()
    if "frozen" in done:
        next(model.parameters()).requires_grad_(False)
    return model, optimizer


def look(answer, *state):
    model, optimizer = made(*state)
    before = copy.deepcopy(tensors_of(model, optimizer))
    got = answer(model, optimizer)
    after = tensors_of(model, optimizer)
    return {
        "bytes": as_numbers(got),
        "changed": [kind for kind in KINDS if not close(after[kind], before[kind])],
    }


# ---- What is known of it ---


def known_of(case, place) -> dict:
    return known_of_all()[case.args]


@cache
def known_of_all() -> dict:
    return on_our_rank(look_by_ourselves)


def look_by_ourselves() -> dict:
    found = {}
    for state in STATES:
        model, optimizer = made(*state)
        truth = {kind: bytes_in(some) for kind, some in tensors_of(model, optimizer).items()}
        found[state] = {"truth": truth, "mistakes": mistakes_in(model, optimizer)}
    return found


def as_numbers(value):
    """A dict with floats, if it is one with numbers; else a text that shows the value."""
    try:
        return {str(kind): float(count) for kind, count in value.items()}
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None if value is None else f"{value!r:.60}"


def tensors_of(model, optimizer) -> dict[str, list]:
    return {
        "parameters": list(model.parameters()),
        "gradients": [p.grad for p in model.parameters() if p.grad is not None],
        "optimizer_state": [x for of in optimizer.state.values() for x in of.values()],
    }


def bytes_in(tensors) -> int:
    """The truth: each storage once."""
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage() for x in tensors}
    return sum(storage.nbytes() for storage in storages.values())


# ---- What is not right ---


def nbytes(tensors) -> int:
    return sum(x.nbytes for x in tensors if x is not None)


def mistakes_in(model, optimizer) -> dict[str, dict]:
    parameters = list(model.parameters())
    by_name = [p for _, p in model.named_parameters(remove_duplicate=False)]  # a tied one twice
    trained = [p for p in parameters if p.requires_grad]
    given = [p for group in optimizer.param_groups for p in group["params"]]
    tensors = tensors_of(model, optimizer)
    kept = [list(state.values()) for state in optimizer.state.values()]
    named = [x for p in by_name for x in optimizer.state.get(p, {}).values()]
    first_size = parameters[0].element_size()
    right = {kind: nbytes(some) for kind, some in tensors.items()}
    wrong = {
        "parameters": {
            "a frozen parameter is missing: it is not trained, and is in memory all the same":
                nbytes(trained),
            "these are the parameters that the optimizer was given; another one is in memory all "
            "the same": nbytes(given),
            "a tied parameter counts twice: it has two names in the model, and one memory":
                nbytes(by_name),
            "buffers are counted as well: model.state_dict() and model.buffers() have them, and "
            "they are no parameters": nbytes([*parameters, *model.buffers()]),
            "model.state_dict() has buffers, too, and a tied parameter under both of its names":
                nbytes(model.state_dict().values()),
        },
        "gradients": {
            "this is a gradient for each parameter, whether it has one now or not: look at "
            "`.grad`, which is None as long as no memory is taken": nbytes(parameters),
            "the gradient of a frozen parameter is missing: one that came before it was frozen "
            "stays until it is set to None": nbytes(p.grad for p in trained),
            "these are the gradients of the parameters that the optimizer was given; others may "
            "have one, too": nbytes(p.grad for p in given),
            "a tied parameter's gradient counts twice: it has two names, and one `.grad`":
                nbytes(p.grad for p in by_name),
        },
        "optimizer_state": {
            "Adam's two numbers for each parameter are right; what else does its state have? It "
            "counts the steps, for each parameter, in a tensor: 4 bytes":
                nbytes(x for x in tensors["optimizer_state"] if x.dim()),
            "this is two numbers for each parameter, the rule for Adam. What is kept depends on "
            "the optimizer and on the moment: look into optimizer.state": 2 * nbytes(parameters),
            "this is two numbers for each parameter that is trained, the rule for Adam. What is "
            "kept depends on the optimizer and on the moment: look into optimizer.state":
                2 * nbytes(trained),
            "this is as much as the parameters: does it count those in param_groups? They are the "
            "model's own. Or is a number taken for each? Look into optimizer.state":
                nbytes(parameters),
            "this is the state of one parameter alone; optimizer.state has one for each":
                nbytes((kept or [[]])[0]),
            "for each parameter only the first tensor is counted: a state may have several":
                nbytes(next(iter(of_one), None) for of_one in kept),
            "a tied parameter's state counts twice: it has two names, and one state":
                nbytes(named),
        },
    }  # fmt: skip
    of_any_kind = {
        "4 bytes are taken for each number; a float64 has 8, a bfloat16 has 2: x.nbytes knows":
            lambda x: 4 * x.numel(),
        "these are the numbers, not their bytes: x.nbytes": lambda x: x.numel(),
        "all parameters are taken to have the dtype of the first one: ask each tensor":
            lambda x: first_size * x.numel(),
        "this is the number of tensors, not their bytes": lambda x: 1,
        "these are millions of bytes: give the bytes": lambda x: x.nbytes / 1e6,
        "these are bits": lambda x: 8 * x.nbytes,
        "sys.getsizeof() tells how large a Python object is, and not the memory of its numbers":
            sys.getsizeof,
        "sys.getsizeof() of a storage counts the Python object as well: nbytes() does not":
            lambda x: sys.getsizeof(x.untyped_storage()),
    }  # fmt: skip
    found = {why: right | {kind: x} for kind in wrong for why, x in wrong[kind].items()}
    numbers = sum(p.numel() for p in parameters)
    found[
        "this is the rule of 2, 2 and 12 bytes for each parameter, for one way of training. Here "
        "the tensors say what they take"
    ] = dict(zip(KINDS, (2 * numbers, 2 * numbers, 12 * numbers)))
    for why, size in of_any_kind.items():
        found[why] = {kind: sum(map(size, some)) for kind, some in tensors.items()}
    return found


EXERCISE = WarmExercise(
    "5.1",
    "bytes_by_kind",
    cases=[Alone(", ".join(state), look, state) for state in STATES],
    work=alone,
    known=known_of,
    facts=[
        Holds("bytes", lambda got: isinstance(got, dict), "it returned {}",
              lambda trial, place: NO_RETURN if trial[place].bytes is None else THREE_KINDS),
        Holds("bytes", lambda got: set(got) == set(KINDS),
              lambda got: f"the keys are {', '.join(got) or 'none'}", THREE_KINDS),
        never("changed", lambda kinds: f"afterwards the {kinds[0]} are not as they were",
              "only look: the function is to leave the model and its optimizer as they are"),
        Equals("bytes", lambda trial, place: trial[place].truth,
               lambda trial, place: trial[place].mistakes, "the number of bytes"),
    ],
    told=lambda trial: f"{' + '.join(f'{n:,}' for n in trial[0].truth.values())} bytes",
    errors={
        "'NoneType' object": "a `.grad` is None where no gradient has come yet, or where none "
        "will: it takes no bytes, so pass over it",
        "KeyError": "the optimizer has no such entry: before its first step there may be none, a "
        "parameter without a gradient has none, and each kind of optimizer keeps other things. Go "
        "through what there is: optimizer.state.values(), and the values of each of these",
        "'dict' object has no attribute": "optimizer.state has a dict for each parameter: {name: "
        "tensor}. Go through the values of each of them",
    },
    hints=(
        "Every tensor knows its bytes: x.nbytes. Of which tensors does each kind consist?",
        "model.parameters() has each parameter once, also a tied one. Its gradient is "
        "parameter.grad, or None.",
        "optimizer.state has a dict for each parameter that has been stepped: exp_avg and so "
        "on. Some optimizers keep other things there than tensors.",
        "for kept in optimizer.state.values(): for x in kept.values(): count x.nbytes, if "
        "torch.is_tensor(x).",
    ),
)  # fmt: skip

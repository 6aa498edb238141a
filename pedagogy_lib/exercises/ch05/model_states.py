"""What model states take (5.1), and micro-batches that fit into what is left (5.7)."""

import contextlib
import copy

import torch
from torch import nn

from ...basics.errors import HangError
from ...course.checking import Wrong, try_on_ranks
from ...measuring.bytes_of_calls import tensors_in
from ..kit.outcomes import NO_RETURN, Outcome, number_in, outcome_of
from ..kit.trials import same
from ..kit.warming import warm_up

# ---- What a call came to -----------------------------------------------------------------------


# ---- 5.1: bytes by kind ------------------------------------------------------------------------

KINDS = ("parameters", "gradients", "optimizer_state")


class Several(nn.Module):
    """Parameters of every sort: tied, frozen, of another dtype, not used; and a buffer.

    frozen, unused  whether there is one
    last            dtype of the last layer
    """

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


def plain():
    return nn.Linear(5, 3)


def adam(model):
    return torch.optim.Adam(model.parameters())


def momentum(model):
    """The biases in a group of their own."""
    biases = [p for p in model.parameters() if p.dim() == 1]
    others = [p for p in model.parameters() if p.dim() > 1]
    return torch.optim.SGD([{"params": biases}, {"params": others}], lr=0.1, momentum=0.9)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def adagrad(model):
    return torch.optim.Adagrad(model.parameters())


def amsgrad(model):
    """Of the trainable parameters alone."""
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], amsgrad=True)


# {case: (model, optimizer, what is done with them)}
STATES = {
    "a linear layer, Adam, nothing done yet": (plain, adam, ""),
    "Adam, after a backward": (plain, adam, "backward"),
    "Adam, after a step": (plain, adam, "backward step"),
    "Adam, after a step and zero_grad()": (plain, adam, "backward step zero_grad"),
    "tied weights and a buffer, SGD, after a step": (Several, sgd, "backward step"),
    "tied, SGD with momentum in two groups, after a step": (Several, momentum, "backward step"),
    "tied, Adam, after a step": (Several, adam, "backward step"),
    "a frozen layer, a parameter without gradient, Adam, after a step": (
        lambda: Several(frozen=True, unused=True), adam, "backward step",
    ),
    "float64 and a frozen layer, AdamW with amsgrad, after a step": (
        lambda: Several(torch.float64, frozen=True), amsgrad, "backward step",
    ),
    "bfloat16, the last layer in float32, Adam, after a step": (
        lambda: Several(torch.bfloat16, last=torch.float32), adam, "backward step",
    ),
    "Adagrad, nothing done yet": (plain, adagrad, ""),
}  # fmt: skip


def examine_bytes_by_kind(answer):
    warm_up()
    run = try_on_ranks("on one rank", try_states, answer, world_size=1)
    for case, (outcome, right, guesses, changed) in zip(STATES, run.values[0]):
        got = kinds_in(case, outcome)
        if changed:
            raise Wrong(case, f"afterwards {changed}", LOOK_ONLY)
        for kind in KINDS:
            if got[kind] != right[kind]:
                what = f"{kind}: expected {right[kind]:,} bytes, got {got[kind]:,.10g}"
                fits = (why for why, wrong in guesses[kind].items() if wrong == got[kind])
                raise Wrong(case, what, next(fits, ""))
        yield f"{case}: {' + '.join(f'{right[kind]:,}' for kind in KINDS)} bytes"


def try_states(answer):
    """On a rank, for each case: an outcome, the truth, wrong guesses, and what was changed."""
    return [try_state(answer, *make) for make in STATES.values()]


def try_state(answer, make_model, make_optimizer, done):
    model, optimizer = in_state(make_model, make_optimizer, done)
    right, guesses = bytes_in(model, optimizer), wrong_bytes(model, optimizer)
    before = copy.deepcopy(values_of(model, optimizer))
    outcome = outcome_of(answer, model, optimizer)
    if not outcome.error:
        outcome = Outcome(plain_numbers(outcome.value))
    return outcome, right, guesses, difference(before, values_of(model, optimizer))


def in_state(make_model, make_optimizer, done):
    model = make_model()
    optimizer = make_optimizer(model)
    inputs = torch.ones(2, 5) if isinstance(model, nn.Linear) else torch.tensor([1, 2])
    if "backward" in done:
        model(inputs).float().square().sum().backward()
    if "step" in done:
        optimizer.step()
    if "zero_grad" in done:
        optimizer.zero_grad()
    return model, optimizer


def plain_numbers(value):
    """A dict with floats, if it is one with numbers; else a text that shows the value."""
    try:
        return {str(kind): float(count) for kind, count in value.items()}
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None if value is None else f"{value!r:.60}"


def tensors_in_state(optimizer):
    return list(tensors_in([list(of_one.values()) for of_one in optimizer.state.values()]))


def bytes_in(model, optimizer) -> dict[str, int]:
    """The truth: each storage once."""
    tensors = {
        "parameters": list(model.parameters()),
        "gradients": [p.grad for p in model.parameters() if p.grad is not None],
        "optimizer_state": tensors_in_state(optimizer),
    }
    storages = {
        kind: {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in some}
        for kind, some in tensors.items()
    }
    return {kind: sum(some.values()) for kind, some in storages.items()}


def kinds_in(case, outcome) -> dict[str, float]:
    if outcome.error:
        text = f"{outcome.error}: {outcome.message}"
        known = (why for words, why in STATE_ERRORS.items() if words in text)
        raise Wrong(case, str(outcome), next(known, ""))
    if outcome.value is None:
        raise Wrong(case, "it returned None", NO_RETURN)
    if not isinstance(outcome.value, dict):
        raise Wrong(case, f"it returned {outcome.value}", THREE_KINDS)
    if set(outcome.value) != set(KINDS):
        raise Wrong(case, f"the keys are {', '.join(outcome.value) or 'none'}", THREE_KINDS)
    return outcome.value


THREE_KINDS = (
    'return a dict of three numbers, with the keys "parameters", "gradients" and "optimizer_state"'
)
LOOK_ONLY = "only look: the function is to leave the model and its optimizer as they are"
STATE_ERRORS = {
    "'NoneType' object": "a `.grad` is None where no gradient has come yet, or where none will: "
    "it takes no bytes, so pass over it",
    "KeyError": "the optimizer has no such entry: before its first step there may be none, a "
    "parameter without a gradient has none, and each kind of optimizer keeps other things. Go "
    "through what there is: optimizer.state.values(), and the values of each of these",
    "'dict' object has no attribute": "optimizer.state has a dict for each parameter: {name: "
    "tensor}. Go through the values of each of them",
}


# ---- What was changed ---


def values_of(model, optimizer) -> dict[str, list]:
    return {
        "a parameter has other values": [p.detach() for p in model.parameters()],
        "a buffer has other values": list(model.buffers()),
        "another parameter is frozen": [p.requires_grad for p in model.parameters()],
        "a `.grad` is another": [p.grad for p in model.parameters()],
        "the optimizer's state is another": tensors_in_state(optimizer),
    }


def difference(before, after) -> str:
    """The first thing that is not as it was, or ""."""
    return next((what for what in before if not all_equal(before[what], after[what])), "")


def all_equal(before, after) -> bool:
    pairs = zip(before, after)
    return len(before) == len(after) and all(
        same(a, b) if torch.is_tensor(a) and torch.is_tensor(b) else a is b for a, b in pairs
    )


# ---- Misconceptions ---

TIED_TWICE = "a tied parameter counts twice: it has two names in the model, and one memory"
FOUR_BYTES = "4 bytes are taken for each number; a float64 has 8, a bfloat16 has 2: x.nbytes knows"
ELEMENTS = "these are the numbers, not their bytes: x.nbytes"
ONE_DTYPE = "all parameters are taken to have the dtype of the first one: ask each tensor"


def wrong_bytes(model, optimizer) -> dict[str, dict]:
    """For each kind {sentence: what that misconception gives}."""
    parameters = list(model.parameters())
    gradients = [p.grad for p in parameters if p.grad is not None]
    guesses = {
        "parameters": wrong_parameters(model),
        "gradients": wrong_gradients(model, parameters),
        "optimizer_state": wrong_state(model, optimizer, parameters),
    }
    for kind, tensors in {
        "parameters": parameters,
        "gradients": gradients,
        "optimizer_state": tensors_in_state(optimizer),
    }.items():
        guesses[kind] |= wrong_sizes(tensors, parameters[0].element_size())
    return guesses


def nbytes(tensors) -> int:
    return sum(x.nbytes for x in tensors if x is not None)


def wrong_sizes(tensors, first):
    elements = sum(x.numel() for x in tensors)
    return {FOUR_BYTES: 4 * elements, ELEMENTS: elements, ONE_DTYPE: first * elements,
            "this is the number of tensors, not their bytes": len(tensors)}  # fmt: skip


def twice(model):
    """Its parameters by all of their names."""
    return [p for _, p in model.named_parameters(remove_duplicate=False)]


def wrong_parameters(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    return {
        "a frozen parameter is missing: it has no gradient, and is in memory all the same":
            nbytes(trained),
        TIED_TWICE: nbytes(twice(model)),
        "buffers are counted as well: model.state_dict() and model.buffers() have them, and they "
        "are no parameters": nbytes([*model.parameters(), *model.buffers()]),
        "model.state_dict() has buffers, too, and a tied parameter under both of its names":
            nbytes(model.state_dict().values()),
    }  # fmt: skip


def wrong_gradients(model, parameters):
    return {
        "this is a gradient for each parameter, whether it has one now or not: look at `.grad`, "
        "which is None as long as no memory is taken": nbytes(parameters),
        "a tied parameter's gradient counts twice: it has two names, and one `.grad`":
            nbytes(p.grad for p in twice(model)),
    }  # fmt: skip


def wrong_state(model, optimizer, parameters):
    kept = [dict(of_one) for of_one in optimizer.state.values()]
    everything = tensors_in_state(optimizer)
    large = [x for x in everything if x.dim()]
    named = [x for p in twice(model) for x in optimizer.state.get(p, {}).values()]
    return {
        "Adam's two numbers for each parameter are right; what else does its state have? It "
        "counts the steps, for each parameter, in a tensor: 4 bytes": nbytes(large),
        "this is two numbers for each parameter, the rule for Adam. What is kept depends on the "
        "optimizer and on the moment: look into optimizer.state": 2 * nbytes(parameters),
        "this is two numbers for each parameter that is trained, the rule for Adam. What is kept "
        "depends on the optimizer and on the moment: look into optimizer.state":
            2 * nbytes(p for p in parameters if p.requires_grad),
        "this is as much as the parameters: does it count those in param_groups? They are the "
        "model's own. Or is a number taken for each? Look into optimizer.state":
            nbytes(parameters),
        "this is the state of one parameter alone; optimizer.state has one for each":
            nbytes(x for x in (kept or [{}])[0].values() if torch.is_tensor(x)),
        "for each parameter only the first tensor is counted: a state may have several":
            nbytes(next(iter(of_one.values()), None) for of_one in kept),
        "a tied parameter's state counts twice: it has two names, and one state": nbytes(named),
    }  # fmt: skip


# ---- 5.7: micro-batches that fit ---------------------------------------------------------------

# batch, limit, fixed, each; in the first, misconceptions come to different numbers
FITTING = [
    (60, 200, 80, 10), (60, 680, 80, 10), (60, 679, 80, 10), (60, 170, 80, 10), (60, 90, 80, 10),
    (7, 95, 30, 10), (1, 10, 8, 2), (256, 80_000_000_000, 16_000_000_000, 1_100_000_000),
]  # fmt: skip
TOO_LITTLE = [(60, 89, 80, 10), (60, 80, 80, 10), (60, 70, 80, 10), (1, 9, 8, 2)]
ENDLESS = (
    "not even one sample fits, and the loop looks for more and more micro-batches. More than "
    "`batch` there cannot be: with that many, each has one sample"
)
REFUSE = "Say so: raise ValueError(…), with a message that tells what a sample needs"


def examine_micro_batches_for(answer):
    for task, outcome in zip(FITTING, micro_batches_of(answer, FITTING, "tasks that fit", "")):
        case, right = told(*task), count_by_size(*task)
        if outcome.error:
            what = f"{outcome}\n{right} micro-batches of {task[0] // right} fit"
            raise Wrong(case, what, why_refused(outcome, task[0], right))
        got = number_in(case, outcome)
        if got != right:
            what = f"expected {right}, got {got:.10g}"
            raise Wrong(case, what, why_count(task, got, right))
        yield f"{case}: {right} of {task[0] // right}"
    outcomes = micro_batches_of(answer, TOO_LITTLE, "tasks that do not fit", ENDLESS)
    for task, outcome in zip(TOO_LITTLE, outcomes):
        if "ValueError" not in outcome.kinds:
            what = f"{outcome}\nexpected a ValueError: one sample needs {task[2] + task[3]} bytes"
            raise Wrong(told(*task), what, why_not_refused(outcome))
        yield f"{told(*task)}: refused"


def told(batch, limit, fixed, each) -> str:
    return f"batch {batch}, limit {limit:,}, fixed {fixed:,}, each {each:,}"


def micro_batches_of(answer, tasks, case, why_endless) -> list[Outcome]:
    explain = lambda error: why_endless if isinstance(error, HangError) else ""  # noqa: E731
    run = try_on_ranks(case, try_tasks, answer, tasks, world_size=1, explain=explain)
    return run.values[0]


def try_tasks(answer, tasks):
    outcomes = [outcome_of(answer, *task) for task in tasks]
    return [outcome._replace(value=portable(outcome.value)) for outcome in outcomes]


def portable(value):
    """A number, None, or a text that shows what else it is: anything may have been returned."""
    if value is None or isinstance(value, (int, float)):
        return value
    with contextlib.suppress(TypeError, ValueError, RuntimeError):
        return float(value)
    return f"{value!r:.60}"


def count_by_size(batch, limit, fixed, each) -> int:
    """The truth: from the largest micro-batch downwards."""
    sizes = [size for size in range(batch, 0, -1) if batch % size == 0]
    return batch // next(size for size in sizes if fixed + size * each <= limit)


def why_refused(outcome, batch, right) -> str:
    if "ValueError" not in outcome.kinds:
        return ""
    if right == batch:
        return (
            "one sample at a time fits: range(1, batch) ends before batch itself, or what fits "
            "exactly is refused"
        )
    return "what takes exactly `limit` bytes fits" if right > 1 else "all at once fits"


def first_count(batch, fits) -> int | None:
    """The first divisor of `batch` for which `fits(count, samples of each)`."""
    counts = (count for count in range(1, batch + 1) if batch % count == 0)
    return next((count for count in counts if fits(count, batch // count)), None)


def why_count(task, got, right) -> str:
    batch, limit, fixed, each = task
    powers = (2**k for k in range(40) if fixed + each * batch / 2**k <= limit)
    guesses = {
        "this is how many samples a micro-batch has; asked is how many micro-batches":
            batch // right,
        "what takes exactly `limit` bytes fits: <=":
            first_count(batch, lambda n, size: fixed + each * size < limit),
        "`fixed` is forgotten: it is in memory beside the samples":
            first_count(batch, lambda n, size: each * size <= limit),
        "`fixed` is divided by the number of micro-batches, too: parameters and their like are "
        "there as a whole, whatever the size of a micro-batch":
            first_count(batch, lambda n, size: (fixed + each * batch) / n <= limit),
        "`fixed` is counted for every sample; it is there once":
            first_count(batch, lambda n, size: (fixed + each) * size <= limit),
        "one sample of a micro-batch is counted; all of its samples are in memory at once":
            first_count(batch, lambda n, size: fixed + each <= limit),
        "the number is doubled until it fits; any divisor of `batch` will do": next(powers, None),
    }  # fmt: skip
    known = (why for why, wrong in guesses.items() if got == wrong)
    return next(known, "") or why_other_count(task, got, right)


def why_other_count(task, got, right) -> str:
    batch, _, fixed, each = task
    if not got.is_integer() or got < 1:
        return "a number of micro-batches is whole, and at least 1"
    if batch % got:
        return (
            f"{got:g} micro-batches of a batch of {batch} cannot be equally large: {got:g} does "
            "not divide it"
        )
    if got > right:
        return f"it fits, and so do {right} micro-batches, which are fewer"
    size = batch / got
    return f"a micro-batch of {size:g} samples needs {fixed + each * size:,.0f} bytes: too many"


def why_not_refused(outcome) -> str:
    if outcome.error == "ZeroDivisionError":
        return f"`fixed` leaves nothing of `limit`: no sample fits beside it. {REFUSE}"
    return REFUSE

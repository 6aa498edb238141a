"""The right results, and the results of known mistakes."""

import sys
from functools import cache

from coursekit.kit.single_rank import run_on_one_rank

from .cases import KINDS, STATES, make_model_and_optimizer, tensors_of

THREE_KINDS = (
    'return a dict of three numbers, with the keys "parameters", "gradients" and "optimizer_state"'
)


def compute_known_values(case, place) -> dict:
    return compute_all_known_values()[case.args]


@cache
def compute_all_known_values() -> dict:
    return run_on_one_rank(look_by_ourselves)


def look_by_ourselves() -> dict:
    found = {}
    for state in STATES:
        model, optimizer = make_model_and_optimizer(*state)
        truth = {kind: bytes_in(some) for kind, some in tensors_of(model, optimizer).items()}
        found[state] = {"truth": truth, "mistakes": mistakes_in(model, optimizer)}
    return found


def bytes_in(tensors) -> int:
    """Return the right number of bytes, which counts each storage once."""
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage() for x in tensors}
    return sum(storage.nbytes() for storage in storages.values())


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

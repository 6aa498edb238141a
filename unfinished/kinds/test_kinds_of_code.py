"""Inside `measure`, every kind of code does what it does without: same values and same errors."""

import contextlib
import importlib
import inspect
import sys
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from helpers import launch_on_cpu as launch

from pedagogy_lib import measure
from pedagogy_lib.measuring import memory_tracker, recorder

FOLDER = str(Path(__file__).parent)
SMALL_MESSAGES = 8_000  # bytes of a block's headers, sizes of objects and the like, at most


def import_kinds(module):
    if FOLDER not in sys.path:
        sys.path.insert(0, FOLDER)
    return importlib.import_module(module)


def describe(value):
    """Turn what a kind returns into nested lists that `==` compares bit for bit, NaN included."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            value = value.to_dense()
        plain = value.detach().as_subclass(torch.Tensor).resolve_conj().contiguous().reshape(-1)
        bits = plain.view(torch.uint8) if len(plain) else plain
        return [type(value).__name__, str(value.dtype), list(value.shape), bits.tolist()]
    if isinstance(value, Exception):
        return [type(value).__name__, str(value)]
    if isinstance(value, dict):
        return [[key, describe(one)] for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(describe, value)]
    return value.tolist() if hasattr(value, "tolist") else value


def attempt(function, block):
    """Return what a kind of code returns or raises inside a block, described."""
    torch.manual_seed(0)
    if dist.get_world_size() > 1:
        dist.barrier()
    try:
        if inspect.signature(function).parameters:
            return describe(function(block))
        with block():
            result = function()
    except Exception as error:
        return describe(error)
    return describe(result)


def first_difference(one, other, path="") -> str:
    """Return where two descriptions differ, and how; an empty text if they do not."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other))
        return next(filter(None, (first_difference(*pair, f"{path}[{i}]") for i, pair in pairs)), "")
    return "" if one == other else f"{path}: {one!r:.200} without, {other!r:.200} inside"


def try_kinds(module):
    """Try each kind outside a block and inside one; return what differs."""
    warnings.simplefilter("ignore")
    differences = {}
    for name, function in import_kinds(module).KINDS.items():
        without = attempt(function, contextlib.nullcontext)
        inside = attempt(function, lambda name=name: measure(name))
        if difference := first_difference(without, inside):
            differences[name] = difference
    return differences


def test_no_kind_of_code_is_changed():
    assert len(import_kinds("kinds_of_code").KINDS) >= 80
    run = launch(try_kinds, "kinds_of_code", world_size=1, timeout=120)
    assert run.values == [{}]
    opaque = {label for label in run.labels if run[label].not_counted != [[]]}
    assert opaque <= {"mkldnn_layout", "conditions", "loops", "associative_scan"}


def test_no_kind_of_communication_is_changed_and_its_bytes_are_right():
    module = import_kinds("kinds_of_communication")  # needs EXPECTED: {name: sent}, see README.txt
    run = launch(try_kinds, "kinds_of_communication", world_size=2, timeout=120)
    assert run.values == [{}, {}]
    for name, sent in module.EXPECTED.items():
        calls = [call for of_rank in run[name].calls for call in of_rank]
        counted = sum(call.sent_bytes or 0 for call in calls)
        reasons = {call.not_counted for call in calls} - {""}
        assert bool(reasons) == (sent == module.NOT_COUNTED), (name, reasons)
        if sent == module.LIKE_KERNEL:
            # Gloo's reduce-scatter is an all-reduce, which sends twice as much.
            counted += sum(call.sent_bytes for call in calls if call.name == "reduce_scatter")
            kernel = sum(run[name].sent_bytes)
            assert abs(counted - kernel) < 0.05 * kernel + SMALL_MESSAGES, (name, counted, kernel)
        elif not reasons:
            assert counted == sent, name


def test_a_difference_is_seen():
    x, y, nan = torch.ones(2), torch.tensor([1.0, -0.0]), torch.tensor(torch.nan)
    assert first_difference(describe([x, {"a": y}]), describe([x, {"a": y.clone()}])) == ""
    for other in (y.abs(), y.double(), y.view(1, 2), y.tolist(), ValueError("no"), None):
        assert first_difference(describe([x, y]), describe([x, other]))
    assert first_difference(describe(ValueError("a")), describe(ValueError("b")))
    assert first_difference(describe(nan), describe(nan.clone())) == ""


# ---- What is not counted ----


def train_with_broken_tracker(name):
    """Train with a tracker one of whose methods raises."""

    def fail(*args):
        raise ValueError("the instrument is broken")

    setattr(memory_tracker.MemoryTracker, name, fail)
    layer = torch.nn.Linear(3, 3)
    torch.nn.init.ones_(layer.weight)
    optimizer = torch.optim.SGD(layer.parameters(), momentum=0.9)
    with measure("broken"):
        layer(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        y = torch.nn.Parameter(layer.weight.detach() * 2)
        y.untyped_storage().resize_(400)
        dist.all_reduce(gradient := layer.weight.grad)
    return gradient


@pytest.mark.parametrize(
    "name", ["track", "give_role", "watch_gradient", "change_size", "note_optimizer"]
)
def test_a_broken_instrument_breaks_no_program(name):
    run = launch(train_with_broken_tracker, name, world_size=1)
    assert torch.equal(run.values[0], torch.full((3, 3), 2.0))
    assert run["broken"].peak_bytes == run["broken"].at_peak == [None]
    assert any("the instrument is broken" in reason for reason in run["broken"].not_counted[0])
    assert "broken, not counted: " in str(run.table())


def send_sparse():
    recorder._recorder.wire = "counted"
    x = torch.sparse_coo_tensor([[0, 2]], torch.ones(2, 4), (5, 4), check_invariants=False)
    with measure("sparse"):
        dist.all_reduce(x)
    with measure("dense"):
        dist.all_reduce(torch.ones(100))


def test_bytes_that_no_formula_gives_are_not_counted():
    """As in test_calls.py, the block's own figures need a run whose wire is "counted"."""
    run = launch(send_sparse, world_size=2)
    (call,) = run["sparse"].calls[0]
    assert (call.name, call.tensor_bytes) == ("all_reduce", 2 * 8 + 2 * 4 * 4)
    assert call.sent_bytes is None and "other sizes" in call.not_counted
    assert run["dense"].sent_bytes == [400, 400] and run["dense"].not_counted == [[], []]


def attend():
    from torch.nn.attention.flex_attention import flex_attention

    warnings.simplefilter("ignore")
    q = torch.ones(1, 1, 256, 4)
    with measure("flex"):
        flex_attention(q, q, q)
    with measure("cond"):
        torch.cond(q.sum() > 0, torch.sin, torch.cos, (q,))


def test_operators_that_take_functions_are_followed_or_not_counted():
    run = launch(attend, world_size=1)
    assert run["flex"].peak_bytes[0]["total"] > 256 * 256 * 4  # the scores
    assert run["cond"].peak_bytes == [None]
    assert "cond" in run["cond"].not_counted[0][0]


def transform():
    x = torch.ones(1000)
    with measure("func"):
        gradient = torch.func.grad(lambda x: (x * x).exp().sum())(x)
        y = x.requires_grad_() * 2
        (y * y).sum().backward()
    return gradient[0].item()


def test_memory_is_followed_after_a_transform_of_torch_func():
    run = launch(transform, world_size=1)
    assert run["func"].peak_bytes[0]["activations"] == 4000  # y, after the transform

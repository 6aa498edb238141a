"""Bytes of live tensors, by kind: exact to the byte, and found without registration."""

import pytest
import torch
from helpers import launch_on_cpu as launch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from pedagogy_lib import mark, measure
from pedagogy_lib.measuring.memory_log import KINDS

N = 1000  # values of a tensor
N_BYTES = 4 * N


def peak_of(step, *args, world_size=1) -> dict[str, int]:
    """What rank 0 measured in the block "it"."""
    return launch(step, *args, world_size=world_size)["it"].peak_bytes[0]


def kinds_of(peak) -> dict[str, int]:
    """The kinds that occurred, without the total."""
    return {kind: count for kind, count in peak.items() if count and kind != "total"}


def mlp(dtype=torch.float32):
    """325 parameters in 4 tensors."""
    return nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 5)).to(dtype)


def train(model, optimizer):
    dtype = next(model.parameters()).dtype
    optimizer.zero_grad()
    model(torch.ones(7, 10, dtype=dtype)).square().mean().backward()
    optimizer.step()


# How many bytes of state each optimizer keeps for `x` bytes of parameters in 4 tensors.
# Adam counts its steps in one float32 for each tensor.
OPTIMIZERS = {
    "SGD": (lambda p: torch.optim.SGD(p, lr=0.1), lambda x: 0),
    "momentum": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda x: x),
    "Adam": (lambda p: torch.optim.Adam(p), lambda x: 2 * x + 4 * 4),
    "AdamW foreach": (lambda p: torch.optim.AdamW(p, foreach=True), lambda x: 2 * x + 4 * 4),
    "Adam amsgrad": (lambda p: torch.optim.Adam(p, amsgrad=True), lambda x: 3 * x + 4 * 4),
}


@pytest.mark.parametrize("steps_before", [0, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_step(optimizer, dtype, steps_before):
    make, state_bytes = OPTIMIZERS[optimizer]

    def step():
        model = mlp(dtype)
        optimizer = make(model.parameters())
        for _ in range(steps_before):
            train(model, optimizer)
        with measure("it"):
            train(model, optimizer)

    peak, x = peak_of(step), 325 * dtype.itemsize
    assert peak["parameters"] == peak["gradients"] == x
    assert peak["optimizer_state"] == state_bytes(x)
    assert peak["communication"] == 0


def test_optimizer_state_counts_from_its_birth():
    """Adam takes memory in its first step, and files it as its state only afterwards."""

    def step():
        weight = nn.Parameter(torch.ones(N))
        weight.grad = torch.ones(N)
        optimizer = torch.optim.Adam([weight])
        with measure("it"):
            optimizer.step()
            del optimizer

    assert peak_of(step)["optimizer_state"] == 2 * N_BYTES + 4


def test_model_made_inside_the_block():
    def step():
        with measure("it"):
            model = mlp()
            train(model, torch.optim.SGD(model.parameters(), lr=0.1))
            del model

    peak = peak_of(step)
    assert peak["parameters"] == peak["gradients"] == 325 * 4


def test_tied_parameters_count_once():
    def step():
        model = nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 50, bias=False))
        model[1].weight = model[0].weight
        with measure("it"):
            model(torch.tensor([3, 4])).sum().backward()

    peak = peak_of(step)
    assert peak["parameters"] == peak["gradients"] == 50 * 8 * 4


def test_frozen_parameters_have_no_gradients():
    def step():
        model = mlp()
        model[0].requires_grad_(False)
        with measure("it"):
            model(torch.ones(7, 10)).sum().backward()

    peak = peak_of(step)
    assert peak["parameters"] == 325 * 4
    assert peak["gradients"] == (20 * 5 + 5) * 4


def test_parameter_in_no_module():
    def step():
        weight = nn.Parameter(torch.ones(N))
        with measure("it"):
            (weight * 2).sum().backward()
        return weight.grad.sum()

    peak = peak_of(step)
    assert peak["parameters"] == peak["gradients"] == N_BYTES


def test_parameter_that_lives_inside_the_block_only():
    def step():
        with measure("it"):
            weight = nn.Parameter(torch.ones(N))
            (weight * 2).sum().backward()
            del weight

    peak = peak_of(step)
    assert peak["parameters"] == peak["gradients"] == N_BYTES


def test_parameters_are_made_as_ever_afterwards():
    def step():
        before = nn.Parameter.__dict__["__new__"]
        with measure("it"):
            inside = nn.Parameter(torch.ones(3), requires_grad=False)
        assert nn.Parameter.__dict__["__new__"] is before
        return type(inside) is nn.Parameter, inside.requires_grad, nn.Parameter().shape

    assert launch(step, world_size=1).values == [(True, False, (0,))]


def test_leaf_that_is_no_parameter():
    def step():
        x = torch.ones(N, requires_grad=True)
        with measure("it"):
            x.sum().backward()

    peak = peak_of(step)
    assert peak["gradients"] == N_BYTES
    assert peak["other"] == N_BYTES + 2 * 4  # x, the sum, and the 1 that the backward starts from


def free_gradients(model):
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))


@pytest.mark.parametrize("made_inside", [False, True])
def test_gradients_freed_at_once_peak_at_the_largest(made_inside):
    def make():
        layers = [nn.Linear(16, 16, bias=False) for _ in range(5)]
        model = nn.Sequential(*layers, nn.Linear(16, 32, bias=False))
        free_gradients(model)
        return model

    def step():
        model = None if made_inside else make()
        with measure("it"):
            model = model or make()
            model(torch.ones(3, 16)).sum().backward()

    peak = peak_of(step)
    assert peak["parameters"] == (5 * 16 * 16 + 16 * 32) * 4
    assert peak["gradients"] == 16 * 32 * 4


def test_gradients_of_one_model_after_the_other():
    """A later model may live where an earlier one lived, under the same id()."""

    def step():
        with measure("all"):
            for _ in range(5):
                model = nn.Linear(N, 1, bias=False)
                free_gradients(model)
                model(torch.ones(1, N)).sum().backward()
                del model

    ((_, history),) = launch(step, world_size=1)["all"].memory[0]
    gradients = history[:, KINDS.index("gradients")]
    assert sum(gradients[1:] > gradients[:-1]) == 5


def count_saved_bytes(model, x) -> int:
    """What a forward pass saves for the backward, parameters left out: counted with hooks."""
    storages = {}

    def pack(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor.detach()

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(x)
    for parameter in model.parameters():
        storages.pop(parameter.untyped_storage().data_ptr(), None)
    del output
    return sum(storages.values())


MODELS = {
    "mlp": (mlp, (7, 10)),
    "relu in place": (lambda: nn.Sequential(nn.Linear(10, 9), nn.ReLU(inplace=True)), (7, 10)),
    "convolution": (lambda: nn.Sequential(nn.Conv1d(3, 4, 2), nn.GELU()), (5, 3, 8)),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), (3, 2, 8)),
    "batch norm": (lambda: nn.Sequential(nn.Linear(10, 9), nn.BatchNorm1d(9)), (7, 10)),
}


@pytest.mark.parametrize("name", MODELS)
def test_activations_are_what_autograd_saves(name):
    make, shape = MODELS[name]

    def step():
        model, x = make(), torch.ones(shape)
        expected = count_saved_bytes(model, x)
        with measure("it"):
            output = model(x)
        with measure("backward"):
            output.sum().backward()
        return expected

    run = launch(step, world_size=1)
    assert run.values[0] > 0
    assert run["it"].peak_bytes[0]["activations"] == run.values[0]
    assert run["backward"].peak_bytes[0]["activations"] == run.values[0]


def test_activations_of_an_mlp():
    """Its input and the output of tanh; both are batch x width."""

    def step():
        model = mlp()
        with measure("it"):
            model(torch.ones(7, 10)).sum().backward()

    assert peak_of(step)["activations"] == 7 * (10 + 20) * 4


def test_forward_before_any_block():
    def step():
        model = mlp()
        loss = model(torch.ones(7, 10)).sum()
        with measure("it"):
            loss.backward()
        with measure("after"):
            pass

    run = launch(step, world_size=1)
    assert run["it"].peak_bytes[0]["activations"] == 7 * (10 + 20) * 4
    assert run["after"].peak_bytes[0]["activations"] == 0


@pytest.mark.parametrize("recorded_inside", [False, True])
def test_input_outlives_the_graph_that_saved_it(recorded_inside):
    def step():
        x, weight = torch.ones(N), torch.ones(N, requires_grad=True)
        with measure("forward", memory=recorded_inside):
            y = x * weight
        with measure("with graph"):
            pass
        del y
        with measure("it"):
            pass
        return x, weight

    run = launch(step, world_size=1)
    assert run["with graph"].peak_bytes[0]["activations"] == N_BYTES  # x, for weight's gradient
    assert kinds_of(run["it"].peak_bytes[0]) == {"other": 2 * N_BYTES}


def test_activations_end_when_the_graph_is_dropped():
    def step():
        model, x = mlp(), torch.ones(7, 10)
        with measure("forward"):
            loss = model(x).sum()
        del loss
        with measure("it"):
            pass

    assert peak_of(step)["activations"] == 0


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_no_activations_without_a_graph(guard):
    def step():
        model = mlp()
        with measure("it"), guard():
            model(torch.ones(7, 10))

    assert peak_of(step)["activations"] == 0


OTHER = {
    "a temporary": (lambda a, b: (a + b).sum(), 3 * N_BYTES + 4),
    "views": (lambda a, b: (a[10:].view(-1, 10).t(), b.unsqueeze(0)), 2 * N_BYTES),
    "in place": (lambda a, b: a.add_(b).mul_(2).clamp_(0), 2 * N_BYTES),
    "out=": (lambda a, b: torch.add(a, b, out=torch.empty(0)), 3 * N_BYTES),
    "resize_": (lambda a, b: torch.empty(10).resize_(N), 3 * N_BYTES),
    "meta": (lambda a, b: torch.empty(10**12, device="meta") + 1, 2 * N_BYTES),
    "one after the other": (lambda a, b: [(a + b).sum() for _ in range(3)], 3 * N_BYTES + 12),
    "cat": (lambda a, b: torch.cat([a, b]), 4 * N_BYTES),
    "split": (lambda a, b: torch.cat([a, b]).split(10), 4 * N_BYTES),
    "free storage": (lambda a, b: (a + b).untyped_storage().resize_(0), 3 * N_BYTES),
}


@pytest.mark.parametrize("name", OTHER)
def test_operations_on_two_tensors(name):
    operation, expected = OTHER[name]

    def step():
        a, b = torch.ones(N), torch.ones(N)
        with measure("it"):
            operation(a, b)

    peak = peak_of(step)
    assert peak["total"] == expected
    assert kinds_of(peak) == {"other": expected}


def test_what_was_freed_before_the_block_does_not_count():
    def step():
        a, b = torch.ones(N), torch.ones(N)
        with measure("first"):
            c = a + b
        del a, c
        with measure("it"):
            b.add_(1)

    assert peak_of(step)["total"] == N_BYTES


@pytest.mark.parametrize("size", [0, 2 * N_BYTES])
def test_storage_resized_between_blocks(size):
    def step():
        x = torch.ones(N)
        with measure("first"):
            x.add_(1)
        x.untyped_storage().resize_(size)
        with measure("it"):
            pass

    assert peak_of(step)["total"] == size


def test_storage_resized_inside():
    def step():
        x, y = torch.ones(N), torch.ones(N)
        with measure("it"):
            x.untyped_storage().resize_(0)
            z = torch.ones(N)
            x.untyped_storage().resize_(N_BYTES)
            del z
            y.add_(1)

    assert peak_of(step)["total"] == 3 * N_BYTES


def test_a_parameter_whose_memory_comes_later():
    """As in stage 3 of ZeRO: its memory is another storage's, assigned through `.data`."""

    def step():
        flat = torch.ones(N)
        flat.untyped_storage().resize_(0)
        weight = nn.Parameter(torch.ones(0))
        with measure("it"):
            flat.untyped_storage().resize_(N_BYTES)
            weight.data = flat.fill_(1)
            (weight.view(-1, 1) * torch.ones(1, 2, requires_grad=True)).sum()
            weight.data = torch.ones(0)
            flat.untyped_storage().resize_(0)

    peak = peak_of(step)
    assert peak["parameters"] == N_BYTES
    assert peak["activations"] < N_BYTES


def test_a_gradient_put_there_by_hand():
    def step():
        weight = nn.Parameter(torch.ones(N))
        optimizer = torch.optim.SGD([weight])
        with measure("it"):
            weight.grad = torch.ones(N)
            optimizer.step()
            optimizer.zero_grad()

    assert peak_of(step)["gradients"] == N_BYTES


def test_what_a_file_backs_takes_no_memory(tmp_path):
    def step():
        before = torch.from_file(str(tmp_path / "1"), shared=True, size=N)
        with measure("it"):
            inside = torch.from_file(str(tmp_path / "2"), shared=True, size=N)
            inside.copy_(before).add_(1)

    assert peak_of(step)["total"] == 0


def test_marks_stand():
    def step():
        state = mark(torch.ones(N), "optimizer_state")
        weight = nn.Parameter(torch.ones(N))
        mark(weight[10:], "communication")  # a view: the whole storage
        with measure("it"):
            (weight * mark(torch.ones(N), "activations")).sum().backward()
            mark(weight.grad, "other")
        return state

    peak = peak_of(step)
    assert peak["optimizer_state"] == peak["communication"] == peak["activations"] == N_BYTES
    assert peak["parameters"] == peak["gradients"] == 0


def test_mark_returns_its_tensor_and_works_anywhere():
    x = torch.ones(3)
    assert mark(x, "gradients") is x


def test_mark_names_the_kinds_it_knows():
    with pytest.raises(ValueError, match=r"parameters, gradients, .* not 'grads'"):
        mark(torch.ones(3), "grads")


def test_a_lazy_layer_made_before_the_block():
    def step():
        model = nn.LazyLinear(10)
        with measure("it"):
            model(torch.ones(3, 7)).sum().backward()

    peak = peak_of(step)
    assert peak["parameters"] == peak["gradients"] == 4 * (10 * 7 + 10)


def test_a_gradient_that_is_none():
    class NoGradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return None

    def step():
        x = torch.ones(3, requires_grad=True)
        with measure("it"):
            NoGradient.apply(x).sum().backward()
        return x.grad

    assert launch(step, world_size=1, device="cpu").values == [None]

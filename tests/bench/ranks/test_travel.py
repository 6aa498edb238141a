"""What travels to the ranks and back, what does not, and what a rank sees of its parent."""

import functools
import importlib
import os
import resource
import sys
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
import torch.distributed as dist
from helpers import failure, my_rank
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import LaunchError, RankError, launch

OFFSET = 10
TABLE = np.arange(500_000.0)
LOCK = threading.Lock()


def only_value(step, *args):
    """What a function returns on a world of one."""
    return launch(step, *args, world_size=1).values[0]


# Functions


def test_lambda_and_its_arguments():
    run = launch(lambda factor, text: (factor * dist.get_rank(), text), 3, "x", world_size=2)
    assert run.values == [(0, "x"), (3, "x")]


def test_closure_and_globals():
    weight = torch.tensor([1.0, 2.0])

    def helper():
        return OFFSET

    assert only_value(lambda: weight.sum().item() + helper()) == 13.0


def test_a_class_of_the_learner_s_that_derives_from_one_of_pytorch_s_from_cpp():
    class Mine(dist.Store):
        def __init__(self, value):
            super().__init__()
            self.value = value

        def get(self, key):
            return self.value

    assert only_value(lambda: Mine(b"here").get("a key")) == b"here"


def test_method_and_callable_object():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, x):
            return self.factor * x

    assert only_value(Scale(3), 2) == 6
    assert only_value(Scale(3).__call__, 2) == 6
    assert only_value(max, 3, 4) == 4


def test_instance_comes_back_as_the_same_class():
    @dataclass
    class Point:
        x: int

    class Model(torch.nn.Linear):
        pass

    point, model = only_value(lambda: (Point(3), Model(2, 1)))
    assert type(point) is Point
    assert point == Point(3)
    assert type(model) is Model


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A module `some_lab` that tests write and rewrite; returns the function that does so."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(source):
        (tmp_path / "some_lab.py").write_text(source)
        importlib.invalidate_caches()
        return importlib.import_module("some_lab")

    yield write
    sys.modules.pop("some_lab", None)


def test_edited_file_is_seen_without_import(lab):
    module = lab("def step():\n    return 1\n")
    assert only_value(module.step) == 1
    lab("def step():\n    return 'edited'\n")
    assert module.step() == 1
    assert only_value(module.step) == "edited"
    assert only_value(lambda: module.step()) == "edited"


def test_error_shows_the_line_of_the_edited_file(lab):
    module = lab("def step():\n    raise ValueError('first')\n")
    assert "raise ValueError('first')" in str(failure(module.step, world_size=1))
    lab("# a comment more\ndef step():\n    raise ValueError('second')\n")
    message = str(failure(module.step, world_size=1))
    assert "some_lab.py:3, in step():  raise ValueError('second')" in message


# What a rank sees of its parent


def test_environment_folder_and_path_are_the_parents(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_TEST", "here")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("/some/folder")

    def look():
        return os.environ.get("COURSE_TEST"), os.environ.get("HOME"), os.getcwd(), sys.path

    assert only_value(look) == ("here", None, str(tmp_path), sys.path)


def test_ranks_find_what_torchrun_would_tell_them():
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    run = launch(lambda: [os.environ[name] for name in names], world_size=2)
    assert run.values == [["0", "0", "2", "2"], ["1", "1", "2", "2"]]


# Values


def test_arrays_and_tensors():
    def answer(array, tensor):
        return array + 1, tensor * 2, {"nested": [tensor.to(torch.bfloat16)]}

    array, tensor, nested = only_value(answer, np.ones(3), torch.arange(3))
    assert array.tolist() == [2.0, 2.0, 2.0]
    assert tensor.tolist() == [0, 2, 4]
    assert nested["nested"][0].dtype == torch.bfloat16


def test_tensors_come_back_without_graph():
    def grow():
        leaf = torch.ones(2, requires_grad=True)
        return leaf, leaf * 2, torch.nn.Parameter(torch.ones(2))

    leaf, product, parameter = only_value(grow)
    assert (leaf.tolist(), product.tolist()) == ([1.0, 1.0], [2.0, 2.0])
    assert not leaf.requires_grad
    assert product.grad_fn is None
    assert isinstance(parameter, torch.nn.Parameter)


@pytest.mark.parametrize(
    "dtype", [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]
)
def test_tensors_of_types_that_pickle_does_not_know(dtype):
    wide = torch.arange(12).reshape(3, 4).to(dtype)

    def answer(wide):
        return wide[:, 1], wide, wide[0, 3], torch.nn.Parameter(wide, requires_grad=False)

    column, whole, number, parameter = only_value(answer, wide)
    for tensor in (column, whole, number, parameter):
        assert tensor.dtype == dtype
    assert column.float().equal(wide[:, 1].float())
    assert whole.float().equal(wide.float())
    assert (number.shape, number.item()) == ((), 3)
    assert parameter.float().equal(wide.float())


def test_tensors_without_numbers():
    def make():
        leaf = torch.ones(3, device="meta", requires_grad=True)
        return torch.empty(2, 3, device="meta"), 2 * leaf, torch.nn.Linear(4, 5, device="meta")

    empty, product, layer = only_value(make)
    assert (empty.device.type, empty.shape) == ("meta", (2, 3))
    assert (product.shape, product.requires_grad) == ((3,), False)
    assert layer.weight.shape == (5, 4)


def test_view_comes_back_small():
    column = only_value(lambda: torch.arange(1_000_000).view(1000, 1000)[:, 3])
    assert column[:3].tolist() == [3, 1003, 2003]
    assert column.untyped_storage().nbytes() == column.nbytes == 8000


def test_large_results():
    def many_megabytes():
        return torch.full((5_000_000,), float(dist.get_rank())), b"x" * 10_000_000

    for rank, (tensor, text) in enumerate(launch(many_megabytes, world_size=3).values):
        assert tensor.shape == (5_000_000,)
        assert (tensor == rank).all()
        assert len(text) == 10_000_000


def test_large_global_is_warned_of():
    with pytest.warns(UserWarning, match=r"`TABLE` \(4\.0 MB\) is copied to every rank"):
        assert only_value(lambda: TABLE.sum()) == TABLE.sum()


def test_large_closure_is_warned_of():
    batch = torch.ones(1_000_000)
    with pytest.warns(UserWarning, match=r"`batch` \(4\.0 MB\) is copied to every rank") as caught:
        only_value(lambda: batch.sum().item())
    assert caught[0].filename == __file__


def test_large_argument_is_meant():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert launch(torch.sum, torch.ones(1_000_000), world_size=2).values == [1e6, 1e6]


def test_an_autograd_function_that_is_once_differentiable():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, gradient):
            return 2 * gradient

    def slope():
        x = torch.ones((), requires_grad=True)
        return torch.autograd.grad(Double.apply(x), x)[0].item()

    assert only_value(slope) == 2


# What cannot travel


def test_argument_that_cannot_travel_is_named():
    message = str(failure(lambda number, lock: 0, 1, threading.Lock(), world_size=2))
    assert "argument 1 of the launched function (a lock) cannot travel to another" in message
    assert "create it inside the function" in message


def test_what_an_object_holds_that_cannot_travel_is_named():
    class Trainer:
        def __init__(self):
            self.steps, self.lock = 3, threading.Lock()

        def __call__(self):
            return self.steps

        step = __call__

    for trainer in (Trainer(), Trainer().step):
        message = str(failure(trainer, world_size=2))
        assert "`self.lock` (a lock), which the launched function uses, cannot travel" in message


@pytest.mark.parametrize("reason", [SystemExit("leaving"), BaseException("no Exception")])
def test_an_argument_that_leaves_while_it_is_packed_is_told(reason):
    class Leaves:
        def __reduce__(self):
            raise reason

    message = str(failure(lambda leaves: 0, Leaves(), world_size=1))
    assert "argument 0 of the launched function (a Leaves) cannot travel" in message


def test_global_that_cannot_travel_is_named():
    message = str(failure(lambda: LOCK.locked(), world_size=2))
    assert "`LOCK` (a lock), which the function uses, cannot travel to another process" in message


def test_closure_that_cannot_travel_is_named():
    numbers = (n for n in range(3))
    message = str(failure(lambda: next(numbers), world_size=2))
    assert "`numbers` (a generator), which the function uses, cannot travel" in message


class Shell:
    """Stands for IPython's: what it lends to cells cannot travel."""

    def __init__(self):
        self.lock = threading.Lock()

    def get_ipython(self):
        return self


def list_with_a_magic():
    get_ipython().system("ls")  # noqa: F821 - `!ls`, as a cell holds it


@pytest.mark.parametrize("step", [list_with_a_magic, lambda: list_with_a_magic()])
def test_magics_of_cells_are_explained(step, monkeypatch):
    monkeypatch.setitem(globals(), "get_ipython", Shell().get_ipython)
    with pytest.raises(LaunchError, match=r"^lines that begin with ! or % work in the notebook"):
        launch(step, world_size=2)


def test_function_of_which_only_the_name_travels_is_explained(monkeypatch):
    cached = functools.cache(my_rank)
    cached.__module__, cached.__qualname__ = "__main__", "some_function"  # as of a cell
    monkeypatch.setattr(sys.modules["__main__"], "some_function", cached, raising=False)
    message = str(failure(lambda: cached(), world_size=2))
    assert "raised TypeError: `some_function` cannot travel to another process, as a dec" in message
    assert "use the plain function" in message


def test_large_closure_with_an_empty_cell():
    def outer():
        batch = torch.ones(1_000_000)

        def step():
            return batch.sum().item() if batch is not None else later

        if batch is None:
            later = 0
        return step

    assert only_value(outer()) == 1e6


def test_function_that_cannot_travel_is_told():
    message = str(failure(threading.Lock().acquire, world_size=2))
    assert "the launched function cannot travel to another process" in message


def test_result_that_cannot_travel_is_named():
    error = failure(lambda: threading.Lock() if dist.get_rank() == 1 else 0, world_size=2)
    assert isinstance(error, RankError)
    assert error.rank == 1
    assert "a lock cannot travel to the notebook" in str(error)
    assert "return numbers, strings, tensors" in str(error)


def make_dtensor():
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    return [distribute_tensor(torch.ones(2), init_device_mesh("cpu", (1,)), [Shard(0)])]


def test_a_dtensor_is_refused_wherever_it_is():
    message = str(failure(make_dtensor, world_size=1))
    assert "a list cannot travel to the notebook (a DTensor holds one rank's part" in message


def test_an_open_file_is_refused_on_both_ways():
    with open(__file__) as file:
        message = str(failure(lambda number, file: file.read(), 0, file, world_size=2))
    assert "argument 1 of the launched function (a TextIOWrapper) cannot travel" in message
    assert "an open file stays in its process: open it there, or send what it holds" in message
    message = str(failure(lambda: [open(os.__file__)], world_size=2))  # noqa: SIM115
    assert "a list cannot travel to the notebook (an open file stays in its process" in message


def test_the_screen_may_be_used_as_a_file(monkeypatch):
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    assert only_value(lambda file: print("shown", file=file), sys.stdout) is None


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not keep to this limit")
@pytest.mark.parametrize("kind", ["Tensor", "list", "bytes"])
def test_a_value_for_whose_copy_there_is_no_memory(kind):
    def fill(kind):
        size = 200_000_000
        make = {
            "Tensor": lambda n: torch.ByteTensor(n)[1:],
            "list": lambda n: [bytes(n)],
            "bytes": bytes,
        }
        value = make[kind](size)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = 100_000_000 + pages * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        return value

    error = failure(fill, kind, world_size=1)
    assert isinstance(error.exception, MemoryError)
    assert str(error) == (
        f"rank 0 raised MemoryError: a {kind} travels to the notebook as a copy, for which this "
        "rank has no memory; return less of it"
    )


def test_a_reason_without_words_is_its_class():
    class Silent:
        def __reduce__(self):
            raise RuntimeError

    message = str(failure(lambda silent: 0, Silent(), world_size=1))
    assert message.endswith("create it inside the function (RuntimeError)")
    message = str(failure(lambda: Silent(), world_size=1))
    assert "a Silent cannot travel to the notebook (RuntimeError); return numbers" in message


class TwoArguments(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} {second}")


def wrap_a_model():
    return DistributedDataParallel(torch.nn.Linear(3, 3))


def make_an_exception():
    return TwoArguments("one", "two")


def make_a_class_of_the_rank():
    sys.modules["only_there"] = module = ModuleType("only_there")
    exec("class Here: pass", module.__dict__)
    return module.Here()


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (wrap_a_model, "DistributedDataParallel"),
        (make_an_exception, "TwoArguments"),
        (make_a_class_of_the_rank, "Here"),
    ],
)
def test_result_that_cannot_be_unpacked_is_named(step, name):
    error = failure(step, world_size=2)
    assert type(error) is LaunchError
    assert str(error).startswith(f"rank 0 returned a {name}, which lives in ranks only (")
    assert str(error).endswith("; return numbers, strings, tensors, or lists and dicts of them")


def test_exception_that_cannot_be_unpacked_is_told_in_words():
    def fail():
        sys.modules["only_there"] = module = ModuleType("only_there")
        exec("class Here(Exception): pass", module.__dict__)
        raise module.Here("its text")

    error = failure(fail, world_size=2)
    assert isinstance(error, RankError)
    assert error.exception is None
    assert "raised Here: its text" in str(error)


def test_module_that_only_the_parent_has(lab):
    module = lab("def step():\n    return 1\n")
    os.unlink(module.__file__)
    error = failure(module.step, world_size=2)
    assert isinstance(error, RankError)
    assert "ModuleNotFoundError: No module named 'some_lab'" in str(error)
    assert launch(my_rank, world_size=1).values == [0]


def test_a_default_device_of_a_rank_does_not_matter_to_what_it_returns():
    def step():
        torch.set_default_device("meta")
        return torch.ones(3, device="cpu")

    assert launch(step, world_size=1).values[0].tolist() == [1, 1, 1]

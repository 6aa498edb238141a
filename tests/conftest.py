"""For every test: its functions travel by value, and it leaves no rank behind."""

import re
import signal
from collections import Counter

import cloudpickle
import helpers
import margins
import pytest
import torch

from pedagogy_lib import closeness

cloudpickle.register_pickle_by_value(helpers)
signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background, shells ignore it

# How many answers of a kind are tried for each exercise; the others are left to `make test-all`.
WRONG, RIGHT, SOLUTIONS = 3, 1, 0  # the executed notebooks check all solutions


def pytest_configure(config):
    config.pluginmanager.register(margins.Plugin())


def pytest_collection_modifyitems(items):
    for module in {item.module for item in items if hasattr(item, "module")}:
        cloudpickle.register_pickle_by_value(module)  # so that ranks need not import pytest
    if not torch.cuda.is_available():
        without_gpu = pytest.mark.skip(reason="no CUDA GPU here")
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(without_gpu)
    leave_answers_to_test_all(items)
    for item in filter(depends_on_kernels, items):
        item.add_marker(pytest.mark.kernels)


def depends_on_kernels(item) -> bool:
    """Whether it compares what was computed: a solved notebook, a right answer, or with `close`."""
    if item.path.suffix == ".ipynb":
        return item.path.parent.name == "solutions"
    if item.path.name.startswith("test_exercises_"):
        return "wrong" not in item.originalname
    own = closeness.__name__
    return any(getattr(value, "__module__", "") == own for value in vars(item.module).values())


def leave_answers_to_test_all(items):
    """Mark as deep what comes after the first few parameters of a test, exercise by exercise."""
    seen = Counter()
    for item in items:
        if item.path.name.startswith("test_exercises_") and hasattr(item, "callspec"):
            exercise = re.match(r"\d+\.\d+", item.callspec.id)
            kind, most = kind_of(item)
            place = item.path, item.originalname, kind, exercise and exercise[0]
            seen[place] += 1
            if seen[place] > most:
                item.add_marker(pytest.mark.deep)


def kind_of(item) -> tuple[str, int]:
    """Of which kind the answers of a test are, and how many of that kind are tried."""
    name = item.originalname
    if item.callspec.id.endswith("the solution") or name.startswith("test_the_solution"):
        return "solution", SOLUTIONS
    return ("right", RIGHT) if name.startswith("test_right") else ("wrong", WRONG)


@pytest.fixture(autouse=True)
def no_rank_left():
    yield
    assert helpers.wait_until(lambda: not helpers.ranks_left(), 2.0), helpers.ranks_left()


@pytest.fixture
def start():
    """`helpers.start`, for programs that the test itself may leave running when it fails."""
    programs = []

    def start_one(command, folder, **environ):
        programs.append(helpers.start(command, folder, **environ))
        return programs[-1]

    yield start_one
    for program in programs:
        helpers.end(program)

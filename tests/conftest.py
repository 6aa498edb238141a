"""For every test: its functions travel by value, and it leaves no rank and no file behind."""

import functools
import gc
import importlib.util
import os
import signal
from pathlib import Path

import cloudpickle
import distribution
import helpers
import kernels
import leftovers
import margins
import needs
import pytest

from pedagogy_lib.basics import closeness
from pedagogy_lib.ranks import fork_server_client

# Some GPU machines have no Jupyter, which most tests need, and those on GPUs do not.
if not importlib.util.find_spec("jupytext"):
    tests = Path(__file__).parent.rglob("test_*.py")
    collect_ignore = [str(path) for path in tests if "mark.gpu" not in path.read_text()]

kernels.tell_onednn()
cloudpickle.register_pickle_by_value(helpers)
signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background, shells ignore it


def pytest_addoption(parser):
    parser.addoption("--needing", metavar="NAMES", help="only tests that need these: see needs.py")


def pytest_terminal_summary(terminalreporter):
    needs.tell(terminalreporter)


def pytest_configure(config):
    """Add what this session does beside its tests; those of the bench also run without a course."""
    if all(map(importlib.util.find_spec, ("coursekit", "jupytext"))):
        need_chapters()
        import course_tests

        config.pluginmanager.register(course_tests)
    config.pluginmanager.register(margins.Plugin())
    config.pluginmanager.register(leftovers.Plugin(config))
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(distribution.Plugin())
    if config.pluginmanager.hasplugin("nbval"):
        start_kernels_again()


def need_chapters():
    """End the session with one sentence if a chapter.toml is wrong, because most tests read it."""
    from coursekit.chapters import chapters
    from pedagogy_lib.basics.errors import WrongInput

    try:
        chapters()
    except WrongInput as error:
        raise pytest.UsageError(error) from None


def start_kernels_again():
    """A kernel dies if another program takes a port that it has chosen, and not yet opened.

    Its launches may compute longer than their timeouts: other notebooks are executed beside it.
    """
    from nbval import kernel

    start = functools.partial(kernel.start_new_kernel, env={**os.environ, "PEDAGOGY_PATIENCE": "4"})

    def start_once_more(*args, **kwargs):
        try:
            return start(*args, **kwargs)
        except RuntimeError:
            return start(*args, **kwargs)

    kernel.start_new_kernel = start_once_more


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Disable the garbage collector meanwhile, and keep it away from the collected tests later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionfinish():
    fork_server_client.close_server()


def pytest_collection_modifyitems(config, items):
    for module in {item.module for item in items if hasattr(item, "module")}:
        cloudpickle.register_pickle_by_value(module)  # so that ranks need not import pytest
    needs.skip_without_their_needs(items)
    if config.getoption("needing"):
        needs.keep_those_needing(config.getoption("needing"), config, items)
    distribution.longest_first(items)
    compared = list(filter(depends_on_kernels, items))
    pieces = [distribution.piece_of(item.nodeid) for item in compared]
    chosen = kernels.select_share(pieces, os.environ.get(kernels.SHARE))
    for item, piece in zip(compared, pieces, strict=True):
        if piece in chosen:
            item.add_marker(pytest.mark.kernels)


def depends_on_kernels(item) -> bool:
    """Whether it compares what was computed: a solved notebook, a right answer, or with `close`."""
    if item.path.suffix == ".ipynb":
        return item.path.parent.name == "solutions"
    if item.path.name == "test_answers.py":
        return "wrong" not in item.originalname
    own = closeness.__name__
    return any(getattr(value, "__module__", "") == own for value in vars(item.module).values())


@pytest.fixture(autouse=True)
def no_rank_left():
    yield
    assert helpers.wait_until(lambda: not helpers.ranks_left()), helpers.ranks_left()


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

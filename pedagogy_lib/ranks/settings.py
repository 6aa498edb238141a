"""Checks of a launch's settings; each error says what to write instead."""

import inspect
import os
import sys
from collections.abc import Sequence
from numbers import Integral, Real

import torch

from ..basics.errors import LaunchError
from ..basics.units import brief
from ..machines.spec import Machines

# The variables in which torchrun, and launchers like it, give a process its rank.
VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
NO_RANK = (
    "launch() passes no rank: drop the parameters `rank` and `world_size`, and call "
    "dist.get_rank() and dist.get_world_size() inside"
)
SEEDS = range(-(2**63), 2**64)  # that torch accepts


def is_torchrun_launched() -> bool:
    """Return whether torchrun (or a launcher that sets the same variables) started this process."""
    is_notebook = "ipykernel" in sys.modules  # where a learner only tries these variables out
    return not is_notebook and all(name in os.environ for name in VARIABLES)


def need_function(fn, name):
    """Raise LaunchError unless `name()` was called with a function, and outside a rank."""
    if os.environ.get("PEDAGOGY_RANK"):
        raise LaunchError(f"{name}() was called inside a rank; call it outside of the function")
    if not callable(fn):
        raise LaunchError(
            f"{name}() runs a function, but got {brief(fn)}: write {name}(step), not {name}(step())"
        )


def check_call(fn, args):
    """Raise LaunchError unless `fn` takes these arguments and does its work when it is called."""
    if says_yes(inspect.iscoroutinefunction, fn) or says_yes(inspect.isasyncgenfunction, fn):
        raise LaunchError(f"{name_of(fn)} is an async function: write it with `def` alone")
    if says_yes(inspect.isgeneratorfunction, fn):
        raise LaunchError(
            f"{name_of(fn)} contains `yield`, so a call would not run it: collect what it yields "
            "in a list, and return that"
        )
    try:
        inspect.signature(fn).bind(*args)
    except TypeError as error:
        if "rank" in inspect.signature(fn).parameters:
            raise LaunchError(f"{call_of(fn, args)} cannot be called: {NO_RANK}") from None
        raise LaunchError(
            f"{call_of(fn, args)} cannot be called: {error}. What follows the function goes to it; "
            f"launch's own settings have names, like {setting_meant(fn, args)}"
        ) from None
    except Exception:  # a built-in function may hide its arguments; a class may do anything
        pass


def says_yes(question, fn) -> bool:
    try:
        return question(fn)
    except Exception:  # an object of a class that may do anything
        return False


def call_of(fn, args) -> str:
    """Format a call as it is written: `step(4)`."""
    return f"{name_of(fn)}({', '.join(map(brief, args))})"


def name_of(fn) -> str:
    try:
        return fn.__name__ or brief(fn)
    except Exception:  # it has none, or a property that raises
        return brief(fn)


def setting_meant(fn, args) -> str:
    """Return an example of a setting; for a lone number that `fn` does not take, the one meant."""
    if [type(arg) for arg in args] != [int] or inspect.signature(fn).parameters:
        return "world_size=4"
    ranks, name = brief(*args), name_of(fn)
    return f"world_size={ranks}: for {ranks} ranks write launch({name}, world_size={ranks})"


def check_numbers(world_size, timeout):
    if not is_whole(world_size) or not 1 <= world_size <= 256:
        raise LaunchError(f"world_size is a whole number from 1 to 256, not {brief(world_size)}")
    if not is_duration(timeout):
        raise LaunchError(f"timeout is a positive number of seconds, not {brief(timeout)}")


def check_replacements(replacements):
    if replacements is not None and not (is_whole(replacements) and 0 <= replacements <= 1000):
        raise LaunchError(
            "replacements is None, or a whole number from 0 to 1000 of ranks that are replaced "
            f"when they die, not {brief(replacements)}"
        )


def check_machines(machines, device, world_size):
    """Raise LaunchError if there are machines among which ranks cannot be shared out."""
    if machines is None:
        return
    if not isinstance(machines, Machines):
        example = "Machines(2, bytes_per_second=25e6)"
        raise LaunchError(f"machines is {example}, for example, not {brief(machines)}")
    if device not in ("auto", "cpu"):
        raise LaunchError('ranks on machines of their own compute on the CPU: use device="auto"')
    machines.places(world_size)


def is_whole(value) -> bool:
    """Return whether a value is a whole number, which True is in Python but not to a learner."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_duration(value) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and float(value) > 0
    except OverflowError:  # a whole number that is too long for a float
        return False


def choose_device(device: str, world_size: int) -> tuple[str, list[str]]:
    """Return the backend, and the device of each rank; see `launch`."""
    if device not in ("auto", "cpu", "cuda"):
        meant = ': did you mean "cuda"?' if str(device).lower() == "gpu" else ""
        raise LaunchError(f'device is "auto", "cpu" or "cuda", not {device!r}{meant}')
    gpus = torch.cuda.device_count() if device != "cpu" else 0
    if device == "cuda" and gpus == 0:
        raise LaunchError('device="cuda" needs a GPU, and torch sees none; use device="auto"')
    if gpus >= world_size:
        return "nccl", [f"cuda:{rank}" for rank in range(world_size)]
    if device == "cuda":
        return "gloo", [f"cuda:{rank % gpus}" for rank in range(world_size)]
    return "gloo", ["cpu"] * world_size


def seeds_of(seed, world_size, exactly=True) -> list[int]:
    """Return one seed per rank; raise LaunchError for bad seeds, too many only if `exactly`."""
    seeds = [seed] * world_size if is_whole(seed) else seed
    is_list = isinstance(seeds, Sequence) and not isinstance(seeds, (bytes, bytearray))
    if not is_list or not all(map(is_whole, seeds)):
        raise LaunchError(f"seed is a whole number, or one for each rank, not {brief(seed)}")
    if len(seeds) < world_size or (exactly and len(seeds) > world_size):
        raise LaunchError(f"{len(seeds)} seeds for {world_size} ranks: give one each, or one int")
    unfit = [s for s in seeds if int(s) not in SEEDS]
    if unfit:
        raise LaunchError(f"a seed is a number from -2**63 to 2**64 - 1, not {brief(unfit[0])}")
    return [int(s) for s in seeds]


def current_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise LaunchError(
            "the current folder has been deleted: go to another one with os.chdir()"
        ) from None

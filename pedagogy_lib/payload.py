"""A learner's function on its way to the ranks: packed, weighed, and told apart from strays."""

import inspect
import warnings

import cloudpickle

from .errors import LaunchError

WARN_BYTES = 1_000_000


def pack(fn, args) -> bytes:
    """Serialise `fn` and `args`; raises LaunchError naming what cannot travel."""
    try:
        data = cloudpickle.dumps((fn, args))
    except Exception as error:
        raise LaunchError(explain(fn, args, error)) from None
    if len(data) > WARN_BYTES:
        warn_of_large_names(fn)
    return data


def captured(fn) -> dict:
    """Every outside name that `fn` uses, with its value."""
    fn = inspect.unwrap(fn)
    if not inspect.isfunction(fn):
        return {}
    try:
        names = inspect.getclosurevars(fn)
    except ValueError:  # a name of the function around it has no value yet
        return {}
    return {**names.globals, **names.nonlocals}


def explain(fn, args, error) -> str:
    for index, value in enumerate(args):
        if not travels(value):
            return f"argument {index} of the launched function ({kind(value)}) {CANNOT} ({error})"
    for name, value in captured(fn).items():
        within = captured(value) if inspect.isfunction(value) else {}
        if "get_ipython" in (name, *within):
            return MAGICS
        if not travels(value):
            return f"`{name}` ({kind(value)}), which the function uses, {CANNOT} ({error})"
    return f"the launched function {CANNOT} ({error})"


CANNOT = "cannot travel to another process; create it inside the function"
MAGICS = (
    "lines that begin with ! or % work in the notebook only: in a function that ranks run, use "
    "subprocess.run(), or measure() for times"
)


def kind(value) -> str:
    return f"a {type(value).__name__}"


def travels(value) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:
        return False
    return True


def warn_of_large_names(fn):
    """Say which outside names weigh more than a megabyte. What is passed as argument is meant."""
    for name, value in captured(fn).items():
        size = len(cloudpickle.dumps(value)) if travels(value) else 0
        if size > WARN_BYTES:
            warnings.warn(
                f"`{name}` ({size / 1e6:.1f} MB) is copied to every rank because the function "
                "uses it; pass it as an argument if you mean that, or create it inside.",
                stacklevel=5,
            )

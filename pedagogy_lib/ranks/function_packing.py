"""Packs the learner's function for the ranks, and tells what of it cannot travel, or is large."""

import inspect
import io
import pickle
import warnings

from ..basics.errors import LaunchError
from .pickling import Pickler, dumps, said_by

WARN_BYTES = 1_000_000
MOST_PACKINGS = 5


class LaunchPickler(Pickler):
    """Sends labs (course.labs.Lab) with their files as they are now, each in one version.

    versions  {file: what was sent of it}
    is_mixed  whether a file was saved meanwhile
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.versions, self.is_mixed = {}, False

    def reducer_override(self, value):
        if "_reduce_for_ranks" in vars(type(value)):
            return value._reduce_for_ranks(self.one_version)
        return super().reducer_override(value)

    def one_version(self, path, content):
        first = self.versions.setdefault(path, content)
        self.is_mixed |= first != content
        return first  # the same object for all labs, so that it is packed once


def pack(fn, args) -> bytes:
    """Serialise `fn` and `args`; raises LaunchError naming what cannot travel."""
    try:
        data = pack_one_version((fn, args))
    except (LaunchError, KeyboardInterrupt):
        raise
    except BaseException as error:  # whatever a class of the learner's raises
        raise LaunchError(explain(fn, args, error)) from None
    if len(data) > WARN_BYTES:
        warn_of_large_names(fn)
    return data


def pack_one_version(value) -> bytes:
    """Serialise; again if a file that two labs import was saved meanwhile."""
    for _ in range(MOST_PACKINGS):
        buffer = io.BytesIO()
        pickler = LaunchPickler(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        pickler.dump(value)
        if not pickler.is_mixed:
            return buffer.getvalue()
    raise LaunchError("a lab is being saved all the time: launch when that has ended")


def find_closure_vars(fn) -> dict:
    """Every outside name that `fn` uses, with its value."""
    fn = inspect.unwrap(fn)
    if not inspect.isfunction(fn):
        return {}
    try:
        names = inspect.getclosurevars(fn)
    except ValueError:  # a name of the function around it has no value yet
        return {}
    return {**names.globals, **names.nonlocals}


def held_by(fn) -> dict:
    """The attributes of the object whose method `fn` is, or of `fn` if that is an object."""
    is_plain = inspect.isroutine(fn) or inspect.isclass(fn)
    owner = getattr(fn, "__self__", None) if is_plain else fn
    return getattr(owner, "__dict__", {})


def explain(fn, args, error) -> str:
    """What cannot travel, by its name: an argument, an attribute, or an outside name of `fn`."""
    for index, value in enumerate(args):
        if not travels(value):
            which = f"argument {index} of the launched function ({kind(value)})"
            return f"{which} {CANNOT} ({said_by(error)})"
    for name, value in held_by(fn).items():
        if not travels(value):
            held = f"`self.{name}` ({kind(value)}), which the launched function uses,"
            return f"{held} {CANNOT} ({said_by(error)})"
    for name, value in find_closure_vars(fn).items():
        within = find_closure_vars(value) if inspect.isfunction(value) else {}
        if "get_ipython" in (name, *within):
            return MAGICS
        if not travels(value):
            return f"`{name}` ({kind(value)}), which the function uses, {CANNOT} ({said_by(error)})"
    return f"the launched function {CANNOT} ({said_by(error)})"


CANNOT = "cannot travel to another process; create it inside the function"
MAGICS = (
    "lines that begin with ! or % work in the notebook only: in a function that ranks run, use "
    "subprocess.run(), or measure() for times"
)


def kind(value) -> str:
    return f"a {type(value).__name__}"


def travels(value) -> bool:
    try:
        dumps(value)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return False
    return True


def warn_of_large_names(fn):
    """Warn of outside names over a megabyte. Large arguments are passed on purpose."""
    for name, value in find_closure_vars(fn).items():
        size = len(dumps(value)) if travels(value) else 0
        if size > WARN_BYTES:
            warnings.warn(
                f"`{name}` ({size / 1e6:.1f} MB) is copied to every rank because the function "
                "uses it; pass it as an argument if you mean that, or create it inside.",
                stacklevel=5,
            )

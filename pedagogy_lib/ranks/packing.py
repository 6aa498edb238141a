"""Packing of values that travel between the notebook and the ranks.

The learner's function travels to the ranks, and its values travel back. Errors name the part that
cannot travel.
"""

import contextlib
import functools
import inspect
import io
import pickle
import sys
import warnings

import cloudpickle
import torch

from ..basics.errors import LaunchError
from ..basics.torch_private import make_typed_storage, untyped_storage_of
from .messages import SMALL_BYTES

WARN_BYTES = 1_000_000
MOST_PACKINGS = 5
CANNOT = "cannot travel to another process; create it inside the function"
MAGICS = (
    "lines that begin with ! or % work in the notebook only: in a function that ranks run, use "
    "subprocess.run(), or measure() for times"
)
OPEN_FILE = "an open file stays in its process: open it there, or send what it holds"
DTENSOR = "a DTensor holds one rank's part: return x.full_tensor() or x.to_local()"
OF_CPP_CLASSES = type(torch._C.Future)  # the class of PyTorch's classes from C++; no module has it
# Packages whose classes are known neither to hang nor to exit when they are unpacked.
KNOWN = {"builtins", "collections", "coursekit", "numpy", "pedagogy_lib", "torch"}


class Pickler(cloudpickle.Pickler):
    """A pickler for tensors that torch cannot pack, which refuses open files.

    cloudpickle would send the text of a file.
    """

    def reducer_override(self, value):
        if isinstance(value, io.TextIOWrapper) and value not in (sys.stdout, sys.stderr):
            raise TypeError(OPEN_FILE)
        if type(value) is torch.Tensor and not torch_can_pickle(value):
            return reduce_tensor(value)
        if value is OF_CPP_CLASSES:  # the metaclass of a learner's class, such as a store
            return type, (torch._C.Future,)
        if value is torch._C._functions:  # needed by once_differentiable; no import finds it
            return getattr, (torch._C, "_functions")
        return super().reducer_override(value)


def dumps(value) -> bytes:
    buffer = io.BytesIO()
    Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def reduce_tensor(tensor):
    """Return the value of `__reduce_ex__`, for tensors of every type."""
    if torch_can_pickle(tensor):
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return rebuild_tensor, (data, tensor.dtype, tensor.shape)


def rebuild_tensor(data, dtype, shape):
    return data.view(dtype).reshape(shape)


def torch_can_pickle(tensor) -> bool:
    is_special = tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized
    return is_special or knows_storage_of(tensor.dtype)


@functools.cache
def knows_storage_of(dtype) -> bool:
    """Return whether pickle can restore tensors of this type; not so for float8 and uint16."""
    try:
        pickle.loads(pickle.dumps(torch.empty(1, dtype=dtype, device="cpu")))
    except Exception:
        return False
    return True


def format_error(error) -> str:
    """Return the message of an error, or its class if it has none."""
    return str(error) or type(error).__name__


class LaunchPickler(Pickler):
    """A pickler that sends labs (coursekit.labs.Lab) with their current files, each in one version.

    versions  {file: the content that was sent}
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


def pack_function(fn, args) -> bytes:
    """Serialise `fn` and `args`; raise LaunchError naming what cannot travel."""
    try:
        data = pack_one_version((fn, args))
    except (LaunchError, KeyboardInterrupt):
        raise
    except BaseException as error:  # whatever a learner's class raises
        raise LaunchError(explain(fn, args, error)) from None
    if len(data) > WARN_BYTES:
        warn_of_large_names(fn)
    return data


def pack_one_version(value) -> bytes:
    """Serialise a value, again if a file that two labs import was saved meanwhile."""
    for _ in range(MOST_PACKINGS):
        buffer = io.BytesIO()
        pickler = LaunchPickler(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        pickler.dump(value)
        if not pickler.is_mixed:
            return buffer.getvalue()
    raise LaunchError("a lab is being saved all the time: launch when that has ended")


def find_closure_vars(fn) -> dict:
    """Return every outside name that `fn` uses, with its value."""
    fn = inspect.unwrap(fn)
    if not inspect.isfunction(fn):
        return {}
    try:
        names = inspect.getclosurevars(fn)
    except ValueError:  # a name of the function around it has no value yet
        return {}
    return {**names.globals, **names.nonlocals}


def list_attributes(fn) -> dict:
    """Return the attributes of the object whose method `fn` is, or of `fn` if it is an object."""
    is_plain = inspect.isroutine(fn) or inspect.isclass(fn)
    owner = getattr(fn, "__self__", None) if is_plain else fn
    return getattr(owner, "__dict__", {})


def explain(fn, args, error) -> str:
    """Name what cannot travel: an argument, an attribute, or an outside name of `fn`."""
    for index, value in enumerate(args):
        if not travels(value):
            which = f"argument {index} of the launched function ({kind(value)})"
            return f"{which} {CANNOT} ({format_error(error)})"
    for name, value in list_attributes(fn).items():
        if not travels(value):
            held = f"`self.{name}` ({kind(value)}), which the launched function uses,"
            return f"{held} {CANNOT} ({format_error(error)})"
    for name, value in find_closure_vars(fn).items():
        within = find_closure_vars(value) if inspect.isfunction(value) else {}
        if "get_ipython" in (name, *within):
            return MAGICS
        if not travels(value):
            return (
                f"`{name}` ({kind(value)}), which the function uses, {CANNOT} "
                f"({format_error(error)})"
            )
    return f"the launched function {CANNOT} ({format_error(error)})"


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
    """Warn of outside names over a megabyte, but not of arguments, which are passed on purpose."""
    for name, value in find_closure_vars(fn).items():
        size = len(dumps(value)) if travels(value) else 0
        if size > WARN_BYTES:
            warnings.warn(
                f"`{name}` ({size / 1e6:.1f} MB) is copied to every rank because the function "
                "uses it; pass it as an argument if you mean that, or create it inside.",
                stacklevel=5,
            )


class ResultPickler(Pickler):
    """A pickler that sends each tensor without graph, device or larger storage, its numbers apart.

    is_known  whether all classes in it come from `KNOWN` packages
    """

    is_known = True

    def reducer_override(self, value):
        if type(value).__name__ == "DTensor" and isinstance(value, torch.Tensor):
            raise TypeError(DTENSOR)
        self.is_known = self.is_known and package_of(value) in KNOWN
        if type(value) is torch.Tensor and needs_copy(value):
            return reduce_tensor(copy_of(value))
        if isinstance(value, torch.storage.TypedStorage):
            return make_typed_storage, (untyped_storage_of(value), value.dtype)
        if isinstance(value, torch.UntypedStorage) and value.device.type == "cpu":
            return storage_in, (pickle.PickleBuffer(bytes_of(value).numpy()),)
        return super().reducer_override(value)


def package_of(value) -> str:
    """Return the package that a function, a class, or the class of any other value comes from."""
    owner = value if inspect.isclass(value) or inspect.isroutine(value) else type(value)
    return str(getattr(owner, "__module__", "")).partition(".")[0]


def needs_copy(tensor) -> bool:
    """Return whether a tensor has a graph, a device or a larger storage, which must not travel."""
    if tensor.layout is not torch.strided:
        return False
    whole = tensor.device.type == "meta" or tensor.untyped_storage().nbytes() == tensor.nbytes
    return tensor.requires_grad or tensor.device.type not in ("cpu", "meta") or not whole


def copy_of(tensor):
    plain = tensor.detach()
    return plain if plain.device.type == "meta" else plain.cpu().clone()


def bytes_of(storage):
    return torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)


def storage_in(buffer) -> torch.UntypedStorage:
    """Return a storage whose memory is `buffer`, which it keeps alive."""
    if not len(buffer):
        return torch.UntypedStorage(0)
    return torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()


def pack_value(value) -> list:
    """Return a pickle of a value, and the large buffers that it leaves out.

    A learner's class may hang when it is unpacked, or end the process. A rank can be killed but the
    notebook cannot, so the rank tries it first.
    """
    buffers = []

    def keep_apart(buffer):  # true if the pickle itself takes the buffer
        is_small = buffer.raw().nbytes < SMALL_BYTES
        return is_small or buffers.append(buffer)

    stream = io.BytesIO()
    pickler = ResultPickler(stream, protocol=5, buffer_callback=keep_apart)
    pickler.dump(value)
    if not pickler.is_known:
        with contextlib.suppress(BaseException):  # the notebook will report it
            cloudpickle.loads(stream.getbuffer(), buffers=buffers)
    return [pickle.PickleBuffer(stream.getbuffer()), *buffers]


def pack_whole(value) -> list:
    """Return one pickle of a value, with all buffers in it, as a list."""
    stream = io.BytesIO()
    ResultPickler(stream, protocol=5).dump(value)
    return [stream.getvalue()]


def unpack_value(rank, packed, kind):
    """Return the value of a rank; raise LaunchError if it cannot be unpacked in this process."""
    stream, *buffers = packed
    try:
        return cloudpickle.loads(stream, buffers=buffers)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise LaunchError(
            f"rank {rank} returned a {kind}, which lives in ranks only "
            f"({type(error).__name__}: {error}); return numbers, strings, tensors, or lists "
            "and dicts of them"
        ) from None

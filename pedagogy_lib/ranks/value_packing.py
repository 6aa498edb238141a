"""What a rank returns, on its way to the notebook: packed there, unpacked here."""

import contextlib
import inspect
import io
import pickle

import cloudpickle
import torch

from ..basics.errors import LaunchError
from ..basics.torch_private import make_typed_storage, untyped_storage_of
from .messages import SMALL_BYTES
from .pickling import Pickler, reduced

# Packages whose classes, when they are unpacked, are known neither to hang nor to exit.
KNOWN = {"builtins", "collections", "coursekit", "numpy", "pedagogy_lib", "torch"}


class ResultPickler(Pickler):
    """Sends each tensor without graph, device or larger storage; its numbers travel beside.

    is_known  whether all classes in it come from `KNOWN` packages
    """

    is_known = True

    def reducer_override(self, value):
        self.is_known = self.is_known and package_of(value) in KNOWN
        if type(value) is torch.Tensor and needs_copy(value):
            return reduced(copy_of(value))
        if isinstance(value, torch.storage.TypedStorage):
            return make_typed_storage, (untyped_storage_of(value), value.dtype)
        if isinstance(value, torch.UntypedStorage) and value.device.type == "cpu":
            return storage_in, (pickle.PickleBuffer(bytes_of(value).numpy()),)
        return super().reducer_override(value)


def package_of(value) -> str:
    """Where a function, a class, or the class of any other value comes from."""
    owner = value if inspect.isclass(value) or inspect.isroutine(value) else type(value)
    return str(getattr(owner, "__module__", "")).partition(".")[0]


def needs_copy(tensor) -> bool:
    """Whether it has a graph, a device or a larger storage, which are not to travel."""
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
    """Storage that lies in `buffer`, which it keeps."""
    if not len(buffer):
        return torch.UntypedStorage(0)
    return torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()


def pack(value) -> list:
    """A pickle, and the large buffers that it leaves out.

    A class of the learner's may hang when it is unpacked, or end the process. A rank can be killed,
    the notebook cannot: so the rank tries it out first.
    """
    buffers = []

    def keep_apart(buffer):  # true for what the pickle itself takes
        is_small = buffer.raw().nbytes < SMALL_BYTES
        return is_small or buffers.append(buffer)

    stream = io.BytesIO()
    pickler = ResultPickler(stream, protocol=5, buffer_callback=keep_apart)
    pickler.dump(value)
    if not pickler.is_known:
        with contextlib.suppress(BaseException):  # the notebook will say it
            cloudpickle.loads(stream.getbuffer(), buffers=buffers)
    return [pickle.PickleBuffer(stream.getbuffer()), *buffers]


def pack_whole(value) -> list:
    """The same in one pickle, with all buffers in it."""
    stream = io.BytesIO()
    ResultPickler(stream, protocol=5).dump(value)
    return [stream.getvalue()]


def unpack(rank, packed, kind):
    """What a rank returned; raises LaunchError if that cannot be unpacked in this process."""
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

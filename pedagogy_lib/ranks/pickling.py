"""How values that travel between the notebook and the ranks are pickled."""

import functools
import io
import pickle
import sys

import cloudpickle
import torch

OPEN_FILE = "an open file stays in its process: open it there, or send what it holds"

OF_CPP_CLASSES = type(torch._C.Future)  # the class of PyTorch's classes from C++; no module has it


class Pickler(cloudpickle.Pickler):
    """Also packs what torch cannot, and refuses open files, of which cloudpickle sends the text."""

    def reducer_override(self, value):
        if isinstance(value, io.TextIOWrapper) and value not in (sys.stdout, sys.stderr):
            raise TypeError(OPEN_FILE)
        if type(value) is torch.Tensor and not torch_can_pickle(value):
            return reduced(value)
        if value is OF_CPP_CLASSES:  # of a class of the learner's, such as a store
            return type, (torch._C.Future,)
        return super().reducer_override(value)


def dumps(value) -> bytes:
    buffer = io.BytesIO()
    Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def reduced(tensor):
    """What `__reduce_ex__` returns, for tensors of every type."""
    if torch_can_pickle(tensor):
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return from_bytes, (data, tensor.dtype, tensor.shape)


def from_bytes(data, dtype, shape):
    return data.view(dtype).reshape(shape)


def torch_can_pickle(tensor) -> bool:
    is_special = tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized
    return is_special or knows_storage_of(tensor.dtype)


@functools.cache
def knows_storage_of(dtype) -> bool:
    """Whether pickle can restore tensors of this type. It cannot for float8 and uint16."""
    try:
        pickle.loads(pickle.dumps(torch.empty(1, dtype=dtype, device="cpu")))
    except Exception:
        return False
    return True


def said_by(error) -> str:
    """What an error says; its class if it says nothing."""
    return str(error) or type(error).__name__

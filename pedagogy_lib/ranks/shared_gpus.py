"""Messages between ranks that share a GPU, which pass through the CPU, as Gloo cannot send them.

Gloo's collectives take tensors on a GPU and copy them to the CPU themselves. Its send and receive
pass the GPU's address to the system call, which answers "Bad address".
"""

import torch
import torch.distributed as dist

from ..measuring.replaced_calls import put


def send_through_the_cpu(device_type="cuda"):
    """Make isend, irecv, send and recv pass tensors on this device type through the CPU."""
    isend, irecv = dist.isend, dist.irecv

    def send(tensor, *args, **kwargs):
        on_cpu = tensor.cpu() if is_there(tensor, device_type) else tensor
        return isend(on_cpu, *args, **kwargs)

    def receive(tensor, *args, **kwargs):
        if not is_there(tensor, device_type):
            return irecv(tensor, *args, **kwargs)
        on_cpu = torch.empty_like(tensor, device="cpu")
        return CpuRecvWork(irecv(on_cpu, *args, **kwargs), on_cpu, tensor)

    put({"isend": send, "irecv": receive})


def is_there(tensor, device_type) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.device.type == device_type


class CpuRecvWork:
    """The request of a message, which the first `wait` copies from the CPU to its tensor."""

    def __init__(self, request, on_cpu, tensor):
        self.request, self.on_cpu, self.tensor, self.is_copied = request, on_cpu, tensor, False

    def __getattr__(self, name):
        return getattr(self.request, name)

    def wait(self, *args):
        if not self.is_copied:  # before a second wait, the caller may have changed the tensor
            self.request.wait(*args)
            with torch.no_grad():
                self.tensor.copy_(self.on_cpu)
            self.is_copied = True
        return True

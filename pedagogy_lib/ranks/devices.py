"""Which backend and device each rank gets."""

import torch

from ..basics.errors import LaunchError


def choose_device(device: str, world_size: int) -> tuple[str, list[str]]:
    """The backend, and the device of each rank; see `launch`."""
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

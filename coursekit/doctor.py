"""Checks that a machine can run the course: each prints a line that is ok or says what to do."""

import importlib.metadata
import platform
import shutil
import socket
import sys
import time
from pathlib import Path

from pedagogy_lib.basics.text_wrap import wrap
from pedagogy_lib.machines import container
from pedagogy_lib.machines.other_users import keeps_to_itself, other_people

OK, NOTE, BAD = "ok  ", "note", "FAIL"
JUPYTER = ("jupyterlab", "ipykernel", "ipywidgets", "matplotlib")
FIRST_PYTHON = (3, 10)
ENOUGH_MEMORY_GB = 4
ENOUGH_SHARED_BYTES = 512_000_000  # Docker's default is 64 MB


def examine() -> int:
    """Print one line for each check; return 1 if one failed, else 0."""
    found = set()
    for check in CHECKS:
        try:
            verdict, text = check()
        except Exception as error:
            verdict, text = BAD, f"{check.__name__.replace('_', ' ')}: {error}"
        print("\n".join(wrap(text, f"{verdict}  ")))
        found.add(verdict)
    failed, noted = BAD in found, NOTE in found
    well = "Everything works; a note above may matter to you." if noted else "All is well."
    print("Something needs your attention: see above." if failed else well)
    return int(failed)


def python_version():
    version = platform.python_version()
    if sys.version_info < FIRST_PYTHON:
        return BAD, f"Python {version} is too old: install 3.10 or newer"
    return OK, f"Python {version} on {platform.system()} {platform.machine()}"


def torch_version():
    import torch

    return OK, f"torch {torch.__version__}"


def start_method():
    from pedagogy_lib.ranks.fork_server_client import START_METHOD

    if START_METHOD == "fork":
        return OK, "start method: ranks are forked, in milliseconds"
    return NOTE, "start method: every rank is a fresh interpreter, so a launch takes seconds"


def four_ranks():
    """Check that four ranks start, find each other and sum a number."""
    import torch
    import torch.distributed as dist

    from pedagogy_lib.ranks.launcher import launch

    def sum_of_ranks():
        x = torch.tensor(dist.get_rank())
        dist.all_reduce(x)
        return x.item()

    launch(sum_of_ranks, device="cpu")
    began = time.perf_counter()
    values = launch(sum_of_ranks, device="cpu").values
    seconds = time.perf_counter() - began
    if values != [6, 6, 6, 6]:
        return BAD, f"four ranks on loopback summed 0 + 1 + 2 + 3 to {values}"
    return OK, f"four Gloo ranks on loopback: started, agreed and gone in {seconds:.2f} s"


def kernel_counters():
    """Check that the kernel counts the bytes that a rank sends."""
    import torch
    import torch.distributed as dist

    from pedagogy_lib.measuring.recorder import measure
    from pedagogy_lib.ranks.launcher import launch

    size = 10_000_000

    def send_ten_megabytes():
        x = torch.zeros(size, dtype=torch.uint8)
        with measure("send"):
            if dist.get_rank() == 0:
                dist.send(x, dst=1)
            else:
                dist.recv(x, src=0)

    block = launch(send_ten_megabytes, world_size=2, device="cpu")["send"]
    if block.wire == "counted":
        return NOTE, "bytes on the wire are counted from the calls: this kernel does not tell"
    error = abs(block.sent_bytes[0] - size) / size
    verdict = OK if error < 0.005 else BAD
    return verdict, f"kernel counters: 10 MB sent, {block.sent_bytes[0] / 1e6:.3f} MB counted"


def cores():
    count, whole = container.cores()
    own = f" of this computer's {whole}" if count < whole else ""
    if count < 2:
        return NOTE, f"1 core{own}: everything runs, but no timing will show ranks side by side"
    return OK, f"{count} cores{own}: up to {count} busy ranks can run side by side"


def memory():
    gigabytes, whole = (size / 1e9 for size in container.memory_bytes())
    own = f", as much as this container may take of {whole:.1f} GB" if gigabytes < whole else ""
    if gigabytes >= ENOUGH_MEMORY_GB:
        return OK, f"{gigabytes:.1f} GB of memory{own}"
    what_to_do = (
        "shut down the kernels of notebooks that you have left"
        if own
        else ("close other programs while you work")
    )
    return NOTE, f"{gigabytes:.1f} GB of memory{own}: {what_to_do}"


def shared_memory():
    """Check the shared memory: NCCL's ranks need it, Gloo's use the loopback network."""
    import torch

    size = container.read_shm_bytes()
    if torch.cuda.device_count() < 2:
        return OK, "shared memory: ranks on the CPU need none"
    if size is not None and size < ENOUGH_SHARED_BYTES:
        return NOTE, (
            f"{size / 1e6:.0f} MB of shared memory, which is little for ranks on several GPUs: "
            "start the container with --shm-size 1g"
        )
    return OK, "shared memory: enough for ranks on several GPUs"


def gpus():
    """Check whether PyTorch finds the GPUs that the computer has."""
    import torch

    count = torch.cuda.device_count()
    if count == 0 and not has_nvidia_driver():
        return OK, "no GPU: ranks run on the CPU, over Gloo"
    if count == 0 and not torch.version.cuda:
        return NOTE, (
            "an NVIDIA driver, but a PyTorch for the CPU alone: name a Python whose PyTorch has "
            "CUDA, `make lab PYTHON=/path/to/python`, or, where no Python has one, let "
            "`make clean` and `make lab` install it"
        )
    if count == 0:
        return NOTE, (
            "an NVIDIA driver, but PyTorch finds no GPU, so ranks run on the CPU: see what "
            "`nvidia-smi` says, and whether CUDA_VISIBLE_DEVICES hides them"
        )
    name = torch.cuda.get_device_name(0)
    return OK, f"{count} GPU ({name}): launches of up to {count} ranks use NCCL"


def has_nvidia_driver():
    return Path("/proc/driver/nvidia").exists() or shutil.which("nvidia-smi") is not None


def jupyter():
    missing = []
    for name in JUPYTER:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        return BAD, f"missing {', '.join(missing)}: run `make lab`, or pip install them"
    return OK, f"JupyterLab {importlib.metadata.version('jupyterlab')}"


def neighbours():
    """Check whether other users of the computer could reach the ranks of a launch."""
    if sys.platform != "linux":
        return OK, "other people: not looked for, as this is not Linux"
    count = len(other_people())
    if count == 0:
        return OK, "nobody else has an account here"
    people = f"{count} other {'person has an account' if count == 1 else 'people have accounts'}"
    if keeps_to_itself() and has_own_network():
        return OK, f"{people} here: ranks on the CPU meet in a network of their own"
    return NOTE, (
        f"{people} here. If you trust them, nothing is to be done. Else: while a launch runs, a "
        "program of theirs could join its ranks and feed them false data, or code where objects "
        "are sent: see classroom/README.md"
    )


def has_own_network() -> bool:
    """Return whether a rank finds no network but its own loopback."""
    from pedagogy_lib.ranks.launcher import launch

    def networks():
        return [name for _, name in socket.if_nameindex()]

    return launch(networks, world_size=1, device="cpu").values[0] == ["lo"]


def machines():
    from pedagogy_lib.machines.network import try_machines

    problem = try_machines()
    if problem:
        return NOTE, f"no machines of their own for ranks: {problem}. Links are throttled instead"
    return OK, "machines=Machines(2): ranks on machines of their own, with real network cards"


CHECKS = (
    python_version,
    torch_version,
    start_method,
    four_ranks,
    kernel_counters,
    cores,
    memory,
    shared_memory,
    gpus,
    neighbours,
    machines,
    jupyter,
)

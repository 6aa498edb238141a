# Built from chapters/ch05_memory/labs/large_vocabulary.py by `make build`. Write your answers here.
"""The loss of a model with a large vocabulary: from all logits at once, or from a chunk at a time.

torchrun --nproc-per-node 1 labs/large_vocabulary.py
"""

import time
from functools import partial

import torch
import torch.nn.functional as F
from model_shapes import model_named
from torch import Tensor, nn

# ---- A loss in chunks -----------------------------------------------------------------------


def backward_in_chunks(hidden: Tensor, weight: Tensor, targets: Tensor, size: int) -> Tensor:
    """Exercise 5.8. Return a mean cross-entropy and run its whole backward.

    The loss is that of hidden @ weight.T. Compute the logits of `size` positions at a time (of
    fewer in the last chunk), go back through them at once, and free them. Afterwards the gradients
    of this loss have been added to .grad of `weight`, and of everything that `hidden` was computed
    from.

    hidden   (positions, width), computed by other layers that are trained; their graph is used up
    weight   (vocabulary, width), a parameter that is trained; it may have a gradient already, and
             other uses
    targets  (positions,), int64; a position whose target is -100 is ignored
    Returns  the mean over all positions, a tensor with one number and no graph
    Equals   F.cross_entropy(hidden @ weight.T, targets), and then backward(). With numbers of 16
             bits, the loss and the sums over chunks are float32
    Cost     memory: the logits of one chunk, what cross_entropy makes of them, gradients; the
             backward of the layers before runs once
    """
    ...  # your code here


def backward_at_once(hidden: Tensor, weight: Tensor, targets: Tensor, dtype=None) -> Tensor:
    """Compute all logits in this dtype, then the loss in float32 or more, and run its backward."""
    logits = hidden.to(dtype or hidden.dtype) @ weight.to(dtype or weight.dtype).T
    loss = F.cross_entropy(logits.float() if dtype else logits, targets)
    loss.backward()
    return loss.detach()


def backward_by_torch(hidden: Tensor, weight: Tensor, targets: Tensor, size: int) -> Tensor:
    """Run F.linear_cross_entropy, which PyTorch has from version 2.13 on, and its backward."""
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=size, chunking_method=None)
    loss = F.linear_cross_entropy(hidden, weight, targets, options=options)
    loss.backward()
    return loss.detach()


def torch_has_it() -> bool:
    """Return whether this version of PyTorch has F.linear_cross_entropy."""
    return hasattr(F, "linear_cross_entropy")


# ---- Time and memory ------------------------------------------------------------------------


class Problem:
    """A layer that makes `hidden`, the last matrix of a model, and targets."""

    def __init__(self, positions, width, vocabulary, dtype=torch.float32):
        torch.manual_seed(0)
        self.layer = nn.Linear(width, width, dtype=dtype)
        self.weight = nn.Parameter(torch.randn(vocabulary, width, dtype=dtype) / width**0.5)
        self.inputs = torch.randn(positions, width, dtype=dtype)
        self.targets = torch.randint(vocabulary, (positions,))

    def backward(self, way) -> Tensor:
        """Run one of the ways above without old gradients; return the loss."""
        self.layer.weight.grad = self.layer.bias.grad = self.weight.grad = None
        return way(self.layer(self.inputs), self.weight, self.targets)

    def gradients(self) -> list[Tensor]:
        return [self.weight.grad, self.layer.weight.grad, self.layer.bias.grad]


def time_ways(ways, positions, width, vocabulary, rounds=2) -> dict[str, float]:
    """Return {way: seconds of its quickest round}; each way is also a measured block."""
    from pedagogy_lib import measure

    problem, times = Problem(positions, width, vocabulary), {way: [] for way in ways}
    for name, way in ways.items():
        with measure(name):
            problem.backward(way)
    for _ in range(rounds):
        for name, way in ways.items():
            began = time.perf_counter()
            problem.backward(way).item()  # item() waits until the device has finished
            times[name].append(time.perf_counter() - began)
    return {name: min(of_way) for name, of_way in times.items()}


def ways_in_chunks(sizes) -> dict:
    """Return {"… positions": backward_in_chunks with chunks of this size} for some sizes."""
    return {f"{size} positions": partial(backward_in_chunks, size=size) for size in sizes}


def is_as_at_once(way, positions=50, width=8, vocabulary=300) -> bool:
    """Return whether loss and gradients equal those of all logits at once, in float64."""
    from pedagogy_lib import close

    found = []
    for each in (way, backward_at_once):
        problem = Problem(positions, width, vocabulary, torch.float64)
        found.append([problem.backward(each), *problem.gradients()])
    return close(*found)


def bfloat16_error(way, positions=256, width=64, vocabulary=1_000) -> float:
    """Return how far the matrix's gradient in bfloat16 is from that in float32, by its length."""
    gradients = []
    for dtype in (torch.bfloat16, torch.float32):
        problem = Problem(positions, width, vocabulary)
        problem.inputs = problem.inputs.bfloat16().to(dtype)  # the same numbers in both
        problem.layer.bfloat16().to(dtype)
        problem.weight = nn.Parameter(problem.weight.detach().bfloat16().to(dtype))
        problem.backward(way)
        gradients.append(problem.weight.grad.float())
    return ((gradients[0] - gradients[1]).norm() / gradients[1].norm()).item()


def add_by_autograd(hidden: Tensor, weight: Tensor, targets: Tensor, size: int):
    """Run the backward of a loss in chunks; autograd adds up the gradients of the matrix."""
    for part, answers in zip(hidden.detach().split(size), targets.split(size)):
        loss = F.cross_entropy((part @ weight.T).float(), answers, reduction="sum")
        (loss / len(targets)).backward()


# ---- The memory of the process --------------------------------------------------------------


def process_bytes_of(way, positions, width, vocabulary):
    """Return by how many bytes the process grows at most during a backward, or None.

    Linux counts them; other systems may not.
    """
    problem = Problem(positions, width, vocabulary)
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # resets the highest value so far
        before = status("VmRSS")
        problem.backward(way)
        return status("VmHWM") - before
    except (OSError, ValueError):
        return None


def status(name) -> int:
    """Return a value that the kernel reports about this process, in bytes."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(name):
                return 1024 * int(line.split()[1])
    raise ValueError(name)


# ---- Well-known models ----------------------------------------------------------------------

MODELS = ("gpt2-xl", "llama-2-7b", "llama-3-8b", "llama-3-70b")


def rows_of_models(models=MODELS, bytes_each=14) -> list[list[str]]:
    """Return [model, vocabulary, positions of a sample, GB of its logits, of all blocks' inputs].

    bytes_each  per logit, with all that the loss makes of it
    """
    rows = []
    for name in models:
        shape = model_named(name)
        of_logits = bytes_each * shape.context * shape.vocabulary
        an_input = 2 * shape.context * shape.width  # in bfloat16
        of_inputs = shape.layers * an_input
        rows.append(
            [name, f"{shape.vocabulary:,}", f"{shape.context:,}"]
            + [f"{nbytes / 1e9:.1f} GB" for nbytes in (of_logits, of_inputs)]
        )
    return rows


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    ways = {"all at once": backward_at_once} | ways_in_chunks((128, 32))
    run = launch(time_ways, ways, 256, 64, 32_000, world_size=1)
    for name, seconds in run.values[0].items():
        print(f"{name:16} at most {run[name].peak_bytes[0]['total'] / 1e6:4.0f} MB, "
              f"{1e3 * seconds:.0f} ms")  # fmt: skip


if __name__ == "__main__":
    main()

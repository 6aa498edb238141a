# Built from chapters/ch03_data_parallel/labs/compiled_ddp.py by `make build`.
"""torch.compile with DDP: its graphs, and when all-reduces start during their backward.

torchrun --nproc-per-node 2 labs/compiled_ddp.py
"""

import logging
import time
from functools import partial
from importlib import import_module

import torch
import torch.distributed as dist
from ddp_options import LAYERS, WIDTH, some_inputs
from simple_ddp import share_of_rank
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# ---- A backend that tells what runs --------------------------------------------------------------


class Layers(nn.Module):
    """Eight layers of 1 MiB in a class of ours: torch.compile leaves a bare nn.Sequential alone."""

    def __init__(self):
        super().__init__()
        layers = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


def backend_that_notes(events):
    """Return a backend of torch.compile that runs graphs unchanged, without a C++ compiler.

    events  a list to which each backward of a graph appends its number: "0" is compiled first
    """
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    graphs = []

    def keep_forward(graph, inputs):
        return make_boxed_func(graph.forward)

    def note_backward(graph, inputs):
        name = str(len(graphs))
        graphs.append(name)

        def run(*arguments):
            events.append(name)
            return graph(*arguments)

        return make_boxed_func(run)

    return aot_autograd(fw_compiler=keep_forward, bw_compiler=note_backward)


def average(events, bucket):
    """Average a bucket as DDP does, and append its MiB to the events: a communication hook."""
    events.append(bucket.buffer().nbytes / 2**20)
    mean = bucket.buffer() / dist.get_world_size()
    return dist.all_reduce(mean, async_op=True).get_future().then(lambda done: done.value()[0])


def silence_tracer():
    """Let torch.compile's tracer report errors alone, and not that DDP marks spans."""
    import torch._dynamo  # torch._logging knows its logger from here on

    torch._logging.set_logs(dynamo=logging.ERROR)


# ---- Runs ----------------------------------------------------------------------------------------


def run_compiled(optimize_ddp, cap=1, iterations=3) -> tuple[list, torch.Tensor, float]:
    """Compile a model of eight layers under DDP and train it.

    optimize_ddp  the option of torch._dynamo; None: nothing is compiled
    cap           bucket_cap_mb of DDP
    Returns       the events of the last backward (the name of a graph, whose backward starts, or
                  the MiB of a bucket, whose all-reduce starts), its gradients, and the first
                  iteration's seconds
    """
    silence_tracer()
    torch.manual_seed(0)
    ddp, events, seconds = DistributedDataParallel(Layers(), bucket_cap_mb=cap), [], []
    ddp.register_comm_hook(events, average)
    forward = ddp
    if optimize_ddp is not None:
        settings = import_module("torch._dynamo.config")  # by name: it cannot travel to a rank
        settings.optimize_ddp = optimize_ddp
        forward = torch.compile(ddp, backend=backend_that_notes(events))
    for _ in range(iterations):
        events.clear()
        ddp.zero_grad()
        began = time.perf_counter()
        forward(some_inputs()).square().mean().backward()
        seconds.append(time.perf_counter() - began)
    gradients = torch.cat([p.grad.flatten() for p in ddp.parameters()])
    return events, gradients.cpu(), seconds[0]


def count_graphs(events) -> int:
    return sum(isinstance(event, str) for event in events)


def hidden_share(events) -> float:
    """Return the share of the buckets' bytes whose all-reduces start before the last graph does."""
    last = max(place for place, event in enumerate(events) if isinstance(event, str))
    sizes, early = ([event for event in some if not isinstance(event, str)]
                    for some in (events, events[:last]))  # fmt: skip
    return sum(early) / sum(sizes)


def describe_events(events) -> str:
    """Return the events on one line, the size of a bucket in brackets."""
    return " ".join(event if isinstance(event, str) else f"[{event:g}]" for event in events)


# ---- Symptoms of a step --------------------------------------------------------------------------


class SmallModel(nn.Module):
    """Two layers, whose weights are the same on every rank."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 1)

    def forward(self, x):
        return self.second(self.first(x).tanh())


def draw_samples(count):
    """Return inputs (count, 4) and targets (count, 1), the same on every rank."""
    chance = torch.Generator().manual_seed(1)
    x = torch.randn(count, 4, generator=chance, dtype=torch.float64, device="cpu")
    x = x.to(torch.get_default_device())
    return x, 3 * x[:, :1] + 1


def symptoms(compiled_step) -> float:
    """Return the first number of a gradient on this rank, for a step that compiled_step() makes."""
    silence_tracer()
    model, samples = SmallModel().double(), draw_samples(4 * dist.get_world_size())
    compile_it = partial(torch.compile, backend="eager")  # traces; runs the operations one by one
    compiled_step(model, compile_it, nn.functional.mse_loss)(*share_of_rank(samples))
    return model.first.weight.grad[0, 0].item()


def right_gradient(n) -> float:
    """Return the same number for one process that has the samples of n ranks."""
    model = SmallModel().double()
    inputs, targets = draw_samples(4 * n)
    nn.functional.mse_loss(model(inputs), targets).backward()
    return model.first.weight.grad[0, 0].item()


# ---- The program ---------------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    for optimize in (True, False):
        run = launch(run_compiled, optimize, world_size=2)
        if run.rank == 0:
            events = run.values[0][0]
            print(
                f"optimize_ddp={optimize}: {count_graphs(events)} graphs; "
                + describe_events(events)
            )


if __name__ == "__main__":
    main()

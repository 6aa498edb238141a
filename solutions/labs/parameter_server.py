"""A parameter server: with waiting, without waiting, and what old gradients do.

torchrun --nproc-per-node 2 labs/parameter_server.py
"""

import math
import time
from contextlib import nullcontext
from statistics import median

import torch
import torch.distributed as dist
import torch.nn.functional as F
from gradient_accumulation import digits
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

# ---- The server and its workers -------------------------------------------------------------
#
# Rank 0 has the weights and the optimizer. A worker pulls weights, computes a gradient at them,
# and pushes it. What the server sends is one tensor: 1 or 0, whether to go on, and the weights.


def order_of(model, going_on) -> Tensor:
    """What the server sends: the mark 1 (go on) or 0 (it is over), and then all weights."""
    weights = parameters_to_vector(model.parameters())
    return torch.cat([weights.new_tensor([float(going_on)]), weights])


def take_step(model, optimizer, gradient):
    """One step of the optimizer along a gradient that came as one flat tensor."""
    for p, part in zip(model.parameters(), gradient.split([p.numel() for p in model.parameters()])):
        p.grad = part.view_as(p)
    optimizer.step()


@torch.no_grad()
def serve_together(model, optimizer, is_over) -> list[int]:
    """The server, bulk-synchronous (BSP): an update takes one gradient of every worker.

    is_over  (updates so far) -> whether to end
    Returns  the staleness of each gradient, see serve_as_they_come: 0, always
    """
    workers, updates = range(1, dist.get_world_size()), 0
    gradient = torch.empty_like(parameters_to_vector(model.parameters()))
    while going_on := not is_over(updates):
        for request in [dist.isend(order_of(model, going_on), worker) for worker in workers]:
            request.wait()
        total = torch.zeros_like(gradient)
        for worker in workers:
            dist.recv(gradient, worker)
            total += gradient
        take_step(model, optimizer, total / len(workers))
        updates += 1
    for worker in workers:
        dist.send(order_of(model, going_on), worker)
    return [0] * updates * len(workers)


@torch.no_grad()
def serve_as_they_come(model, optimizer, is_over) -> list[int]:
    """Exercise 3.18. The server, asynchronous (ASP): an update takes the next gradient there is.

    At the start it sends order_of(model, True) to every worker. Then it repeats four things. It
    receives the next gradient, from whichever worker pushes first: `dist.recv(gradient)` without a
    source returns the rank of the sender. It takes a step along this one gradient. It asks
    is_over(updates so far). It answers the worker that pushed with the new order.

    When it is over, that answer has the mark 0, and this worker will not push again. Every other
    worker still pushes once. These gradients make updates, too, and are answered with a 0.

    is_over  (updates so far) -> whether to end; asked once after each update
    Returns  a list, in the order of the updates: how many updates the weights have had between
             those that the gradient was computed at and this update
    Example  2 workers; worker 1 pushes twice, then worker 2 pushes: [0, 0, 2]
    """
    gradient = torch.empty_like(parameters_to_vector(model.parameters()))
    ### BEGIN SOLUTION
    staleness, version_of = [], {}
    for worker in range(1, dist.get_world_size()):
        dist.send(order_of(model, True), worker)
        version_of[worker] = 0
    while version_of:
        worker = dist.recv(gradient)  # from anybody
        staleness.append(len(staleness) - version_of.pop(worker))
        take_step(model, optimizer, gradient)
        going_on = not is_over(len(staleness))
        dist.send(order_of(model, going_on), worker)
        if going_on:
            version_of[worker] = len(staleness)
    return staleness
    ### END SOLUTION


def work(model, compute_gradients):
    """A worker: pull, compute, push, until the server says that it is over.

    compute_gradients  (number of the round) leaves a gradient in every `.grad` of the model
    """
    order, rounds = order_of(model, True).detach(), 0
    while dist.recv(order, 0) == 0 and order[0]:
        vector_to_parameters(order[1:], model.parameters())
        compute_gradients(rounds)
        dist.send(torch.cat([p.grad.flatten() for p in model.parameters()]), 0)
        rounds += 1


# ---- What an exchange takes -----------------------------------------------------------------


def time_exchanges(ways, nbytes, bytes_per_second=None):
    """On each rank of a launch: each way to exchange `nbytes` once, measured under its name.

    ways              {name: a function of a tensor}
    bytes_per_second  throttles messages, where the ranks have no machines of their own
    """
    from pedagogy_lib import measure, throttle

    with throttle(bytes_per_second) if bytes_per_second else nullcontext():
        for name, way in ways.items():
            way(torch.zeros(16))  # the first messages open the connections
            dist.barrier()
            with measure(name):
                way(torch.zeros(nbytes // 4))


def typical_ms(run, label, first=2) -> list[float]:
    """Of each rank: the median of a block's rounds in ms, without the first ones."""
    return [1e3 * median(end - begin for begin, end in of[first:]) for of in run[label].spans]


# ---- A race: workers of different speed -----------------------------------------------------


def make_classifier(seed=0) -> nn.Module:
    """A small model for images of 64 pixels and ten classes."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def race(data, way, learning_rate, seconds, milliseconds):
    """On each rank of a launch: train for some seconds, with the server "BSP" or "ASP".

    data          images and labels
    milliseconds  how long each worker sleeps for a gradient, in place of computing for so long
    Returns       on rank 0: the staleness of each gradient, and (second, loss, updates) so far
    """
    images, labels, rank, history = data[0].float(), data[1], dist.get_rank(), []
    model = make_classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    torch.manual_seed(rank)  # from here on, each draws samples of its own

    def compute_gradients(number):
        time.sleep(milliseconds[rank - 1] / 1e3)
        some = torch.randint(len(labels), (64,))
        model.zero_grad()
        F.cross_entropy(model(images[some]), labels[some]).backward()

    def is_over(updates=0):
        loss = F.cross_entropy(model(images), labels).item()
        history.append((time.perf_counter() - began, loss, updates))
        return history[-1][0] > seconds

    dist.barrier()
    began = time.perf_counter()
    if rank:
        return work(model, compute_gradients)
    is_over()
    serve = serve_together if way == "BSP" else serve_as_they_come
    return serve(model, optimizer, is_over), history


# ---- Old gradients, without any race --------------------------------------------------------


def batches_of(data, steps, samples=64):
    """The same batches in every call: pairs of images and labels."""
    images, labels = data[0].float(), data[1]
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        some = torch.randint(len(labels), (samples,), generator=generator)
        yield images[some], labels[some]


def gradient_at(model, weights, batch) -> Tensor:
    """The gradient of a batch at these weights, both as flat tensors."""
    vector_to_parameters(weights, model.parameters())
    loss = F.cross_entropy(model(batch[0]), batch[1])
    return parameters_to_vector(torch.autograd.grad(loss, list(model.parameters())))


@torch.no_grad()
def loss_at(model, weights, data) -> float:
    """The loss on all training data at these weights."""
    vector_to_parameters(weights, model.parameters())
    return F.cross_entropy(model(data[0].float()), data[1]).item()


def largest_stable_rate(descend, staleness, steps=4000) -> float:
    """The largest learning rate at which descend(staleness, rate, steps) does not grow: tried."""
    low, high = 0.0, 4.0
    for _ in range(14):
        rate = (low + high) / 2
        weights = descend(staleness, rate, steps)
        # Written so that what has become infinite, or no number, does not count as stable.
        is_stable = max(map(abs, weights[-100:])) <= max(map(abs, weights[100:200]))
        low, high = (rate, high) if is_stable else (low, rate)
    return low


def typical_loss(train, data, staleness, learning_rate, seeds=3) -> float:
    """The median loss on all data over several starts; a run that ends in no number has 100."""
    losses = []
    for seed in range(seeds):
        model = make_classifier(seed)
        losses.append(loss_at(model, train(model, staleness, learning_rate), data))
    return median(min(loss, 100.0) if math.isfinite(loss) else 100.0 for loss in losses)


# ---- The program ----------------------------------------------------------------------------


def program(data, seconds=0.6) -> list[str]:
    """Both servers, for so long; what rank 0 says."""
    lines, milliseconds = [], [5] * (dist.get_world_size() - 2) + [25]
    for way in ("BSP", "ASP"):
        found = race(data, way, 0.1, seconds, milliseconds)
        if dist.get_rank() == 0:
            staleness, (*_, (_, loss, updates)) = found
            mean = sum(staleness) / len(staleness)
            lines.append(f"{way}: {updates} updates, mean staleness {mean:.1f}, loss {loss:.2f}")
    return lines


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, digits()[:2], world_size=2)
    if run.rank == 0:
        print(*run.values[0], sep="\n")


if __name__ == "__main__":
    main()

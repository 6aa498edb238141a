# Built from chapters/ch03_data_parallel/labs/parameter_server.py by `make build`.
"""A parameter server, synchronous and asynchronous.

torchrun --nproc-per-node 2 labs/parameter_server.py
"""

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
# Rank 0 has the weights and the optimizer. A worker pulls weights, computes a gradient at them and
# pushes it. The server sends one tensor: 1 or 0, which says whether to go on, and the weights.


def order_of(model, going_on) -> Tensor:
    """Return the server's message: the mark 1 (go on) or 0 (it is over), and then all weights."""
    weights = parameters_to_vector(model.parameters())
    return torch.cat([weights.new_tensor([float(going_on)]), weights])


def take_step(model, optimizer, gradient):
    """Take a step of the optimizer along a gradient that was received as one flat tensor."""
    for p, part in zip(model.parameters(), gradient.split([p.numel() for p in model.parameters()])):
        p.grad = part.view_as(p)
    optimizer.step()


@torch.no_grad()
def serve_together(model, optimizer, is_over) -> list[int]:
    """Run the bulk-synchronous (BSP) server, whose updates take one gradient of every worker.

    is_over  (updates so far) -> whether to end
    Returns  the staleness of each gradient, see serve_as_they_come
    """
    workers, updates, staleness = range(1, dist.get_world_size()), 0, []
    gradient = torch.empty_like(parameters_to_vector(model.parameters()))
    while going_on := not is_over(updates):
        pulled = updates  # the version of the weights that all workers get
        for request in [dist.isend(order_of(model, going_on), worker) for worker in workers]:
            request.wait()
        total = torch.zeros_like(gradient)
        for worker in workers:
            dist.recv(gradient, worker)
            staleness.append(updates - pulled)
            total += gradient
        take_step(model, optimizer, total / len(workers))
        updates += 1
    for worker in workers:
        dist.send(order_of(model, going_on), worker)
    return staleness


@torch.no_grad()
def serve_as_they_come(model, optimizer, is_over) -> list[int]:
    """Exercise 3.19. Run the asynchronous (ASP) server: one gradient per update.

    At the start it sends order_of(model, True) to every worker. Then it repeats four things. It
    receives the next gradient, from whichever worker pushes first: `dist.recv(gradient)` without a
    source returns the rank of the sender. It takes a step along this one gradient. It asks
    is_over(updates so far). It answers the worker that pushed with the new order.

    When it is over, that answer has the mark 0, and this worker will not push again. Every other
    worker still pushes once. These gradients cause updates, too, and are answered with a 0.

    is_over  (updates so far) -> whether to end. Ask it after each update, until it is over; asking
             more often does no harm
    Returns  a list, in the order of the updates: how many other updates lie between the weights at
             which the gradient was computed and this update
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
    """Run a worker, which pulls, computes and pushes until the server says that it is over.

    compute_gradients  (number of the round) leaves a gradient in every `.grad` of the model
    """
    order, rounds = order_of(model, True).detach(), 0
    while dist.recv(order, 0) == 0 and order[0]:
        vector_to_parameters(order[1:], model.parameters())
        compute_gradients(rounds)
        dist.send(torch.cat([p.grad.flatten() for p in model.parameters()]), 0)
        rounds += 1


# ---- The time of an exchange ----------------------------------------------------------------


def time_exchanges(ways, nbytes, bytes_per_second=None, rounds=3):
    """Measure some rounds of each way to exchange `nbytes`, on each rank of a launch.

    ways              {name: a function of a tensor}; the name is the label of its rounds
    bytes_per_second  throttles messages if the ranks are not on separate emulated machines
    """
    from pedagogy_lib import measure, throttle

    with throttle(bytes_per_second) if bytes_per_second else nullcontext():
        for way in ways.values():
            way(torch.zeros(16))  # the first messages open the connections
        for name in [*ways] * rounds:
            dist.barrier()
            with measure(name):
                ways[name](torch.zeros(nbytes // 4))


def run_on_slow_links(ways, workers, nbytes=300_000, bytes_per_second=10e6):
    """Launch time_exchanges on a server and several workers, each with its own network card.

    Where emulated machines are not available, messages are throttled instead.
    """
    from pedagogy_lib import Machines, launch

    machines = Machines.here([1] * (workers + 1), bytes_per_second=bytes_per_second)
    throttled = None if machines else bytes_per_second
    return launch(time_exchanges, ways, nbytes, throttled, world_size=workers + 1,
                  machines=machines, device="cpu")  # fmt: skip


def range_ms(run, label) -> str:
    """Format the ms of the fastest and the slowest round, without the first one: "24 to 31"."""
    times = [1e3 * seconds for seconds in run[label].rounds[1:]]
    return f"{min(times):.0f} to {max(times):.0f}"


def copies_sent(run, label, nbytes=300_000) -> list[float]:
    """Return the bytes that each rank sent in a round, in copies of the weights."""
    return [sent / len(run[label].spans[0]) / nbytes for sent in run[label].sent_bytes]


def exchange_seconds(how, n, X, B) -> float:
    """Return the seconds of an exchange of X bytes on n ranks, on links of B bytes/s per direction.

    how  "server": rank 0 is the server, all others pull, then all push; "ring": an all-reduce
    """
    return 2 * (n - 1) * X / B / (1 if how == "server" else n)


def theory_ms(workers, copy=30.0) -> dict[str, list[float]]:
    """Predict an exchange's ms for each number of workers of a server; a copy takes `copy` ms."""
    return {
        how: [1e3 * exchange_seconds(how, n + 1, copy, 1e3) for n in workers]
        for how in ("server", "ring")
    }


def typical_ms(run, label, first=2) -> list[float]:
    """Return each rank's median of a block's rounds in ms, without the first ones."""
    return [1e3 * median(end - begin for begin, end in of[first:]) for of in run[label].spans]


# ---- A race: workers of different speed -----------------------------------------------------


def make_classifier(seed=0) -> nn.Module:
    """Return a small model for images of 64 pixels and ten classes."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def race(data, way, learning_rate, seconds, milliseconds):
    """Train for some seconds with the server "BSP" or "ASP", on each rank of a launch.

    data          images and labels
    milliseconds  how long each worker sleeps per gradient, instead of computing for that time
    Returns       on rank 0: the "staleness" of each gradient, the "loss" on all data at the end,
                  the number of "updates" and the "seconds" until then
    """
    images, labels, rank, found = data[0].float(), data[1], dist.get_rank(), {}
    model = make_classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    torch.manual_seed(rank)  # from here on, each rank draws its own samples

    def compute_gradients(number):
        time.sleep(milliseconds[rank - 1] / 1e3)
        some = torch.randint(len(labels), (64,))
        model.zero_grad()
        F.cross_entropy(model(images[some]), labels[some]).backward()

    def is_over(updates):
        took = time.perf_counter() - began
        if took > seconds:  # not before: that would cost time with each update
            loss = F.cross_entropy(model(images), labels).item()
            found.update(seconds=took, loss=loss, updates=updates)
        return took > seconds

    dist.barrier()
    began = time.perf_counter()
    if rank:
        return work(model, compute_gradients)
    serve = serve_together if way == "BSP" else serve_as_they_come
    return {"staleness": serve(model, optimizer, is_over)} | found


def race_rows(races, rates) -> list[list[str]]:
    """Return a table's rows: a way, its updates, its loss at each rate, and the lowest loss.

    races  {(way, rate): result of race}
    """
    rows = []
    for way in ("BSP", "ASP"):
        losses = [races[way, rate]["loss"] for rate in rates]
        updates = races[way, rates[0]]["updates"]
        rows.append([way, updates, *(f"{loss:.2f}" for loss in [*losses, min(losses)])])
    return rows


def who_is_ahead(races, rates, clear=1.5) -> str:
    """Describe which way is ahead at the smallest and at its best rate, if the gap is clear.

    A best rate at the end of `rates` is reported, because a better one may lie beyond.
    """

    def compare(bsp, asp):
        if max(bsp, asp) < clear * min(bsp, asp):
            return f"{bsp:.2f} and {asp:.2f}, too close to tell from one race"
        return f"{bsp:.2f} and {asp:.2f}, {'ASP' if asp < bsp else 'BSP'} is ahead"

    losses = {way: [races[way, rate]["loss"] for rate in rates] for way in ("BSP", "ASP")}
    at_end = [way for way, of_way in losses.items() if min(of_way) in (of_way[0], of_way[-1])]
    first = compare(*(x[0] for x in losses.values()))
    return (f"Loss of BSP and ASP at rate {rates[0]:g}: {first}."
            f"\nEach at its best rate: {compare(*map(min, losses.values()))}."
            + "".join(f"\n{way}'s best rate is at the end of the list." for way in at_end)
            )  # fmt: skip


# ---- The program ----------------------------------------------------------------------------


def program(data, seconds=0.6) -> list[str]:
    """Race with both servers for some seconds each; return the lines that rank 0 reports."""
    lines, milliseconds = [], [5] * (dist.get_world_size() - 2) + [25]
    for way in ("BSP", "ASP"):
        found = race(data, way, 0.1, seconds, milliseconds)
        if dist.get_rank() == 0:
            mean = sum(found["staleness"]) / len(found["staleness"])
            lines.append("{}: {updates} updates, mean staleness {:.1f}, loss {loss:.2f}".format(
                way, mean, **found))  # fmt: skip
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

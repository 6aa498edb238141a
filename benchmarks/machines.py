"""Emulated machines: what they add to a launch, and how exact their network cards are.

Formulas know only bytes and the speed of a card, while latency, Gloo's rounds and a busy processor
make transfers longer.
"""

import functools
import time
from statistics import median

import torch
import torch.distributed as dist
from rows import Measurement, Row, milliseconds

from pedagogy_lib import LaunchError, Machines, launch, measure
from pedagogy_lib.machines.network import try_machines

LAUNCHES, ROUNDS = 15, 3
MORE_SECONDS, EIGHT_SECONDS = 0.05, 3.0  # that machines may add; for 8 machines with 8 ranks each
RATE_PERCENT, COLLECTIVE_PERCENT, CARD_PERCENT = 3.0, 10.0, 4.0
RATES = (2.5e6, 25e6, 250e6)  # bytes per second: 20 Mbit/s to 2 Gbit/s
TENSOR_BYTES = 20_000_000


def measurements() -> list[Measurement]:
    if try_machines():
        raise LaunchError(f"no machines here: {try_machines()}")
    return [
        Measurement("4 ranks on 2 machines, cell to values", more_for_a_launch),
        Measurement("64 ranks on 8 machines, cell to values", sixty_four),
        *(Measurement(f"a long transfer at {rate / 1e6:g} MB/s", functools.partial(transfer, rate))
          for rate in RATES),
        *(Measurement(f"{name}, 20 MB, 2 x 2 ranks, 25 MB/s", functools.partial(collective, name))
          for name in COLLECTIVES),
    ]  # fmt: skip


def return_rank():
    return dist.get_rank()


def seconds_of(world_size, machines=None) -> float:
    began = time.perf_counter()
    launch(return_rank, world_size=world_size, device="cpu", machines=machines)
    return time.perf_counter() - began


def more_for_a_launch():
    """Time launches with and without machines in turns; the first of each is not counted."""
    ways = {"with": Machines(2, bytes_per_second=25e6), "without": None}
    took = {name: [] for name in ways}
    for _ in range(1 + LAUNCHES):
        for name, machines in ways.items():
            took[name].append(seconds_of(4, machines))
    ours, without = (median(took[name][1:]) for name in ways)
    more = ours - without
    yield Row("4 ranks on 2 machines, beside 4 ranks", milliseconds(ours), milliseconds(without),
              f"{1e3 * more:+.0f} ms", f"<= {1e3 * MORE_SECONDS:.0f} ms", more <= MORE_SECONDS,
              took)  # fmt: skip


def sixty_four():
    machines = Machines(8, bytes_per_second=25e6)
    first, *others = (seconds_of(64, machines) for _ in range(4))
    took = median(others)
    what = f"64 ranks on 8 machines (the first time {first:.2f} s)"
    limit, raw = f"<= {EIGHT_SECONDS:g} s", {"seconds": [first, *others]}
    yield Row(what, f"{took:.2f} s", "", "", limit, took <= EIGHT_SECONDS, raw)


def send(nbytes):
    x = torch.zeros(nbytes, dtype=torch.uint8)
    for label in ("warm", "it"):
        dist.barrier()
        with measure(label, memory=False):
            if dist.get_rank() == 0:
                dist.send(x, 1)
            else:
                dist.recv(x, 0)


def transfer(rate):
    """Time a transfer of 0.8 seconds, as the receiver sees it."""
    nbytes = int(0.8 * rate)
    runs = [launch(send, nbytes, world_size=2, machines=Machines(2, bytes_per_second=rate))
            for _ in range(ROUNDS)]  # fmt: skip
    took = median(run["it"].seconds[1] for run in runs)
    off = 100 * (nbytes / took / rate - 1)
    yield Row(f"{nbytes / 1e6:g} MB in one piece", milliseconds(took), milliseconds(0.8),
              f"{off:+.1f}%", f"<= {RATE_PERCENT:g}%", abs(off) <= RATE_PERCENT,
              {"bytes_per_second": nbytes / took})  # fmt: skip


def all_gather(x):
    dist.all_gather([torch.empty_like(x) for _ in range(dist.get_world_size())], x)


def pairwise_all_to_all(x):
    """Exchange chunks between all ranks, each with one receiver and one sender at a time.

    Gloo starts to send once the receiver has said that it is ready. If all transfers start at once,
    that message waits behind the receiver's own data on the same connection, and cards idle: Gloo's
    own all-to-all took 0.80 to 1.38 s here where 0.80 are needed, while this one took 0.81.
    """
    n, rank = dist.get_world_size(), dist.get_rank()
    given, got = x.chunk(n), torch.empty_like(x).chunk(n)
    for reach in range(1, n):
        to, source = (rank + reach) % n, (rank - reach) % n
        for request in (dist.irecv(got[source], source), dist.isend(given[to], to)):
            request.wait()


# {name: (a function of a tensor, how many times its bytes leave each card of 2 x 2 ranks)}
COLLECTIVES = {
    "all_reduce": (dist.all_reduce, 1.5),
    "all_gather": (all_gather, 3.0),
    "all_to_all": (lambda x: dist.all_to_all_single(torch.empty_like(x), x), 1.0),
    "all_to_all in rounds": (pairwise_all_to_all, 1.0),
}
WITHOUT_LIMIT = ("all_to_all",)


def collect(work):
    x = torch.zeros(TENSOR_BYTES // 4)
    work(x[:40])  # the first messages open the connections
    dist.barrier()
    with measure("it", memory=False):
        work(x)


def collective(name):
    work, times = COLLECTIVES[name]
    machines = Machines(2, bytes_per_second=25e6)
    runs = [launch(collect, work, world_size=4, machines=machines) for _ in range(ROUNDS)]
    took = median(max(run["it"].seconds) for run in runs)
    theory = times * TENSOR_BYTES / machines.bytes_per_second
    off = 100 * (took / theory - 1)
    limit = "" if name in WITHOUT_LIMIT else f"<= {COLLECTIVE_PERCENT:g}%"
    yield Row(f"{name}: time, beside bytes / speed", milliseconds(took), milliseconds(theory),
              f"{off:+.1f}%", limit, off <= COLLECTIVE_PERCENT,
              {"seconds": [max(run["it"].seconds) for run in runs]})  # fmt: skip
    carried, payload = [c.sent_bytes for run in runs for c in run["it"].cards], times * TENSOR_BYTES
    more = 100 * (max(carried) / payload - 1)
    what, limit = f"{name}: bytes of the busiest card, beside the ranks'", f"<= {CARD_PERCENT:g}%"
    told = [f"{max(carried) / 1e6:.2f} MB", f"{payload / 1e6:.2f} MB", f"{more:+.1f}%"]
    yield Row(what, *told, limit, abs(more) <= CARD_PERCENT, {"bytes": carried})

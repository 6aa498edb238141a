"""The scaling of data parallel training: the limits of a step, and the gain from more ranks.

torchrun --nproc-per-node 2 labs/scaling.py
"""

import contextlib
from math import exp, log
from statistics import median

import torch
import torch.distributed as dist
from simple_ddp import now
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH, LAYERS = 1024, 4  # sizes of the model whose step is predicted
SMALL_WIDTH = 256  # width of the model that is scaled
ROUNDS, WARM_UP = 15, 2
BUSY = 2.0  # a time this many times longer than predicted means that the cores were busy


# ---- The limits of a step -------------------------------------------------------------------


def rounds_of(jobs, rounds=ROUNDS) -> dict:
    """Time jobs in turn, so that noise is fair: {name: [seconds of each round]}.

    jobs  {name: a function}; all ranks begin each job together
    """
    times = {name: [] for name in jobs}
    for _ in range(rounds + WARM_UP):
        for name, job in jobs.items():
            dist.barrier()
            began = now()
            job()
            times[name].append(now() - began)
    return {name: of_job[WARM_UP:] for name, of_job in times.items()}


def measure_rates() -> dict[str, float]:
    """Measure this rank's FLOP/s, memory bytes/s and network bytes/s while others do the same.

    The fastest round counts, because other programs can only make a round slower. A copy reads and
    writes each byte of memory. The network's bytes are those that a rank sends in a ring.
    """
    n, square = dist.get_world_size(), torch.ones(1024, 1024)
    long, out, part = torch.ones(16_000_000), torch.ones(16_000_000), torch.ones(2_000_000)
    times = rounds_of({
        "arithmetic": lambda: square @ square,
        "memory": lambda: out.copy_(long),
        "network": lambda: dist.all_reduce(part),
    })  # fmt: skip
    amounts = {
        "arithmetic": 2 * 1024**3,
        "memory": 2 * long.nbytes,
        "network": 2 * (n - 1) / n * part.nbytes,
    }
    return {name: amounts[name] / min(of_job) for name, of_job in times.items()}


class Step:
    """A forward, a backward and an SGD step of LAYERS layers, on `samples` samples."""

    def __init__(self, samples):
        layers = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-6)
        # The input needs a gradient, as in the middle of a larger model: 6 FLOPs per weight.
        self.x = torch.randn(samples, WIDTH, requires_grad=True)

    def __call__(self):
        self.optimizer.zero_grad()
        self.model(self.x).sum().backward()
        self.optimizer.step()


def measure_parts(samples) -> tuple[dict, list[float], dict]:
    """Measure the parts of a step in every round.

    Returns  {samples: [seconds of a step without communication]}, [seconds of the gradients'
             all-reduce], and {samples: FLOP/s of one layer's product with as many rows}
    """
    flat, weights = torch.ones(LAYERS * WIDTH**2), torch.ones(WIDTH, WIDTH)
    rows = {b: torch.ones(b, WIDTH) for b in samples}
    times = rounds_of({("step", b): Step(b) for b in samples}
                      | {("product", b): lambda b=b: rows[b] @ weights for b in samples}
                      | {"all-reduce": lambda: dist.all_reduce(flat)})  # fmt: skip
    steps = {b: times["step", b] for b in samples}
    rates = {b: 2 * b * WIDTH**2 / min(times["product", b]) for b in samples}
    return steps, times["all-reduce"], rates


def measure_all(samples):
    """Return the result of `measure_rates`, followed by those of `measure_parts`."""
    return measure_rates(), *measure_parts(samples)


def ratio_rows(steps, predictions) -> list[list[str]]:
    """Return a table's rows: measured times, and each prediction divided by the fastest round.

    steps        {samples: seconds of every round}
    predictions  a list of {samples: seconds}
    """

    def row(b):
        times = sorted(steps[b])
        shown = (f"{1e3 * t:.1f} ms" for t in (times[0], median(times), times[-1]))
        return [str(b), *shown, *(f"{told[b] / times[0]:.2f}" for told in predictions)]

    return [row(b) for b in steps]


def convert_to_ms(line: dict) -> dict:
    """Convert {x: seconds} or {x: [seconds]} to milliseconds."""
    return {x: [1e3 * t for t in y] if isinstance(y, list) else 1e3 * y for x, y in line.items()}


def farthest(steps, prediction) -> tuple[float, int]:
    """Return the largest factor by which a prediction misses the fastest round, and its samples."""
    ratios = {b: prediction[b] / min(times) for b, times in steps.items()}
    return max((max(ratio, 1 / ratio), b) for b, ratio in ratios.items())


def what_limits(steps, all_reduce, by_rates, by_shape, network_seconds) -> str:
    """Describe the measured times in words; network_seconds is the all-reduce's prediction."""
    from pedagogy_lib import compare_rounds

    longer = [b for b, of in steps.items() if compare_rounds(of, all_reduce).word == "slower"]
    lines = [
        f"The fastest all-reduce takes {1e3 * min(all_reduce):.1f} ms; by its rate, it would take "
        f"{1e3 * network_seconds:.1f} ms.",
        f"Computing clearly takes longer than the all-reduce from {min(longer)} samples on."
        if longer else "Computing never clearly takes longer than the all-reduce.",
    ]  # fmt: skip
    for name, prediction in (("longest rate", by_rates), ("at this shape", by_shape)):
        times, b = farthest(steps, prediction)
        lines.append(f"Prediction “{name}”: at most {times:.1f} times off, with {b} samples.")
    misses = farthest(steps, by_shape)[0], max(min(all_reduce) / network_seconds, 1.0)
    if max(misses) > BUSY:
        lines.append("Other programs took the cores in this run, or the network was busy: do not "
                     "trust it.\nRun this section again when the computer is quiet.")  # fmt: skip
    return "\n".join(lines)


def find_crossing(x, falling, rising) -> float:
    """Find where two lines through these points meet, on logarithmic axes; an end if nowhere."""
    gaps = [log(a / b) for a, b in zip(falling, rising)]
    for left, right, before, after in zip(x, x[1:], gaps, gaps[1:]):
        if before >= 0 > after:
            share = before / (before - after)
            return exp(log(left) + share * log(right / left))
    return float(x[0] if gaps[0] < 0 else x[-1])


# ---- More ranks -----------------------------------------------------------------------------


def model_bytes() -> int:
    """Return the bytes of the gradients of the model that is scaled."""
    return LAYERS * SMALL_WIDTH**2 * 4


def time_steps(samples, flops=None, rounds=7) -> list[float]:
    """Time each step of DDP in seconds, on `samples` samples of this rank; the slowest rank counts.

    flops  emulated rate: each matrix product takes as long as at this rate and sleeps for the rest,
           so that ranks do not need their own cores. None: computation is not emulated
    """
    from pedagogy_lib import SlowProducts

    torch.manual_seed(0)
    layers = (nn.Linear(SMALL_WIDTH, SMALL_WIDTH, bias=False) for _ in range(LAYERS))
    one_layer = SMALL_WIDTH**2 * 4 / 2**20  # MiB: one layer in each bucket
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=one_layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    x = torch.randn(samples, SMALL_WIDTH, requires_grad=True)

    def step():
        slow = SlowProducts(flops, measured=False) if flops else contextlib.nullcontext()
        optimizer.zero_grad()
        with slow:
            model(x).sum().backward()
        optimizer.step()

    times = torch.tensor(rounds_of({"step": step}, rounds)["step"], dtype=torch.float64)
    dist.all_reduce(times, dist.ReduceOp.MAX)
    return times.tolist()


def scale(samples, flops=None, rounds=7) -> dict[str, list[float]]:
    """Time steps, {"strong": …, "weak": …}, with `samples` over all ranks or on each rank."""
    sizes = {"strong": samples // dist.get_world_size(), "weak": samples}
    return {kind: time_steps(size, flops, rounds) for kind, size in sizes.items()}


def predict_seconds(kind, n, samples, flops, link) -> tuple[float, float]:
    """Predict a step's seconds if communication is hidden as far as possible, and if none is.

    kind  "strong": `samples` over all ranks; "weak": on each rank
    link  bytes per second in each direction; the all-reduce is a ring
    """
    computing = 6 * (samples / n if kind == "strong" else samples) * model_bytes() / 4 / flops
    network = 2 * (n - 1) / n * model_bytes() / link
    return max(computing, network), computing + network


def efficiencies(ranks, samples, times) -> dict[int, list[float]]:
    """Return each round's efficiency, {ranks: [efficiency]}: the time of a step if every rank kept
    its speed, divided by the measured time. The reference is the median of the fewest ranks.

    times  {ranks: seconds of every round}; samples: of a step, in the order of `ranks`
    """
    of = dict(zip(ranks, samples))
    fewest = min(ranks)
    of_sample = median(times[fewest]) * fewest / of[fewest]  # rank-seconds
    return {n: [of_sample * of[n] / n / t for t in times[n]] for n in ranks}


def times_as_fast(counts, samples, flops, link) -> dict[int, float]:
    """Predict {ranks: times as fast as one} for strong scaling with all communication hidden."""
    seconds = {n: predict_seconds("strong", n, samples, flops, link)[0] for n in [1, *counts]}
    return {n: seconds[1] / seconds[n] for n in counts}


def rows_of_limit(counts, samples, flops, link) -> list[list]:
    """Return rows for strong scaling: ranks, computation, all-reduce, times as fast as one rank."""
    alone, network = predict_seconds("strong", 1, samples, flops, link)[0], model_bytes() / link
    faster = times_as_fast(counts, samples, flops, link)
    return [[n, f"{1e3 * alone / n:.1f} ms", f"{1e3 * 2 * (n - 1) / n * network:.1f} ms",
             f"{faster[n]:.2f}"] for n in counts]  # fmt: skip


def rows_of_steps(times, batches) -> list[list]:
    """Return a table's rows: for each number of ranks, the batch and the median step of each kind.

    times    {kind: {ranks: seconds of every round}}
    batches  {kind: [batch of a step for each number of ranks]}
    """
    counts = list(times["strong"])
    return [[n, *(cell for kind in times
                  for cell in (batches[kind][k], f"{1e3 * median(times[kind][n]):.0f} ms"))]
            for k, n in enumerate(counts)]  # fmt: skip


def how_it_scaled(times, efficiency) -> str:
    """Describe the measured steps in words; both arguments: {kind: {ranks: [value per round]}}."""
    last = max(times["strong"])
    lines = [f"{kind} scaling: {last} ranks keep an efficiency of "
             f"{median(efficiency[kind][last]):.2f}." for kind in times]  # fmt: skip
    from pedagogy_lib.measuring.rounds import UNDECIDED, find_quickest

    best, *others = find_quickest(times["strong"])
    said = f"the shortest step is on {best} ranks"
    if others:
        alike = sorted([best, *others])
        said += f";\n    {UNDECIDED} between {', '.join(map(str, alike))} ranks"
    again = f", and on {last} it is longer again" if last not in [best, *others] else ""
    return "\n".join([*lines, f"strong scaling: {said}{again}."])


def predict_efficiencies(ranks, samples, flops, link) -> dict:
    """Predict {"strong scaling": {"theory, all hidden": {ranks: efficiency}, …}, "weak …": …}."""
    told = {}
    for kind in ("strong", "weak"):
        alone = predict_seconds(kind, 1, samples, flops, link)[0]
        shrinks = {n: n if kind == "strong" else 1 for n in ranks}
        told[f"{kind} scaling"] = {
            name: {n: alone / shrinks[n] / predict_seconds(kind, n, samples, flops, link)[k]
                   for n in ranks}
            for k, name in enumerate(("theory, all hidden", "theory, nothing hidden"))
        }  # fmt: skip
    return told


def compute_overlap_share(alone, times, n, link) -> tuple[float, float]:
    """Return the share (0 to 1) of the all-reduce that does not lengthen a weak step on n ranks.

    alone, times  seconds of the steps on one rank, and on n
    Returns       the share in the fastest round, and the largest share in most rounds: in three of
                  four it was less
    """
    network = 2 * (n - 1) / n * model_bytes() / link
    shares = [min(1.0, max(0.0, 1 - (t - min(alone)) / network)) for t in sorted(times)]
    return shares[0], shares[len(shares) // 4]


# ---- Engines in turn ------------------------------------------------------------------------


def judge_fastest(words) -> str:
    """Judge "is the fastest" by {another way: what `compare_rounds` says of the first against it}.

    One way that is clearly quicker refutes it; otherwise all others have to be clearly slower.
    """
    if "slower" in words.values():
        return "depends"
    return "right here" if set(words.values()) == {"quicker"} else "not decided by time here"


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch

    run = launch(measure_all, [1, 16, 256], world_size=2)
    if run.rank == 0:
        rates, steps, all_reduce, _ = run.values[0]
        print(", ".join(f"{name} {rate / 1e9:.1f} G/s" for name, rate in rates.items()))
        for b, times in steps.items():
            print(f"{b:3} samples: {1e3 * median(times):.1f} ms a step, "
                  f"{1e3 * median(all_reduce):.1f} ms for its all-reduce")  # fmt: skip


if __name__ == "__main__":
    main()

"""The value of fewer bytes: the loss of each way after the same steps, bytes or seconds.

torchrun --nproc-per-node 2 labs/worth_of_bytes.py
"""

import math
from statistics import fmean, median

import torch.distributed as dist
from fewer_bytes import ALONE, WAYS, Training
from gradient_accumulation import digits

FIRST_RATE, SEED_OF_TUNING = 0.1, 100
LAST = 4  # losses to average, which are taken after every ALONE steps


# ---- Training on a rank ---------------------------------------------------------------------


def loss_with(way, data, rate, steps) -> float:
    """Train with a separate seed; return the loss near the end, infinity if training diverged.

    The loss is the mean over the last exchanges of local SGD, because the loss goes up and down. It
    is rank 0's, on all ranks.
    """
    training, losses = Training(way, data, SEED_OF_TUNING, rate), []
    while training.steps < steps:
        for _ in range(ALONE):
            training.step()
        losses.append(training.loss())
    said = [None] * dist.get_world_size()
    dist.all_gather_object(said, fmean(losses[-LAST:]))
    return said[0] if math.isfinite(said[0]) else math.inf


def tune_rates(data, steps, ways=tuple(WAYS)) -> dict[str, dict[float, float]]:
    """Try learning rates for each way: {way: {rate: loss}}.

    The search begins with FIRST_RATE. It then doubles and halves the best rate so far, until both
    of these are known, so that the best rate has a worse one on each side.
    """
    found = {}
    for way in ways:
        losses, next_rates = {}, [FIRST_RATE]
        while next_rates:
            losses |= {rate: loss_with(way, data, rate, steps) for rate in next_rates}
            best = best_rate(losses)
            next_rates = [rate for rate in (best / 2, 2 * best) if rate not in losses]
        found[way] = losses
    return found


def best_rate(losses) -> float:
    return min(losses, key=losses.get)


def curves(data, steps, rates, seeds=(0, 1, 2)) -> dict[str, list[dict[int, float]]]:
    """Train in each way with each seed, on one rank: {way: [{steps: loss} of each seed]}.

    Bytes are measured under the way's name.

    rates  {way: learning rate}
    """
    from pedagogy_lib import measure

    found = {way: [] for way in rates}
    for way, rate in rates.items():
        for seed in seeds:
            training = Training(way, data, seed, rate)
            losses = {0: training.loss()}
            while training.steps < steps:
                with measure(way, memory=False):
                    for _ in range(ALONE):
                        training.step()
                losses[training.steps] = training.loss()
            found[way].append(losses)
    return found


# ---- The value of bytes ---------------------------------------------------------------------


def key_by_megabytes(losses, bytes_of) -> dict[str, dict[float, list[float]]]:
    """Return {way: {MB sent: [loss of each seed]}}, without the start, where nothing was sent.

    losses    {way: [{steps: loss} of each seed]}
    bytes_of  {way: bytes per step}
    """
    return {way: {k * bytes_of[way] / 1e6: [curve[k] for curve in of_way] for k in of_way[0] if k}
            for way, of_way in losses.items()}  # fmt: skip


def curve_at(curve, steps) -> float:
    """Return the loss after `steps` steps, or after the last smaller number that was measured."""
    return curve[max(k for k in curve if k <= steps)]


def loss_at(of_way, steps) -> float:
    """Return the median of `curve_at` over seeds."""
    return median(curve_at(curve, steps) for curve in of_way)


def rate_rows(tried) -> list[list[str]]:
    """Return a table's rows: a way, its best rate, and the loss at each rate that was tried."""
    return [[way, f"{best_rate(losses):g}",
             ", ".join(f"{rate:g}: {losses[rate]:.2f}" for rate in sorted(losses))]
            for way, losses in tried.items()]  # fmt: skip


def ends_of(losses, way) -> str:
    """Format the final losses: the median over seeds, with the lowest and highest in brackets."""
    ends = sorted(curve[max(curve)] for curve in losses[way])
    return f"{median(ends):.3f} ({ends[0]:.3f} to {ends[-1]:.3f})"


def compare_ends(first, way, second, other) -> str:
    """Say which of two ways ends lower, if all its seeds do."""
    ends, others = ([c[max(c)] for c in of[key]] for of, key in ((first, way), (second, other)))
    if min(ends) <= max(others) and min(others) <= max(ends):
        return "No clear difference."
    return f"All seeds end lower with “{way if max(ends) < min(others) else other}”."


def rows(losses, bytes_of, seconds, budget) -> list[list[str]]:
    """Return a table's rows: bytes and seconds per step, final losses, steps in a time, their loss.

    budget  the seconds that each way has
    """

    def row(way):
        last, fits = max(losses[way][0]), int(budget / seconds[way] + 1e-9)
        steps = f"{fits:,}" if fits <= last else f"{fits:,}, only {last} trained"
        return [way, f"{bytes_of[way]:,.0f}", f"{1e3 * seconds[way]:.1f} ms",
                ends_of(losses, way), steps, f"{loss_at(losses[way], fits):.3f}"]  # fmt: skip

    return [row(way) for way in losses]


def what_was_found(losses, bytes_of, seconds, steps) -> str:
    """Describe the plain way and the best ways, after the same steps, bytes and seconds.

    The best ways are the one with the lowest median and all whose seeds overlap with its seeds.
    """
    part, plain = steps // 5, "all-reduce"
    after = {
        f"{steps} steps": dict.fromkeys(losses, steps),
        f"the bytes of {part} steps of {plain}": {
            way: part * bytes_of[plain] / bytes_of[way] for way in losses},
        f"the seconds of {part} steps of {plain}": {
            way: part * seconds[plain] / seconds[way] for way in losses},
    }  # fmt: skip
    lines = []
    for what, fits in after.items():
        found = {way: [round(curve_at(c, fits[way]), 3) for c in losses[way]] for way in losses}
        best = min(found, key=lambda way: median(found[way]))
        lead = [way for way, ends in found.items() if min(ends) <= max(found[best])]
        ends = median(found[plain]), median(found[best])
        lines.append(f"After {what}: loss {ends[0]:.2f} with {plain}; {ends[1]:.2f} at best, with")
        lines.append(f"    {' / '.join(lead)}")
    return "\n".join(lines)


def megabytes_to(losses, bytes_of, goal) -> dict[str, float]:
    """Return {way: MB sent per rank when the median loss first is at most `goal`}, if it is."""
    found = {}
    for way, curves_of_way in losses.items():
        steps = [k for k in curves_of_way[0] if loss_at(curves_of_way, k) <= goal]
        if steps:
            found[way] = min(steps) * bytes_of[way] / 1e6
    return found


# ---- The program ----------------------------------------------------------------------------


def program(data, steps=60) -> list[str]:
    """Try learning rates for two ways; return the lines that this rank reports."""
    tried = tune_rates(data, steps, ("all-reduce", "local SGD"))
    return [f"{way}: best rate {rate}; tried {losses}" for way, rate, losses in rate_rows(tried)]


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, digits(), world_size=2)
    if run.rank == 0:
        print(*run.values[0], sep="\n")


if __name__ == "__main__":
    main()

"""Chapter 04: failures, checkpoints, restarts."""

import torch

from ..question import Question


def cheapest_period(saving, hours):
    """Search for the cheapest period, by trials that come ever closer to it."""
    failure = 3600.0 * hours
    low, high = 1.0, failure

    def cost(period):
        return saving / period + period / 2 / failure

    for _ in range(300):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if cost(a) < cost(b) else (a, high)
    return {"period": low, "share": 100 * cost(low)}


def period_on_paper(saving, hours):
    failure = 3600.0 * hours
    return {"period": (2 * saving * failure) ** 0.5, "share": 100 * (2 * saving / failure) ** 0.5}


def failures_added_up(gpus, years):
    a_day = sum(1 / (365 * years) for _ in range(gpus))
    return {"hours": 24 / a_day, "month": 30 * a_day}


def pieces_found(numbers, before, after, rank):
    """Find, for each number of the new shard, the old shard that holds it."""
    shard = [range(numbers)[k * numbers // before:(k + 1) * numbers // before]
             for k in range(before)]  # fmt: skip
    mine = range(numbers)[rank * numbers // after : (rank + 1) * numbers // after]
    owners = [k for number in mine for k in range(before) if number in shard[k]]
    first, last = owners[0], owners[-1]
    return {"first": first, "last": last,
            "from_first": owners.count(first), "from_last": owners.count(last)}  # fmt: skip


def pieces_on_paper(numbers, before, after, rank):
    old, new = numbers // before, numbers // after
    first, last = rank * new // old, ((rank + 1) * new - 1) // old
    return {"first": first, "last": last, "from_first": (first + 1) * old - rank * new,
            "from_last": (rank + 1) * new - last * old}  # fmt: skip


def detection_delay(beat, patience):
    """Let it crash at many moments between two beats, and measure when its silence is too long."""
    steps = 1000
    delays = []
    for k in range(1, steps + 1):
        crash = beat * k / steps  # the last beat was at 0, the next one would be at `beat`
        delays.append(patience - crash)
    return {"least": min(delays), "most": round(max(delays) + beat / steps, 9)}


def deal_microbatches(batch, size, ranks):
    hands = [0] * ranks
    for microbatch in range(batch // size):
        hands[microbatch % ranks] += 1
    return {"parts": sum(hands), "many": max(hands), "few": min(hands),
            "busy": hands.count(max(hands))}  # fmt: skip


def outer_step(rate):
    start, ends = 2.0, [1.2, 1.4, 0.8, 1.0]
    weight = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    optimizer = torch.optim.SGD([weight], lr=rate)
    weight.grad = torch.tensor([start - end for end in ends], dtype=torch.float64).mean()
    optimizer.step()
    return {"weight": weight.item()}


def simulate_failures(period, saving, restart, failures, hours):
    """Simulate a run in which each failure comes in the middle of a period.

    period, saving, restart  in seconds
    Returns                  the minutes of lost work and restarts, and those of all savings
    """
    lost = 0.0
    for _ in range(failures):
        lost += period / 2 + restart
    savings = sum(saving for _ in range(round(3600 * hours / period)))
    return {"lost": lost / 60, "savings": savings / 60}


QUESTIONS = [
    Question(
        "4.1", "04", 2, 5,
        "Writing a checkpoint stops the training for {saving} s. On average it fails once in "
        "{hours} hours, and a failure costs half a period of work on average. How long should the "
        "period be, from the beginning of one saving to that of the next, so that least time is "
        "lost? Which share of the time is lost then, to savings and repeated work together "
        "(restarting not counted)?",
        "{period:.0f} s; {share:.2f} % is lost.",
        "The loss is s/P + P/(2F). It is smallest where both terms are equal: P = √(2sF), with "
        "the loss √(2s/F).",
        given={"saving": (30, 60, 10), "hours": (6, 3)},
        solve=period_on_paper, again=cheapest_period,
        stated={"period": 1138.42, "share": 5.27046},
    ),
    Question(
        "4.2", "04", 2, 4,
        "One GPU, with all that belongs to it, fails once in {years} years on average. A training "
        "on {gpus:,} of them stops when any one fails. How many hours pass between two failures "
        "on average? How many failures come in 30 days? (A year has 365 days.)",
        "{hours:.3g} hours; {month:.3g} failures in 30 days.",
        "The rates add up: {gpus:,} GPUs fail {gpus:,} times as often as one.",
        given={"gpus": (16384, 1024, 4096), "years": (5, 10)},
        solve=lambda gpus, years: {
            "hours": 24 * 365 * years / gpus, "month": 30 * gpus / (365 * years)},
        again=failures_added_up,
        stated={"hours": 2.67334, "month": 269.326},
    ),
    Question(
        "4.3", "04", 2, 6,
        "A checkpoint holds the model's weights and nothing else. After a restart from it, the "
        "training runs without an error, but is not the one that would have been. Name five more "
        "things that belong to the state, so that it goes on bit for bit.",
        "Any five of: the optimizer's state (Adam's moments and step), the learning rate "
        "schedule, the number of the step or epoch, the sampler's position and its shuffling, "
        "the states of all random number generators (dropout), the loss scale, buffers outside "
        "the state dict.",
        "Each of them enters into the next steps. Without Adam's moments, for example, the first "
        "steps after the restart have other sizes and directions.",
    ),
    Question(
        "4.4", "04", 2, 5,
        "A program overwrites its only checkpoint file in place. What is lost if the machine "
        "loses its power in the middle? In which order does a safe program write, make durable "
        "and rename?",
        "The old checkpoint is destroyed and the new one incomplete: both are lost. Safe: write "
        "to a new file in the same folder; flush and fsync it; rename it onto the final name; "
        "then fsync the folder.",
        "A rename within a file system is atomic: there is always the whole old file or the whole "
        "new one under the name. The fsync before it makes sure that the data are on the disk "
        "before the name points to them.",
    ),
    Question(
        "4.5", "04b", 2, 6,
        "A flat state of {numbers} numbers was saved in equal shards by {before} ranks, in their "
        "order. {after} ranks load it, in equal shards again. From which saved shards does rank "
        "{rank} read, and how many numbers from the first and from the last one of them?",
        "From shard {first:g} to shard {last:g}: {from_first:g} numbers from the first, "
        "{from_last:g} from the last.",
        "The new shard is the numbers {rank} × {numbers}/{after} up to ({rank} + 1) × "
        "{numbers}/{after} (not included). Each saved shard has {numbers}/{before} numbers.",
        given={"numbers": (120, 240), "before": (4, 8), "after": (3, 5), "rank": (1,)},
        solve=pieces_on_paper, again=pieces_found,
        stated={"first": 1, "last": 2, "from_first": 20, "from_last": 20},
    ),
    Question(
        "4.6", "04c", 2, 4,
        "A rank sends a sign of life every {beat} s. A watcher looks all the time, and tells that "
        "a rank is dead when it has heard nothing from it for {patience} s. Messages take no "
        "time. How long after a crash is it told, at least and at most?",
        "Between {least:g} and {most:g} s after the crash.",
        "The patience begins with the last sign of life. That was between 0 and {beat} s before "
        "the crash.",
        given={"beat": (2, 5), "patience": (10, 15)},
        solve=lambda beat, patience: {"least": patience - beat, "most": patience},
        again=detection_delay,
        stated={"least": 8, "most": 10},
    ),
    Question(
        "4.7", "04d", 2, 5,
        "A batch of {batch} samples is trained in micro-batches of {size}. After a failure "
        "{ranks} ranks are left, and share the micro-batches out one by one. How many micro-"
        "batches are there? How many ranks take the larger number, and which numbers do the ranks "
        "take? By what must the sum of all micro-batches' mean gradients be divided?",
        "{parts:g} micro-batches: {busy:g} ranks take {many:g}, the others {few:g}. The sum over "
        "all ranks is divided by {parts:g}.",
        "A mean over ranks of the ranks' means would give more weight to micro-batches on ranks "
        "that have fewer. Divided by the number of micro-batches, the step is the same for any "
        "number of ranks.",
        given={"batch": (96, 120), "size": (4, 2), "ranks": (7, 9)},
        solve=lambda batch, size, ranks: {
            "parts": batch // size, "many": -(-batch // size // ranks),
            "few": batch // size // ranks, "busy": batch // size % ranks or ranks},
        again=deal_microbatches,
        stated={"parts": 24, "many": 4, "few": 3, "busy": 3},
    ),
    Question(
        "4.8", "04f", 2, 4,
        "In DiLoCo, four workers start a round with a common weight of 2.0, and end it with 1.2, "
        "1.4, 0.8 and 1.0. The outer optimizer is SGD without momentum, with the learning rate "
        "{rate}. What is the common weight of the next round?",
        "{weight:.4g}.",
        "The outer gradient is the mean of start − end: 0.9. The weight becomes 2.0 − {rate} × "
        "0.9. With a rate of 1 it would be the mean of the workers' weights, 1.1.",
        given={"rate": (0.7, 0.5, 0.9)},
        solve=lambda rate: {"weight": 2.0 - rate * 0.9}, again=outer_step,
        stated={"weight": 1.37},
    ),
    Question(
        "4.9", "04g", 2, 5,
        "A run trains for {hours} hours, and saves after every {period} s of that. Each saving "
        "stops it for {saving} s. It fails {failures} times, on average in the middle of a period, "
        "and a restart takes {restart} s. How many minutes are lost to failures, and how many to "
        "savings?",
        "{lost:g} minutes to failures, {savings:g} minutes to savings.",
        "Each failure costs {period}/2 s of work that is done again, and {restart} s. There are "
        "3,600 × {hours} / {period} savings.",
        given={"period": (600, 1200), "saving": (15, 30), "restart": (120, 60),
               "failures": (4, 10), "hours": (10, 20)},
        solve=lambda period, saving, restart, failures, hours: {
            "lost": failures * (period / 2 + restart) / 60,
            "savings": 3600 * hours / period * saving / 60},
        again=simulate_failures,
        stated={"lost": 28, "savings": 15},
    ),
]  # fmt: skip

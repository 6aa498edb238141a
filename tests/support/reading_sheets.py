"""What a run of the exam's training shows, read as a learner would: in the words of the check."""

from helpers import load_solved_lab

from pedagogy_lib.measuring.memory_log import KINDS

PATIENT = load_solved_lab("exam_training")
EXAM = load_solved_lab("exam")
NEAR = 0.05  # of losses
SAME = 3e-6  # losses that differ by less are the same


def take_readings(run, last_week) -> dict:
    ends = len(run.values[0]["losses"]) == PATIENT.STEPS
    return {
        "ends": ends,
        "dp": ratio(EXAM.list_bytes_sent(run, "dp"), EXAM.list_bytes_sent(last_week, "dp")),
        "tp": ratio(EXAM.list_bytes_sent(run, "tp"), EXAM.list_bytes_sent(last_week, "tp")),
        "momentum": ratio(*(peaks(one, "optimizer_state") for one in (run, last_week))),
        "activations": activations(run, last_week),
        "time": slow_part(run, last_week) if ends else "last week's",
        "calls": "last week's" if ends else odd_calls(run),
        **compare_losses(run, last_week),
    }


def peaks(run, kind) -> list[int]:
    return [peak[kind] for peak in run["training"].peak_bytes]


def ratio(numbers, others) -> float:
    """Of equal numbers of all ranks."""
    (one,) = {round(a / b, 2) for a, b in zip(numbers, others, strict=True)}
    return one


def activations(run, last_week) -> str:
    times = ratio(*(peaks(one, "activations") for one in (run, last_week)))
    _, by_kind = run["training"].memory[0][0]
    history = by_kind[:, KINDS.index("activations")]
    if times > 4 and history[-1] > history.max() / 2:
        return "growing"
    return {1: "one", 4: "four"}[times]


# ---- The timeline ------------------------------------------------------------------------------


def spans_of(run, label, rank) -> list[tuple]:
    """Without the first, which is empty: it is there for the colours."""
    return run[label].spans[rank][1:]


def seconds_of(run, label, rank) -> float:
    return sum(end - start for start, end in spans_of(run, label, rank))


def slow_part(run, last_week) -> str:
    """What takes longer, even where nobody waits: the shortest of its bars, or of its ranks."""
    ranks, unit = range(run.world_size), PATIENT.SECONDS
    forward = PATIENT.BLOCKS * unit
    if min(seconds_of(run, "data", rank) for rank in ranks) > 20 * unit:
        return "data"
    if max(min(own_forwards(run, rank)) for rank in ranks) > 2.5 * forward:
        return "rank"
    if min(seconds_of(run, "dp sum", rank) for rank in ranks) > 5 * message_seconds(last_week):
        return "link"
    if min(end - start for rank in ranks for start, end in spans_of(run, "tp sum", rank)) > unit:
        return "tensor link"
    return "last week's"


def message_seconds(run) -> float:
    """What the sum of all gradients takes on the link of this run."""
    (numbers,) = {count for axis, name, count in run.values[0]["calls"]
                  if (axis, name) == ("dp", "all_reduce")}  # fmt: skip
    return 4 * numbers / PATIENT.LINK


def own_forwards(run, rank) -> list[float]:
    """Seconds of each forward, without its sums."""
    sums = spans_of(run, "tp sum", rank)
    return [
        end - start - sum(b - a for a, b in sums if start <= a and b <= end)
        for start, end in spans_of(run, "forward", rank)
    ]


# ---- The flight recorder -----------------------------------------------------------------------


def odd_calls(run) -> str:
    """What one rank has called that the others have not."""
    calls = [[(axis, name) for axis, name, _ in told["calls"]] for told in run.values]
    if any(("all", "barrier") in of_rank for of_rank in calls):
        return "barrier"
    last = [of_rank[-2:] for of_rank in calls]
    logged_early = [("tp", "all_reduce"), ("all", "all_reduce")]
    if last.count(logged_early) == 1:
        return "other order"
    ended = [("dp", "all_gather"), ("all", "all_reduce")]
    return "none" if last.count(ended) == 1 else "last week's"


# ---- The losses --------------------------------------------------------------------------------


def compare_losses(run, last_week) -> dict:
    losses, others = ([told["losses"] for told in one.values] for one in (run, last_week))
    falls = [float(one[0]) - float(one[1])
             for one in (told.values[0]["held out"] for told in (run, last_week))]  # fmt: skip
    beginning = [abs(a[0] - b[0]) for a, b in zip(losses, others)]
    left = first_step(zip(losses, others))
    return {
        "from": left,
        "ranks": first_step([losses[0:2], losses[2:4]]),
        "copies": "same" if losses[0] == losses[2] else "own",
        "first": "near" if left == 0 and max(beginning) < NEAR else "far",
        "fall": max(1, round(falls[0] / falls[1])),
    }


def first_step(pairs) -> int | None:
    """At which any of these pairs of losses differ."""
    steps = [step for one, other in pairs for step, (a, b) in enumerate(zip(one, other))
             if abs(a - b) > SAME * abs(b)]  # fmt: skip
    return min(steps, default=None)

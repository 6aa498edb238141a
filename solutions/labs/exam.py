# Built from chapters/ch11_capstone/labs/exam.py by `make build`.
"""The exam of part 11b: twelve training runs with a fault each, and the evidence of them.

torchrun --nproc-per-node 4 labs/exam.py        which evidence of a run differs from last week's
"""

import hashlib
import string
from itertools import groupby

from exam_training import DP, STEPS, STEPS_ON_SHEET, TP
from faults import EXAMPLE, HEALTHY, record_with

LETTERS = string.ascii_uppercase[:12]
TOLD = {
    "same samples": "both copies read the same samples",
    "own shuffles": "each rank shuffles the samples with a seed of its own",
    "same order": "every epoch has the order of the first: nobody calls `set_epoch`",
    "epoch anew": "after the restart, the sampler begins its epoch anew",
    "summed": "gradients are summed over the copies, and not averaged",
    "not divided": "losses of micro-batches are added up, and not divided by their number",
    "not cleared": "gradients of the step before are not cleared",
    "never exchanged": "the copies never exchange gradients: `no_sync` is left on",
    "exchanged each time": "the copies exchange gradients after each micro-batch",
    "nothing sharded": "each copy keeps the momentum of all weights, and updates all",
    "momentum lost": "the restart loads the weights alone, without the optimizer's state",
    "no sum forward": "what a block returns is not summed over its tensor ranks",
    "no sum backward": "the gradient of a block's input is not summed over its tensor ranks",
    "inner not summed": "the gradient of `inner` is not summed over the tensor ranks",
    "own masks": "the tensor ranks of a copy draw different dropout masks",
    "graphs kept": "the held-out losses are kept with their graphs",
    "backwards last": "all forwards of a step come before its first backward",
    "slow data": "all ranks wait for their samples",
    "slow rank": "one rank computes slowly",
    "slow link": "the link between the copies is slow",
    "slow tensor link": "the links between tensor ranks are slow",
    "other order": "one rank makes two calls in another order",
    "batch less": "one rank has a batch less than the others",
    "lone barrier": "one rank calls a barrier that nobody else calls",
}
FAMILIES = {  # how many of the twelve are of each kind
    ("same samples", "own shuffles", "same order", "epoch anew"): 2,
    ("summed", "not divided", "not cleared", "never exchanged"): 2,
    ("nothing sharded", "momentum lost"): 1,
    ("no sum forward", "no sum backward", "inner not summed", "own masks"): 2,
    ("graphs kept", "backwards last"): 2,
    ("slow data", "slow rank", "slow link", "slow tensor link"): 2,
    ("other order", "batch less", "lone barrier"): 1,
}
KINDS = ["parameters", "gradients", "optimizer_state", "activations"]  # kinds that never vary
COLUMNS = ["rank 0", "rank 1", "rank 2", "rank 3", "test"]
AXES = ["dp", "tp"]
MEASURED = {label: f"step {step}" for step, label in STEPS_ON_SHEET.items()}
MEASURED |= {"training": "all steps"}
SHOWN_STEPS = [0, 1, 2, 3, 5, 6, 7, 14, 15, 16, 17, 20]
ALIKE = 3e-6  # losses whose relative difference is less differ by rounding


# ---- The fault of each sheet -------------------------------------------------------------------


def draw_faults(seed) -> dict[str, str]:
    """Draw {letter: fault} of the sheets; whoever calls this does not sit the exam."""

    def chance(fault):
        return hashlib.sha256(f"{seed} {fault}".encode()).hexdigest()

    chosen = [fault for family, count in FAMILIES.items()
              for fault in sorted(family, key=chance)[:count]]  # fmt: skip
    return dict(zip(LETTERS, sorted(chosen, key=lambda fault: chance(f"at {fault}"))))


def run_of(letter, seed):
    """Train on four ranks, with the fault of this sheet."""
    return train(draw_faults(seed)[letter])


def train(fault=HEALTHY):
    from pedagogy_lib import launch

    return launch(record_with, fault, world_size=DP * TP, device="cpu")


# ---- The evidence on a sheet -------------------------------------------------------------------


def losses_of(run) -> dict:
    """Return {rank: (steps, losses)}: each rank knows the loss of its own copy."""
    return {f"rank {rank}": (range(len(told["losses"])), told["losses"])
            for rank, told in enumerate(run.values)}  # fmt: skip


def plot_losses(run, last_week, title):
    """Plot each rank's losses, with last week's as thin black lines."""
    from pedagogy_lib.pictures.charts import plot_curves

    picture = plot_curves({"": losses_of(run)}, "step", "loss", 5, title)
    if run is not last_week:
        (axes,) = picture.figure.axes
        for number, curve in enumerate(losses_of(last_week).values()):
            label = "last week" if number == 0 else None
            axes.plot(*curve, color="black", linewidth=0.8, label=label)
        axes.legend(ncols=5, frameon=False, fontsize=9)
        picture.alt += "; thin black lines are last week's losses"
    return picture


def group_by_run(columns) -> list[tuple]:
    """Return the groups of a table's columns: the first one, and as many for each of both runs."""
    return [("", 1), ("this run", len(columns)), ("last week", len(columns))]


def loss_rows(run, last_week) -> list[list]:
    """Return rows of four ranks' losses and the held-out loss, in this run and last week's."""
    return [
        [step, *format_losses(run, step), *format_losses(last_week, step)] for step in SHOWN_STEPS
    ]


def format_losses(run, step) -> list[str]:
    columns = [*(told["losses"] for told in run.values), run.values[0]["held out"]]
    return [f"{float(column[step]):.4f}" if step < len(column) else "–" for column in columns]


def byte_rows(run, last_week) -> list[list]:
    """Return rows of the bytes that each rank sent per axis in the late step, in both runs."""
    axes = [list_bytes_sent(one, axis) for one in (run, last_week) for axis in AXES]
    return [[rank, *(f"{of_rank[rank]:,}" for of_rank in axes)] for rank in range(DP * TP)]


def list_bytes_sent(run, axis) -> list[int]:
    block = run["late step"]
    return list(map(sum, block.traffic(axis))) if axis in block.groups else [0] * len(run.values)


def memory_rows(run, last_week) -> list[list]:
    """Return rows of rank 0's peak bytes of each kind in `MEASURED`, in this run and last week."""
    peaks = [one[block].peak_bytes[0] for one in (run, last_week) for block in MEASURED]
    return [[kind.replace("_", " "), *(f"{peak[kind]:,}" for peak in peaks)] for kind in KINDS]


def call_rows(run) -> list[list]:
    """Return a row of each rank's last calls, in order; equal ones in a row are one."""
    return [
        [rank, ", ".join(format_calls(call, len(list(equal))) for call, equal in groupby(calls))]
        for rank, calls in enumerate(told["calls"] for told in run.values)
    ]


def format_calls(call, times) -> str:
    axis, operation, count = call
    length = f"{count / 1000:.0f}k" if count >= 1000 else str(count)
    return f"{f'{times} × ' * (times > 1)}{axis}: {operation} {length}"


VERDICTS = {True: "differs", False: "as last week"}


# ---- The evidence that differs -----------------------------------------------------------------


def compare_evidence(run, last_week) -> dict[str, bool]:
    """Return for each kind of evidence whether it differs from last week's; times are left out.

    Losses differ if one differs by more than a rounding error. All else differs if it is not equal.
    """
    pairs = zip(run.values, last_week.values, strict=True)
    return {
        "losses": any(not alike(a, b) for a, b in pairs),
        "steps": len(run.values[0]["losses"]) < STEPS,
        "bytes over dp": list_bytes_sent(run, "dp") != list_bytes_sent(last_week, "dp"),
        "bytes over tp": list_bytes_sent(run, "tp") != list_bytes_sent(last_week, "tp"),
        "memory": memory_of(run) != memory_of(last_week),
        "calls": [told["calls"] for told in run.values]
        != [told["calls"] for told in last_week.values],
    }


def alike(told, other) -> bool:
    """Return whether two ranks' losses agree in all steps that both have."""
    pairs = zip(told["losses"], other["losses"])  # the shorter one has ended early
    return all(abs(a - b) <= ALIKE * abs(b) for a, b in pairs)


def memory_of(run) -> list[dict]:
    return [{kind: peak[kind] for kind in KINDS} for peak in run["training"].peak_bytes]


def difference_squares(runs, last_week) -> dict:
    """Return which evidence of each sheet differs from last week's, for a picture."""
    return {
        name: {
            evidence: (VERDICTS[differs], "", differs)
            for evidence, differs in compare_evidence(run, last_week).items()
        }
        for name, run in runs.items()
    }


def count_unique_patterns(squares) -> int:
    """Count the rows of `difference_squares` that are unlike all others."""
    rows = list(squares.values())
    return sum(rows.count(row) == 1 for row in rows)


def main():
    last_week, run = train(), train(EXAMPLE)
    for evidence, differs in compare_evidence(run, last_week).items() if run.rank == 0 else ():
        print(f"{evidence:15} {VERDICTS[differs]}")


if __name__ == "__main__":
    main()

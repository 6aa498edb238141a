"""The cases, and the code that runs next to the answer."""

from types import SimpleNamespace

from coursekit.kit.results import outcome_of

PLAIN = {"dp": 1, "tp": 1, "pp": 1, "cp": 1, "zero": 0, "micro_batch": 1, "recompute": "none",
         "chunks": 1, "sequence": True}  # fmt: skip

CASES = {  # {case: (what differs from PLAIN, samples of a step, layers)}
    "one rank": ({}, 8, 4),
    "dp 2 × tp 2 × pp 2, ZeRO 1": ({"dp": 2, "tp": 2, "pp": 2, "zero": 1}, 16, 4),
    "tp 4, no sequence parallelism": ({"tp": 4, "sequence": False}, 8, 6),
    "dp 4 × cp 2, micro-batch 4": ({"dp": 4, "cp": 2, "micro_batch": 4}, 64, 12),
    "one copy on cp 2, ZeRO 1": ({"cp": 2, "zero": 1}, 8, 4),
    "pp 4, 120 layers in 5 chunks a stage": (
        {"dp": 2, "tp": 8, "pp": 4, "chunks": 5, "zero": 1}, 512, 120),
    "pp 8, 32 layers in 2 chunks a stage": ({"pp": 8, "chunks": 2, "micro_batch": 2}, 96, 32),
    "everything recomputed": ({"dp": 8, "tp": 2, "recompute": "full", "zero": 1}, 32, 40),
    "attention recomputed": ({"tp": 2, "pp": 2, "recompute": "selective"}, 12, 24),
}  # fmt: skip

SIZES = {f"--{name}-parallel-size": axis for name, axis in
         (("tensor-model", "tp"), ("pipeline-model", "pp"), ("context", "cp"))}  # fmt: skip

MICRO, BATCH = "--micro-batch-size", "--global-batch-size"

SEQUENCE, ZERO = "--sequence-parallel", "--use-distributed-optimizer"

VIRTUAL = "--num-layers-per-virtual-pipeline-stage"

GRANULARITY, METHOD, LAYERS = (
    f"--recompute-{what}" for what in ("granularity", "method", "num-layers")
)

OPTIONS = (*SIZES, MICRO, BATCH, SEQUENCE, ZERO, VIRTUAL, GRANULARITY, METHOD, LAYERS)


def options_after(answer, before, call) -> tuple:
    """Call an answer for the call before, if any, and then for this one.

    Returns the outcome, the plan's fields afterwards, and whether both calls gave the same dict.
    """
    first, outcome = None, None
    for fields, *more in filter(None, (before, call)):
        plan, first = SimpleNamespace(**fields), outcome
        outcome = outcome_of(answer, plan, *more)
    is_kept = isinstance(outcome.value, dict) and first is not None and outcome.value is first.value
    return outcome, vars(plan), is_kept

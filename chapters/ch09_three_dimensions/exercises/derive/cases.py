"""The command lines that are possible, and the keys of a result."""

LINE = {"tp": 8, "pp": 4, "micro_batch": 1, "global_batch": 1024, "layers": 80, "heads": 64}

KEYS = ("dp", "layers", "heads", "microbatches")

POSSIBLE = {
    "the line for 64 GPUs": (LINE, 64),
    "the same on 1,024 GPUs, pp 8": (LINE | {"pp": 8}, 1024),
    "one GPU": (LINE | {"tp": 1, "pp": 1, "global_batch": 6, "micro_batch": 3}, 1),
    "micro-batches of 4": (LINE | {"micro_batch": 4}, 64),
    "96 layers on pp 12, 6 heads on tp 2": (
        {"tp": 2, "pp": 12, "micro_batch": 2, "global_batch": 60, "layers": 96, "heads": 6}, 120),
}  # fmt: skip

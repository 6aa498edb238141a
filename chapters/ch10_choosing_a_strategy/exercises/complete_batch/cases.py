"""The configurations that can be completed, and the names of their numbers."""

TRAIN = "train_batch_size"

MICRO = "train_micro_batch_size_per_gpu"

STEPS = "gradient_accumulation_steps"

KEYS = (TRAIN, MICRO, STEPS)


def config(train=None, micro=None, steps=None) -> dict:
    found = dict(zip(KEYS, (train, micro, steps)))
    return {key: value for key, value in found.items() if value is not None}


POSSIBLE = {  # {case: (the dict, the copies)}
    "all three, 2 copies": (config(16, 4, 2), 2),
    "without accumulation, 2 copies": (config(16, 4), 2),
    "without the micro-batch, 3 copies": (config(60, steps=4), 3),
    "without the step's batch, 4 copies": (config(micro=3, steps=5), 4),
    "the step's batch alone, 3 copies": (config(12), 3),
    "the micro-batch alone, 5 copies": (config(micro=6), 5),
    "one copy": (config(24, 8), 1),
    "64 copies": (config(1024, 1), 64),
}

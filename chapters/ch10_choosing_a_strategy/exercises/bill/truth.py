"""The right results, and the results of known mistakes."""


def truth(parameters, tokens, gpus, peak, mfu, price):
    useful = gpus * peak * mfu  # useful FLOP/s of all GPUs
    seconds = 3 * 2 * parameters * tokens / useful
    hours = gpus * seconds / 60 / 60
    return {"days": seconds / 60 / 60 / 24, "gpu_hours": hours, "dollars": hours * price}


def scale_items(by, *names):
    def mistaken(*args):
        return {key: value * (by(*args) if key in names else 1)
                for key, value in truth(*args).items()}  # fmt: skip

    return mistaken


ALL = "days", "gpu_hours", "dollars"

MISTAKES = [
    (
        "this computes forwards alone: 2 FLOPs for each parameter and token. Training needs 6.",
        scale_items(lambda *args: 1 / 3, *ALL),
    ),
    (
        "this counts recomputation: 8 FLOPs for each parameter and token. MFU asks for the "
        "model's own, 6.",
        scale_items(lambda *args: 8 / 6, *ALL),
    ),
    (
        "GPUs reach a share of their peak: divide by the MFU.",
        scale_items(lambda p, t, gpus, peak, mfu, price: mfu, *ALL),
    ),
    (
        "this multiplies by the MFU. A low MFU makes a training longer: divide by it.",
        scale_items(lambda p, t, gpus, peak, mfu, price: mfu * mfu, *ALL),
    ),
    (
        "days pass on all GPUs at a time: more GPUs, fewer days.",
        scale_items(lambda p, t, gpus, *rest: gpus, "days"),
    ),
    (
        "these are the hours on the clock. Each GPU has its own hour to be paid.",
        scale_items(lambda p, t, gpus, *rest: 1 / gpus, "gpu_hours", "dollars"),
    ),
    (
        "the price is for an hour of each GPU.",
        scale_items(lambda p, t, gpus, *rest: 1 / gpus, "dollars"),
    ),
    ("these are hours, not days.", scale_items(lambda *args: 24, "days")),
    (
        "all GPUs work at the same time: together they do `gpus` times as many FLOPs a second.",
        scale_items(lambda p, t, gpus, *rest: gpus, *ALL),
    ),
    (
        "the hours are right on the clock, but `gpu_hours` are those of all GPUs together.",
        scale_items(lambda p, t, gpus, *rest: 1 / gpus, "gpu_hours"),
    ),
    (
        "this counts the GPUs twice: `gpu_hours` are of all GPUs already.",
        scale_items(lambda p, t, gpus, *rest: gpus, "dollars"),
    ),
    (
        "these hours of all GPUs are multiplied by the GPUs once more.",
        scale_items(lambda p, t, gpus, *rest: gpus, "gpu_hours", "dollars"),
    ),
    (
        "each parameter is multiplied and added: 6 FLOPs for each parameter and token, not 3.",
        scale_items(lambda *args: 1 / 2, *ALL),
    ),
    (
        "`mfu` is a share, from 0 to 1, and not a number of percent.",
        scale_items(lambda *args: 100, *ALL),
    ),
    ("these are seconds, not days.", scale_items(lambda *args: 86400, "days")),
    ("these are seconds of GPUs, not hours.", scale_items(lambda *args: 3600, "gpu_hours")),
    (
        "these are seconds of GPUs, not hours.",
        scale_items(lambda *args: 3600, "gpu_hours", "dollars"),
    ),
    (
        "these are minutes of GPUs, not hours: an hour has 3,600 seconds.",
        scale_items(lambda *args: 60, "gpu_hours", "dollars"),
    ),
]

"""Data and functions that the cases and the truth share."""

from coursekit.kit.tables import tabulate

from ..shared.slots import slots_of

MEASURED = {1: 2.0, 2: 2.6, 4: 4.0, 8: 6.9, 16: 13.0, 32: 27.0}

# {case: ({size: seconds}, samples, stages)}
BATCHES = {
    "96 samples, 4 stages": (MEASURED, 96, 4),
    "96 samples, two dips": (MEASURED | {4: 5.5}, 96, 4),
    "96 samples, one stage": (MEASURED, 96, 1),
    "96 samples, 16 stages": (MEASURED, 96, 16),
    "96 samples, 4 stages, 8 a little slower": (MEASURED | {8: 7.1}, 96, 4),
    "60 samples, sizes that do not divide them": (
        {3: 3.3, 4: 4.0, 7: 5.0, 8: 5.5, 15: 12.0}, 60, 4,
    ),
    "8 samples, larger sizes measured, too": ({32: 9.0, 2: 2.6, 16: 8.0, 4: 4.0, 8: 5.5}, 8, 2),
    "7 samples, only one size divides them": ({2: 1.0, 7: 9.0, 4: 1.5}, 7, 3),
}  # fmt: skip


def list_valid_sizes(seconds_of, samples) -> list[int]:
    return [size for size in seconds_of if samples % size == 0]


@tabulate(
    lambda: [(*call, size) for call in BATCHES.values() for size in list_valid_sizes(*call[:2])]
)
def step_seconds(seconds_of, samples, stages, size) -> float:
    return slots_of(stages, samples // size) * seconds_of[size]

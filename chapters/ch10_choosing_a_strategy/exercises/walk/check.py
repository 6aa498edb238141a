"""The decision tree of the sources, as a function. The truth compares each answer's bytes."""

from coursekit.kit import Formula, Wrong
from coursekit.kit.results import outcome_of

from .cases import BILLION
from .truth import ALL_MISTAKES, truth

FITTING = {
    "the example: 100 parameters, 2 layers, 2 machines of 2 GPUs": [
        (100, 2, 1000, 4, 2), (100, 2, 560, 4, 2)],
    "three stages": [(120 * BILLION, 96, 100e9, 768, 8)],
    "one stage is enough": [(100 * BILLION, 80, 230e9, 32, 8)],
    "three machines": [(120 * BILLION, 96, 140e9, 24, 8)],
    "the example with a memory of 500": [(100, 2, 500, 4, 2)],
    "the whole model fits exactly": [(1000, 10, 18_000, 16, 8)],
    "it misses by one byte": [(1000, 10, 17_999, 16, 8)],
    "ZeRO 2 fits, with a little room": [(1000, 10, 3_050, 16, 8)],
    "ZeRO 2 fits exactly": [(1000, 10, 3_000, 16, 8)],
    "ZeRO 3 fits exactly": [(1600, 16, 2_000, 16, 8)],
    "ZeRO 3 misses by one byte": [(1600, 16, 1_999, 32, 8), (1600, 16, 1_999, 16, 8)],
    "one layer is large": [(1600, 2, 2_000, 32, 8), (1600, 1, 3_700, 16, 8)],
    "GPT-2 XL on 64 GPUs, 40 GB for states": [(1_557_611_200, 48, 40e9, 64)],
    "8 billion on 8, 64, 512 GPUs": [(8_030_000_000, 32, 40e9, n) for n in (8, 64, 512)],
    "8 billion, 20 GB for states": [(8_030_000_000, 32, 20e9, n) for n in (16, 64)],
    "13 billion on one machine": [(13_000_000_000, 40, 40e9, 8)],
    "70 billion on 64 GPUs": [(70_000_000_000, 80, 40e9, 64), (70_000_000_000, 80, 20e9, 64)],
    "100 billion exactly": [(100 * BILLION, 100, 60e9, 128, 8)],
    "175 billion, 40 GB": [(175_000_000_000, 96, 40e9, n) for n in (512, 1024)],
    "175 billion, 71 GB": [(175_000_000_000, 96, 71e9, 64)],
    "405 billion on 1,024 GPUs": [(405_000_000_000, 128, 40e9, 1024)],
    "530 billion, 105 layers, 1,680 GPUs": [(530_000_000_000, 105, 40e9, 1680)],
    "175 billion, 450 GB: ZeRO 2": [(175_000_000_000, 96, 450e9, 64)],
    "parameters that the layers do not divide": [(1601, 16, 2001.2, 16, 8)],
    "the whole model fits, with a little room": [(1000, 10, 19_000, 16, 8)],
    "a share fits, one layer does not": [(6400, 2, 5_000, 64, 16)],
    "30 billion in 61 layers": [(30 * BILLION, 61, 40e9, 32, 8)],
    "104 billion": [(104 * BILLION, 96, 60e9, 128, 8)],
    "96 stages": [(400 * BILLION, 96, 10e9, 768, 8)],
    "machines of 4 and of 16 GPUs": [
        (120 * BILLION, 96, 50e9, 96, 4), (120 * BILLION, 96, 50e9, 96, 16)],
    "12 stages": [(110 * BILLION, 96, 21e9, 96, 8), (110 * BILLION, 90, 21e9, 144, 8)],
    "fewer GPUs than a machine has": [(100 * BILLION, 80, 450e9, 4, 8)],
    "one GPU": [(1000, 10, 18_000, 1, 8)],
}  # fmt: skip

NOT_FITTING = {
    "70 billion on 8 GPUs": (70_000_000_000, 80, 40e9, 8),
    "405 billion, 126 layers, 1,024 GPUs": (405_000_000_000, 126, 40e9, 1024),
    "one GPU, one byte too few": (1000, 10, 17_999, 1),
}


def refuses(answer):
    for case, arguments in NOT_FITTING.items():
        outcome = outcome_of(answer, *arguments)
        if not outcome.error:
            raise Wrong(
                case, f"no ValueError; it returned {outcome.value!r:.90}",
                "nothing fits here in any way of the tree: then raise a ValueError",
            )  # fmt: skip
        if "ValueError" not in outcome.kinds:
            raise Wrong(case, str(outcome), "asked is a ValueError: raise ValueError(…)")
        yield f"{case}: ValueError"


EXERCISE = Formula(
    "walk",
    lab="advice",
    cases=FITTING,
    truth=truth,
    mistakes=ALL_MISTAKES,
    also=refuses,
    asked="a dict with the keys dp, tp, pp and zero",
    shape="return a dict with four whole numbers, under the keys dp, tp, pp and zero",
    whole="ranks are whole numbers",
    errors={
        "missing 1 required positional": "machine may be left out: then it is 8",
        "ValueError": "something fits here: ask the questions in their order, to the last one",
        "ZeroDivisionError": "with fewer GPUs than a machine has, tp is all of them",
    },
    hints=(
        "Write the four questions one under the other: each returns, if what it needs fits.",
        "For the last one, try 1, 2, 3, … stages. Which of them divide the layers, and gpus / tp?",
    ),
)

"""FLOP/s of a GPU from the time of a step. The truth adds up product after product."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth


def diagnose_rounding(found, case) -> str:
    """Return the diagnosis of numbers with few digits, where the right ones have many, or ""."""
    for call, got in zip(EXERCISE.cases[case], found[case]):
        for name, wanted in EXERCISE.truth(*call).items():
            digits, near = (4, 0.006) if name == "mfu" else (0, 1)
            is_short = got[name] == round(got[name], digits)
            if is_short and 1e-5 * wanted < abs(got[name] - wanted) < near:
                return "return the numbers themselves: neither rounded nor cut to whole ones."
    return ""


EXERCISE = Formula(
    "utilization",
    cases={
        "1 layer, width 2, a vocabulary of 3, context 5; and 3 layers": [
            (1, 2, 3, 5, 1, 2.0, 1, 11100.0), (3, 4, 7, 5, 2, 0.5, 4, 90000.0)],
        "a slow GPU": [(2, 4, 9, 3, 2, 700.0, 2, 37.5)],
        "3 layers, 4 GPUs": [(3, 8, 11, 6, 5, 0.7, 4, 1e6)],
        "a row of BLOOM's log": [(80, 13824, 250880, 2048, 2048, 160.29, 320, 312e12)],
        "GPT-3 on 1,024 GPUs": [(96, 12288, 51200, 2048, 1536, 24.0, 1024, 312e12)],
    },
    truth=truth,
    mistakes=MISTAKES,
    explain=diagnose_rounding,
    asked="a dict with the keys model, hardware and mfu",
    shape="return a dict with three numbers, under the keys model, hardware and mfu",
    hints=(
        "Count the multiplications of one token in the forward: in all blocks, and in the output "
        "layer.",
        "Each is 2 FLOPs. Forward and backward together are three times the forward.",
        "With recomputation, the blocks' forward happens once more. Divide by seconds and GPUs.",
    ),
)  # fmt: skip

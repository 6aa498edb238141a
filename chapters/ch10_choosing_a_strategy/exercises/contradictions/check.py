"""The contradictions in a published row. The truth compares whole numbers and bounds."""

from coursekit.kit import Formula
from coursekit.kit.results import is_number

from .cases import ORDER, row
from .truth import MISTAKES, truth


def same(got, wanted) -> bool:
    return isinstance(got, list) and got == wanted


def other_words(found, case) -> str:
    for got in found[case]:
        unknown = [word for word in got if word not in ORDER] if isinstance(got, list) else []
        if unknown:
            return f"the words are ranks, batch and rate: {unknown[0]!r:.30} is none of them"
    return ""


def differs(call, wanted, got) -> str:
    return f"of {row_as_text(*call)} it says {got!r:.60}, expected {wanted}"


def row_as_text(row) -> str:
    shown = {name: f"{value:g}" if is_number(value) else value for name, value in row.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


BLOOM = {"tp": 8, "pp": 10, "dp": 4, "gpus": 320, "micro_batch": 4, "batch": 2048,
         "flops": 3.1272e15, "seconds": 147.43, "tflops": 135.7}  # fmt: skip

EXERCISE = Formula(
    "contradictions",
    cases={
        "nothing is wrong": [(row(),)],
        "twice the ranks": [(row(gpus=16, tflops=2.0),)],
        "64 samples in micro-batches of 3": [(row(micro_batch=3),)],
        "four times the FLOP/s": [(row(tflops=0.25),)],
        "a quarter of the FLOP/s": [(row(tflops=4.0),)],
        "all three": [(row(gpus=16, micro_batch=3, tflops=7.0),)],
        "dp is not printed": [(row(dp=None),), (row(dp=None, micro_batch=3),)],
        "dp is not printed, and 30 GPUs": [
            (row(dp=None, gpus=30, tflops=1.0667),),
            (row(dp=None, gpus=30, batch=60),)],
        "4 % too much, 4 % too little": [(row(tflops=1 / 1.04),), (row(tflops=1 / 0.96),)],
        "8 % too much, of a fast GPU and of a slow one": [
            (row(flops=3e14, tflops=300 / 1.08),), (row(flops=2e10, tflops=0.02 / 1.08),)],
        "4 % too much, of a fast GPU": [(row(flops=3e14, tflops=300 / 1.04),)],
        "5.05 % above the printed figure": [(row(tflops=1 / 1.0505),)],
        "5.05 % below the printed figure": [(row(tflops=1 / 0.9495),)],
        "4.95 % below the printed figure": [(row(tflops=1 / 0.9505),)],
        "batch 24, micro-batch 8": [(row(micro_batch=8, batch=24, tflops=24 / 64),)],
        "batch 30, 4 copies": [(row(micro_batch=1, batch=30, tflops=30 / 64),)],
        "fewer GPUs than one copy needs": [(row(dp=None, gpus=4, tflops=8.0),)],
        "fewer ranks than GPUs": [(row(gpus=64, tflops=0.5),)],
        "dp does not fit, its batch does": [(row(gpus=24, dp=4, tflops=4 / 3),)],
        "a row of BLOOM's log": [(BLOOM,)],
        "the same with dp 8": [(BLOOM | {"dp": 8},)],
    },
    truth=truth,
    same=same,
    differs=differs,
    mistakes=MISTAKES,
    asked="a list of words",
    shape="return a list of words; of a row without contradictions it is empty",
    explain=other_words,
    errors={
        "ValueError": "a contradiction is what is asked, and no error: return its word",
        "NoneType": "dp is None where the row does not print it",
        "ZeroDivisionError": "with fewer GPUs than tp × pp there is not one copy",
    },
    hints=(
        "Three questions, one after another: does dp × tp × pp give the GPUs? Does each copy get "
        "whole micro-batches? Do FLOPs, seconds and GPUs give the printed rate?",
        "Where dp is None, it is gpus / (tp × pp), if that is a whole number.",
        "The rate: batch × flops / (seconds × gpus), beside tflops × 1e12.",
    ),
)  # fmt: skip

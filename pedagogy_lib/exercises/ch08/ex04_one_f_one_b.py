"""Exercise 8.4: one_f_one_b."""

from ...course.checking import Exercise
from .generators import examine_one_f_one_b

EXERCISE = Exercise(
    "8.4", "one_f_one_b", examine_one_f_one_b,
    (
        "Write down what ranks 0 and 3 of 4 do with 8 micro-batches. How many forwards does "
        "each do before its first backward?",
        "Three loops: a warm-up of forwards; then F and B in turns; then the backwards that "
        "are left. How long a warm-up is, the number of ranks after this one decides.",
        "warm_up = min(ranks - 1 - rank, microbatches). In the steady part, i goes from "
        "warm_up to the last micro-batch: which one goes back after forward i?",
        "The oldest that is kept: i - warm_up. Left for the end are the last `warm_up` ones: "
        "range(microbatches - warm_up, microbatches).",
    ),
    lab="schedules",
)  # fmt: skip

"""One round of PowerSGD for one matrix, with error feedback."""

from coursekit.kit import GROUP, Equals, RankCase, RankExercise, Sends, World, never

from .cases import LARGE, ROUNDS, compress
from .truth import Play, check_communication, mistakes, most_bytes, otherwise, why_more

EXERCISE = RankExercise(
    "power_round",
    lab="fewer_bytes",
    cases=[
        RankCase(World(2), (6, 4, 1), ", 6 × 4, r = 1"),
        RankCase(World(3), (5, 7, 2), ", 5 × 7, r = 2"),
        RankCase(World(2), (4, 3, 3), ", 4 × 3, r = 3"),
        RankCase(World(1), (4, 5, 2), ", 4 × 5, r = 2"),
        RankCase(GROUP, (5, 4, 2), ", 5 × 4, r = 2"),
        RankCase(World(2), (4, 4, 2), ", 4 × 4, r = 2"),
        RankCase(World(3), LARGE, ", 1000 × 800 of float32, r = 64"),
    ],
    work=compress,
    facts=[
        Equals("rounds", lambda trial, place: Play(trial).rounds(place), mistakes, "round",
               otherwise=otherwise),
        never("changed", "the gradient has changed",
              "only `error` and `q` change: take a new tensor for the sum"),
        check_communication,
        Sends(most_bytes, "all-reduces of P and Q send", why_more),
    ],
    right=lambda trial: "one round" if trial.case.args == LARGE else f"{ROUNDS} rounds",
    errors={
        "shapes cannot be multiplied": "P is M q, of shape (m, r). Q is M^T P, of shape (k, r). "
        "The result is P Q^T, of shape (m, k)",
        "same dtype": "new tensors have the dtype of `gradient`: it may be float32 or float64",
    },
    hints=(
        "whole = gradient + error. From then on, work with `whole` alone.",
        "p = whole @ q, an all-reduce, then orthonormal(p). Whether p is the sum or the mean does "
        "not matter: both span the same.",
        "q.copy_(whole.T @ p), an all-reduce, divided by the number of ranks. The result is "
        "p @ q.T, and error.copy_(whole - result).",
    ),
)  # fmt: skip

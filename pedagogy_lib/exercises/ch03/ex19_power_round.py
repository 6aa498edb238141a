"""One round of PowerSGD for one matrix, with error feedback."""

import torch
import torch.distributed as dist

from ..kit import (
    GROUP,
    At,
    Equals,
    RankExercise,
    Sends,
    World,
    answering,
    complains,
    first_true,
    never,
)

ROUNDS = 3
LARGE = (1000, 800, 64, torch.float32)

NO_FEEDBACK = (
    "`error` has no part in it: what the rounds before have left over is added to the gradient "
    "first, and compressed with it"
)
ERROR_LEFT = (
    "`error` is still what it was before the call. Write M minus the result into this tensor, as "
    "error.copy_(…) does; `error = …` only gives the name to another one"
)
OF_GRADIENT = (
    "this is the gradient minus the result. What was compressed is M, the gradient with the old "
    "error: of the old error, too, something may be left"
)
ADDS_UP = "the old error is in M already: M minus the result takes its place, it is not added"
OF_MEAN = (
    "this is the error of the mean, the same on all ranks. Each rank keeps its own M minus the "
    "result; nobody else knows it"
)
SUM = "this is a sum over the ranks: Q is a mean, so divide it by their number"
BY_WORLD = "the mean is over the ranks of the group: divide by their number, not by the world's"
OWN_P = (
    "P is this rank's own. All ranks need the same columns, so P is averaged before it is made "
    "orthonormal"
)
FIRST_P = "P is rank 0's alone, on all ranks: it is the mean of all ranks' M q"
OWN_Q = "Q is this rank's own: the mean of all ranks' M^T P is asked"
ALONE = "nothing of the other ranks is in it: P and Q are means over all of them"
NOT_ORTHONORMAL = (
    "the columns of P are not orthonormal. P Q^T is the projection of M on them only if they have "
    "length 1, and are at right angles"
)
ONLY_LENGTH = "the columns of P have length 1, but are not at right angles to each other"
TOO_EARLY = (
    "a mean of orthonormal columns is not orthonormal: first the mean over the ranks, then make "
    "its columns orthonormal"
)
Q_LEFT = (
    "`q` is still what it was before the call. The next round begins with Q: write it into this "
    "tensor, as q.copy_(…) does"
)
Q_ORTHONORMAL = "`q` becomes Q itself, and is not made orthonormal"
WRONG_SIGN = "the sign is the other way round: the error is M minus the result"
OWN_ERROR = (
    "this is what the projection of this rank's own M would leave over. What all ranks take a step "
    "with is the result, made of the mean of all M: subtract that"
)
P_OF_GRADIENT = "P is M q: the error belongs to what is compressed"
Q_OF_GRADIENT = "Q is M^T P: the error belongs to what is compressed"
NO_RESULT = "nothing was returned: `return` the result"
NO_MATRIX = "one matrix of the shape of `gradient` is to be returned: P Q^T"
IN_ORDER = "in this order: M, P, its mean, orthonormal columns, Q, its mean, the result, the error"


# ---- On a rank ---


def gradient_of(place, turn, m, k) -> torch.Tensor:
    return random_matrix(m, k, 100 * turn + place + 1)


def first_q(k, r) -> torch.Tensor:
    return random_matrix(k, r, 7)


def random_matrix(rows, columns, seed) -> torch.Tensor:
    """Numbers that a float32 can hold, too."""
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=chance, dtype=torch.float64).float().double()


def turns_of(case) -> range:
    return range(1 if case.args == LARGE else ROUNDS)


def compress(answer, group, case):
    """case.args: the rows and columns of the matrix, the rank of its approximation, and its dtype.

    `error` and `q` are rows of larger tensors: these are looked at afterwards.
    """
    m, k, r, *dtype = case.args
    dtype = dtype[0] if dtype else torch.float64
    place, errors, qs = dist.get_rank(group), torch.zeros(1, m, k, dtype=dtype), first_q(k, r)[None]
    qs, rounds, changed = qs.to(dtype), [], False
    for turn in turns_of(case):
        given = gradient_of(place, turn, m, k).to(dtype)
        gradient = given.clone()
        with answering():
            result = answer(gradient, errors[0], qs[0], group)
        changed |= not torch.equal(gradient, given)
        copied = result.clone() if isinstance(result, torch.Tensor) else result
        rounds.append({"the result": copied, "error": errors[0].clone(), "q q^T": qs[0] @ qs[0].T})
    return {"changed": changed, "rounds": rounds}


# ---- In one process -------------------------------------------------------------------------


def mean(tensors):
    return sum(tensors) / len(tensors)


def span(matrix) -> torch.Tensor:
    """Orthonormal columns that span the same; another way than the lab's."""
    return torch.linalg.svd(matrix, full_matrices=False).U


def unit_columns(matrix) -> torch.Tensor:
    return matrix / matrix.norm(dim=0)


class Play:
    """All ranks of a trial in one process; with a mistake, if one is named."""

    def __init__(self, trial, mistake=""):
        self.m, self.k, r, *dtype = trial.case.args
        self.turns, self.dtype = turns_of(trial.case), dtype[0] if dtype else torch.float64
        self.n, self.mistake = trial.n, mistake
        self.factor = {SUM: self.n, BY_WORLD: self.n / getattr(trial.case.world, "size", self.n)}
        self.errors = [torch.zeros(self.m, self.k).double() for _ in range(self.n)]
        self.qs = [first_q(self.k, r) for _ in range(self.n)]

    def rounds(self, place) -> list[dict]:
        return [
            {name: value.to(self.dtype) for name, value in self.round(turn, place).items()}
            for turn in self.turns
        ]

    def round(self, turn, place) -> dict:
        gradients = [gradient_of(rank, turn, self.m, self.k) for rank in range(self.n)]
        with_error = self.mistake not in (NO_FEEDBACK, ERROR_LEFT)
        wholes = [g + e * with_error for g, e in zip(gradients, self.errors)]
        for_p = gradients if self.mistake == P_OF_GRADIENT else wholes
        for_q = gradients if self.mistake == Q_OF_GRADIENT else wholes
        bases = self.bases([matrix @ q for matrix, q in zip(for_p, self.qs)])
        own = [matrix.T @ basis for matrix, basis in zip(for_q, bases)]
        qs = own if self.mistake in (OWN_Q, ALONE) else [mean(own)] * self.n
        qs = [self.factor.get(self.mistake, 1) * q for q in qs]
        results = [basis @ q.T for basis, q in zip(bases, qs)]
        if self.mistake == OWN_ERROR:
            self.errors = [whole - b @ b.T @ whole for whole, b in zip(wholes, bases)]
        else:
            self.errors = [self.error_of(k, gradients, wholes, results) for k in range(self.n)]
        if self.mistake != Q_LEFT:
            self.qs = [span(q) if self.mistake == Q_ORTHONORMAL else q for q in qs]
        q = self.qs[place]
        return {"the result": results[place], "error": self.errors[place], "q q^T": q @ q.T}

    def bases(self, products) -> list[torch.Tensor]:
        if self.mistake in (OWN_P, ALONE, TOO_EARLY):  # here signs matter: the lab's columns
            own = [torch.linalg.qr(product).Q for product in products]
            return [mean(own)] * self.n if self.mistake == TOO_EARLY else own
        if self.mistake == FIRST_P:
            return [span(products[0])] * self.n
        make = {NOT_ORTHONORMAL: lambda p: p, ONLY_LENGTH: unit_columns}.get(self.mistake, span)
        return [make(mean(products))] * self.n

    def error_of(self, rank, gradients, wholes, results) -> torch.Tensor:
        left = wholes[rank] - results[rank]
        if self.mistake == OF_GRADIENT:
            return gradients[rank] - results[rank]
        if self.mistake == WRONG_SIGN:
            return -left
        if self.mistake == ADDS_UP:
            return self.errors[rank] + left
        if self.mistake == OF_MEAN:
            return mean(wholes) - results[rank]
        return torch.zeros_like(left) if self.mistake == ERROR_LEFT else left


MISTAKES = (
    NO_FEEDBACK, ERROR_LEFT, OF_GRADIENT, ADDS_UP, OF_MEAN, SUM, BY_WORLD, OWN_P, OWN_Q, ALONE,
    FIRST_P, NOT_ORTHONORMAL, ONLY_LENGTH, TOO_EARLY, Q_LEFT, Q_ORTHONORMAL, WRONG_SIGN, OWN_ERROR,
    P_OF_GRADIENT, Q_OF_GRADIENT,
)  # fmt: skip


def mistakes(trial, place) -> dict:
    return {mistake: Play(trial, mistake).rounds(place) for mistake in MISTAKES}


def otherwise(trial) -> str:
    """What to say of values that no mistake gives."""
    result = trial.found[0].rounds[0]["the result"]
    if result is None:
        return NO_RESULT
    is_matrix = isinstance(result, torch.Tensor) and result.shape == trial.case.args[:2]
    return IN_ORDER if is_matrix else NO_MATRIX


def most_bytes(trial, place):
    m, k, r, *_ = trial.case.args
    return 2 * (1 - 1 / trial.n) * 4 * r * (m + k) if trial.case.args == LARGE else None


@complains
def something_travels(trial):
    """Through torch.distributed, and not through a file, which other machines may not have."""
    if trial.case.args == LARGE and sum(trial.sent_bytes) < most_bytes(trial, 0):
        yield (
            f"the numbers are right, and the ranks send {sum(trial.sent_bytes):,} bytes",
            ("P and Q have to travel from rank to rank by torch.distributed"),
        )


def why_more(trial, times) -> str:
    return first_true({
        "the whole matrix travels: only P and Q, which are small, have to": times > 5,
        "numbers of float32 travel as float64: that is twice the bytes": 1.9 < times < 2.1,
        "everybody gets everybody's P or Q here. Their sum is enough, and an all-reduce moves "
        "less": any("gather" in call.name for call in trial.calls[0]),
        "two all-reduces are enough, one for P and one for Q": True,
    })  # fmt: skip


EXERCISE = RankExercise(
    "3.19",
    "power_round",
    lab="fewer_bytes",
    cases=[
        At(World(2), (6, 4, 1), ", 6 × 4, r = 1"),
        At(World(3), (5, 7, 2), ", 5 × 7, r = 2"),
        At(World(2), (4, 3, 3), ", 4 × 3, r = 3"),
        At(World(1), (4, 5, 2), ", 4 × 5, r = 2"),
        At(GROUP, (5, 4, 2), ", 5 × 4, r = 2"),
        At(World(2), (4, 4, 2), ", 4 × 4, r = 2"),
        At(World(3), LARGE, ", 1000 × 800 of float32, r = 64"),
    ],
    work=compress,
    facts=[
        Equals("rounds", lambda trial, place: Play(trial).rounds(place), mistakes, "round",
               otherwise=otherwise),
        never("changed", "the gradient has changed",
              "only `error` and `q` change: take a new tensor for the sum"),
        something_travels,
        Sends(most_bytes, "all-reduces of P and Q send", why_more),
    ],
    told=lambda trial: "one round" if trial.case.args == LARGE else f"{ROUNDS} rounds",
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

"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit import complains, first_true

from .cases import LARGE, first_q, gradient_of, turns_of

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


def mean(tensors):
    return sum(tensors) / len(tensors)


def span(matrix) -> torch.Tensor:
    """Return orthonormal columns with the same span, computed in another way than in the lab."""
    return torch.linalg.svd(matrix, full_matrices=False).U


def unit_columns(matrix) -> torch.Tensor:
    return matrix / matrix.norm(dim=0)


class Play:
    """A simulation of all ranks of a trial in one process, with a mistake if one is named."""

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
        if self.mistake in (OWN_P, ALONE, TOO_EARLY):  # signs matter, so as in the lab
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
    """Diagnose values that no mistake gives."""
    result = trial.found[0].rounds[0]["the result"]
    if result is None:
        return NO_RESULT
    is_matrix = isinstance(result, torch.Tensor) and result.shape == trial.case.args[:2]
    return IN_ORDER if is_matrix else NO_MATRIX


def most_bytes(trial, place):
    m, k, r, *_ = trial.case.args
    return 2 * (1 - 1 / trial.n) * 4 * r * (m + k) if trial.case.args == LARGE else None


@complains
def check_communication(trial):
    """Complain if ranks send too little, as through a file, which other machines may not have."""
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

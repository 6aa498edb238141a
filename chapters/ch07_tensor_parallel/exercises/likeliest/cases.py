"""The cases, their right results, and the code that runs next to the answer."""

import contextlib
import itertools
import os

import torch
import torch.distributed as dist

from coursekit.kit import GROUP, RankCase, Rejection, World, measure_answer
from coursekit.kit.diagnoses import kind_of
from coursekit.kit.observed_calls import all_waited

LOWEST = -torch.inf

NEAR = 1 + 2.0**-40  # float32 rounds it to 1

LONG = 300  # tokens of a rank; bfloat16 lacks some whole numbers above 256


def make_case(what, *logits, dtype=torch.float32, world=None):
    """Return a case; each rank has a list of logits for each sample."""
    tokens = ", ".join(str(len(of_rank[0])) for of_rank in logits)
    kind = str(dtype).removeprefix("torch.")
    return RankCase(world or World(3), (logits, dtype), f" with {tokens} tokens, {kind}, {what}")


CASES = [
    make_case("each rank has the highest one once",
       [[1.0, 5, 2, 0], [2, 1, 0, 3], [4, 9, 1, 8], [0, 1, 2, 3]],
       [[3, 12, 4], [1, 2, 0], [3, 2, 1], [4, 4.5, 1]],
       [[8, 7, 6], [0, 1, 4], [5, 6, 0], [2, 0, 1]]),
    make_case("all are negative",
       [[-5.0, -4, -6, -7], [-3, -9, -2, -4]], [[-8, -9, -7], [-5, -6, -4]],
       [[-2, -3, -9], [-8, -7, -9]]),
    make_case("equal ones",
       [[1.0, 4, 4, 0], [1, 0, 2, 1], [7, 7, 7, 7]], [[4, 4, 1], [0, 6, 6], [7, 7, 7]],
       [[0, 1, 4], [6, 6, 1], [7, 7, 7]]),
    make_case("a rank has -inf alone",
       [[LOWEST] * 4, [1.0, LOWEST, 2, 0]], [[-3, -1, LOWEST], [LOWEST] * 3],
       [[-2, LOWEST, -4], [LOWEST, LOWEST, -1]]),
    make_case("nearly equal ones", [[0.0, 1, 0, 1], [1, 0, 0, 0]], [[1, NEAR, 0], [0, 0, NEAR]],
       dtype=torch.float64, world=World(2)),
    make_case("many tokens", [[0.0] * LONG], [[0.0] * (LONG - 22) + [2.0] + [0.0] * 20],
       [[1.0] * (LONG - 1)], dtype=torch.bfloat16),
    make_case("in a group", [[1.0, 9, 2], [0, 1, 4]], [[0, 3, 2, 2], [5, 2, 0, 1]],
       [[1, 4, 2], [0, 1, 5]], world=GROUP),
]  # fmt: skip


@contextlib.contextmanager
def mute_native_stderr():
    """Hide what C++ libraries print, such as Gloo's message before it aborts, but not Python's."""
    shown, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    how = {"buffering": 1, "errors": "backslashreplace"}
    with open(shown, "w", **how) as python, contextlib.redirect_stderr(python):
        os.dup2(nowhere, 2)
        try:
            yield
        finally:
            os.dup2(shown, 2)
            os.close(nowhere)


def logits_of(case, place):
    logits, dtype = case.args
    return torch.tensor(logits[place], dtype=dtype)


def first_of(case, place) -> int:
    return sum(len(of_rank[0]) for of_rank in case.args[0][:place])


def choose(answer, group, case):
    place = dist.get_rank(group)
    logits = logits_of(case, place)
    with mute_native_stderr(), measure_answer(), all_waited():
        chosen = answer(logits, first_of(case, place), group)
    need_tokens(chosen, len(logits))
    return {"chosen": chosen, "changed": not torch.equal(logits, logits_of(case, place))}


def need_tokens(chosen, samples):
    """Raise `Rejection` unless these are tokens, whatever their values."""
    if not isinstance(chosen, torch.Tensor):
        why = "every rank is to return the tokens: all go on with them" if chosen is None else ""
        raise Rejection(f"it returned {type(chosen).__name__}", why)
    if chosen.shape != (samples,):
        what = f"it returned {kind_of(chosen)}, expected one token for each sample, [{samples}]"
        raise Rejection(what, "the dim of tokens, or of ranks, is to go")
    if chosen.dtype != torch.int64:
        what = f"it returned {kind_of(chosen)}, expected int64"
        raise Rejection(what, "the next step looks the tokens up: an index is int64")


def tokens(trial, place):
    """Return the token of the highest logit, the first of equal ones, in plain Python."""
    parts = [logits_of(trial.case, k).tolist() for k in range(trial.n)]
    rows = [list(itertools.chain(*of_ranks)) for of_ranks in zip(*parts)]
    return torch.tensor([row.index(max(row)) for row in rows])

"""The likeliest token, where each rank has the logits of some."""

import contextlib
import itertools
import os

import torch
import torch.distributed as dist

from ..kit import GROUP, At, Equals, RankExercise, World, answering, never
from ..kit.counted import Counted
from ..kit.differences import kind_of
from ..kit.on_ranks import IN_A_GROUP
from ..kit.refused import Refused
from ..kit.requests import all_waited
from .pieces import SAME_CALLS

LOWEST = -torch.inf
NEAR = 1 + 2.0**-40  # float32 does not tell it from 1
LONG = 300  # tokens of a rank: bfloat16 does not have all numbers from 256 on
EACH = 16  # bytes that two numbers take at most
UNEVEN = "ranks have different numbers of tokens: what travels has to be as long on all of them"
DTYPE = (
    "what all_gather fills is of the dtype of what it sends: logits may be float32, float64 or "
    "another one, and tokens are int64"
)


def of(what, *logits, dtype=torch.float32, world=None):
    """A case: for each rank a list of logits for each sample."""
    tokens = ", ".join(str(len(of_rank[0])) for of_rank in logits)
    kind = str(dtype).removeprefix("torch.")
    return At(world or World(3), (logits, dtype), f" with {tokens} tokens, {kind}, {what}")


CASES = [
    of("each rank has the highest one once",
       [[1.0, 5, 2, 0], [2, 1, 0, 3], [4, 9, 1, 8], [0, 1, 2, 3]],
       [[3, 12, 4], [1, 2, 0], [3, 2, 1], [4, 4.5, 1]],
       [[8, 7, 6], [0, 1, 4], [5, 6, 0], [2, 0, 1]]),
    of("all are negative",
       [[-5.0, -4, -6, -7], [-3, -9, -2, -4]], [[-8, -9, -7], [-5, -6, -4]],
       [[-2, -3, -9], [-8, -7, -9]]),
    of("equal ones",
       [[1.0, 4, 4, 0], [1, 0, 2, 1], [7, 7, 7, 7]], [[4, 4, 1], [0, 6, 6], [7, 7, 7]],
       [[0, 1, 4], [6, 6, 1], [7, 7, 7]]),
    of("a rank has -inf alone",
       [[LOWEST] * 4, [1.0, LOWEST, 2, 0]], [[-3, -1, LOWEST], [LOWEST] * 3],
       [[-2, LOWEST, -4], [LOWEST, LOWEST, -1]]),
    of("nearly equal ones", [[0.0, 1, 0, 1], [1, 0, 0, 0]], [[1, NEAR, 0], [0, 0, NEAR]],
       dtype=torch.float64, world=World(2)),
    of("many tokens", [[0.0] * LONG], [[0.0] * (LONG - 22) + [2.0] + [0.0] * 20],
       [[1.0] * (LONG - 1)], dtype=torch.bfloat16),
    of("in a group", [[1.0, 9, 2], [0, 1, 4]], [[0, 3, 2, 2], [5, 2, 0, 1]],
       [[1, 4, 2], [0, 1, 5]], world=GROUP),
]  # fmt: skip


# ---- On a rank ---


@contextlib.contextmanager
def without_last_words():
    """Hide what libraries in C++ print, such as Gloo's words before it aborts; not Python's."""
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
    with without_last_words(), answering(), all_waited():
        chosen = answer(logits, first_of(case, place), group)
    need_tokens(chosen, len(logits))
    return {"chosen": chosen, "changed": not torch.equal(logits, logits_of(case, place))}


def need_tokens(chosen, samples):
    """Raise `Refused` unless these are tokens, of whatever value."""
    if not isinstance(chosen, torch.Tensor):
        why = "every rank is to return the tokens: all go on with them" if chosen is None else ""
        raise Refused(f"it returned {type(chosen).__name__}", why)
    if chosen.shape != (samples,):
        what = f"it returned {kind_of(chosen)}, expected one token for each sample, [{samples}]"
        raise Refused(what, "the dim of tokens, or of ranks, is to go")
    if chosen.dtype != torch.int64:
        what = f"it returned {kind_of(chosen)}, expected int64"
        raise Refused(what, "the next step looks the tokens up: an index is int64")


# ---- What is right, and what is not ---


def tokens(trial, place):
    """The first of the highest logits, in plain Python."""
    parts = [logits_of(trial.case, k).tolist() for k in range(trial.n)]
    rows = [list(itertools.chain(*of_ranks)) for of_ranks in zip(*parts)]
    return torch.tensor([row.index(max(row)) for row in rows])


def wrong_tokens(trial, place):
    if trial.case.is_group:
        return {}
    n, every = trial.n, [logits_of(trial.case, k) for k in range(trial.n)]
    whole, right = torch.cat(every, -1), tokens(trial, place)
    sizes = torch.tensor([part.shape[-1] for part in every])
    first = torch.tensor([first_of(trial.case, k) for k in range(n)])
    logit, local = (torch.stack(x) for x in zip(*(part.max(-1) for part in every)))
    token, winner = local + first[:, None], logit.argmax(0)  # (ranks, samples), (samples,)
    of_winner = local.gather(0, winner[None])[0]
    last = n - 1 - logit.flip(0).argmax(0)
    differ = any(not torch.equal(x, trial[0].chosen) for x in trial.of("chosen"))
    return {
        "these are places among the tokens of the rank that has the highest logit. Its first "
        "token is `first`: add it": of_winner,
        "each rank has chosen among its own tokens alone: the others' logits count, too":
            token[place],
        "each rank has chosen among its own tokens alone, and `first` is not added": local[place],
        "these are numbers of ranks: that with the highest logit. What is asked is its token":
            winner,
        "of equal logits the last token's counts here; as in argmax it is to be the first one's":
            whole.shape[-1] - 1 - whole.flip(-1).argmax(-1),
        "of equal logits on several ranks, the last rank's counts here; as in argmax it is to be "
        "the first one's": token.gather(0, last[None])[0],
        "the token has been rounded: bfloat16 has 8 binary digits, and from 256 on not every "
        "number. Let it travel as a dtype that has all tokens, such as float64 or int64":
            right.bfloat16().long(),
        "the logits have been rounded to float32, and look equal then: float64 has all of them":
            whole.float().argmax(-1),
        "one rank has been chosen for all samples: argmax over the ranks, dim 0, chooses for each":
            token[logit.amax(1).argmax()],
        "the largest token has won: it is the logits that are compared, and the token goes with "
        "them": token.amax(0),
        "the smallest token has won: it is the logits that are compared, and the token goes with "
        "them": token.amin(0),
        "the tokens are counted as if all ranks had as many as this one: `first` tells":
            winner * sizes[place] + of_winner,
        "the tokens are counted as if the ranks before had as many as this one: `first` tells":
            winner * sizes[winner] + of_winner,
        "zeros have taken part: a maximum over a tensor of zeros is never negative": 0 * right,
    } | ({APART: trial[place].chosen} if differ else {})  # fmt: skip


APART = (
    "the ranks have chosen different tokens. Only one of them has the highest logit, and all have "
    "to learn which token it belongs to"
)


def bytes_of_two(trial):
    return None if trial.case.args[1] != torch.bfloat16 else (trial.n - 1) * EACH


def why_so_many(trial, sent):
    if sent < (trial.n - 1) * min(logits_of(trial.case, k).nbytes for k in range(trial.n)):
        return "two numbers for each sample are enough, handed on by an all-gather"
    return "all logits travel. Of each rank only its best can win: its logit, and which token it is"


EXERCISE = RankExercise(
    "7.20",
    "likeliest",
    lab="decoding",
    cases=CASES,
    work=choose,
    facts=[
        Equals("chosen", tokens, wrong_tokens, "the token"),
        never("changed", "the tokens are right, logits have changed",
              "whoever computed the logits may still need them"),
        Counted(bytes_of_two, "two numbers for one sample need", why_so_many),
    ],
    told=lambda trial: ", ".join(map(str, trial[0].chosen.tolist())),
    explain=lambda case, error: IN_A_GROUP if case.is_group else "",
    errors={
        "SIGABRT": UNEVEN,  # Gloo aborts if more comes than there is room for
        "sizes of tensors must match": UNEVEN,
        "Sizes of tensors must match": UNEVEN,
        "must have the same": DTYPE,
        "same dtype": DTYPE,
    },
    lost=SAME_CALLS,
    hints=(
        "Which of this rank's tokens can be the likeliest of all? What do the others have to "
        "know of it?",
        "logits.max(-1) gives the highest logit and its place; the token is first + place. "
        "Both travel, in a dtype that has all logits and all tokens exactly.",
        "Ranks are in the order of the tokens. argmax over the ranks' logits takes the first "
        "of equal ones, and tells whose token counts, sample by sample.",
        "torch.stack([logit.double(), first + place.double()]) travels with one "
        "dist.all_gather. Then tokens.gather(0, logits.argmax(0, keepdim=True))[0].long().",
    ),
)  # fmt: skip

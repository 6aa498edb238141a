"""The results of known mistakes, and the limit of the bytes."""

import torch

from .cases import first_of, logits_of, tokens

EACH = 16  # the most bytes that two numbers take

UNEVEN = "ranks have different numbers of tokens: what travels has to be as long on all of them"

DTYPE = (
    "what all_gather fills is of the dtype of what it sends: logits may be float32, float64 or "
    "another one, and tokens are int64"
)


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
    differ = any(not torch.equal(x, trial[0].chosen) for x in trial.collect_values("chosen"))
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

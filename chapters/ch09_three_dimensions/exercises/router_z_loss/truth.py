"""The right results, and the results of known mistakes."""

import torch

from pedagogy_lib.basics.closeness import close_in_float32

from .cases import NO_SLOPE, OTHER_DTYPE, scores_of

TOLERANCE = 1e-6  # relative


def z_of(scores) -> torch.Tensor:
    """Return the logarithm of the sum of exponentials, of each row."""
    largest = scores.amax(-1) if len(scores) else scores.sum(-1)
    return largest + (scores - largest.unsqueeze(-1)).exp().sum(-1).log()


def value_and_slope(place, trial, share) -> tuple[float, torch.Tensor]:
    """Return a rank's loss, and its gradient by the derivative 2 z softmax; `share` of a token."""
    scores = scores_of(place, trial.case)
    z = z_of(scores)
    return share * z.square().sum().item(), share * 2 * z.unsqueeze(-1) * scores.softmax(-1)


def guesses(trial, place) -> dict:
    """Return {misconception: the loss that it gives}."""
    tokens, n, _, alone = trial.case.args
    scores, ranks = scores_of(place, trial.case), trial.n
    z, own, of_all = z_of(scores), tokens[place], sum(tokens)
    square = z.square().sum()
    together = sum(z_of(scores_of(k, trial.case)).square().sum() for k in range(ranks))
    mean = square / own if own else torch.tensor(torch.nan)
    found = {}
    if alone:
        found["without a group each rank has its own tokens, and nobody communicates"] = (
            ranks * square / of_all
        )
    else:
        found |= {
            "a mean over this rank's tokens: the mean of such means counts the tokens of a rank "
            "with few of them more. Divide by the tokens of all ranks": mean,
            "this is the rank's part of the mean over all tokens. The ranks' results are averaged "
            "afterwards, which divides by the number of ranks once more: multiply by it":
                square / of_all,
            "every rank returns the mean over all tokens. A rank returns its own part, times the "
            "number of ranks: the other ranks' parts have no gradient here": together / of_all,
            "the squares of all ranks are added up: a rank's loss has its own tokens only":
                ranks * together / of_all,
            "a rank without tokens counts as one token here: count only tokens that exist":
                ranks * square / sum(max(count, 1) for count in tokens),
        }  # fmt: skip
    share = 1 / own if alone or ranks == 1 else ranks / of_all
    return found | {
        "this is a sum over tokens: divide it by their number": square,
        "the logarithm is missing, or that of the mean is taken: z is the logarithm of a token's "
        "sum of exponentials": share * scores.exp().sum(-1).square().sum(),
        "this is the mean of z, not of its square: z below 0 has to be pulled up": share * z.sum(),
        "this is the mean of the size of z, not of its square": share * z.abs().sum(),
        "this is divided by the number of scores; the mean is over tokens, each of which has one z":
            share * square / n,
        "the mean comes before the square. Each token has a z, and the mean is over the squares":
            share * max(own, 1) * z.mean().square() if own else torch.tensor(torch.nan),
        "these are squares of the scores. z is one number for each token: the logarithm of the sum "
        "of the scores' exponentials": share * scores.square().sum(),
        "these are squares of scores, as a mean over tokens and experts": share * scores.square()
            .sum() / n,
        "the sum of exponentials is over the tokens; it is over a token's experts":
            share * scores.logsumexp(0).square().sum() if own else torch.tensor(torch.nan),
        "the sum is over the tokens, and the mean over the experts; it is the other way round":
            scores.logsumexp(0).square().mean() if own else torch.tensor(torch.nan),
        "z is the logarithm of the sum of exponentials, not of their mean":
            share * (z - torch.tensor(float(n)).log()).square().sum(),
        "z has all scores in it, not the largest one alone":
            share * scores.amax(-1).square().sum() if own else torch.tensor(torch.nan),
    }  # fmt: skip


OVERFLOW = (
    "exp of a large number is infinite, and the logarithm of 0 is -inf: logsumexp subtracts the "
    "largest score first"
)
ROUNDED = (
    "this is nearly right: is the count of tokens exact? A count in 16 bits is not, and neither is "
    "one to which a small number was added"
)
EMPTY = "a rank may have no tokens. Its mean would be 0 / 0: divide by the tokens of all ranks"


def why(trial, place, value) -> str:
    if value != value or abs(value) == torch.inf:
        return OVERFLOW if trial.case.args[0][place] else EMPTY
    for sentence, guess in guesses(trial, place).items():
        if close_in_float32(value, float(guess)):
            return sentence
    wanted, _ = value_and_slope(place, trial, share_of(place, trial))
    ranks = trial.n * value / wanted if wanted else 0
    if trial.case.is_group and ranks > trial.n and abs(ranks - round(ranks)) < TOLERANCE:
        return "dist.get_world_size() counts all ranks, also those that are not in the group"
    return ROUNDED if abs(value - wanted) < 0.02 * wanted else ""


def share_of(place, trial) -> float:
    """Return the share of a token in the loss of the rank at a place."""
    tokens, *_, alone = trial.case.args
    return 1 / tokens[place] if alone or trial.n == 1 else trial.n / sum(tokens)


def faults(trial):
    tokens, of_each = trial.case.args[0], []
    for place, of in enumerate(trial):
        of_each.append((place, of, *value_and_slope(place, trial, share_of(place, trial))))
    # A rank with many tokens says more than one with few, whose mistakes may look alike.
    for place, of, wanted, slopes in sorted(of_each, key=lambda each: -tokens[each[0]]):
        who = trial.name_of_rank(place)
        if not abs(of.value - wanted) <= TOLERANCE * max(abs(wanted), 1e-300):
            yield f"{who}: expected {wanted:.6g}, got {of.value:.6g}", why(trial, place, of.value)
        gap = (of.slopes - slopes).abs().max() / slopes.abs().max() if tokens[place] else 0
        if not gap <= TOLERANCE:
            why_not = OTHER_DTYPE if gap < 1e-3 else NO_SLOPE
            yield f"{who}: the loss is right, its gradient is not", why_not
        if of.changed:
            yield f"{who}: the scores have changed", "scores are the caller's: leave them alone"


def need_one_number(trial):
    if trial.case.args[-1] and any(trial.calls):
        yield "somebody communicates", "without a group, nobody communicates"
    for place, calls in enumerate(trial.calls if trial.n > 1 else ()):
        who = trial.name_of_rank(place)
        if len(calls) > 1:
            yield (
                f"{who} makes {len(calls)} calls",
                "one all-reduce of one number is enough: the number of ranks is known",
            )
        if any(call.name != "all_reduce" for call in calls):
            yield (
                f"{who} calls {calls[0].name}",
                "one all-reduce adds the counts up: nobody needs each rank's count",
            )
        if any(numbers > 1 for numbers in trial[place].numbers):
            yield (
                f"{who} puts {max(trial[place].numbers):,} numbers into its all-reduce",
                "one number: how many tokens there are in all",
            )

"""The right results, and the results of known mistakes."""

import torch

from pedagogy_lib.basics.closeness import close_in_float32

from .cases import NO_SLOPE, inputs_of

TOLERANCE = 1e-6  # relative; a quotient of whole numbers is in float32


def value_and_slope(shares, scores, n):
    """Return the loss for these shares, and its gradient by the derivative of the softmax."""
    p = scores.softmax(-1)
    slopes = n / len(scores) * p * (shares - (p * shares).sum(-1, keepdim=True))
    return (n * (shares * p.mean(0)).sum()).item(), slopes


def shares_of(case, places):
    n = case.args[0]
    choices = torch.cat([inputs_of(place, case)[1].flatten() for place in places])
    return choices.bincount(minlength=n).double() / len(choices)


LEFT = "scores and experts are the caller's: leave them as they are"


def guesses(trial, place) -> dict:
    """Return {misconception: the loss that it gives}."""
    n, k, tokens, _, alone = trial.case.args
    scores, experts = inputs_of(place, trial.case)
    own, all_of_it = shares_of(trial.case, [place]), shares_of(trial.case, range(trial.n))
    together = own if alone else all_of_it
    p = scores.softmax(-1).mean(0)
    loads = together * experts.numel() * trial.n
    dot = (together * p).sum()
    own_choices = scores.topk(k, dim=-1).indices.flatten().bincount(minlength=n).double()
    return {
        "without a group each rank counts its own choices, and nobody communicates":
            n * (all_of_it * p).sum(),
        "the choices are those in `experts`; the scores alone need not say which ones they are: "
        "there may be a bias": n * (own_choices / own_choices.sum() * p).sum(),
        "with a group, the shares are those of all its ranks' choices: add up the loads, by an "
        "all-reduce": n * (own * p).sum(),
        "the factor n is missing: without it, the loss of equal loads is 1/n": dot,
        "this is the mean over the experts, and not n times the sum": dot / n,
        "these are loads, not shares: divide them by how many choices there are":
            n * (loads * p).sum(),
        "the shares are divided by the number of tokens. Each token makes k choices, and these add "
        "up to k then: divide by the number of all choices": n * k * dot,
        "after the all-reduce, the loads are those of all ranks: divide them by the sum of these "
        "loads": n * trial.n * dot,
        "the shares are multiplied with each other. The second factor is the mean probability":
            n * (together * together).sum(),
        "the mean probabilities are multiplied with each other. The first factor is the share of "
        "the choices": n * (p * p).sum(),
        "the second factor is the mean of the probabilities, not their sum over the tokens":
            n * dot * tokens,
        "probabilities are the softmax of the scores": n * (together * scores.mean(0)).sum(),
        "the softmax is over the experts, not over the tokens":
            n * (together * scores.softmax(0).mean(0)).sum(),
    }  # fmt: skip


def why(trial, place, value) -> str:
    found = guesses(trial, place).items()
    return next(
        (sentence for sentence, guess in found if close_in_float32(value, guess.item())), ""
    )


def faults(trial):
    n = trial.case.args[0]
    for place, of in enumerate(trial):
        scores, _ = inputs_of(place, trial.case)
        places = [place] if trial.case.args[-1] else range(trial.n)
        wanted, slopes = value_and_slope(shares_of(trial.case, places), scores, n)
        who = trial.name_of_rank(place)
        if abs(of.value - wanted) > TOLERANCE * abs(wanted):
            yield f"{who}: expected {wanted:.6g}, got {of.value:.6g}", why(trial, place, of.value)
        if (of.slopes - slopes).abs().max() > TOLERANCE * slopes.abs().max():
            yield f"{who}: the loss is right, its gradient is not", NO_SLOPE
        if of.changed:
            yield f"{who}: what it was given has changed", LEFT


def need_few_bytes(trial):
    if trial.case.args[-1] and any(trial.calls):
        yield "somebody communicates", "without a group, nobody communicates"
    for place, calls in enumerate(trial.calls):
        sent, most = sum(call.sent_bytes for call in calls), 2 * 8 * trial.case.args[0]
        if len(calls) > 1:
            yield (
                f"{trial.name_of_rank(place)} makes {len(calls)} calls",
                "one all-reduce of n numbers is enough",
            )
        if sent > most:
            what = f"{trial.name_of_rank(place)} sends {sent:,.0f} bytes"
            yield what, "the loads are n numbers: no choices and no scores have to travel"

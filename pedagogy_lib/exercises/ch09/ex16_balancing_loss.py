"""A loss that is small if all experts get as much: on one rank, and on several together."""

import torch
import torch.distributed as dist

from ...basics.closeness import close_in_float32
from ..kit import GROUP, At, RankExercise, Refused, World, answering, complains
from ..kit.values import NO_RETURN

TOLERANCE = 1e-6  # of the value: a quotient of whole numbers is a float32


def inputs_of(place, case) -> tuple[torch.Tensor, torch.Tensor]:
    """The scores and the choices of the rank at a place."""
    n, k, tokens, lonely, _ = case.args
    chance = torch.Generator().manual_seed(10 * n + place)
    scores = torch.randn(tokens, n, generator=chance, dtype=torch.float64)
    if lonely:  # one expert gets all, and another one nearly
        scores[:, place % n] += 4
    bias = torch.randn(n, generator=chance, dtype=torch.float64)  # as that which moves
    return scores, (scores + bias).topk(k, dim=-1).indices


def value_and_slope(shares, scores, n):
    """The loss and its gradient, if these are the shares. By the derivative of the softmax."""
    p = scores.softmax(-1)
    slopes = n / len(scores) * p * (shares - (p * shares).sum(-1, keepdim=True))
    return (n * (shares * p.mean(0)).sum()).item(), slopes


def shares_of(case, places):
    n = case.args[0]
    choices = torch.cat([inputs_of(place, case)[1].flatten() for place in places])
    return choices.bincount(minlength=n).double() / len(choices)


def balance(answer, group, case):
    scores, experts = inputs_of(dist.get_rank(group), case)
    before = scores.clone(), experts.clone()
    scores.requires_grad_()
    with answering():
        # Where nobody is to communicate, there is no group: None, also in a world of several.
        value = answer(scores, experts, group)
    if value is None:
        raise Refused("it returned None", NO_RETURN)
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise Refused(f"it returned {value!r:.60}", "asked is a tensor with one number")
    if not value.requires_grad:
        raise Refused("the loss has no gradient", NO_SLOPE)
    (slopes,) = torch.autograd.grad(value.sum(), [scores], allow_unused=True)
    if slopes is None:
        raise Refused("the loss has no gradient for the scores", NO_SLOPE)
    changed = not (scores.detach().equal(before[0]) and experts.equal(before[1]))
    return {"value": value.item(), "slopes": slopes, "changed": changed}


NO_SLOPE = (
    "the mean probabilities have a gradient, by which the router learns; the shares are counts, "
    "and have none. Was the softmax detached, or taken under no_grad?"
)
LEFT = "scores and experts are the caller's: leave them as they are"


def guesses(trial, place) -> dict:
    """{what it has misunderstood: the loss that this gives}."""
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
        who = trial.who(place)
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
                f"{trial.who(place)} makes {len(calls)} calls",
                "one all-reduce of n numbers is enough",
            )
        if sent > most:
            what = f"{trial.who(place)} sends {sent:,.0f} bytes"
            yield what, "the loads are n numbers: no choices and no scores have to travel"


def case(world, n, k, tokens, what, lonely=False, alone=False):
    return At(world, (n, k, tokens, lonely, alone), what)


EXERCISE = RankExercise(
    "9.16",
    "balancing_loss",
    lab="experts",
    cases=[
        case(World(1), 3, 2, 5, ", 3 experts, 2 for each token"),
        case(World(1), 4, 1, 8, ", 4 experts"),
        case(World(1), 5, 1, 6, ", nearly all choose one expert", lonely=True),
        case(World(2), 4, 2, 6, ", each by itself, without a group", alone=True),
        case(GROUP, 4, 1, 6, ", 4 experts"),
        case(GROUP, 4, 2, 6, ", each rank has another favourite", lonely=True),
    ],
    work=balance,
    facts=[complains(faults), complains(need_few_bytes)],
    told=lambda trial: f"{trial[0].value:.4g}",
    errors={
        "only Tensors of floating point": "loads are whole numbers, and a loss is none: a share is "
        "a load divided by the sum of the loads",
        "different dtypes": "all ranks add up tensors of one dtype",
    },
    lost="with a group, all its ranks add up their loads",
    hints=(
        "load_of(experts, n) counts. Divided by its sum, it is the shares.",
        "scores.softmax(-1) has a row for each token. What is its mean over the tokens?",
        "With a group: dist.all_reduce(loads, group=group), before they become shares.",
    ),
)  # fmt: skip

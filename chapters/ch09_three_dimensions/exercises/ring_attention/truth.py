"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit import Wrong
from coursekit.kit.message_costs import TOLERANCE

from .cases import HEADS, LAYOUTS, LONG, SAMPLES, pieces_of, whole


def attention(q, k, v, sees):
    scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(~sees, float("-inf"))
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def find_places(trial, place):
    layout, context = trial.case.args
    places = LAYOUTS[layout](context, trial.n)
    return context, places, places[place]


def attend_to_all(
    trial, place, sees=lambda mine, keys, places: keys <= mine.unsqueeze(-1), of=None
):
    """Return the attention of a rank's queries to all keys, or those of `of`, masked by `sees`."""
    context, places, mine = find_places(trial, place)
    q, k, v = whole(context)
    keys = torch.arange(context) if of is None else of(places)
    return attention(q[:, :, mine], k[:, :, keys], v[:, :, keys], sees(mine, keys, places))


def truth(number):
    return lambda trial, place: attend_to_all(trial, place)[number]


def mistakes(number):
    def table(trial, place):
        found = {
            "these are the rank's own keys alone: those of the others have to come "
            "round": attend_to_all(trial, place, of=lambda places: places[place]),
            "queries see what comes later here, too: each block needs the places of its queries, "
            "and those of its keys": attend_to_all(
                trial, place, lambda mine, keys, places: torch.ones(len(mine), len(keys)) > 0
            ),
            "the keys of a rank with a larger number are left out. In a zigzag such a rank has "
            "early places, too: ask `blocks`, not the rank": attend_to_all(
                trial, place, of=lambda places: torch.cat(places[: place + 1])
            ),
        }
        others = [(place - step) % trial.n for step in range(trial.n - 1)]
        if others:
            found[
                "the last keys that come are missing: there is a block at the beginning, and one "
                "after each of the n - 1 times that keys are passed on"
            ] = attend_to_all(
                trial, place, of=lambda places: torch.cat([places[k] for k in others])
            )
        return {why: of[number] for why, of in found.items()}

    return table


def bytes_of_piece(trial, place) -> int:
    context, _, mine = find_places(trial, place)
    return pieces_of(context, mine)[0].nbytes


def need_ring(trial):
    """Raise `Wrong` unless keys and values travel a ring n - 1 times, never all on one rank."""
    n = trial.n
    for place, calls in enumerate(trial.calls):
        who = trial.name_of_rank(place)
        names = sorted({call.name for call in calls} - {"send", "recv", "isend", "irecv"})
        if names:
            raise Wrong(f"cost, {trial.case}", f"{who} calls {names[0]}",
                        "keys and values go from each rank to the next one, one piece at a time: "
                        "then no rank needs room for all")  # fmt: skip
        following = trial.case.ranks[(place + 1) % n]
        if any(call.name == "send" and call.peer != following for call in calls):
            raise Wrong(f"cost, {trial.case}", f"the numbers are right, but {who} sends to others "
                        "than the next rank",
                        "in a ring each rank sends to the next one alone, so that all links are in "
                        "use at the same time")  # fmt: skip
        most = 2 * (n - 1) * bytes_of_piece(trial, place)
        sent = sum(call.sent_bytes for call in calls)
        if sent > most * (1 + TOLERANCE):
            why = "after the last block nothing has to travel any more: n - 1 times is enough"
            what = f"the numbers are right, but {who} sends {sent:,.0f} bytes; asked are {most:,}"
            raise Wrong(f"cost, {trial.case}", what, why)
    return ""


def need_little_memory(trial):
    _, context = trial.case.args
    if context != LONG:
        return ""
    piece = context // trial.n
    scores = SAMPLES * HEADS * piece * piece * 8
    for place, of in enumerate(trial):
        most = 6.5 * scores + 14 * bytes_of_piece(
            trial, place
        )  # leaves room for a named tensor per step of one block
        if of.peak > most:
            raise Wrong(
                f"cost, {trial.case}",
                f"the numbers are right, but {trial.name_of_rank(place)} holds {of.peak:,} bytes "
                f"at most; one block's scores are {scores:,}",
                "no more than one block's scores are needed at a time. Are the scores of all keys "
                "kept, or joined before they become weights?",
            )  # fmt: skip
    return f"cost, {trial.case}: scores of one block at a time"

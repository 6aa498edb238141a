"""Causal attention in which keys and values go round in a ring."""

import torch
import torch.distributed as dist

from ...course.checking import Wrong
from ...measuring.recorder import measure, peak_bytes_in
from ..kit import GROUP, At, Equals, RankExercise, Refused, World, answering, never
from ..kit.costs import TOLERANCE
from ..kit.tables import tabled
from ..kit.values import NO_RETURN

SIZES, LONG = (4, 6), 1024  # features of a head; places, where memory is looked at
SAMPLES, HEADS = 2, 3


def in_a_row(context, n):
    return list(torch.arange(context).chunk(n))


@tabled(lambda: [(case.args[1], len(case.ranks)) for case in EXERCISE.cases
                 if case.args[0] == "zigzag"], beside=True)  # fmt: skip
def in_pairs(context, n):
    pieces = torch.arange(context).chunk(2 * n)
    return [torch.cat([pieces[k], pieces[2 * n - 1 - k]]) for k in range(n)]


LAYOUTS = {"in a row": in_a_row, "zigzag": in_pairs}


def whole(context) -> list[torch.Tensor]:
    chance = torch.Generator().manual_seed(context)
    shape = SAMPLES, HEADS, context, SIZES[context % 3 == 0]
    return [torch.randn(shape, generator=chance, dtype=torch.float64) for _ in range(3)]


def pieces_of(context, places):
    return [x[:, :, places].contiguous() for x in whole(context)]


def go_round(answer, group, case):
    layout, context = case.args
    places = LAYOUTS[layout](context, dist.get_world_size(group))
    mine = pieces_of(context, places[dist.get_rank(group)])
    before, label = [x.clone() for x in mine], f"ring {layout} {context} {case}"
    given = list(places)
    with measure(label), answering():
        value = answer(*mine, given, group)
    is_pair = isinstance(value, tuple | list) and len(value) == 2
    if not is_pair or not all(isinstance(x, torch.Tensor) for x in value):
        why = NO_RETURN if value is None else "asked are two tensors: what comes out, and lse"
        raise Refused(f"it returned {value!r:.40}", why)
    changed = [name for name, x, y in zip("qkv", mine, before) if not x.equal(y)]
    if len(given) != len(places) or not all(map(torch.equal, given, LAYOUTS[layout](
        context, dist.get_world_size(group)))):  # fmt: skip
        changed.append("places")
    return {"out": value[0], "lse": value[1], "changed": changed,
            "peak": peak_bytes_in(label)["total"]}  # fmt: skip


def attention(q, k, v, sees):
    scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(~sees, float("-inf"))
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def of_places(trial, place):
    layout, context = trial.case.args
    places = LAYOUTS[layout](context, trial.n)
    return context, places, places[place]


def seen(trial, place, sees=lambda mine, keys, places: keys <= mine.unsqueeze(-1), of=None):
    """Attention of a rank's queries to all keys, with some rule of what they see."""
    context, places, mine = of_places(trial, place)
    q, k, v = whole(context)
    keys = torch.arange(context) if of is None else of(places)
    return attention(q[:, :, mine], k[:, :, keys], v[:, :, keys], sees(mine, keys, places))


def truth(number):
    return lambda trial, place: seen(trial, place)[number]


def mistakes(number):
    def table(trial, place):
        found = {
            "these are the rank's own keys alone: those of the others have to come round":
                seen(trial, place, of=lambda places: places[place]),
            "queries see what comes later here, too: each block needs the places of its queries, "
            "and those of its keys":
                seen(trial, place, lambda mine, keys, places: torch.ones(len(mine), len(keys)) > 0),
            "the keys of a rank with a larger number are left out. In a zigzag such a rank has "
            "early places, too: ask `blocks`, not the rank":
                seen(trial, place, of=lambda places: torch.cat(places[: place + 1])),
        }  # fmt: skip
        others = [(place - step) % trial.n for step in range(trial.n - 1)]
        if others:
            found[
                "the last keys that come are missing: there is a block at the beginning, and one "
                "after each of the n - 1 times that keys are passed on"
            ] = seen(trial, place, of=lambda places: torch.cat([places[k] for k in others]))
        return {why: of[number] for why, of in found.items()}

    return table


def bytes_of_piece(trial, place) -> int:
    context, _, mine = of_places(trial, place)
    return pieces_of(context, mine)[0].nbytes


def need_ring(trial):
    """Keys and values of a rank travel n - 1 times, and never lie all together on a rank."""
    n = trial.n
    for place, calls in enumerate(trial.calls):
        who = trial.who(place)
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
        most, sent = (
            2 * (n - 1) * bytes_of_piece(trial, place),
            sum(call.sent_bytes for call in calls),
        )
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
        )  # room for a name of each step in one block
        if of.peak > most:
            raise Wrong(
                f"cost, {trial.case}",
                f"the numbers are right, but {trial.who(place)} holds {of.peak:,} bytes at most; "
                f"one block's scores are {scores:,}",
                "no more than one block's scores are needed at a time. Are the scores of all keys "
                "kept, or joined before they become weights?",
            )  # fmt: skip
    return f"cost, {trial.case}: scores of one block at a time"


def case(world, layout, context):
    return At(world, (layout, context), f", {context} places {layout}")


EXERCISE = RankExercise(
    "9.25",
    "ring_attention",
    lab="long_contexts",
    needs=("9.23",),
    cases=[
        case(World(3), "in a row", 12),
        case(World(2), "in a row", 8),
        case(World(2), "zigzag", 8),
        case(World(1), "in a row", 6),
        case(World(4), "zigzag", 16),
        case(GROUP, "in a row", 9),
        case(World(8), "in a row", LONG),
    ],
    work=go_round,
    facts=[
        never("changed", "{0[0]} has changed",
              "the caller still needs its tensors: the backward computes with them again"),
        Equals("out", truth(0), mistakes(0), "what comes out"),
        Equals("lse", truth(1), mistakes(1), "lse"),
        need_ring,
        need_little_memory,
    ],
    told="as attention to all keys in one process",
    errors={
        "Pair is not connected": "one rank alone has nobody to pass its keys to: n - 1 times are "
        "none then",
        "min(): Expected reduction": "a block without keys has no scores: only blocks that "
        "`blocks` gives are computed",
        "list index out of range": "the ranks before this one are (rank - step) % n",
    },
    lost="all ranks pass their keys on, and receive, equally often: also those whose queries see "
    "nothing of what comes",
    hints=(
        "At step s, whose keys lie on this rank, if each passes its keys to the next one?",
        "Begin with out of zeros and lse of -inf: that is attention to nothing. Each block is "
        "merged into it. blocks(mine, theirs) gives slices of queries and of keys.",
        "The keys of rank (rank - step) % n are here at step s. After each step but the last: "
        "k, v = passed_on([k, v], group).",
    ),
)  # fmt: skip

"""The right results, and the results of known mistakes."""

import re

import torch

from coursekit.kit import first_true
from coursekit.kit.message_costs import need_cost
from pedagogy_lib.basics.errors import HangError

from .cases import NUMBERS, OLD, Training

FEW_BYTES = 6_000  # that a rank may send if all are equally far: numbers, even pickled

SOURCE = re.compile(r"\bsrc=(\d+)")  # in the description of a call in which a rank waits

AS_RANK_0 = (
    "this is rank 0's state. Rank 0 may be a newcomer itself: the source is a rank that has taken "
    "the most steps"
)

FROM_THE_LEAST = (
    "this is the state of a rank that has taken the fewest steps: so the work of the others is lost"
)

NOT_LOADED = "nothing was loaded here: who is behind calls training.load_state_dict(…)"

COUNTS_ALONE = (
    "the number of steps is right, the rest is as before. The weights, and what the optimizer "
    "keeps, come from the rank that is furthest: its whole state_dict()"
)

STEPS_LEFT = (
    "the weights have come, and the number of steps is as before: the state has both, "
    "load_state_dict sets both"
)

IN_PART = "the state has come in part: hand on all that state_dict() gives"

KEEPS = (
    "this rank has taken the most steps: it keeps its own state, as it may have things of its own "
    "there. Only who is behind loads, and so not the rank whose state is sent"
)

NOT_FURTHEST = "this is the state of a rank that is behind, too: the most steps count"

WORLD_RANK = (
    "this is another rank's state. Within the group the furthest rank has the number that its "
    "place in the list is: `group_src=` takes this number, `src=` takes the rank in the world"
)

ROUNDED = (
    "this rank is one step behind, of more than 16 million. float32 does not know each number "
    "there, int64 does: it is what torch makes of a list of whole numbers"
)

SENT_ALTHOUGH = "all are equally far, so nobody needs a state: compare the steps first"

ALL_STATES = (
    "every rank has sent its state to all. Only the numbers of steps are needed from all; then one "
    "rank's state, by a broadcast"
)

ONE_SENDS = (
    "more than one state has come. Of several ranks that are furthest, one gives its state: the "
    "same for all"
)

TWO_SOURCES = (
    "ranks name different sources, and so they wait for each other. Several may be furthest: all "
    "choose the same one of them. Who is furthest as well takes part, and loads nothing"
)

UNTAKEN = (
    "a state is sent, and nobody takes it: one rank alone gives its state, and to those alone that "
    "are behind"
)

NOT_SENT = (
    "a rank waits for a state that nobody sends to it: all have to choose the same source, and it "
    "has to send to each rank that is behind"
)

TAKES_PART = (
    "all ranks make the same calls: also who is as far already takes part in the broadcast, and "
    "loads nothing"
)

BOXES = (
    "in a broadcast of objects, the lists of all ranks have the same length: one entry for one "
    "state. Where it comes, that entry is there before, as None"
)

NO_LIST = "a list of objects is broadcast: on the source its state is in it, and None on the others"

GIVES_NOTHING = (
    "a collective of torch.distributed gives nothing back: what comes is in the list or the tensor "
    "that it was given"
)

DTYPES = (
    "steps are gathered as int64, and so are the tensors into which they come: "
    "torch.zeros_like(mine)"
)

PLACES = "an all-gather needs a place for what comes from each rank of the group: a list of so many"

SHAPES = "what comes from a rank has the shape of what it gives: so have the tensors for it"

NO_TENSOR = (
    "this call is for tensors: one of a number is torch.tensor([7]). Other objects have calls of "
    "their own, with `object` in the name"
)

CHANGED = "the rank that gives its state goes on with it: nothing of it may change"

UNKNOWN = (
    "of `training` is known what the text says: steps, state_dict() and load_state_dict(state)"
)

OF_BOXES = (  # words of errors if lists of objects differ in length
    "preamble.length", "allocate memory", "Ran out of input", "negative dim", "UnpicklingError",
)  # fmt: skip


def faults(trial):
    (steps,) = trial.case.args
    furthest = [place for place in range(trial.n) if steps[place] == max(steps)]
    for place, of in enumerate(trial):
        who = f"{trial.name_of_rank(place)}, after {steps[place]} steps of {max(steps)}"
        if place in furthest:
            if of.owners != [place] * 3 or of.steps != steps[place]:
                yield f"{who}: has {describe_state(trial, of)}", why_changed(steps, of)
            if of.loads:
                yield f"{who}: has called load_state_dict", KEEPS
        elif of.steps != max(steps) or len({*of.owners}) > 1 or of.owners[0] not in furthest:
            yield f"{who}: has {describe_state(trial, of)}", why(trial, place, of, furthest)
        if not torch.equal(of.weights, Training(of.owners[0], 0).weights()):
            yield f"{who}: the weights are no rank's", CHANGED
    behind = [of.owners[0] for place, of in enumerate(trial) if place not in furthest]
    if len({*behind}) > 1:
        yield f"ranks have the states of {sorted({*behind})}", "one rank gives its state to all"


def describe_state(trial, of) -> str:
    if len({*of.owners}) > 1:
        return f"{of.steps} steps, and parts of several ranks' states"
    return f"{of.steps} steps, and the state of {trial.name_of_rank(of.owners[0])}"


def why_changed(steps, of) -> str:
    got = steps[of.owners[0]]
    if got == max(steps) == of.steps:
        return KEEPS
    if of.owners[0] == 0 == of.owners[-1] and got < max(steps):
        return AS_RANK_0
    return FROM_THE_LEAST if got == min(steps) else NOT_FURTHEST


def why(trial, place, of, furthest) -> str:
    (steps,) = trial.case.args
    got = of.owners[0]
    if of.owners == [place] * 3:
        if min(steps) >= OLD:
            return ROUNDED
        if of.steps == max(steps):
            return COUNTS_ALONE
        given = any(other.owners[0] == 0 for other in trial.found[1:])
        return AS_RANK_0 if place == 0 and given else NOT_LOADED
    if len({*of.owners}) > 1:
        return IN_PART
    if got in furthest:
        return STEPS_LEFT
    if trial.case.is_group and got + 1 in range(trial.n) and trial.case.ranks[got] in furthest:
        return WORLD_RANK
    if got == 0:
        return AS_RANK_0
    return FROM_THE_LEAST if steps[got] == min(steps) else NOT_FURTHEST


def need_few_bytes(trial) -> str:
    (steps,) = trial.case.args
    most, size = max(trial.received_bytes), 4 * NUMBERS
    if min(steps) == max(steps):
        what = f"{most:,} bytes came to one rank; a state has {size:,}"
        need_cost(trial, most <= FEW_BYTES, what, SENT_ALTHOUGH)
        return f"cost, {trial.case}: no state is sent"
    what = f"{most:,} bytes came to one rank; one state has {size:,}"
    calls = [call for of_rank in trial.calls for call in of_rank]
    gathers = any("gather" in call.name and call.tensor_bytes > size / 2 for call in calls)
    need_cost(trial, most <= 1.5 * size, what, ALL_STATES if gathers else ONE_SENDS)
    return ""


def explain(case, error) -> str:
    text = str(error)
    if "not part of group" in text:
        return WORLD_RANK
    if "broadcast_object_list" in text and any(words in text for words in OF_BOXES):
        return BOXES
    return why_it_hangs(error.waits.values()) if isinstance(error, HangError) else ""


def why_it_hangs(places) -> str:
    """Diagnose a hang by the places where ranks wait, with None for a rank that has returned."""
    calls = [place.call if place else "" for place in places]
    sources = {source for call in calls if "broadcast" in call for source in SOURCE.findall(call)}
    reason = first_true({
        TWO_SOURCES: len(sources) > 1,
        NOT_SENT: any(call.startswith(("recv", "irecv")) for call in calls),
        UNTAKEN: any(call.startswith(("send", "isend")) for call in calls),
    })  # fmt: skip
    return reason or TAKES_PART


def describe_trial(trial) -> str:
    (steps,) = trial.case.args
    behind = sum(step < max(steps) for step in steps)
    return f"{behind} of {trial.n} have caught up" if behind else "all keep their own"

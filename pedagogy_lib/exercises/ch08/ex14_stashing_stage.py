"""Backward through the weights of the forward: exercise 8.14.

A stage is driven by hand first; then three of them work as a pipeline that never stops.
"""

from functools import partial
from types import SimpleNamespace

from ...basics.closeness import close, told_gap
from ...course.checking import Exercise, Wrong, try_on_ranks
from ..kit.differences import recognise
from ..kit.one_process import why_raised
from ..kit.refused import Refused
from ..kit.trials import kind_of
from .versions import (
    NOT_THERE,
    OWN_WEIGHTS,
    SCRIPTS,
    both_ways,
    by_hand,
    input_of,
    output_of,
    piece_of,
    pipeline_by_hand,
    slope_of,
    try_pipeline,
    try_scripts,
    weights_of,
)

HANG = "a stage waits for nobody, what calls it does. Is there a loop that never ends?"


def need_stage(lab):
    """Raise `Refused` unless the lab's Stage, which this is built on, is right."""
    stage = lab.Stage(piece_of("middle"))
    wanted = both_ways("middle", weights_of("middle"), 0)
    y = stage.forward(0, input_of("middle", 0))
    slope = stage.backward(0, slope_of(0))
    gradients = {name: p.grad for name, p in stage.piece.named_parameters()}
    pairs = [(y, wanted[0]), (slope, wanted[1]), *((gradients[k], g) for k, g in wanted[2].items())]
    if stage.kept or not all(a is not None and close(a, b) for a, b in pairs):
        raise Refused("Stage, which this is built on, is not right", 'first: check("8.6")')


# ---- Judging ---------------------------------------------------------------------------------

STAGE_WAS_RIGHT = (
    "one stage alone was right: what comes and goes between stages is Pipeline's. First: "
    'check("8.7")'
)
NOT_COUNTED = "each update makes a version: self.version counts them, and a delay is told by it"
BY_NAMES = "gradients_of returns a dictionary {name: gradient}, with the names of the weights"
ERRORS = {
    "only Tensors of floating point": "the first stage takes letters, of which there is no "
    "gradient: x.requires_grad_(x.is_floating_point())",
    "implicitly created only for scalar": "the last stage's output is the loss: then(…) makes it "
    "of what the piece gives",
    "a second time": "a graph is gone after its backward. Stage.backward goes through it; "
    "gradients_of only looks at what that has left in the stashed weights",
    "does not require grad": "what the weights are used for is to have a graph: without no_grad, "
    "and with the very tensors of `weights`",
    "is not defined": "forward has to leave y behind, and x as a leaf: self.keep(i, x, y) comes "
    "next",
    "referenced before assignment": "self.keep(i, x, y) comes next, and needs them",
    "not associated with a value": "self.keep(i, x, y) comes next, and needs them",
    "has no attribute": BY_NAMES,
    "'NoneType' object is not subscriptable": BY_NAMES,
    "list indices must be": BY_NAMES,
    "dict_keys": "a dictionary cannot be changed while it is gone through",
}
THEN = "this is what the piece gives; `then` comes after it: y = then(…)"
NEWEST = (
    "the gradients are those at the newest weights. This micro-batch went forward through older "
    "ones, and goes back through the very same"
)
ADDED = (
    "the gradients of one version add up: backward() adds to what is in `.grad`, and another "
    "micro-batch has gone through the same tensors. Each begins without: weight.grad = None"
)
ZEROS = (
    "no weight has moved: zero_() clears the very tensors that gradients_of hands out. With "
    "weight.grad = None they stay, and only the weight lets go of them"
)
CONSTANT = (
    "x is a constant for autograd here: the stage before needs its gradient, so x is a leaf that "
    "requires one"
)
DETACHED = (
    "the gradient went on beyond x, into what others have computed: x.detach() begins a graph of "
    "this rank's own"
)
NOT_POPPED = (
    "the numbers are right, but what a micro-batch has stashed stays there after its backward, and "
    "with it a version of all weights: self.stash.pop(i)"
)
COPIES = (
    "a version that several micro-batches go through is there once: stash the dictionary itself, "
    "self.weights[version], and no copy"
)
STILL_ALIVE = "somebody still holds them: a version lives as long as a micro-batch needs it"


def examine_stashing(answer):
    explain = partial(explain_scripts, ERRORS)
    run = try_on_ranks("one stage", try_lab, answer, world_size=1, explain=explain)
    yield from judge_scripts(run.values[0])
    yield from judge_pipeline(answer, answer.lab, 3, STAGE_WAS_RIGHT)


def try_lab(answer):
    need_stage(answer.lab)
    return try_scripts(answer)


def explain_scripts(errors, error, guesses=lambda script: []):
    """What an error in a script means; what came before it is judged before."""
    cause = getattr(error, "exception", None)
    case = getattr(cause, "case", "one stage")
    for script, found in zip(SCRIPTS, getattr(cause, "before", ())):
        judge_numbers(script, found, guesses(script))
    if isinstance(cause, Refused):
        raise Wrong(str(case), cause.what, cause.why)
    why = why_raised(errors, HANG, error)
    if isinstance(cause, KeyError):
        why = BY_NAMES if cause.args and isinstance(cause.args[0], str) else NOT_THERE
    raise Wrong(str(case), str(error), why)


def judge_scripts(found, guesses=lambda script: [], too_many=COPIES):
    """Yields a line for each script: first the numbers of all, then what is left of them.

    guesses   takes a script, and gives what judge_numbers may guess besides
    too_many  what it means that there are more versions than are needed
    """
    pairs = list(zip(SCRIPTS, found))
    truths = [judge_numbers(script, of, guesses(script)) for script, of in pairs]
    for (script, of), right in zip(pairs, truths):
        need_versions(str(script), of, right, too_many)
        versions = f"{right.most_versions} version" + "s" * (right.most_versions > 1)
        count = len(right.weights)
        yield f"{script}: right after {count} updates; delays {right.delays}, at most {versions}"


def judge_numbers(script, found, guesses=()) -> SimpleNamespace:
    """Raise `Wrong` at the first action that gives something wrong; returns what is right.

    guesses  (sentence, what by_hand gives then), before those that are known here
    """
    right, guesses = by_hand(script), [*guesses, *guesses_at(script)]
    updates = 0
    for kind, i, _ in script.actions:
        if kind == "F":
            need_output(script, i, found.outputs[i], right.outputs[i])
            continue
        updates += 1
        what = told_weights(found.weights[updates - 1], right.weights[updates - 1])
        if what:
            why = next((why for why, guess in guesses if fits(found, guess)), "")
            raise Wrong(str(script), f"after update {updates}, {what}", why)
        need_slope(script, i, found, right.slopes[i])
    return right


def fits(found, guess) -> bool:
    return not any(map(told_weights, found.weights, guess.weights))


def guesses_at(script):
    return [
        (NEWEST, by_hand(script, back="newest")),
        (ADDED, by_hand(script, adds=True)),
        (ZEROS, by_hand(script, step=0.0)),
    ]


def need_output(script, i, got, wanted):
    if kind_of(got) != kind_of(wanted):
        piece = output_of(weights_of(script.place), input_of(script.place, i))
        what = f"F{i} gave {kind_of(got)}, expected {kind_of(wanted)}"
        raise Wrong(str(script), what, recognise(got, {THEN: piece}))
    if not close(got, wanted):
        old = both_ways(script.place, weights_of(script.place), i)[0]
        what = f"the output of F{i} is off by up to {told_gap(got, wanted)}"
        raise Wrong(str(script), what, recognise(got, {OWN_WEIGHTS: old}))


def need_slope(script, i, found, wanted):
    got = found.slopes[i]
    if wanted is not None and got is None:
        why = DETACHED if found.sources[i] else CONSTANT
        raise Wrong(str(script), f"B{i} gave None, expected the gradient of x", why)
    if wanted is not None and not close(got, wanted):
        what = f"B{i}: the gradient of x is off by up to {told_gap(got, wanted)}"
        raise Wrong(str(script), what, NEWEST)


def told_weights(got, wanted) -> str:
    """What is wrong with weights, or ""."""
    if got is None:
        return "self.weights[self.version] is not there"
    if got.keys() != wanted.keys():
        return f"there are weights {', '.join(got) or 'without names'}"
    off = [name for name in wanted if not close(got[name], wanted[name])]
    return off and f"{off[0]} is off by up to {told_gap(got[off[0]], wanted[off[0]])}"


def need_versions(case, found, right, too_many=COPIES):
    """Raise `Wrong` unless nothing is left, and versions are counted and kept as they should be."""
    if found.left:
        what = f"after the last backward self.{found.left[0]} still has something"
        raise Wrong(case, what, NOT_POPPED if found.left[0] == "stash" else "")
    if found.delays != right.delays:
        what = f"self.delays is {found.delays}, expected {right.delays}"
        raise Wrong(case, what, NOT_COUNTED)
    if found.most_versions != right.most_versions:
        what = f"there were up to {found.most_versions} versions at a time, expected "
        more = found.most_versions > right.most_versions
        raise Wrong(case, f"{what}{right.most_versions}", too_many if more else "")
    if found.old:
        raise Wrong(case, f"tensors of {found.old} old versions are still alive", STILL_ALIVE)


def judge_pipeline(answer, lab, n, why):
    """Yields a line; why: what it means that a pipeline is wrong, whose stages were right alone."""
    case = f"{n} ranks, without a flush"
    run = try_on_ranks(case, try_pipeline, answer, lab, world_size=n, explain=lambda error: why)
    truth = pipeline_by_hand(n)
    for rank, (found, right) in enumerate(zip(run.values, truth)):
        if not close(found.losses, right.losses):
            raise Wrong(case, f"the losses are {found.losses}, expected {right.losses}", why)
        what = told_weights(found.weights, right.weights)
        if what:
            raise Wrong(case, f"rank {rank}, after {len(right.delays)} updates: {what}", why)
        need_versions(f"{case}, rank {rank}", found, right)
    delays = ", ".join(str(right.delays[-1]) for right in truth)
    versions = ", ".join(str(right.most_versions) for right in truth)
    yield f"{case}: the weights of one process; delays up to {delays}; {versions} versions"


EXERCISE = Exercise(
    "8.14", "StashingStage", examine_stashing,
    (
        "A stage has its newest weights, and a micro-batch under way needs those that it began "
        "with. In forward: note them, then compute as Stage.forward does, with two changes.",
        "self.stash[i] = weights. x = x.detach(), which requires a gradient unless it is "
        "letters. In place of self.piece(x): functional_call(self.piece, weights, (x,)). And "
        "`then` comes after the piece.",
        "gradients_of: the backward has left its gradients in the `.grad` of the weights that "
        "micro-batch i has stashed. Take them out of the stash, collect, and clear.",
        "weights = self.stash.pop(i); collect {name: weight.grad …}; then weight.grad = None "
        "for each, which leaves the collected tensors as they are; zero_() would not.",
    ),
    lab="pipedream",
)  # fmt: skip

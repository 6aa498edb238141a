"""Slices of a sample, and the gradients that later ones leave behind: exercise 8.16."""

from math import isfinite
from types import SimpleNamespace

import torch
import torch.distributed as dist

from ...basics.closeness import close, relative_gap, rounding, told_gap
from ...course.checking import Exercise, Wrong, try_on_ranks
from ..kit.differences import ratio
from ..kit.outcomes import NO_RETURN
from ..kit.refused import Refused
from ..kit.trials import kind_of
from ..kit.worlds import explain_by
from .whole_samples import (
    CASES,
    HEADS,
    LETTERS,
    SAMPLES,
    WIDTH,
    Case,
    inputs_of,
    layers_of,
    loss_of,
    whole,
)

HANG = "a stage waits for nobody: its backward sends and receives nothing"


# ---- On a rank -------------------------------------------------------------------------------


def try_slices(answer):
    """What comes of each case, and what is right; if they differ also what to make of it."""
    found = []
    for case in CASES:
        try:
            found.append(try_case(answer, case))
        except Exception as error:
            error.case, error.before = case, found
            raise
        found[-1].right = whole(layers_of(answer.lab, case), case)
        if differs(found[-1]):
            found[-1].why = why_gradients(answer.lab, case, found[-1])
            break
    return found


def try_case(answer, case) -> SimpleNamespace:
    piece = layers_of(answer.lab, case)
    stage, (x, slope) = answer(piece), inputs_of(case)
    parts = x.split(case.sizes, dim=1)
    slopes = [None] * len(parts) if case.is_last else slope.split(case.sizes, dim=1)
    then = [loss_of] if case.is_last else []
    found = SimpleNamespace(slopes={}, passes=0, touched=False, why="")
    for i, part in enumerate(parts):
        stage.forward(i, part, *then)
    for name, parameter in piece.named_parameters():
        if name.endswith("norm_1.weight"):
            parameter.register_post_accumulate_grad_hook(lambda _: count(found))
            break
    for i in reversed(range(len(parts))):
        before = seen_gradients(stage, i)
        got = found.slopes[i] = stage.backward(i, slopes[i])
        need_slope(case, i, got, parts[i])
        found.touched |= any(map(changed, before, seen_gradients(stage, i)))
    found.gradients = {name: p.grad for name, p in piece.named_parameters()}
    found.left = bool(stage.kept)
    return found


def count(found):
    found.passes += 1


def seen_gradients(stage, i):
    """Of slice i; none if the answer has taken it out of its past."""
    seen = [x.grad for past in stage.pasts.values() for x in sum(past.seen[i : i + 1], ())]
    return [None if gradient is None else gradient.clone() for gradient in seen]


def changed(before, after) -> bool:
    return before is not None and after is not None and not torch.equal(before, after)


def need_slope(case, i, got, x):
    wanted = kind_of(x) if x.is_floating_point() else "None"
    kind = kind_of(got) if isinstance(got, torch.Tensor) else "None" if got is None else repr(got)
    if kind != wanted:
        why = NO_RETURN if got is None else "what is asked is x.grad, which is None for letters"
        raise Refused(f"B{i} gave {kind:.60}, expected {wanted}: the gradient of x", why)


def wrong_in(found) -> dict[str, tuple]:
    """{what: (got, right)} of all gradients that are wrong: of x in each slice, of parameters."""
    right = found.right
    pairs = {name: (found.gradients[name], right.gradients[name]) for name in right.gradients}
    if right.slopes is not None:
        got = torch.cat([found.slopes[i] for i in sorted(found.slopes)], dim=1)
        pairs = {"x": (got, right.slopes)} | pairs
    return {name: (a, b) for name, (a, b) in pairs.items() if a is None or not close(a, b)}


def differs(found) -> bool:
    return bool(wrong_in(found))


def why_gradients(lab, case, found) -> str:
    off = wrong_in(found)
    if off.keys() == {"x"}:
        return NOT_X
    if all(a is not None and ratio(a.flatten(), b.flatten()) == 2 for a, b in off.values()):
        return TWICE
    blocks = [k for k, name in enumerate(case.layers.split(", ")) if name == "block"]
    both, piece = ("keys", "values"), layers_of(lab, case)
    guesses = {
        SEEN if found.touched else OUTPUT_ALONE: dict.fromkeys(blocks, both),
        ONE_OF_TWO.format("keys", "values"): {k: ["values"] for k in blocks},
        ONE_OF_TWO.format("values", "keys"): {k: ["keys"] for k in blocks},
        ONE_BLOCK: dict.fromkeys(blocks[1:], both),
        LAST_BLOCK: dict.fromkeys(blocks[:-1], both),
    }
    for why, stopped in guesses.items():
        guess = SimpleNamespace(**vars(found) | {"right": whole(piece, case, stopped)})
        if not differs(guess):
            return why
    return EACH_ITS_OWN


def try_pipeline(answer):
    """How far this rank's gradients are from those of one process, relative to their size."""
    torch.set_default_dtype(torch.float64)
    lab, sizes = answer.lab, (3, 1, 3)
    models = [seeded(lab, sum(sizes)) for _ in range(2)]
    letters = torch.randint(LETTERS, (2, SAMPLES, sum(sizes)), generator=seed_of(1))
    lab.mean_loss(models[0](letters[0]), letters[1]).backward()
    pipeline = lab.my_pipeline(models[1], make=answer)
    actions = lab.slice_by_slice(pipeline.rank, pipeline.ranks, len(sizes))
    pipeline.step(list(actions), *(x.split(sizes, dim=1) for x in letters))
    mine = {id(p) for stage in pipeline.stages for p in stage.piece.parameters()}
    pairs = [(p.grad, q.grad) for p, q in zip(*(m.parameters() for m in models)) if id(q) in mine]
    return max(torch.inf if b is None else relative_gap(b, a) for a, b in pairs)


def seed_of(number):
    return torch.Generator().manual_seed(number)


def seeded(lab, context):
    torch.manual_seed(0)
    return lab.Transformer(width=WIDTH, layers=dist.get_world_size(), heads=HEADS, context=context)


# ---- Judging ---------------------------------------------------------------------------------

OUTPUT_ALONE = (
    "this is y's backward alone. Later slices have looked at this one's keys and values, and what "
    "they have left in past.seen[i] has to go on from past.made[i]"
)
SEEN = (
    "past.seen[i] are leaves: a gradient that is given to them ends there. It goes on from "
    "past.made[i], the same numbers with the graph that leads to them"
)
ONE_OF_TWO = "later slices have looked at both: the gradients of the {} went on, not of the {}"
ONE_BLOCK = "each block has a past of its own: here the first one's alone went on"
LAST_BLOCK = "each block has a past of its own: here the last one's alone went on"
NOT_X = "the parameters' gradients are right: what comes back is to be x.grad"
EACH_ITS_OWN = (
    "each output has its own gradient, and each just once: that of past.made[i][0], the keys, is "
    "in past.seen[i][0].grad; that of past.made[i][1], the values, in past.seen[i][1].grad"
)
TWICE = (
    "all gradients are there twice: y is an output among others, of one backward; if y.backward() "
    "comes besides, it counts twice"
)
NOT_POPPED = "a slice that is through is kept no longer: self.kept.pop(i), as in Stage.backward"
SHARED = (
    "y and this slice's keys and values share a graph, and that is gone after the first backward. "
    "One torch.autograd.backward takes a list of outputs, and a list of their gradients"
)
ALL_SLICES = (
    "the outputs of slice i are past.made[i]. Those of the slices before it come in their own "
    "turn, when their gradients are complete; those after it are through"
)
TWO_PASSES = (
    "the numbers are right, but some of the graph is gone through twice for each slice: "
    "torch.autograd.backward takes all outputs together, in lists, and needs no retain_graph"
)
NONE_LEFT = (
    "after the last slice nobody has looked, so there is no gradient for its keys and values: "
    "leave an output out if its gradient is None. That of y is `gradient`, None only for a loss"
)
NOT_IN = (
    "one stage alone was right: what comes and goes between stages is Pipeline's. First: "
    'check("8.7")'
)
ERRORS = {
    "implicitly created only for scalar": NONE_LEFT,
    "Mismatch in shape": EACH_ITS_OWN,
    "number of tensors in": "torch.autograd.backward takes as many gradients as outputs",
    "got 2 tensors and": "torch.autograd.backward takes as many gradients as outputs",
    "does not require grad": "some stage has letters as its input, and no block: it has no past, "
    "and x no gradient. Only outputs that have a graph can go back",
    "'tuple' object has no attribute": "past.made[i] and past.seen[i] are pairs: keys, values",
    "has no attribute 'grad'": "past.made[i] and past.seen[i] are pairs: keys, values",
    "is not defined": "self.kept.pop(i) gives x and y",
}


def examine_slices(answer):
    run = try_on_ranks("one stage", try_slices, answer, world_size=1, explain=explain_slices)
    for case, found in zip(CASES, run.values[0]):
        judge_case(case, found)
        yield f"{case}: all gradients of one pass over whole samples"
    title = "2 ranks, slices of 3, 1, 3 letters"
    run = try_on_ranks(title, try_pipeline, answer, world_size=2, explain=lambda error: NOT_IN)
    for rank, gap in enumerate(run.values):
        if gap > rounding():
            what = f"are off by up to {gap:.2g} of the largest" if isfinite(gap) else "are missing"
            raise Wrong(title, f"some of rank {rank}'s gradients {what}", NOT_IN)
    yield f"{title}: the gradients of one process"


def explain_slices(error):
    cause = getattr(error, "exception", None)
    case = getattr(cause, "case", "one stage")
    for earlier, found in zip(CASES, getattr(cause, "before", ())):
        judge_case(earlier, found)
    if isinstance(cause, Refused):
        raise Wrong(str(case), cause.what, cause.why)
    if "a second time" in str(error) and isinstance(case, Case):
        why = SHARED if len(case.sizes) == 2 else ALL_SLICES
    else:
        why = explain_by(ERRORS, HANG)(error)
    raise Wrong(str(case), str(error), why)


def judge_case(case, found):
    off = wrong_in(found)
    if off:
        name, (got, wanted) = next(iter(off.items()))
        by = "is None" if got is None else f"is off by up to {told_gap(got, wanted)}"
        count = len(off.keys() - {"x"})
        what = (
            f"the gradient of {name} {by}. Wrong are {count} of {len(found.gradients)} parameters"
        )
        if 0 < count < len(found.gradients):
            what += f": {', '.join(sorted(off.keys() - {'x'}))}"
        raise Wrong(str(case), what, found.why)
    if found.left:
        raise Wrong(str(case), "after the last backward self.kept still has something", NOT_POPPED)
    if found.passes > len(case.sizes):
        what = f"norm_1 gets a gradient {found.passes} times, for {len(case.sizes)} slices"
        raise Wrong(f"cost, {case}", what, TWO_PASSES)


EXERCISE = Exercise(
    "8.16", "SlicedStage", examine_slices,
    (
        "Stage.backward goes back from y alone. What else has this slice made that somebody "
        "has used? Those who did have gone back before.",
        "Each block's past has made[i], keys and values with their graph, and seen[i], the "
        "same as leaves, in whose `.grad` the gradients of all later slices have added up.",
        "Collect outputs and gradients in two lists: y with `gradient`, and each of made[i] "
        "with the `.grad` of its counterpart in seen[i], unless that is None.",
        "x, y = self.kept.pop(i); for each past zip(past.made[i], past.seen[i]); then one "
        "torch.autograd.backward(outputs, gradients); return x.grad.",
    ),
    lab="sequence_slices",
)  # fmt: skip

"""Slices of a sample, and the gradients that later ones leave behind."""

from functools import cache

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...basics.closeness import close
from ..kit import At, Equals, RankExercise, World, never
from ..kit.differences import kind_of
from ..kit.outcomes import NO_RETURN
from ..kit.refused import Refused
from ..kit.transformers import whole_transformer
from .whole_samples import (
    CASES,
    HEADS,
    LETTERS,
    SAMPLES,
    WIDTH,
    inputs_of,
    layers_of,
    loss_of,
    whole,
)

SIZES = (3, 1, 3)  # tokens of the slices in a pipeline


def work(answer, group, case):
    return slice_by_slice(answer, *case.args) if case.args else in_pipeline(answer)


# ---- A stage by itself ---


def slice_by_slice(answer, case):
    piece = layers_of(case, answer.lab.Transformer, answer.lab.layers_of)
    stage, (x, slope) = answer(piece), inputs_of(case)
    parts = x.split(case.sizes, dim=1)
    slopes = [None] * len(parts) if case.is_last else slope.split(case.sizes, dim=1)
    for i, part in enumerate(parts):
        stage.forward(i, part, *([loss_of] if case.is_last else []))
    passes, touched, of_x = count_passes(piece), False, []
    for i in reversed(range(len(parts))):
        before = seen_gradients(stage, i)
        of_x.insert(0, stage.backward(i, slopes[i]))
        need_slope(i, of_x[0], parts[i])
        touched |= any(map(changed, before, seen_gradients(stage, i)))
    found = {"x": torch.cat(of_x, dim=1) if x.is_floating_point() else None}
    return {
        "gradients": found | {name: p.grad for name, p in piece.named_parameters()},
        "touched": touched,
        "left": bool(stage.kept),
        "more_passes": max(0, len(passes) - len(parts)),
    }


def count_passes(piece) -> list:
    """A list that gets something whenever norm_1 gets a gradient."""
    passes, names = (
        [],
        (p for name, p in piece.named_parameters() if name.endswith("norm_1.weight")),
    )
    for parameter in list(names)[:1]:
        parameter.register_post_accumulate_grad_hook(passes.append)
    return passes


def seen_gradients(stage, i):
    """Of slice i; none if the answer has taken it out of its past."""
    pasts = stage.pasts.values()
    seen = [x.grad for past in pasts for pair in past.seen[i : i + 1] for x in pair or ()]
    return [None if gradient is None else gradient.clone() for gradient in seen]


def changed(before, after) -> bool:
    return before is not None and after is not None and not torch.equal(before, after)


def need_slope(i, got, x):
    wanted = kind_of(x) if x.is_floating_point() else "None"
    kind = kind_of(got) if isinstance(got, torch.Tensor) else str(got)
    if kind != wanted:
        why = NO_RETURN if got is None else "what is asked is x.grad, which is None for tokens"
        raise Refused(f"B{i} gave {kind:.60}, expected {wanted}: the gradient of x", why)


def stops(case, touched):
    """Yield what it means that nothing goes to some keys or values, and which: {block: kinds}."""
    blocks = [k for k, name in enumerate(case.layers.split(", ")) if name == "block"]
    both = ("keys", "values")
    yield SEEN if touched else OUTPUT_ALONE, dict.fromkeys(blocks, both)
    yield ONE_OF_TWO.format("keys", "values"), {k: ["values"] for k in blocks}
    yield ONE_OF_TWO.format("values", "keys"), {k: ["keys"] for k in blocks}
    yield ONE_BLOCK, dict.fromkeys(blocks[1:], both)
    yield LAST_BLOCK, dict.fromkeys(blocks[:-1], both)


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


# ---- In a pipeline ---


def in_pipeline(answer):
    """The gradients of this rank's parameters."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    lab, tokens = answer.lab, tokens_in_pipeline()
    model = lab.Transformer(**sizes_in_pipeline(dist.get_world_size()))
    pipeline = lab.my_pipeline(model, make=answer)
    actions = lab.slice_by_slice(pipeline.rank, pipeline.ranks, len(SIZES))
    pipeline.step(list(actions), *(x.split(SIZES, dim=1) for x in tokens))
    mine = {id(p) for stage in pipeline.stages for p in stage.piece.parameters()}
    return {"of_pipeline": {name: p.grad for name, p in model.named_parameters() if id(p) in mine}}


def tokens_in_pipeline() -> torch.Tensor:
    """Those that go in, and those that should follow."""
    chance = torch.Generator().manual_seed(1)
    return torch.randint(LETTERS, (2, SAMPLES, sum(SIZES)), generator=chance)


def sizes_in_pipeline(n) -> dict:
    return {"width": WIDTH, "layers": n, "heads": HEADS, "context": sum(SIZES)}


# ---- What is right, and what is not ---


@cache
def in_one_process(n) -> dict:
    """The gradients of the whole model."""
    model, (letters, following) = whole_transformer(**sizes_in_pipeline(n)), tokens_in_pipeline()
    F.cross_entropy(model(letters).flatten(0, 1), following.flatten()).backward()
    return {name: p.grad for name, p in model.named_parameters()}


def right_in_pipeline(trial, place) -> dict:
    """Of this rank's layers: the embedding, the blocks and the logits are shared out evenly."""
    blocks = [(f"blocks.{k}.",) for k in range(trial.n)]
    layers = [("letters.", "places."), *blocks, ("norm.", "output.")]
    mine = [layers[k] for k in torch.arange(len(layers)).tensor_split(trial.n)[place]]
    return {name: gradient for name, gradient in in_one_process(trial.n).items()
            if name.startswith(sum(mine, ()))}  # fmt: skip


def right(trial, place=0) -> dict:
    return whole(*trial.case.args)


def mistakes(trial, place):
    (case,), touched = trial.case.args, trial[place].touched
    twice = (
        "all gradients are there twice: y is an output among others, of one backward; if "
        "y.backward() comes besides, it counts twice"
    )
    wrong = {why: whole(case, stopped) for why, stopped in stops(case, touched)}
    return wrong | {twice: {k: None if x is None else 2 * x for k, x in right(trial).items()}}


def why_others(trial) -> str:
    found = trial[0].gradients
    if all(close(found[name], x) for name, x in right(trial).items() if name != "x"):
        return "the parameters' gradients are right: what comes back is to be x.grad"
    return EACH_ITS_OWN


def why_twice(case, error) -> str:
    if "a second time" not in str(error) or not case.args:
        return ""
    if len(case.args[0].sizes) == 2:
        return (
            "y and this slice's keys and values share a graph, and that is gone after the first "
            "backward. One torch.autograd.backward takes a list of outputs, and a list of their "
            "gradients"
        )
    return (
        "the outputs of slice i are past.made[i]. Those of the slices before it come in their own "
        "turn, when their gradients are complete; those after it are through"
    )


EACH_ITS_OWN = (
    "each output has its own gradient, and each just once: that of past.made[i][0], the keys, is "
    "in past.seen[i][0].grad; that of past.made[i][1], the values, in past.seen[i][1].grad"
)
PAIRS = "past.made[i] and past.seen[i] are pairs: keys, values"
AS_MANY = "torch.autograd.backward takes as many gradients as outputs"
NOT_IN = "one stage alone was right: what comes and goes between stages is Pipeline's"

EXERCISE = RankExercise(
    "8.18",
    "SlicedStage",
    lab="sequence_slices",
    needs=("8.7",),
    cases=[
        *(At(World(1), (case,), f", {case}") for case in CASES),
        At(World(2), (), ", slices of {}, {}, {} tokens".format(*SIZES)),
    ],
    work=work,
    found=lambda case: ("gradients",) if case.args else ("of_pipeline",),
    facts=[
        Equals("gradients", right, mistakes, "the gradient", why_others),
        never("left", "after the last backward self.kept still has something",
              "a slice that is through is kept no longer: self.kept.pop(i), as in Stage.backward"),
        never("more_passes", "the numbers are right, but norm_1 gets a gradient {} times more than "
              "there are slices",
              "some of the graph is gone through twice for each slice: torch.autograd.backward "
              "takes all outputs together, in lists, and needs no retain_graph"),
        Equals("of_pipeline", right_in_pipeline, called="the gradient", otherwise=NOT_IN),
    ],
    told=lambda trial: "all gradients of one pass over whole samples, in one process",
    explain=why_twice,
    errors={
        "implicitly created only for scalar": "after the last slice nobody has looked, so there is "
        "no gradient for its keys and values: leave an output out if its gradient is None. That of "
        "y is `gradient`, None only for a loss",
        "Mismatch in shape": EACH_ITS_OWN,
        "number of tensors in": AS_MANY,
        "got 2 tensors and": AS_MANY,
        "does not require grad": "some stage has tokens as its input, and no block: it has no "
        "past, and x no gradient. Only outputs that have a graph can go back",
        "'tuple' object has no attribute": PAIRS,
        "has no attribute 'grad'": PAIRS,
        "is not defined": "self.kept.pop(i) gives x and y",
    },
    lost=NOT_IN,
    hints=(
        "Stage.backward goes back from y alone. What else has this slice made that somebody "
        "has used? Those who did have gone back before.",
        "Each block's past has made[i], keys and values with their graph, and seen[i], the "
        "same as leaves, in whose `.grad` the gradients of all later slices have added up.",
        "Collect outputs and gradients in two lists: y with `gradient`, and each of made[i] "
        "with the `.grad` of its counterpart in seen[i], unless that is None.",
        "x, y = self.kept.pop(i); for each past zip(past.made[i], past.seen[i]); then one "
        "torch.autograd.backward(outputs, gradients); return x.grad.",
    ),
)  # fmt: skip

"""The code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import Rejection
from coursekit.kit.diagnoses import kind_of
from coursekit.kit.results import RETURNS_NONE

from .whole_samples import HEADS, LETTERS, SAMPLES, WIDTH, inputs_of, layers_of, loss_of

SIZES = (3, 1, 3)  # tokens of the slices in a pipeline


def work(answer, group, case):
    return slice_by_slice(answer, *case.args) if case.args else run_pipeline(answer)


def slice_by_slice(answer, case):
    piece = layers_of(case, answer.lab.Transformer, answer.lab.layers_of)
    stage, (x, slope) = answer(piece), inputs_of(case)
    parts = x.split(case.sizes, dim=1)
    slopes = [None] * len(parts) if case.is_last else slope.split(case.sizes, dim=1)
    for i, part in enumerate(parts):
        stage.forward(i, part, *([loss_of] if case.is_last else []))
    passes, touched, of_x = count_passes(piece), False, []
    for i in reversed(range(len(parts))):
        before = copy_gradients(stage, i)
        of_x.insert(0, stage.backward(i, slopes[i]))
        need_slope(i, of_x[0], parts[i])
        touched |= any(map(has_changed, before, copy_gradients(stage, i)))
    found = {"x": torch.cat(of_x, dim=1) if x.is_floating_point() else None}
    return {
        "gradients": found | {name: p.grad for name, p in piece.named_parameters()},
        "touched": touched,
        "left": bool(stage.kept),
        "more_passes": max(0, len(passes) - len(parts)),
    }


def count_passes(piece) -> list:
    """Return a list that grows whenever norm_1 gets a gradient."""
    passes = []
    names = (p for name, p in piece.named_parameters() if name.endswith("norm_1.weight"))
    for parameter in list(names)[:1]:
        parameter.register_post_accumulate_grad_hook(passes.append)
    return passes


def copy_gradients(stage, i):
    """Return copies of slice i's gradients; none if the answer has removed it from its past."""
    pasts = stage.pasts.values()
    seen = [x.grad for past in pasts for pair in past.seen[i : i + 1] for x in pair or ()]
    return [None if gradient is None else gradient.clone() for gradient in seen]


def has_changed(before, after) -> bool:
    return before is not None and after is not None and not torch.equal(before, after)


def need_slope(i, got, x):
    wanted = kind_of(x) if x.is_floating_point() else "None"
    kind = kind_of(got) if isinstance(got, torch.Tensor) else str(got)
    if kind != wanted:
        why = RETURNS_NONE if got is None else "what is asked is x.grad, which is None for tokens"
        raise Rejection(f"B{i} gave {kind:.60}, expected {wanted}: the gradient of x", why)


def run_pipeline(answer):
    """Run one step of a pipeline, and return the gradients of this rank's parameters."""
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
    """Return the input tokens and the targets, stacked."""
    chance = torch.Generator().manual_seed(1)
    return torch.randint(LETTERS, (2, SAMPLES, sum(SIZES)), generator=chance)


def sizes_in_pipeline(n) -> dict:
    return {"width": WIDTH, "layers": n, "heads": HEADS, "context": sum(SIZES)}

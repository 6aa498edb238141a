"""Labs of chapters 07 and 08 at their edges: a clear sentence, or the gradients of one process."""

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab

from pedagogy_lib import RankError, launch
from pedagogy_lib.basics.closeness import relative_gap, rounding

PIPELINES, SLICES, MODELS, TENSOR, HEADS, SCHEDULES = map(
    load_solved_lab,
    ("pipeline_parallel", "sequence_slices", "language_model", "tensor_parallel",
     "replicated_heads", "schedules"),
)  # fmt: skip


def model_with(kv_heads=None, frozen=()):
    torch.manual_seed(0)
    sizes = {"width": 16, "heads": 4, "context": 8, "layers": 2}
    model = MODELS.Transformer(kv_heads=kv_heads, **sizes).double()
    for name, p in model.named_parameters():
        p.requires_grad_(not name.startswith(tuple(frozen)))
    return model


def refusal(function, *arguments):
    try:
        function(*arguments)
    except ValueError as error:
        return str(error)


def step_of(samples, microbatches, frozen=()):
    pipeline = PIPELINES.my_pipeline(model_with(frozen=frozen))
    batch = MODELS.draw_batch(MODELS.standard_library(20_000), samples, 0, 8)
    rows = SCHEDULES.rows_of(SCHEDULES.one_f_one_b, pipeline.ranks, microbatches)
    pipeline.step(rows[pipeline.rank], *(part.tensor_split(microbatches) for part in batch))


def test_fewer_samples_than_micro_batches_are_refused_by_all_ranks():
    run = launch(refusal, step_of, 3, 8, world_size=2, device="cpu")
    assert run.values == ["3 samples are too few for 8 micro-batches"] * 2


def test_a_first_stage_with_nothing_to_train_is_refused():
    frozen = ("letters", "places", "blocks.0")
    with pytest.raises(RankError, match="the first stage has no weight to train"):
        launch(step_of, 8, 4, frozen, world_size=2, device="cpu")


def compare_slices(kv_heads, frozen):
    model, alone = model_with(kv_heads, frozen), model_with(kv_heads, frozen)
    pipeline = PIPELINES.my_pipeline(model, make=SLICES.SlicedStage)
    batch = MODELS.draw_batch(MODELS.standard_library(20_000), 2, 0, 8)
    row = list(SLICES.slice_by_slice(pipeline.rank, pipeline.ranks, 3))
    pipeline.step(row, *(part.tensor_split(3, dim=1) for part in batch))
    MODELS.mean_loss(alone(batch[0]), batch[1]).backward()
    mine = {id(p) for p in PIPELINES.parameters_of(pipeline)}
    pairs = [(p.grad, q.grad) for p, q in zip(model.parameters(), alone.parameters())
             if id(p) in mine]  # fmt: skip
    assert not [(p, q) for p, q in pairs if (p is None) != (q is None)]
    return max(relative_gap(p, q) for p, q in pairs if p is not None)


@pytest.mark.parametrize("kv_heads", [None, 2, 1])
@pytest.mark.parametrize("frozen", [(), ("letters", "places", "blocks.0.attention", "blocks.0.n")])
def test_slices_with_shared_keys_and_frozen_layers(kv_heads, frozen):
    values = launch(compare_slices, kv_heads, frozen, world_size=2, device="cpu").values
    assert max(values) <= rounding()


def loss_of_many_tokens():
    logits = torch.randn(3, 512 // dist.get_world_size())
    TENSOR.split_cross_entropy(logits, torch.tensor([0, 400, 3]))


def test_a_vocabulary_that_was_not_told_is_refused():
    for said in launch(refusal, loss_of_many_tokens, world_size=2, device="cpu").values:
        assert said.endswith("say with vocabulary= how many tokens there are in all")


def frozen_heads():
    attention = MODELS.Attention(16, 4, 1)
    attention.query_key_value.requires_grad_(False)
    split = HEADS.FewHeads(attention)
    split(torch.randn(2, 3, 16)).sum().backward()
    split.sum_shared_gradients()
    return [p.grad is None for p in (*split.query.parameters(), *split.key_value.parameters())]


def test_shared_heads_may_be_frozen():
    assert launch(frozen_heads, world_size=2, device="cpu").values == [[True] * 4] * 2

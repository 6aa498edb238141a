"""The lab of chapter 01."""

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from exercise_names import EX
from helpers import put_lab

from coursekit import labs
from coursekit.building import build
from coursekit.building.build import insert_holes
from pedagogy_lib import launch
from pedagogy_lib.basics.closeness import close

LAB = "gradient_accumulation"
SOLUTION = build.text_of(build.source_of(LAB))


@pytest.fixture
def solution_lab(tmp_path, monkeypatch):
    put_lab(tmp_path, monkeypatch, LAB, SOLUTION, SOLUTION)
    return labs.find_lab(LAB)


def test_the_lab_trains(solution_lab):
    """It learns, and what it learns does not depend on the size of micro-batches."""
    images, labels, *_ = data = solution_lab.digits()
    model, accuracy, work = solution_lab.train_classifier(data, passes=3)
    assert accuracy > 0.85, work
    parts = [(images[:90], labels[:90]), (images[90:], labels[90:])]
    solution_lab.accumulate(model, F.cross_entropy, parts)
    accumulated = [parameter.grad for parameter in model.parameters()]
    loss = F.cross_entropy(model(images), labels)
    for mine, right in zip(accumulated, torch.autograd.grad(loss, list(model.parameters()))):
        assert close(mine, right)
    first, last = solution_lab.train_on_sentences(images, passes=1)
    assert last < first - 1


def test_untouched_labs_end_before_training(capsys):
    space = {"__name__": "lab"}
    exec(compile(insert_holes(SOLUTION), LAB, "exec"), space)
    space["main"]()
    open_ones = f"exercise {EX.accumulate}, exercise {EX.accumulate_tokens}"
    assert capsys.readouterr().out.endswith(f"written in this file: {open_ones}\n")


def test_float64_gradients_of_several_ranks_stay_exact(solution_lab):
    def means():
        model = torch.nn.Linear(1, 1).double()
        rank = dist.get_rank()
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, rank + 1)
        solution_lab.average_over_ranks(model, rank + 1)
        return model.bias.grad.item(), solution_lab.mean_over_ranks(rank + 1, rank + 1)

    for of_gradient, of_numbers in launch(means, world_size=2, device="cpu").values:
        assert close([of_gradient, of_numbers], [5 / 3, 5 / 3])


def test_a_long_sum_of_bfloat16_losses_does_not_stand_still(solution_lab):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 10).bfloat16()
    inputs, targets = torch.randn(1024, 4).bfloat16(), torch.randint(10, (1024,))
    with torch.no_grad():
        right = F.cross_entropy(model(inputs).double(), targets).item()
    parts = list(zip(inputs.split(1), targets.split(1)))
    assert solution_lab.accumulate(model, F.cross_entropy, parts) == pytest.approx(right, rel=0.01)


def average_where_rank_1_has_nothing(lab):
    """Rank 1's sentences are nothing but padding."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.Linear(4, 5)).double()
    tokens, targets = torch.tensor([[1, 2, 3]]), torch.tensor([[2, 3, 4]])
    if dist.is_initialized() and dist.get_rank():
        targets = torch.full_like(targets, lab.PADDING)
    loss, count = lab.accumulate_tokens(model, [(tokens, targets)]), lab.count_tokens(targets)
    lab.average_over_ranks(model, count)
    return lab.mean_over_ranks(loss, count), [p.grad for p in model.parameters()]


def test_a_rank_with_nothing_but_padding_changes_nothing(solution_lab):
    right, gradients = average_where_rank_1_has_nothing(solution_lab)
    two = launch(average_where_rank_1_has_nothing, solution_lab, world_size=2, device="cpu")
    for loss, found in two.values:
        assert close(loss, right)
        assert not [1 for mine, theirs in zip(found, gradients) if not close(mine, theirs)]


def test_a_last_batch_of_fewer_images_than_ranks_trains_on(solution_lab):
    images, labels, *test = solution_lab.digits()
    some = images[:97], labels[:97], *test
    assert solution_lab.BATCH == 96
    model, *_ = solution_lab.train_classifier(some, passes=1)

    def train():
        return [p.detach() for p in solution_lab.train_classifier(some, passes=1)[0].parameters()]

    for weights in launch(train, world_size=4, device="cpu").values:
        assert not [
            1 for mine, p in zip(weights, model.parameters()) if not close(mine, p.detach())
        ]

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

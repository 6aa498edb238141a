"""Details of chapter 03's checks: what a verdict shows, and what a check leaves as it was."""

import pytest
import torch
from answer_files import all_answers, solution_of
from exercise_names import EX
from helpers import put_lab

from coursekit.answers import remote_answer
from coursekit.building import build
from coursekit.kit import reference_training
from coursekit.kit.reference_training import batch_of, flat, model_of
from pedagogy_lib import check
from pedagogy_lib.basics.closeness import close


@pytest.fixture
def check_lab(tmp_path, monkeypatch):
    """Check an exercise where all labs are solved, and some go on with another program."""

    def check_one(number, **programs):
        for path in build.lab_sources():
            solved = build.keep_answers(build.text_of(path))
            mine = f"{solved}\n\n{programs.get(path.stem, '')}"
            put_lab(tmp_path, monkeypatch, path.stem, mine, solved)
        return check(number)

    return check_one


def answer_to(number, words):
    (answer,) = (a for a in all_answers() if (a.exercise.number, a.words) == (number, words))
    return answer


# ---- What a verdict shows ----------------------------------------------------------------------


def test_the_staleness_of_pushes_in_a_given_order_is_shown(check_lab):
    lines = check_lab(EX.serve_as_they_come).lines
    assert "staleness 0 0 2 1 0 2" in lines[0]
    assert len(lines) == 4


def test_a_copy_that_autograd_has_seen_is_remarked_on(check_lab):
    solution = solution_of(answer_to(EX.start_equal, "as objects").exercise)
    assert "remark" not in repr(check_lab(EX.start_equal))
    verdict = check_lab(EX.start_equal, simple_ddp=solution.replace("tensor.detach()", "tensor"))
    assert verdict.passed
    assert "a remark: autograd has seen" in verdict.lines[-2]


def test_a_worker_that_waits_for_its_turn_is_in_no_endless_loop(check_lab, monkeypatch):
    monkeypatch.setattr(remote_answer, "TIMEOUT_SECONDS", 1.5)
    verdict = check_lab(
        EX.serve_as_they_come,
        parameter_server=answer_to(EX.serve_as_they_come, "that is BSP").program,
    )
    assert "it hangs" in verdict.wrong.what
    assert "endless loop" not in repr(verdict)


# ---- What a check leaves as it was -------------------------------------------------------------


@pytest.mark.parametrize(
    "words", ["torch.manual_seed sets the generator", "a copy of the global generator"]
)
def test_an_answer_does_not_touch_the_notebooks_generator(words, check_lab):
    before = torch.get_rng_state()
    check_lab(EX.samples_of_rank, data_parallel=answer_to(EX.samples_of_rank, words).program)
    assert torch.equal(torch.get_rng_state(), before)


# ---- The truth ---------------------------------------------------------------------------------


def test_the_truth_is_a_plain_loop():
    """What one process gets, written out without the check's own functions."""
    batches = [batch_of(0, step) for step in range(3)]
    weights, found = reference_training.train_alone(batches)
    model = model_of()
    for step, (inputs, targets) in enumerate(batches):
        loss = (model(inputs) - targets).square().mean()
        gradients = torch.autograd.grad(loss, [*model.parameters()])
        assert close(flat(gradients), found[step])
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients):
                parameter -= reference_training.RATE * gradient
        assert close(flat(model.parameters()), weights[step])


# ---- Replicas ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "lab", "fault", "words"),
    [
        (EX.ddp, "simple_ddp", EX.start_equal, "everybody draws the same new weights"),
        (EX.ddp, "gradient_sync_visualizer", EX.make_buckets, "the last bucket is missing"),
        (EX.no_sync, "data_parallel", EX.ddp, "this is the sum"),
    ],
)
def test_a_fault_of_an_earlier_exercise_is_sent_there(number, lab, fault, words, check_lab):
    verdict = check_lab(number, **{lab: answer_to(fault, words).program})
    assert verdict.passed is False
    assert verdict.wrong.why == f'first: check("{fault}")'

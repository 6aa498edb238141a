"""Chapter 01's checks: right answers pass, and each wrong one is told what is wrong with it."""

import re
import shutil

import pytest
import torch
import torch.nn.functional as F

from pedagogy_lib import check, hint
from pedagogy_lib.basics.closeness import close
from pedagogy_lib.course import checking, labs
from pedagogy_lib.course.build import with_holes

LAB = "gradient_accumulation"
SOLUTION = (labs.ROOT / "solutions" / "labs" / f"{LAB}.py").read_text()


@pytest.fixture
def learner(tmp_path, monkeypatch):
    """A course in another folder; call it with what the learner has written into the lab."""
    monkeypatch.setattr(labs, "ROOT", tmp_path)
    (tmp_path / "labs").mkdir()
    solved = tmp_path / "solutions" / "labs"
    solved.mkdir(parents=True)
    shutil.copy(labs.Path(__file__).parents[1] / "solutions" / "labs" / f"{LAB}.py", solved)

    def write(text):
        untouched = with_holes(SOLUTION)
        for name in re.findall(r"^def (\w+)", text, re.MULTILINE):
            untouched = re.sub(rf"^def {name}\(.*?\n(?=\n\n)", "", untouched, flags=re.M | re.S)
        (tmp_path / "labs" / f"{LAB}.py").write_text(untouched + text)

    write("")
    return write


def rejected(verdict, phrase):
    """A wrong answer's diagnosis, which has the phrase in it."""
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict
    return verdict.wrong.why


def all_different(diagnoses):
    assert len(set(diagnoses)) == len(diagnoses)


# ---- 1.1 ---------------------------------------------------------------------------------------


def by_hand(x1, x2, price, w1, w2, b):
    slope = 2 * (x1 * w1 + x2 * w2 + b - price)
    return slope * x1, slope * x2, slope


def by_autograd(x1, x2, price, *weights):
    leaves = [torch.tensor(w, dtype=torch.float64, requires_grad=True) for w in weights]
    loss = (x1 * leaves[0] + x2 * leaves[1] + leaves[2] - price) ** 2
    loss.backward()
    return [leaf.grad for leaf in leaves]


def by_differences(*numbers):
    def loss(w1, w2, b):
        x1, x2, price = numbers[:3]
        return (x1 * w1 + x2 * w2 + b - price) ** 2

    w, h = numbers[3:], 0.5  # exact for a square
    moved = [[[a + sign * h * (i == j) for j, a in enumerate(w)] for sign in (1, -1)]
             for i in range(3)]  # fmt: skip
    return torch.tensor([(loss(*up) - loss(*down)) / (2 * h) for up, down in moved])


@pytest.mark.parametrize("answer", [by_hand, by_autograd, by_differences])
def test_gradients_of_a_house(answer):
    verdict = check("1.1", answer)
    assert verdict.passed, verdict
    assert len(verdict.lines) == 3


def test_wrong_gradients_of_a_house():
    def error(x1, x2, price, w1, w2, b):
        return x1 * w1 + x2 * w2 + b - price

    def wrong(make):
        return lambda *numbers: make(error(*numbers), *numbers)

    answers = {
        "half": wrong(lambda d, x1, x2, *_: (d * x1, d * x2, d)),
        "sign": wrong(lambda d, x1, x2, *_: (-2 * d * x1, -2 * d * x2, -2 * d)),
        "chain rule goes on": wrong(lambda d, *_: (2 * d,) * 3),
        "b is missing": wrong(
            lambda d, x1, x2, price, w1, w2, b: [2 * (d - b) * s for s in (x1, x2, 1)]
        ),
        "slope of 1": wrong(lambda d, x1, x2, price, w1, w2, b: [2 * d * s for s in (x1, x2, b)]),
        "multiply by the weights": wrong(
            lambda d, x1, x2, price, w1, w2, b: [2 * d * s for s in (w1, w2, 1)]
        ),
        "the loss itself": wrong(lambda d, x1, x2, *_: [d * d * s for s in (x1, x2, 1)]),
        "another order": wrong(lambda d, x1, x2, *_: [2 * d * s for s in (x1, 1, x2)]),
        "return": lambda *numbers: None,
        "the three numbers alone": lambda *numbers: dict(zip("abc", by_hand(*numbers))),
        "house 1; use the arguments": lambda *numbers: (-115.836, -38.612, -19.306),
    }
    all_different([rejected(check("1.1", answer), phrase) for phrase, answer in answers.items()])
    verdict = check("1.1", answers["half"])
    assert "the gradient of w1: expected -9, got -4.5" in verdict.wrong.what


def test_an_error_in_an_answer_is_shown_with_its_line():
    def divides(x1, x2, price, w1, w2, b):
        return x1 / (b - b)

    verdict = check("1.1", divides)
    assert verdict.passed is False
    assert "ZeroDivisionError" in verdict.wrong.what
    assert "return x1 / (b - b)" in verdict.wrong.what


# ---- 1.2 ---------------------------------------------------------------------------------------


def scaled_losses(model, loss_fn, micro_batches, optimizer, every):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        (loss_fn(model(inputs), targets) / every).backward()
        if number % every == 0:
            optimizer.step()
            optimizer.zero_grad()


def scaled_gradients(model, loss_fn, micro_batches, optimizer, every):
    for first in range(0, len(micro_batches), every):
        optimizer.zero_grad(set_to_none=False)
        for inputs, targets in micro_batches[first : first + every]:
            loss_fn(model(inputs), targets).backward()
        for parameter in model.parameters():
            parameter.grad /= every
        optimizer.step()


def loop(scale="", zero_before=False, zero_after=True, start=1, step=None, once=False,
         clear=None):  # fmt: skip
    """A loop with the mistakes that are asked for."""

    def train(model, loss_fn, micro_batches, optimizer, every):
        for number, (inputs, targets) in enumerate(micro_batches, start):
            if zero_before:
                optimizer.zero_grad()
            loss = loss_fn(model(inputs), targets)
            k, samples = len(micro_batches), len(inputs)
            (loss / {"mean": every, "all": k, "samples": samples}.get(scale, 1)).backward()
            if number % (step or every) == 0 and not once:
                optimizer.step()
                if zero_after and not clear:
                    optimizer.zero_grad()
            if clear and number % every == 0:
                optimizer.zero_grad()
        if once:
            optimizer.step()

    return train


def one_backward(model, loss_fn, micro_batches, optimizer, every):
    for first in range(0, len(micro_batches), every):
        some = micro_batches[first : first + every]
        sum(loss_fn(model(inputs), targets) / every for inputs, targets in some).backward()
        optimizer.step()
        optimizer.zero_grad()


def one_large_batch(model, loss_fn, micro_batches, optimizer, every):
    for first in range(0, len(micro_batches), every):
        inputs, targets = map(torch.cat, zip(*micro_batches[first : first + every]))
        loss_fn(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


def cleared_too_early(model, loss_fn, micro_batches, optimizer, every):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        (loss_fn(model(inputs), targets) / every).backward()
        if number % every == 0:
            optimizer.zero_grad()
            optimizer.step()


@pytest.mark.parametrize("answer", [scaled_losses, scaled_gradients])
def test_the_loop(answer):
    verdict = check("1.2", answer)
    assert verdict.passed, verdict
    assert "bytes of activations" in verdict.lines[-1]


@pytest.mark.parametrize("answer", [one_backward, one_large_batch])
def test_a_loop_that_saves_no_memory(answer):
    verdict = check("1.2", answer)
    rejected(verdict, "one backward for each micro-batch")
    assert len(verdict.lines) == 4, "the weights are right"


def test_wrong_loops():
    answers = {
        "summed": loop(),
        "training with small batches": loop(step=1),
        "with a fraction of its gradient": loop("mean", step=1),
        "Only the last": loop(zero_before=True),
        "divided by `every`: zero_grad()": loop("mean", zero_before=True),
        "along those of all batches before": loop("mean", zero_after=False),
        "neither set back": loop(zero_after=False),
        "only once": loop("mean", once=True),
        "count from 0": loop("mean", start=0),
        "nothing has moved": lambda *_: None,
        "you clear before the step": cleared_too_early,
        "not by all": loop("all"),
        "which a mean loss has done": loop("samples"),
        "belong together": loop("mean", step=1, clear=True),
        "and nothing is divided": loop(step=1, clear=True),
    }
    answers["only the last"] = answers.pop("Only the last")
    diagnoses = [rejected(check("1.2", answer), phrase) for phrase, answer in answers.items()]
    all_different(diagnoses)
    assert "6 optimizer steps, expected 2" in check("1.2", loop(step=1)).wrong.what


# ---- 1.3 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        lambda sizes: [size / sum(sizes) for size in sizes],
        lambda sizes: torch.tensor(sizes).double() / sum(sizes),
    ],
)
def test_shares(answer):
    assert check("1.3", answer).passed


def test_wrong_shares():
    answers = {
        "counts the same here": lambda sizes: [1 / len(sizes) for _ in sizes],
        "not the mean": lambda sizes: sizes,
        "count more, not less": lambda sizes: [1 / size for size in sizes],
        "largest": lambda sizes: [size / max(sizes) for size in sizes],
        "first": lambda sizes: [size / sizes[0] for size in sizes],
        "//": lambda sizes: [size // sum(sizes) for size in sizes],
        "not samples": lambda sizes: [size / len(sizes) for size in sizes],
        "return": lambda sizes: None,
        "5 times too large": lambda sizes: [s * len(sizes) / sum(sizes) for s in sizes],
        "factor of one sample": lambda sizes: [1 / sum(sizes) for _ in sizes],
        "upside down": lambda sizes: [sum(sizes) / size for size in sizes],
        "a list": lambda sizes: sizes[0] / sum(sizes),
    }
    all_different([rejected(check("1.3", answer), phrase) for phrase, answer in answers.items()])


# ---- 1.4 ---------------------------------------------------------------------------------------

SUMMED_AFTERWARDS = """
def accumulate(model, loss_fn, micro_batches):
    total = samples = 0
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for inputs, targets in micro_batches:
        loss = loss_fn(model(inputs), targets) * len(inputs)
        loss.backward()
        samples += len(inputs)
        total = total + loss.detach()
    for parameter in model.parameters():
        parameter.grad /= samples
    return total / samples
"""
BY_HAND = """
def accumulate(model, loss_fn, micro_batches):
    parameters = list(model.parameters())
    samples = sum(len(inputs) for inputs, _ in micro_batches)
    mean, mean_loss = [torch.zeros_like(p) for p in parameters], 0.0
    for inputs, targets in micro_batches:
        loss = loss_fn(model(inputs), targets)
        share = len(inputs) / samples
        mean = [m + share * g for m, g in zip(mean, torch.autograd.grad(loss, parameters))]
        mean_loss += share * float(loss)
    for parameter, gradient in zip(parameters, mean):
        parameter.grad = gradient
    return mean_loss
"""


def accumulate(factor="len(targets) / n", value="loss.item()", each="", first="model.zero_grad()",
               last=""):  # fmt: skip
    """The solution of 1.4, unless told otherwise."""
    return f"""
def accumulate(model, loss_fn, micro_batches):
    {first or "pass"}
    n, k, total, kept = sum(len(t) for _, t in micro_batches), len(micro_batches), 0.0, 0.0
    for inputs, targets in micro_batches:
        {each or "pass"}
        loss = loss_fn(model(inputs), targets) * ({factor})
        {"kept += loss" if last else "loss.backward()"}
        total += {value}
    {last or "pass"}
    return total
"""


def test_the_untouched_lab_is_not_attempted(learner):
    for number in ("1.4", "1.5"):
        assert check(number).passed is None
        assert "not attempted yet" in repr(check(number))


@pytest.mark.parametrize("text", [accumulate(), SUMMED_AFTERWARDS, BY_HAND])
def test_accumulate(learner, text):
    learner(text)
    verdict = check("1.4")
    assert verdict.passed, verdict
    assert "bytes of activations" in verdict.lines[-1]


def test_wrong_accumulate(learner):
    whole = """
def accumulate(model, loss_fn, micro_batches):
    model.zero_grad()
    inputs, targets = (torch.cat(parts) for parts in zip(*micro_batches))
    loss = loss_fn(model(inputs), targets)
    loss.backward()
    return loss.item()
"""
    answers = {
        "mean of means": accumulate("1 / k"),
        "are summed": accumulate("1"),
        "the sum over all samples": accumulate("len(targets)"),
        "number of micro-batches where": accumulate("len(targets) / k"),
        "the last micro-batch has counted:": accumulate("1", each="model.zero_grad()"),
        "with its right share": accumulate(each="model.zero_grad()"),
        "earlier step": accumulate(first=""),
        "size of the first": accumulate("len(targets) / len(micro_batches[0][1])"),
        "as large as the first": accumulate("len(targets) / len(micro_batches[0][1]) / k"),
        "calls backward": accumulate(last="0"),
        "when every graph is there": accumulate(last="kept.backward()"),
    }
    diagnoses = []
    for phrase, text in answers.items():
        learner(text)
        diagnoses.append(rejected(check("1.4"), phrase))
    all_different(diagnoses)
    learner(whole)
    rejected(check("1.4"), "put together")


def test_a_wrong_loss_beside_right_gradients(learner):
    for value, phrase in {
        "loss.item() * n / len(targets) / k": "mean of means",
        "loss.item() * n": "the sum over all samples",
        "loss.item() * n / len(targets)": "that is larger",
        "loss.item() - total": "you return the last term; add them up",
        "loss.item() * n / len(targets) - total": "the mean loss of the last micro-batch",
        "loss": "loss.item()",
        "0": "return the mean loss",
    }.items():
        learner(accumulate(value=value))
        rejected(check("1.4"), phrase)


# ---- 1.5 ---------------------------------------------------------------------------------------

MASKED = """
def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    total, n = 0.0, 0
    for tokens, targets in micro_batches:
        real = targets != PADDING
        if real.any():
            loss = F.cross_entropy(model(tokens)[real], targets[real]) * real.sum()
            loss.backward()
            total, n = total + loss.item(), n + real.sum().item()
    for parameter in model.parameters():
        parameter.grad /= n
    return total / n
"""


def tokens(factor="1 / n", reduction="sum", each="", first="model.zero_grad()", last=""):
    """The solution of 1.5, unless told otherwise."""
    return f"""
def accumulate_tokens(model, micro_batches):
    {first or "pass"}
    n = sum((t != PADDING).sum().item() for _, t in micro_batches)
    k, rows = len(micro_batches), sum(len(t) for _, t in micro_batches)
    positions, total, kept = sum(t.numel() for _, t in micro_batches), 0.0, 0.0
    for tokens, targets in micro_batches:
        {each or "pass"}
        logits = model(tokens).flatten(0, 1)
        loss = F.cross_entropy(logits, targets.flatten(), reduction="{reduction}") * ({factor})
        {"kept += loss" if last else "loss.backward()"}
        total += loss.item()
    {last or "pass"}
    return total
"""


PER_SENTENCE = """
def accumulate_tokens(model, micro_batches):
    model.zero_grad()
    rows, total = sum(len(t) for _, t in micro_batches), 0.0
    for tokens, targets in micro_batches:
        for one, wanted in zip(tokens, targets):
            loss = F.cross_entropy(model(one), wanted) / rows
            loss.backward()
            total += loss.item()
    return total
"""


@pytest.mark.parametrize("text", [tokens(), MASKED])
def test_accumulate_tokens(learner, text):
    learner(text)
    verdict = check("1.5")
    assert verdict.passed, verdict


def test_wrong_accumulate_tokens(learner):
    answers = {
        "mean of means": tokens("1 / k", "mean"),
        "count by their number of sentences": tokens("len(targets) / rows", "mean"),
        "each sentence counts the same": PER_SENTENCE,
        "padding included": tokens("1 / positions"),
        "0 is a token too": tokens("1 / sum((t > 0).sum() for _, t in micro_batches)"),
        "number of sentences; divide": tokens("1 / rows"),
        "the sum over all tokens": tokens("1"),
        "are summed": tokens("1", "mean"),
        "the last micro-batch has counted": tokens(each="model.zero_grad()"),
        "0/0": tokens("(targets != PADDING).sum() / n", "mean"),
        "earlier step": tokens(first=""),
        "when every graph is there": tokens(last="kept.backward()"),
    }
    diagnoses = []
    for phrase, text in answers.items():
        learner(text)
        diagnoses.append(rejected(check("1.5"), phrase))
    all_different(diagnoses)


@pytest.mark.parametrize(
    "shapes",
    [("model(tokens)", "targets"), ("model(tokens).flatten(0, 1)", "targets"),
     ("model(tokens)", "targets.flatten()")],
)  # fmt: skip
def test_logits_that_are_not_flattened(learner, shapes):
    text = tokens().replace("model(tokens).flatten(0, 1)", shapes[0])
    learner(text.replace("targets.flatten()", shapes[1]))
    rejected(check("1.5"), "flatten: logits (n, vocabulary), targets (n)")


# ---- All of them -------------------------------------------------------------------------------


def test_holes_are_not_attempted():
    def hole(*args): ...  # your code here

    for number in ("1.1", "1.2", "1.3"):
        assert check(number, hole).passed is None


def test_hints_come_one_by_one(capsys):
    for exercise in checking.exercises_of("1").values():
        assert len(exercise.hints) >= 2
    hint("1.3")
    assert capsys.readouterr().out.count("\n") == 1


def test_the_lab_trains(learner):
    """It learns, and what it learns does not depend on the size of micro-batches."""
    lab = labs.find_lab(LAB)
    data = lab.digits()
    model, accuracy, work = lab.train_classifier(data, passes=3)
    assert accuracy > 0.85, work
    images, labels, *_ = data
    lab.accumulate(model, F.cross_entropy, [(images[:90], labels[:90]), (images[90:], labels[90:])])
    accumulated = [parameter.grad for parameter in model.parameters()]
    loss = F.cross_entropy(model(images), labels)
    for mine, right in zip(accumulated, torch.autograd.grad(loss, list(model.parameters()))):
        assert close(mine, right)
    first, last = lab.train_on_sentences(images, passes=1)
    assert last < first - 1


def test_untouched_labs_end_before_training(learner, capsys, monkeypatch):
    text = with_holes(SOLUTION)
    space = {"__name__": "lab"}
    exec(compile(text, LAB, "exec"), space)
    space["main"]()
    assert capsys.readouterr().out.endswith("written in this file: exercise 1.4, exercise 1.5\n")


def test_float64_gradients_of_several_ranks_stay_exact():
    from pedagogy_lib import launch

    found = labs.find_lab(LAB)

    def means():
        import torch
        import torch.distributed as dist

        model = torch.nn.Linear(1, 1).double()
        rank = dist.get_rank()
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, rank + 1)
        found.average_over_ranks(model, rank + 1)
        return model.bias.grad.item(), found.mean_over_ranks(rank + 1, rank + 1)

    for of_gradient, of_numbers in launch(means, world_size=2, device="cpu").values:
        assert close([of_gradient, of_numbers], [5 / 3, 5 / 3])

"""Chapter 05, memory: right answers of any style pass, wrong ones are told what is wrong."""

import itertools
import linecache
import textwrap
from types import SimpleNamespace

import pytest
import torch

from pedagogy_lib import check
from pedagogy_lib.course import checking
from pedagogy_lib.exercises import activations, model_states, servers

EXERCISES = {e.number: e for module in (activations, model_states) for e in module.EXERCISES}
SIGNATURES = {
    "5.1": "model, optimizer",
    "5.2": "model, loss_fn, batches, validation, optimizer",
    "5.5": "samples, context, width, heads, size=4",
    "5.7": "batch, limit, fixed, each",
}


@pytest.fixture(scope="module", autouse=True)
def warm():
    servers.warm_up()


@pytest.fixture(autouse=True)
def only_these(monkeypatch):
    for module in activations, model_states:
        monkeypatch.setattr(module, "warm_up", lambda: None)
    monkeypatch.setattr(checking, "exercises_of", lambda chapter: EXERCISES)
    monkeypatch.setattr(checking, "TIMEOUT_SECONDS", 20.0)


def define(number, body):
    """The function of an exercise with this body, as a cell would define it."""
    name, file = EXERCISES[number].name, f"cell of {number}"
    body = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    source = f"def {name}({SIGNATURES[number]}):\n{body}\n"
    space = {"__name__": "__main__", "torch": torch}
    exec(compile(source, file, "exec"), space)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return space[name]


def try_here(case, function, *args, world_size, explain=None):
    """Instead of on a rank, which takes longer: for what is arithmetic alone."""
    return SimpleNamespace(values=[function(*args)])


def tried(number, body):
    return check(number, define(number, body))


# ---- 5.1 ---------------------------------------------------------------------------------------


def counted(
    parameters="sum(p.nbytes for p in model.parameters())",
    gradients="sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)",
    state="sum(x.nbytes for kept in optimizer.state.values() for x in kept.values())",
) -> str:
    """The body of a right answer to 5.1, unless told otherwise."""
    return (
        f'return {{"parameters": {parameters}, "gradients": {gradients}, '
        f'"optimizer_state": {state}}}'
    )


SIZE = "p.numel() * p.element_size()"
ALL_NAMES = "model.named_parameters(remove_duplicate=False)"

# ---- 5.2 ---------------------------------------------------------------------------------------


def training(
    validate, steps=("zero_grad", "backward", "step"), at_end="return means", extra=""
) -> str:
    """A body of 5.2 that validates in this way after each step."""
    lines = {"zero_grad": "optimizer.zero_grad()", "backward": "loss.backward()"}
    loop = ["loss = loss_fn(model(inputs), targets)"]
    loop += [lines.get(step, "optimizer.step()") for step in steps]
    parts = "\n".join(loop) + "\n" + textwrap.dedent(validate).strip("\n")
    return (
        f"means = []\n{extra}\nfor inputs, targets in batches:\n"
        f"{textwrap.indent(parts, '    ')}\n{at_end}"
    )


NO_GRAD = """
with torch.no_grad():
    losses = [loss_fn(model(x), y).item() for x, y in validation]
"""
MEAN = "means.append(sum(losses) / len(losses))\n"
AS_TENSORS = "losses = [loss_fn(model(x), y) for x, y in validation]\n"
FLOATS = "return [float(mean) for mean in means]"
BROKEN = training(AS_TENSORS + MEAN, at_end=FLOATS)

RIGHT = {
    "5.1": {
        "the solution": counted(),
        "elements by their size": counted(f"sum({SIZE} for p in model.parameters())"),
        "storages, and state_dict": """
            states = optimizer.state_dict()["state"].values()
            tensors = {
                "parameters": [p for _, p in model.named_parameters()],
                "gradients": [p.grad for p in model.parameters() if p.grad is not None],
                "optimizer_state": [x for state in states for x in state.values()],
            }
            return {kind: sum({x.untyped_storage().data_ptr(): x.untyped_storage().nbytes()
                               for x in some}.values()) for kind, some in tensors.items()}
            """,
        "through the groups": """
            found = {"parameters": 0, "gradients": 0, "optimizer_state": 0}
            for p in set(model.parameters()):
                found["parameters"] += p.nbytes
                found["gradients"] += 0 if p.grad is None else p.grad.nbytes
            for group in optimizer.param_groups:
                for p in group["params"]:
                    for name, x in optimizer.state[p].items():
                        found["optimizer_state"] += torch.as_tensor(x).nbytes
            return found
            """,
    },
    "5.2": {
        "the solution": training(NO_GRAD + MEAN),
        "inference mode, and a sum": training(
            """
            total = 0.0
            with torch.inference_mode():
                for x, y in validation:
                    total += loss_fn(model(x), y)
            means.append(total.item() / len(validation))
            """
        ),
        "each graph is freed at once": training(
            "losses = [loss_fn(model(x), y).item() for x, y in validation]\n" + MEAN
        ),
        "detached": training(
            "losses = [loss_fn(model(x), y).detach() for x, y in validation]\n" + MEAN,
            at_end=FLOATS,
        ),
        "eval mode and back, zero_grad before the forward": training(
            "model.eval()\n" + NO_GRAD + "model.train()\noptimizer.zero_grad()\n" + MEAN,
            steps=("backward", "step"),
        ),
        "a graph that is let go by hand": training(
            """
            losses = []
            for x, y in validation:
                loss = loss_fn(model(x), y)
                losses.append(float(loss.detach()))
                del loss
            """
            + MEAN
        ),
        "frozen for the time being": training(
            """
            flags = [p.requires_grad for p in model.parameters()]
            model.requires_grad_(False)
            losses = [loss_fn(model(x), y) for x, y in validation]
            for p, flag in zip(model.parameters(), flags):
                p.requires_grad_(flag)
            means.append(torch.stack(losses).mean().item())
            """
        ),
    },
    "5.5": {
        "the solution": "return samples * context * (16 * width + 4 + heads) * size",
        "tensor by tensor, and a float": """
            narrow = samples * context * width * size
            norms = 2 * (narrow + 2 * samples * context * size)
            linear = 3 * narrow + 4 * narrow
            attention = 3 * narrow + samples * heads * context * size
            return float(norms + linear + attention + 4 * narrow)
            """,
        "with numel": """
            one = torch.empty(samples, context, width, device="meta").numel()
            return torch.tensor((16 * one + samples * context * (heads + 4)) * size)
            """,
    },
    "5.7": {
        "the solution": """
            for count in range(1, batch + 1):
                if batch % count == 0 and fixed + each * (batch // count) <= limit:
                    return count
            raise ValueError("too little")
            """,
        "from the samples that fit": """
            samples = min(batch, (limit - fixed) // each)
            if samples < 1:
                raise ValueError("too little")
            while batch % samples:
                samples -= 1
            return batch / samples
            """,
        "with an error of its own": """
            class TooLittle(ValueError):
                pass

            def counts():
                for size in range(batch, 0, -1):
                    if not batch % size and size * each <= limit - fixed:
                        yield batch // size

            for count in counts():
                return count
            raise TooLittle(each + fixed - limit)
            """,
        "the smallest of all": """
            return min(n for n in range(1, batch + 1)
                       if batch % n == 0 and fixed + each * batch / n <= limit)
            """,
    },
}


@pytest.mark.parametrize(
    ("number", "style"), [(number, style) for number, table in RIGHT.items() for style in table]
)
def test_right_answers_of_any_style(number, style):
    verdict = tried(number, RIGHT[number][style])
    assert verdict.passed, verdict


# ---- Wrong answers -----------------------------------------------------------------------------

ENDLESS = "looks for more and more"
KEPT = "return samples * context * ({}) * {}"
FIRST_THAT_FITS = """
for count in range(1, batch + {}):
    if {} and {}:
        return {}
{}
"""
DIVIDES, FITS = "batch % count == 0", "fixed + each * (batch // count) <= limit"
REFUSES = "raise ValueError('too little')"


def first(divides=DIVIDES, fits=FITS, result="count", end=REFUSES, plus=1):
    return FIRST_THAT_FITS.format(plus, divides, fits, result, end)


# {phrase of the diagnosis: body}
WRONG = {
    "5.1": {
        "where no gradient has come yet": counted(
            gradients="sum(p.grad.nbytes for p in model.parameters())"
        ),
        "whether it has one now or not": counted(
            gradients="sum(p.nbytes for p in model.parameters())"
        ),
        "has two names in the model": counted(f"sum(p.nbytes for _, p in {ALL_NAMES})"),
        "a tied parameter's gradient counts twice": counted(
            gradients=f"sum(p.grad.nbytes for _, p in {ALL_NAMES} if p.grad is not None)"
        ),
        "a tied parameter's state counts twice": counted(
            state=f"sum(x.nbytes for _, p in {ALL_NAMES} for x in optimizer.state[p].values())"
        ),
        "under both of its names": counted("sum(x.nbytes for x in model.state_dict().values())"),
        "buffers are counted as well": counted(
            "sum(x.nbytes for x in [*model.parameters(), *model.buffers()])"
        ),
        "a frozen parameter is missing": counted(
            "sum(p.nbytes for p in model.parameters() if p.requires_grad)"
        ),
        "4 bytes are taken": counted("sum(4 * p.numel() for p in model.parameters())"),
        "these are the numbers, not their bytes": counted(
            "sum(p.numel() for p in model.parameters())"
        ),
        "the dtype of the first one": counted(
            "next(model.parameters()).element_size() * sum(p.numel() for p in model.parameters())"
        ),
        "what else does its state have": counted(
            state="sum(x.nbytes for k in optimizer.state.values() for x in k.values() if x.dim())"
        ),
        "two numbers for each parameter, the rule": counted(
            state="2 * sum(p.nbytes for p in model.parameters())"
        ),
        "the state of one parameter alone": counted(
            state="sum(x.nbytes for x in next(iter(optimizer.state.values()), {}).values())"
        ),
        "only the first tensor is counted": counted(
            state="sum(next(iter(kept.values())).nbytes for kept in optimizer.state.values())"
        ),
        "does it count those in param_groups": counted(
            state="sum(p.nbytes for p in model.parameters()) "
            "+ sum(x.nbytes for kept in optimizer.state.values() for x in kept.values())"
        ),
        "has no such entry": counted(
            state="sum(optimizer.state[p]['exp_avg'].nbytes for p in model.parameters())"
        ),
        "has a dict for each parameter": counted(
            state="sum(kept.nbytes for kept in optimizer.state.values())"
        ),
        "the keys": "return sum(p.nbytes for p in model.parameters())",
        "with the keys": counted().replace("optimizer_state", "state"),
        "without `return`": counted().removeprefix("return"),
        "only look": "optimizer.step()\n" + counted(),
        "leave the model": "model.zero_grad()\n" + counted(),
    },
    "5.2": {
        "there are two lists to look at": BROKEN,
        "alive at once": training(
            AS_TENSORS + "means.append((sum(losses) / len(losses)).item())\n"
        ),
        "let autograd record none": training(
            AS_TENSORS + "with torch.no_grad():\n    means.append(sum(losses) / len(losses))\n",
            at_end=FLOATS,
        ),
        "with more steps more is kept": training(
            """
            losses = [loss_fn(model(x), y).item() for x, y in validation[1:]]
            losses.append(loss_fn(model(validation[0][0]), validation[0][1]))
            """
            + MEAN,
            at_end=FLOATS,
        ),
        "one graph too many": training(
            """
            losses = []
            for x, y in validation:
                loss = loss_fn(model(x), y)
                losses.append(loss.item())
            """
            + MEAN
        ),
        "no graph is too many": training(
            """
            with torch.no_grad():
                x, y = (torch.cat(parts) for parts in zip(*validation))
                means.append(loss_fn(model(x), y).item())
            """
        ),
        "no_grad() covers the training": "with torch.no_grad():\n"
        + textwrap.indent(training(NO_GRAD + MEAN), "    "),
        "or the model has stayed frozen": training(
            "model.requires_grad_(False)\n" + AS_TENSORS
            + "means.append((sum(losses) / len(losses)).item())\n"
        ),
        "model.eval() lasts": training("model.eval()\n" + NO_GRAD + MEAN),
        "autograd is still switched off": training(
            "torch.set_grad_enabled(False)\n" + AS_TENSORS + MEAN,
            at_end=FLOATS,
        ).replace("loss = loss_fn", "torch.set_grad_enabled(True)\n    loss = loss_fn", 1),
        "what was frozen before": training(
            "model.requires_grad_(False)\n" + NO_GRAD + "model.requires_grad_(True)\n" + MEAN
        ),
        "gradients of its own": training(
            """
            losses = []
            for x, y in validation:
                loss = loss_fn(model(x), y)
                loss.backward()
                losses.append(loss.item())
            """
            + MEAN
        ),
        "validation has added its own": training(
            """
            losses = []
            for x, y in validation:
                loss = loss_fn(model(x), y)
                loss.backward()
                losses.append(loss.item())
            """
            + MEAN,
            steps=("backward", "step"),
            extra="optimizer.zero_grad()",
        ),
        "validation has none": training(
            """
            losses = []
            for x, y in validation:
                optimizer.zero_grad()
                loss = loss_fn(model(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            """
            + MEAN
        ),
        "nothing sets the gradients back": training(NO_GRAD + MEAN, steps=("backward", "step")),
        "the losses of training": training("means.append(loss.item())"),
        "validate after optimizer.step()": training(
            NO_GRAD + MEAN + "optimizer.step()", steps=("zero_grad", "backward")
        ),
        "as it is in the end": training("pass", at_end=(
            NO_GRAD + "return [sum(losses) / len(losses)] * len(batches)"
        )),
        "sums over the validation": training(NO_GRAD + "means.append(sum(losses))"),
        "only the last validation batch counts": training(
            """
            with torch.no_grad():
                for x, y in validation:
                    loss = loss_fn(model(x), y)
            means.append(loss.item())
            """
        ),
        "divided by the number of all": training(
            """
            with torch.no_grad():
                for x, y in validation:
                    total = 0
                    total += loss_fn(model(x), y).item()
            means.append(total / len(validation))
            """
        ),
        "only the first validation batch counts": training(
            NO_GRAD.replace("validation", "validation[:1]") + MEAN
        ),
        "in the loop over `batches`": training("pass", at_end=NO_GRAD + MEAN + "return means"),
        "of earlier steps are still in the list": training(
            """
            with torch.no_grad():
                losses += [loss_fn(model(x), y).item() for x, y in validation]
            """
            + MEAN,
            extra="losses = []",
        ),
        "a list of floats": training(
            "with torch.no_grad():\n    " + AS_TENSORS + MEAN
        ),
        "without `return`": training(NO_GRAD + MEAN, at_end=""),
    },
    "5.5": {
        "GELU's input, or its output": KEPT.format("12 * width + 4 + heads", "size"),
        "GELU's input, and its output": KEPT.format("8 * width + 4 + heads", "size"),
        "q, k and v; or a tensor within": KEPT.format("13 * width + 4 + heads", "size"),
        "two tensors are 4 * width wide": KEPT.format("10 * width + 4 + heads", "size"),
        "or the output of attention": KEPT.format("15 * width + 4 + heads", "size"),
        "What the block returns is kept by": KEPT.format("17 * width + 4 + heads", "size"),
        "a sum keeps nothing": KEPT.format("18 * width + 4 + heads", "size"),
        "three parts of one tensor": KEPT.format("19 * width + 4 + heads", "size"),
        "is the last linear layer's input, and counts once": KEPT.format(
            "20 * width + 4 + heads", "size"
        ),
        "log-sum-exp is missing": KEPT.format("16 * width + 4", "size"),
        "for each head, not only": KEPT.format("16 * width + 5", "size"),
        "scores are counted, heads * context": KEPT.format(
            "16 * width + 4 + heads * (context + 1)", "size"
        ),
        "scores are counted, and not": KEPT.format("16 * width + 4 + heads * context", "size"),
        "what softmax makes of them: ": KEPT.format(
            "16 * width + 4 + heads * (2 * context + 1)", "size"
        ),
        "what softmax makes of them, and not": KEPT.format(
            "16 * width + 4 + heads * 2 * context", "size"
        ),
        "statistics are missing": KEPT.format("16 * width + heads", "size"),
        "there are two norms": KEPT.format("16 * width + 2 + heads", "size"),
        "log-sum-exp is missing: a number for each letter and head; and the norms'": KEPT.format(
            "16 * width", "size"
        ),
        "this is the number of numbers": KEPT.format("16 * width + 4 + heads", 1),
        "the number of numbers: each takes `size` bytes; and 4 * width": KEPT.format(
            "12 * width + 4 + heads", 1
        ),
        "`size` is not used": KEPT.format("16 * width + 4 + heads", 4),
        "this is for one sample": KEPT.format("16 * width + 4 + heads", "size / samples"),
        "this is for one letter:": KEPT.format(
            "16 * width + 4 + heads", "size / samples / context"
        ),
        "this is for one letter of each": KEPT.format("16 * width + 4 + heads", "size / context"),
        "Korthikanti": KEPT.format("34 * width + 5 * heads * context", "1"),
        "the parameters are counted": KEPT.format("16 * width + 4 + heads", "size")
        + " + size * (12 * width * width + 13 * width)",
        "without `return`": "samples * context",
    },
    "5.7": {
        "what takes exactly `limit` bytes fits: <=": first(fits=FITS.replace("<=", "<")),
        "`fixed` is forgotten": first(fits="each * (batch // count) <= limit"),
        "`fixed` is divided": first(fits="(fixed + each * batch) / count <= limit"),
        "counted for every sample": first(fits="(fixed + each) * (batch // count) <= limit"),
        "asked is how many micro-batches": first(result="batch // count"),
        "one sample of a micro-batch is counted": first(fits="fixed + each <= limit"),
        "the number is doubled": """
            count = 1
            while fixed + each * batch / count > limit:
                count *= 2
            return count
            """,
        "does not divide it": first(divides="True"),
        "cannot be equally large": """
            if fixed + each > limit:
                raise ValueError
            return -(-each * batch // (limit - fixed))
            """,
        "a number of micro-batches is whole": first(result="batch * each / (limit - fixed)"),
        "which are fewer": """
            if fixed + each > limit:
                raise ValueError
            return batch
            """,
        "bytes: too many": "return 2",
        "ends before batch itself": first(plus=0),
        "Say so: raise ValueError": first(end="return None"),
        "message that tells what a sample needs": first(end="return batch"),
        "`fixed` leaves nothing": """
            if limit < fixed or 0 < limit - fixed < each:
                raise ValueError
            count = -(-each * batch // (limit - fixed))
            while batch % count:
                count += 1
            return count
            """,
        ENDLESS: """
            count = 1
            while batch % count or fixed + each * (batch // count) > limit:
                count += 1
            return count
            """,
        "a number of micro-batches is whole, and": "return float('inf')",
        "without `return`": "count = 1",
    },
}  # fmt: skip


# {(number, phrase of the diagnosis): part of the symptom that is told with it}
MEASURED = {
    ("5.1", "what else does its state have"): "optimizer_state: expected 152 bytes, got 144",
    ("5.2", "there are two lists to look at"): "of which 132,096 are the graph of a forward",
    ("5.5", "GELU's input, or its output"): "for each letter 1,548 numbers, got 1,164",
    ("5.7", "does not divide it"): "expected 10, got 7",
}


@pytest.mark.parametrize(
    ("number", "phrase"), [(number, phrase) for number, table in WRONG.items() for phrase in table]
)
def test_wrong_answers_are_told_what_is_wrong(number, phrase, monkeypatch):
    monkeypatch.setattr(checking, "TIMEOUT_SECONDS", 1.5 if phrase == ENDLESS else 20.0)
    if number == "5.7" and phrase != ENDLESS:
        monkeypatch.setattr(model_states, "try_on_ranks", try_here)
    verdict = tried(number, WRONG[number][phrase])
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict
    assert MEASURED.get((number, phrase), "") in verdict.wrong.what, verdict


@pytest.mark.parametrize("number", ["5.5", "5.7"])
def test_what_is_no_number_is_shown(number):
    """Also if it cannot travel from a rank."""
    verdict = tried(number, "yield 1")
    assert verdict.passed is False
    assert "it gave" in verdict.wrong.what
    assert "<generator object" in verdict.wrong.what
    assert "not a number" in verdict.wrong.what


def test_an_error_is_shown_with_its_line():
    for number in SIGNATURES:
        verdict = tried(number, "return 1 // 0")
        assert verdict.passed is False
        assert "ZeroDivisionError" in verdict.wrong.what
        assert "return 1 // 0" in verdict.wrong.what


# ---- The check itself --------------------------------------------------------------------------


@pytest.mark.parametrize("number", SIGNATURES)
def test_a_hole_is_no_answer(number):
    verdict = tried(number, "...")
    assert verdict.passed is None
    assert "not attempted yet" in str(verdict)


@pytest.mark.parametrize("number", SIGNATURES)
def test_there_are_enough_of_all(number):
    assert len(WRONG[number]) >= 6
    assert len(RIGHT[number]) >= 3
    assert 2 <= len(EXERCISES[number].hints) <= 4


def test_bytes_of_a_known_case():
    """15 weights and 3 biases; Adam keeps two numbers for each, and two counters."""
    verdict = tried("5.1", RIGHT["5.1"]["the solution"])
    assert "Adam, after a step: 72 + 72 + 152 bytes" in verdict.lines


def test_validation_needs_not_a_byte_more_than_training():
    """Not even one that records a graph, if it is freed at once."""
    for style in "the solution", "each graph is freed at once":
        for line in tried("5.2", RIGHT["5.2"][style]).lines:
            needed, alone = line.split("up to ")[1].split(" bytes; training alone ")
            assert needed == alone


def test_misconceptions_about_a_block_can_be_told_apart():
    """In the first case each combination comes to another number, and none to the right one."""
    _, context, width, heads, _ = activations.BLOCKS[0]
    groups = [
        activations.off_by_width(width),
        activations.off_in_attention(heads, context),
        activations.OFF_IN_NORMS,
    ]
    numbers = [sum(some) for some in itertools.product(*([0, *g.values()] for g in groups))]
    assert len(set(numbers)) == len(numbers)

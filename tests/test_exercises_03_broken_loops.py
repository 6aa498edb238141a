"""Chapter 03's programs with a bug: right repairs pass, and each wrong one is told its symptom."""

import contextlib
import copy
import linecache

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset

from pedagogy_lib import check
from pedagogy_lib.basics.closeness import close, close_in_float32
from pedagogy_lib.course import checking
from pedagogy_lib.exercises.ch03 import broken_loops
from pedagogy_lib.exercises.ch03 import ex08_train_epochs as reading
from pedagogy_lib.exercises.ch03.broken_loops import shares, table_of
from pedagogy_lib.exercises.kit import one_process
from pedagogy_lib.exercises.kit.one_process import batch_of, flat, model_of

EXERCISES = {e.number: e for e in [*reading.EXERCISES, *broken_loops.EXERCISES]}
KNOWN = {  # what the chapter has imported
    "__name__": "__main__",
    "contextlib": contextlib, "copy": copy, "torch": torch, "dist": dist,
    "DistributedDataParallel": DistributedDataParallel, "DataLoader": DataLoader,
    "DistributedSampler": DistributedSampler, "Subset": Subset,
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def warm():
    broken_loops.warm_up()


@pytest.fixture(autouse=True)
def only_these(monkeypatch):
    for module in broken_loops, reading:
        monkeypatch.setattr(module, "warm_up", lambda: None)
    monkeypatch.setattr(checking, "exercises_of", lambda chapter: EXERCISES)
    monkeypatch.setattr(checking, "TIMEOUT_SECONDS", 2.0)


def programs(text) -> dict[str, str]:
    """{title: program} from parts that begin with `### title`."""
    parts = [part.partition("\n") for part in text.split("### ")[1:]]
    return {title.strip(): program for title, _, program in parts}


def define(number, program):
    """The function of a program, as a cell would define it."""
    name, file = EXERCISES[number].name, f"cell of {number}"
    space = dict(KNOWN)
    exec(compile(program, file, "exec"), space)
    linecache.cache[file] = (len(program), None, program.splitlines(keepends=True), file)
    return space[name]


def changed(program, pairs) -> str:
    """A program in which some parts are others."""
    for old, new in pairs:
        assert program.count(old) == 1, (old, program)
        program = program.replace(old, new)
    return program


# ---- What a learner gets -----------------------------------------------------------------------

BROKEN = {
    "3.8": """
def train_epochs(model, dataset, loss_fn, epochs, samples):
    dataloader = DataLoader(dataset, batch_size=samples, shuffle=True)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        for batch in dataloader:
            inputs, labels = batch, labels
            loss = loss_fn(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
""",
    "3.9": """
def train_steps(ddp, loss_fn, optimizer, batches):
    for batch in batches:
        loss = ddp(batch)
        loss.backward()
        optimizer.step()
""",
    "3.13": """
def average_in_backward(model):
    def average(parameter):
        dist.all_reduce(parameter.data)
        parameter.data /= dist.get_world_size()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(average)
""",
    "3.15": """
def accumulate_step(model, loss_fn, micro_batches, optimizer):
    parameters = list(model.parameters())
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        loss = loss_fn(model(inputs), targets) / len(micro_batches)
        gradients = torch.autograd.grad(loss, parameters)
        if number == len(micro_batches):
            for gradient in gradients:
                dist.all_reduce(gradient)
                gradient /= dist.get_world_size()
        for accumulated, gradient in zip(total, gradients):
            accumulated += gradient
    for parameter, accumulated in zip(parameters, total):
        parameter.grad = accumulated
    optimizer.step()
""",
    "3.16": """
def accumulate_ddp(ddp, loss_fn, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
        if number == len(micro_batches):
            loss.backward()
        else:
            with ddp.no_sync():
                loss.backward()
""",
}

# What it is told: the symptom, and what that says.
TOLD = {
    "3.8": ("raised UnboundLocalError", "`labels` is used before"),
    "3.9": ("must be Tensor, not tuple", "`batch` is a pair"),
    "3.13": ("the backward has changed weights by up to 0.55", "what travels is the parameter"),
    "3.15": ("ranks 0 and 1 differ by up to 0.025", "only the last micro-batch is averaged"),
    "3.16": ("bytes; one all-reduce of all gradients is 3,4", "all 4 backwards have sent theirs"),
}


@pytest.mark.parametrize("number", BROKEN)
def test_the_program_as_it_is(number):
    symptom, why = TOLD[number]
    verdict = check(number, define(number, BROKEN[number]))
    assert verdict.passed is False, verdict
    assert symptom in verdict.wrong.what, verdict
    assert why in verdict.wrong.why, verdict


# ---- Right repairs -----------------------------------------------------------------------------

SOLVED = {
    "3.8": """
def train_epochs(model, dataset, loss_fn, epochs, samples):
    sampler = DistributedSampler(dataset)
    dataloader = DataLoader(dataset, batch_size=samples, sampler=sampler)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for inputs, labels in dataloader:
            loss = loss_fn(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
""",
    "3.9": """
def train_steps(ddp, loss_fn, optimizer, batches):
    for batch in batches:
        inputs, targets = batch
        loss = loss_fn(ddp(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "3.13": """
def average_in_backward(model):
    def average(parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)
""",
    "3.15": """
def accumulate_step(model, loss_fn, micro_batches, optimizer):
    parameters = list(model.parameters())
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        loss = loss_fn(model(inputs), targets) / len(micro_batches)
        gradients = torch.autograd.grad(loss, parameters)
        for accumulated, gradient in zip(total, gradients):
            accumulated += gradient
    for accumulated in total:
        dist.all_reduce(accumulated)
        accumulated /= dist.get_world_size()
    for parameter, accumulated in zip(parameters, total):
        parameter.grad = accumulated
    optimizer.step()
""",
    "3.16": """
def accumulate_ddp(ddp, loss_fn, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        is_last = number == len(micro_batches)
        with contextlib.nullcontext() if is_last else ddp.no_sync():
            loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
            loss.backward()
""",
}

RIGHT = {
    "3.8": """### the last samples are left out, and a seed of its own
def train_epochs(model, dataset, loss_fn, epochs, samples):
    sampler = DistributedSampler(dataset, seed=7, drop_last=True)
    dataloader = DataLoader(dataset, samples, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ddp = DistributedDataParallel(model)
    for epoch in range(1, epochs + 1):
        sampler.set_epoch(epoch)
        for batch in dataloader:
            optimizer.zero_grad(set_to_none=False)
            loss_fn(ddp(batch[0]), batch[1]).backward()
            optimizer.step()
### a new sampler for each epoch
def train_epochs(model, dataset, loss_fn, epochs, samples):
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        sampler = DistributedSampler(dataset, seed=epoch)
        for inputs, labels in DataLoader(dataset, samples, sampler=sampler):
            loss = loss_fn(model(inputs), labels)
            model.zero_grad()
            loss.backward()
            optimizer.step()
### every n-th of a common order, without a sampler
def train_epochs(model, dataset, loss_fn, epochs, samples):
    rank, n = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(epoch))
        mine = order[rank : len(order) // n * n : n].tolist()
        for inputs, labels in DataLoader(Subset(dataset, mine), batch_size=samples):
            loss_fn(model(inputs), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
### each rank shuffles a part that stays its own, and gradients are averaged by hand
def train_epochs(model, dataset, loss_fn, epochs, samples):
    rank, n = dist.get_rank(), dist.get_world_size()
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    mine = Subset(dataset, [(rank + i) % len(dataset) for i in range(0, len(dataset), n)])
    for epoch in range(epochs):
        for inputs, labels in DataLoader(mine, batch_size=samples, shuffle=True):
            optimizer.zero_grad()
            loss_fn(model(inputs), labels).backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= n
            optimizer.step()
""",
    "3.9": """### cleared after the step, to zeros
def train_steps(ddp, loss_fn, optimizer, batches):
    for inputs, targets in batches:
        loss_fn(ddp(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
### cleared through the model, before the forward
def train_steps(ddp, loss_fn, optimizer, batches):
    for inputs, targets in batches:
        ddp.zero_grad()
        outputs = ddp(inputs)
        loss = loss_fn(outputs, targets)
        loss.backward()
        optimizer.step()
### cleared by hand
def train_steps(ddp, loss_fn, optimizer, batches):
    for inputs, targets in batches:
        for parameter in ddp.parameters():
            parameter.grad = None
        loss_fn(ddp.forward(inputs), targets).backward()
        optimizer.step()
### averaged by hand, without the wrapper
def train_steps(ddp, loss_fn, optimizer, batches):
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_fn(ddp.module(inputs), targets).backward()
        for parameter in ddp.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
        optimizer.step()
""",
    "3.13": """### a hook that returns the mean
def average_in_backward(model):
    def average(gradient):
        summed = gradient.clone()
        dist.all_reduce(summed)
        return summed / dist.get_world_size()

    for parameter in filter(lambda p: p.requires_grad, model.parameters()):
        parameter.register_hook(average)
### divided before, begun and waited for
def average_in_backward(model):
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue

        def average(_, parameter=parameter):
            parameter.grad.div_(dist.get_world_size())
            dist.all_reduce(parameter.grad, async_op=True).wait()

        parameter.register_post_accumulate_grad_hook(average)
### waited for at the end of the backward
def average_in_backward(model):
    n = dist.get_world_size()

    def average(parameter):
        request = dist.all_reduce(parameter.grad, async_op=True)

        def finish():
            request.wait()
            parameter.grad /= n

        torch.autograd.Variable._execution_engine.queue_callback(finish)

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)
### a new tensor as .grad
def average_in_backward(model):
    def average(parameter):
        summed = parameter.grad.detach().clone()
        dist.all_reduce(summed, op=dist.ReduceOp.SUM)
        parameter.grad = summed / dist.get_world_size()

    [p.register_post_accumulate_grad_hook(average) for p in model.parameters() if p.requires_grad]
""",
    "3.15": """### backward() accumulates
def accumulate_step(model, loss_fn, micro_batches, optimizer):
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        (loss_fn(model(inputs), targets) / len(micro_batches)).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
### one flat tensor, divided once
def accumulate_step(model, loss_fn, micro_batches, optimizer):
    parameters, k = list(model.parameters()), len(micro_batches)
    total = sum(
        torch.cat([g.flatten() for g in
                   torch.autograd.grad(loss_fn(model(inputs), targets), parameters)])
        for inputs, targets in micro_batches
    )
    dist.all_reduce(total)
    total /= k * dist.get_world_size()
    for p, part in zip(parameters, total.split([p.numel() for p in parameters])):
        p.grad = part.view_as(p)
    optimizer.step()
### the earlier ones travel together with the last one
def accumulate_step(model, loss_fn, micro_batches, optimizer):
    optimizer.zero_grad(set_to_none=False)
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        loss_fn(model(inputs), targets).backward()
        if number == len(micro_batches):
            for parameter in model.parameters():
                parameter.grad /= number * dist.get_world_size()
                dist.all_reduce(parameter.grad)
    optimizer.step()
""",
    "3.16": """### the first ones, then the last
def accumulate_ddp(ddp, loss_fn, micro_batches):
    *first, (inputs, targets) = micro_batches
    with ddp.no_sync():
        for pair in first:
            (loss_fn(ddp(pair[0]), pair[1]) / len(micro_batches)).backward()
    (loss_fn(ddp(inputs), targets) / len(micro_batches)).backward()
### the attribute that no_sync sets
def accumulate_ddp(ddp, loss_fn, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        ddp.require_backward_grad_sync = number == len(micro_batches)
        loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
        loss.backward()
### two ways, written out
def accumulate_ddp(ddp, loss_fn, micro_batches):
    k = len(micro_batches)
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        if number < k:
            with ddp.no_sync():
                loss = loss_fn(ddp(inputs), targets)
                loss.div(k).backward()
        else:
            loss_fn(ddp(inputs), targets).div(k).backward()
### the forward decides
def accumulate_ddp(ddp, loss_fn, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        with ddp.no_sync() if number < len(micro_batches) else contextlib.nullcontext():
            outputs = ddp(inputs)
        (loss_fn(outputs, targets) / len(micro_batches)).backward()
### the first ones past the wrapper
def accumulate_ddp(ddp, loss_fn, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        model = ddp if number == len(micro_batches) else ddp.module
        (loss_fn(model(inputs), targets) / len(micro_batches)).backward()
""",
}


@pytest.mark.parametrize("number", SOLVED)
def test_the_solution(number):
    verdict = check(number, define(number, SOLVED[number]))
    assert verdict.passed, verdict


@pytest.mark.parametrize(
    ("number", "program"),
    [
        pytest.param(number, program, id=f"{number} {style}")
        for number, text in RIGHT.items()
        for style, program in programs(text).items()
    ],
)
def test_right_repairs_of_another_style(number, program):
    verdict = check(number, define(number, program))
    assert verdict.passed, verdict


# ---- Wrong repairs -----------------------------------------------------------------------------

SAMPLER = "    sampler = DistributedSampler(dataset)\n"
SAMPLED = "batch_size=samples, sampler=sampler"
SET_EPOCH = "        sampler.set_epoch(epoch)\n"
CLEAR = "        optimizer.zero_grad()\n"
BACKWARD = "        loss.backward()\n"
STEP = "        optimizer.step()\n"
HOOK = """        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
"""
REGISTER = "            parameter.register_post_accumulate_grad_hook(average)"
IF_TRAINED = "        if parameter.requires_grad:\n"
REDUCE = """    for accumulated in total:
        dist.all_reduce(accumulated)
        accumulated /= dist.get_world_size()
"""
ADD = """        for accumulated, gradient in zip(total, gradients):
            accumulated += gradient
"""
AVERAGE = """            dist.all_reduce(gradient)
            gradient /= dist.get_world_size()
"""
AVERAGE_EACH = f"        for gradient in gradients:\n{AVERAGE}{ADD}"
SHARE = "loss_fn(model(inputs), targets) / len(micro_batches)"
DDP_SHARE = SHARE.replace("model", "ddp")
UNDER = "contextlib.nullcontext() if is_last else ddp.no_sync()"
UNDER_BACKWARD = "            loss.backward()\n"
RANKS_SHARE = "Subset(dataset, range(dist.get_rank(), len(dataset), dist.get_world_size()))"

# {phrase of the diagnosis: what is changed in the solution}
WRONG = {
    "3.8": {
        "a model takes the inputs": [
            ("for inputs, labels in dataloader", "for inputs in dataloader"),
            ("(model(inputs), labels)", "(model(inputs), inputs)"),
        ],
        "every rank goes through the whole dataset": [
            (SAMPLER, ""), (SAMPLED, "batch_size=samples, shuffle=True"), (SET_EPOCH, ""),
        ],
        "all ranks compute one gradient": [
            (SAMPLER, ""), (SAMPLED, "batch_size=samples"), (SET_EPOCH, ""),
        ],
        "who shuffles?": [(SAMPLED, SAMPLED + ", shuffle=True")],
        "the same in each epoch": [(SET_EPOCH, "")],
        "epoch 1 repeats epoch 0": [
            (SET_EPOCH, ""), (CLEAR, CLEAR + SET_EPOCH),
        ],
        "nothing shuffles": [("Sampler(dataset)", "Sampler(dataset, shuffle=False)")],
        "that is the sampler, not the one": [("sampler.set_epoch", "dataloader.set_epoch")],
        "which part it is has to depend on the rank": [
            ("Sampler(dataset)", "Sampler(dataset, num_replicas=dist.get_world_size(), rank=0)"),
        ],
        "the ranks do not agree on the order": [
            ("Sampler(dataset)", "Sampler(dataset, seed=dist.get_rank())"),
        ],
        "is what each rank takes in a step": [
            ("batch_size=samples", "batch_size=max(1, samples // dist.get_world_size())"),
        ],
        "it belongs to the epoch": [(SAMPLED, SAMPLED + ", drop_last=True")],
        "some ranks have a batch more": [
            (SAMPLER, ""),
            (f"dataset, {SAMPLED}", f"{RANKS_SHARE}, batch_size=samples, shuffle=True"),
            (SET_EPOCH, ""),
        ],
        "each rank has trained on its own": [("DistributedDataParallel(model)", "model")],
        "nothing sets the gradients back": [(CLEAR, "")],
        "train it, and no copy": [("Parallel(model)", "Parallel(copy.deepcopy(model))")],
        "run in each epoch, from its beginning": [
            ("    for epoch", "    dataloader = iter(dataloader)\n    for epoch"),
        ],
        "is there a loop?": [("range(epochs)", "range(0)")],
        "reads the others' samples, too": [
            (SAMPLER, ""),
            (SAMPLED, "batch_size=samples * dist.get_world_size(), "
                      "shuffle=True, generator=torch.Generator().manual_seed(0)"),
            (SET_EPOCH, ""),
            ("in dataloader:\n", "in dataloader:\n"
             "            r, n = dist.get_rank(), dist.get_world_size()\n"
             "            inputs, labels = inputs[r::n], labels[r::n]\n"),
        ],
    },
    "3.9": {
        "What is to become smaller is one number": [
            ("loss_fn(ddp(inputs), targets)", "ddp(inputs)"),
        ],
        "the model takes the inputs alone": [("ddp(inputs)", "ddp(inputs, targets)")],
        "nothing sets the gradients back": [(CLEAR, "")],
        "it is cleared after backward() has put it there": [
            (CLEAR, ""), (BACKWARD, BACKWARD + CLEAR),
        ],
        "both belong into the loop": [(STEP, "    optimizer.step()\n")],
        "is divided by the number of ranks once more": [
            ("targets)\n", "targets) / dist.get_world_size()\n"),
        ],
        "times too large": [("targets)\n", "targets) * dist.get_world_size()\n")],
        "only for a forward through the wrapped model": [("ddp(inputs)", "ddp.module(inputs)")],
        "before the backward of its batch": [
            (CLEAR, ""), (STEP, ""), ("        inputs", STEP + CLEAR + "        inputs"),
        ],
        "between the forward and the backward": [
            (CLEAR, ""), (STEP, ""), (BACKWARD, STEP + CLEAR + BACKWARD),
        ],
        "the loss has no graph": [("loss_fn(ddp(inputs), targets)", "loss_fn(inputs, targets)")],
        "of the outputs, their sum": [("loss_fn(ddp(inputs), targets)", "ddp(inputs).sum()")],
        "of the outputs, their mean": [("loss_fn(ddp(inputs), targets)", "ddp(inputs).mean()")],
    },
    "3.13": {
        "takes no hook": [(IF_TRAINED + REGISTER, REGISTER[4:])],
        "this is the sum over the ranks": [
            ("        parameter.grad /= dist.get_world_size()\n", ""),
        ],
        "only the last parameter is averaged": [
            ("def average(parameter)", "def average(_)"),
            (HOOK, HOOK.replace("parameter.", "last().")),
            ("    for parameter", "    last = lambda: parameter\n    for parameter"),
        ],
        "one of register_hook runs before": [
            ("def average(parameter)", "def average(parameter, gradient)"),
            (REGISTER, "            parameter.register_hook(lambda g, p=parameter: average(p, g))"),
        ],
        "change no argument of register_hook() in place": [
            ("        parameter.grad /= dist", "        return parameter / dist"),
            ("(parameter.grad)", "(parameter)"),
            (REGISTER, "            parameter.register_hook(average)"),
        ],
        "backward() has returned before the exchange was over": [
            ("(parameter.grad)", "(parameter.grad, async_op=True)"),
        ],
        "divided by the number of ranks once more": [
            (HOOK, "        parameter.grad /= dist.get_world_size()\n" + HOOK),
        ],
        "does not reach `.grad`": [
            (HOOK, "        gradient = parameter.grad / dist.get_world_size()\n"
                   "        dist.all_reduce(gradient)\n"),
        ],
        "nothing has been added to it": [("        dist.all_reduce(parameter.grad)\n", "")],
        "the weights are not to be averaged": [
            (HOOK, HOOK + HOOK.replace("grad", "data")),
        ],
        "and has one gradient to average": [
            (HOOK, "        for parameter in model.parameters():\n"
                   "            if parameter.grad is not None:\n"
                   "                dist.all_reduce(parameter.grad)\n"
                   "                parameter.grad /= dist.get_world_size()\n"),
        ],
        "has to make the same calls": [
            (IF_TRAINED, "        if parameter.requires_grad and dist.get_rank() == 0:\n"),
        ],
    },
    "3.15": {
        "only the first micro-batch is averaged": [
            (REDUCE, ""),
            (ADD, "        for gradient in gradients if number == 1 else ():\n" + AVERAGE + ADD),
        ],
        "nothing is averaged over the ranks: each has": [(REDUCE, "")],
        "and nothing divided by the number of micro-batches": [
            (REDUCE, ""), (SHARE, "loss_fn(model(inputs), targets)"),
        ],
        "the gradients are sent 4 times": [(REDUCE, ""), (ADD, AVERAGE_EACH)],
        "times the bytes of one all-reduce": [
            (REDUCE, REDUCE + REDUCE.replace("accumulated in", "accumulated in 2 *")),
        ],
        "this is the sum over the ranks": [("        accumulated /= dist.get_world_size()\n", "")],
        "this is the sum over the micro-batches": [(SHARE, "loss_fn(model(inputs), targets)")],
        "asked is the mean": [
            ("        accumulated /= dist.get_world_size()\n", ""),
            (SHARE, "loss_fn(model(inputs), targets)"),
        ],
        "by the number of micro-batches twice": [
            ("parameter.grad = accumulated", "parameter.grad = accumulated / len(micro_batches)"),
        ],
        "by the number of ranks twice": [(SHARE, SHARE + " / dist.get_world_size()")],
        "only the last micro-batch counts: ": [(ADD, "        total = gradients\n")],
        "only the last micro-batch counts, as if": [
            (ADD, "        total = gradients\n"), (SHARE, "loss_fn(model(inputs), targets)"),
        ],
        "is summed again in each round: ": [
            (REDUCE, ""),
            (ADD, ADD + "        for accumulated in total:\n"
                        "            dist.all_reduce(accumulated)\n"),
        ],
        "summed again in each round, and divided once": [
            (REDUCE, "    for accumulated in total:\n"
                     "        accumulated /= dist.get_world_size()\n"),
            (ADD, ADD + "        for accumulated in total:\n"
                        "            dist.all_reduce(accumulated)\n"),
        ],
        "of the step before are still in it": [
            ("    parameters =", "    old = [0 if p.grad is None else p.grad.clone() for p in\n"
                                 "           model.parameters()]\n    parameters ="),
            ("in zip(parameters, total):\n", "in zip(parameters, map(sum, zip(total, old))):\n"),
        ],
        "the weights are averaged instead": [
            (REDUCE, ""),
            ("    optimizer.step()\n", "    optimizer.step()\n" + REDUCE.replace(
                "accumulated in total", "p in parameters").replace("accumulated", "p.data")),
        ],
        "all ranks follow rank 0's gradient": [
            (REDUCE, "    for accumulated in total:\n        dist.broadcast(accumulated, 0)\n"),
        ],
        "a call is one step": [("    optimizer.step()\n", ""), (ADD, ADD + STEP)],
        "something else changes the weights": [
            ("    optimizer.step()\n", "    optimizer.step()\n    parameters[0].data *= 0.99\n"),
        ],
    },
    "3.16": {
        "nothing is averaged over the ranks: each has": [(UNDER, "ddp.no_sync()")],
        "only the first micro-batch is averaged": [
            ("number == len(micro_batches)", "number == 1"),
        ],
        "times the bytes of one all-reduce": [
            ("number == len(micro_batches)", "number >= max(len(micro_batches) - 1, 1)"),
        ],
        "this is the sum over the micro-batches": [(DDP_SHARE, "loss_fn(ddp(inputs), targets)")],
        "by the number of ranks twice": [(DDP_SHARE, DDP_SHARE + " / dist.get_world_size()")],
        "by the number of micro-batches twice": [
            (DDP_SHARE, DDP_SHARE + " / len(micro_batches)"),
        ],
        "this is the sum over the ranks": [(DDP_SHARE, DDP_SHARE + " * dist.get_world_size()")],
        "only the last micro-batch counts: ": [
            ("        is_last", "        ddp.zero_grad()\n        is_last"),
        ],
        "only the last micro-batch counts, as if": [
            ("        is_last", "        ddp.zero_grad()\n        is_last"),
            (DDP_SHARE, "loss_fn(ddp(inputs), targets)"),
        ],
        "all 4 backwards have sent theirs": [
            (f"        with {UNDER}:\n            loss =", "        loss ="),
            (UNDER_BACKWARD, f"        with {UNDER}:\n" + UNDER_BACKWARD),
        ],
    },
}  # fmt: skip

# {(number, phrase of the diagnosis): part of the symptom that is told with it}
MEASURED = {
    ("3.8", "every rank goes through the whole dataset"): "24 are taken by 2 ranks",
    ("3.8", "which part it is has to depend on the rank"): "12 are taken by nobody",
    ("3.8", "the same in each epoch"): "epoch 1 has the order of epoch 0",
    ("3.8", "is what each rank takes in a step"): "takes [2, 2, 2, 2, 2, 2] samples",
    ("3.8", "reads the others' samples, too"): "rank 0 reads 72 samples, and trains on 36",
    ("3.9", "nothing sets the gradients back"): "norms 8.97, 15.69, 21.81, 28.72, 35.24; in one",
    ("3.9", "both belong into the loop"): "expected 5 optimizer steps, got 1",
    ("3.15", "the gradients are sent 4 times"): "one all-reduce of all gradients is 3,4",
}


@pytest.mark.parametrize(
    ("number", "phrase"), [(number, phrase) for number, table in WRONG.items() for phrase in table]
)
def test_wrong_repairs_are_told_what_is_wrong(number, phrase):
    verdict = check(number, define(number, changed(SOLVED[number], WRONG[number][phrase])))
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict
    assert MEASURED.get((number, phrase), "") in verdict.wrong.what, verdict


def test_every_forward_under_no_sync_sends_nothing():
    """The backward outside of it, and one for all."""
    verdict = check("3.16", define("3.16", """
def accumulate_ddp(ddp, loss_fn, micro_batches):
    with ddp.no_sync():
        losses = [loss_fn(ddp(inputs), targets) for inputs, targets in micro_batches]
    (sum(losses) / len(losses)).backward()
"""))  # fmt: skip
    assert "nothing is averaged over the ranks: each has" in verdict.wrong.why, verdict


# ---- The check itself --------------------------------------------------------------------------


@pytest.mark.parametrize("number", BROKEN)
def test_there_are_enough_of_all(number):
    assert len(WRONG[number]) >= 6
    assert len(programs(RIGHT[number])) >= 3
    assert 2 <= len(EXERCISES[number].hints) <= 4
    assert len(set(WRONG[number])) == len(WRONG[number])
    program = BROKEN[number].strip().splitlines()
    assert len(program) <= 18


@pytest.mark.parametrize(("n", "pieces"), [(2, 4), (3, 2), (3, 4)])
def test_misconceptions_about_shares_can_be_told_apart(n, pieces):
    """Each gives another gradient, and none the right one."""
    table = table_of(
        model_of(), [[batch_of(rank, 0, k) for k in range(pieces)] for rank in range(n)]
    )
    gradients = [torch.einsum("rm,rmp->p", share, table) for share in shares(n, pieces).values()]
    gradients.append(table.mean((0, 1)))
    for place, one in enumerate(gradients):
        assert not any(close_in_float32(one, other) for other in gradients[:place])


def test_the_truth_is_a_plain_loop():
    """What one process gets, written out without the check's own functions."""
    batches = [batch_of(0, step) for step in range(3)]
    weights, found = one_process.train_alone(batches)
    model = model_of()
    for step, (inputs, targets) in enumerate(batches):
        gradients = torch.autograd.grad(
            (model(inputs) - targets).square().mean(), [*model.parameters()]
        )
        assert close(flat(gradients), found[step])
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients):
                parameter -= one_process.RATE * gradient
        assert close(flat(model.parameters()), weights[step])

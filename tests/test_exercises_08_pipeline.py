"""Chapter 08, the pipeline: right answers of any style pass, wrong ones are told what is wrong."""

import linecache

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from helpers import ROOT, put_lab

from pedagogy_lib import check
from pedagogy_lib.course import checking
from pedagogy_lib.exercises import (
    balancing,
    exchanges,
    later_weights,
    losses_of_parts,
    pipelines,
    stage_of_pipeline,
)
from pedagogy_lib.schedules.rules import check_schedule

MODULES = (
    stage_of_pipeline, pipelines, losses_of_parts, exchanges, later_weights, balancing,
)  # fmt: skip
EXERCISES = {e.number: e for module in MODULES for e in module.EXERCISES}
LAB = (ROOT / "solutions" / "labs" / "pipeline_parallel.py").read_text()
# Without what only programs need: every rank of every check reads the labs.
LAB = LAB.partition("# ---- Weights that two stages have")[0]
OTHERS = {
    "language_model": "Transformer = draw_batch = mean_loss = standard_library = None\n",
    "schedules": "one_f_one_b = None\n",
    "simple_ddp": "now = None\n",
}
CELLS = {
    "8.8": """
def part_of_loss(scores, targets, batch_samples):
    return mean_loss(scores, targets) * len(targets) / batch_samples
""",
    "8.9": """
def exchange(outgoing, incoming, rank, peer):
    messages = [dist.P2POp(dist.isend, outgoing, peer), dist.P2POp(dist.irecv, incoming, peer)]
    for request in dist.batch_isend_irecv(messages):
        request.wait()
    return incoming
""",
}
BROKEN = {
    "8.8": """
def part_of_loss(scores, targets, batch_samples):
    return mean_loss(scores, targets)
""",
    "8.9": """
def exchange(outgoing, incoming, rank, peer):
    dist.send(outgoing, peer)
    dist.recv(incoming, peer)
    return incoming
""",
}
LABS = [number for number in EXERCISES if number not in CELLS]


@pytest.fixture(autouse=True)
def only_these(monkeypatch):
    monkeypatch.setattr(checking, "exercises_of", lambda chapter: EXERCISES)


@pytest.fixture
def quick_hangs(monkeypatch):
    for module in checking, exchanges:
        monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.6)


@pytest.fixture
def check_answer(tmp_path, monkeypatch):
    """Check a solution in which some parts are others.

    changes  [(old, new), …], or for a cell a program of its own
    """

    def check_one(number, changes=(), learners=None):
        learners = learners or (LAB if number in CELLS else changed(LAB, changes))
        for name, text in {**OTHERS, "pipeline_parallel": learners}.items():
            solution = LAB if name == "pipeline_parallel" and learners != LAB else None
            put_lab(tmp_path, monkeypatch, name, text, solution)
        if number not in CELLS:
            return check(number)
        program = changes if isinstance(changes, str) else changed(CELLS[number], changes)
        return check(number, define(number, program.lstrip()))

    return check_one


def changed(text, changes) -> str:
    for old, new in changes:
        assert text.count(old) == 1, (old, text.count(old))
        text = text.replace(old, new)
    return text


def mean_loss(scores, targets):
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def define(number, program):
    """The function of a program, as a cell would define it."""
    name, file = EXERCISES[number].name, f"cell of {number}"
    space = {"__name__": "__main__", "torch": torch, "dist": dist, "F": F}
    space["mean_loss"] = mean_loss
    exec(compile(program, file, "exec"), space)
    linecache.cache[file] = (len(program), None, program.splitlines(keepends=True), file)
    return space[name]


# ---- The solutions -----------------------------------------------------------------------------

TOLD = {  # part of what is told of a right answer
    "8.6": "F7 F2 F4 B2 B7 F5 B4 B5: outputs and gradients are right, kept at most 3",
    "8.7": "groups of ranks [0] and [1, 2], 1F1B: 8 messages, 768 bytes",
    "8.8": "a pipeline of 2 ranks, micro-batches of 4 3 1 samples: the gradients and the loss",
    "8.9": "ranks 0 and 2 of 3: 1 number and 1 MB each way, 2 times",
    "8.12": "the same weight three times: x's gradient at once, weight and bias later",
    "8.13": "60 layers on 10 stages: the slowest takes 345, 1.070 of the mean",
}


@pytest.mark.parametrize("number", EXERCISES)
def test_the_solution(number, check_answer):
    verdict = check_answer(number)
    assert verdict.passed, verdict
    assert TOLD[number] in repr(verdict)


@pytest.mark.parametrize("number", EXERCISES)
def test_a_hole_is_refused_politely(number, check_answer):
    name = EXERCISES[number].name
    if number in CELLS:
        verdict = check_answer(number, f"def {name}(*arguments):\n    ...\n")
    else:
        verdict = check_answer(number, learners=with_holes(name))
    assert verdict.passed is None
    assert name in repr(verdict)


def with_holes(name) -> str:
    """The lab with three dots in place of the solutions of a class or function."""
    before, begin, rest = LAB.partition(f"\nclass {name}" if name[0].isupper() else f"\ndef {name}")
    body, end, after = rest.partition("\n\n\n")
    lines, inside = [], False
    for line in body.splitlines():
        if "### BEGIN" in line:
            lines.append(line.replace("### BEGIN SOLUTION", "..."))
        inside = "### BEGIN" in line or (inside and "### END" not in line)
        lines += [line] * (not inside and "###" not in line)
    return before + begin + "\n".join(lines) + end + after


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("case", pipelines.CASES, ids=str)
def test_the_schedules_that_a_pipeline_is_tried_with_can_run(case, ranks):
    check_schedule([case.actions(place, ranks) for place in range(ranks)])


# ---- Right answers of another style ------------------------------------------------------------

FORWARD = """        x = self.inputs[i] if self.is_first(chunk) else self.receive(action)
        if self.is_last(chunk):
            with self.around(action):
                self.losses.append(self.stages[chunk].forward(i, x, partial(self.part_of_loss, i)))
        else:
            with self.around(action):
                y = self.stages[chunk].forward(i, x)
            self.send(y, action)
"""
RECEIVE = """\
        x = torch.empty(*self.inputs[action.microbatch].shape, self.width, dtype=self.dtype)
        peer = (self.rank + (-1 if action.kind == "F" else 1)) % self.ranks
        if peer == self.rank:
            return self.own.pop(tag_of(action))
        dist.recv(x, group=self.line(action), group_src=peer, tag=tag_of(action))
        return x
"""
STAGE_FORWARD = """        x = x.detach().requires_grad_(x.is_floating_point())
        y = then(self.piece(x))
        self.keep(i, x, y)
        return y.detach()
"""
STAGE_BACKWARD = """        x, y = self.kept.pop(i)
        y.backward(gradient)
        return x.grad
"""
LATER = """        (x,) = ctx.saved_tensors
        ctx.later.append(partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias))
        return gradient @ ctx.weight, None, None, None
"""
BALANCE = LAB[
    LAB.index("    if len(seconds) < stages:") : LAB.index("    ### END", LAB.index("@cache"))
]
RIGHT = {
    "8.6": [
        [(STAGE_FORWARD, """        x = x.detach().clone()
        if x.dtype.is_floating_point:
            x.requires_grad = True
        y = then(self.piece(x))
        self.keep(i, x, y)
        return y.data
"""), (STAGE_BACKWARD, """        x, y = self.kept[i]
        del self.kept[i]
        torch.autograd.backward([y], [gradient])
        return x.grad if x.requires_grad else None
""")],
        [(STAGE_BACKWARD, """        x, y = self.kept.pop(i)
        (y if gradient is None else (y * gradient).sum()).backward()
        return x.grad
""")],
    ],
    "8.7": [
        [(FORWARD, """        if not self.is_first(chunk):
            x = self.receive(action)
        else:
            x = self.inputs[i]
        then = [lambda scores: self.part_of_loss(i, scores)] if self.is_last(chunk) else []
        with self.around(action):
            y = self.stages[chunk].forward(i, x, *then)
        (self.losses.append if then else partial(self.send, action=action))(y)
"""), (RECEIVE, """        step = -1 if action.kind == "F" else 1
        if self.ranks == 1:
            return self.own.pop(tag_of(action))
        peer = dist.get_global_rank(self.group or dist.group.WORLD, (self.rank + step) % self.ranks)
        x = torch.zeros((*self.inputs[action.microbatch].shape, self.width), dtype=self.dtype)
        dist.irecv(x, peer, self.group, tag_of(action)).wait()
        return x
""")],
    ],
    "8.8": [
        [("mean_loss(scores, targets) * len(targets) / batch_samples",
          "F.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction='sum') / (\n"
          "        batch_samples * targets.shape[1])")],
        [("mean_loss(scores, targets) *", "F.cross_entropy(scores.movedim(-1, 1), targets) *")],
    ],
    "8.9": [
        """
def exchange(outgoing, incoming, rank, peer):
    if rank < peer:
        dist.send(outgoing, peer)
        dist.recv(incoming, peer)
    else:
        dist.recv(incoming, peer)
        dist.send(outgoing, peer)
    return incoming
""",
        """
def exchange(outgoing, incoming, rank, peer):
    request = dist.isend(outgoing, peer)
    dist.recv(incoming, peer)
    request.wait()
    return incoming
""",
    ],
    "8.12": [
        [("        ctx.save_for_backward(x)\n", "        ctx.save_for_backward(x, weight)\n"),
         (LATER, """        (x, saved), weight, bias = ctx.saved_tensors, ctx.weight, ctx.bias

        @torch.no_grad()
        def add():
            for parameter, inputs in (weight, x), (bias, None):
                if parameter is None or not parameter.requires_grad:
                    continue
                g = gradient.reshape(-1, gradient.shape[-1])
                more = g.sum(0) if inputs is None else g.T @ x.reshape(-1, x.shape[-1])
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                parameter.grad += more

        ctx.later.append(add)
        return gradient.matmul(saved), None, None, None
""")],
        [("ctx.save_for_backward(x)", "ctx.x = x.detach()"),
         (LATER, """        if ctx.weight.requires_grad:
            ctx.later.append(partial(
                add_gradient, ctx.weight, torch.einsum("...o,...i->oi", gradient, ctx.x)))
        if ctx.bias is not None:
            ctx.later.append(partial(add_gradient, ctx.bias, gradient.flatten(0, -2).sum(0)))
        return gradient @ ctx.weight, None, None, None
""")],
    ],
    "8.13": [
        [(BALANCE, """    layers = len(seconds)
    if stages > layers:
        raise ValueError("too few layers")
    ends = [0]
    for second in seconds:
        ends.append(ends[-1] + second)
    table = {(0, 0): (0, ())}
    for stage in range(1, stages + 1):
        for end in range(stage, layers - (stages - stage) + 1):
            table[end, stage] = min(
                (max(table[begin, stage - 1][0], ends[end] - ends[begin]),
                 (*table[begin, stage - 1][1], end - begin))
                for begin in range(end) if (begin, stage - 1) in table
            )
    return table[layers, stages][1]
""")],
        [(BALANCE, """    if stages > len(seconds):
        raise ValueError(f"{stages} stages of {len(seconds)} layers")
    sums = sorted({sum(seconds[a:b]) for b in range(len(seconds) + 1) for a in range(b)})

    def fill(limit):
        sizes, total = [0], 0
        for second in seconds:
            if total + second > limit and sizes[-1]:
                sizes.append(0)
                total = 0
            sizes[-1], total = sizes[-1] + 1, total + second
        return sizes

    for limit in sums:
        sizes = fill(limit)
        if len(sizes) <= stages and limit >= max(seconds):
            while len(sizes) < stages:
                place = max(range(len(sizes)), key=sizes.__getitem__)
                sizes[place : place + 1] = [1, sizes[place] - 1]
            return torch.tensor(sizes)
""")],
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("number", "which"), [(number, k) for number in RIGHT for k in range(len(RIGHT[number]))]
)
def test_other_right_answers_pass(number, which, check_answer):
    verdict = check_answer(number, RIGHT[number][which])
    assert verdict.passed, verdict


# ---- Wrong answers -----------------------------------------------------------------------------

WRONG = {  # {phrase of the diagnosis: what is changed in the solution}
    "8.6": {
        "x.requires_grad_() changes it": [
            (STAGE_FORWARD, STAGE_FORWARD.replace("x.detach().requires", "x.requires")),
        ],
        "that requires it, and that is a leaf": [
            (STAGE_FORWARD, STAGE_FORWARD.replace(".requires_grad_(x.is_floating_point())", "")),
        ],
        "where no graph can follow": [
            (STAGE_FORWARD, STAGE_FORWARD.replace("return y.detach()", "return y")),
        ],
        "What is kept is y itself": [
            (STAGE_FORWARD, STAGE_FORWARD.replace("piece(x))\n", "piece(x)).detach()\n")),
        ],
        "what is kept is the output before `then`": [
            (STAGE_FORWARD, STAGE_FORWARD.replace("then(self.piece(x))", "self.piece(x)").replace(
                "y.detach()", "then(y).detach()")),
        ],
        "on the last stage the loss follows": [
            (STAGE_FORWARD, STAGE_FORWARD.replace("then(self.piece(x))", "self.piece(x)")),
        ],
        "this is x; asked is its gradient": [
            (STAGE_BACKWARD, STAGE_BACKWARD.replace("return x.grad", "return x.detach()")),
        ],
        "as in y.sum().backward()": [
            (STAGE_BACKWARD, STAGE_BACKWARD.replace("y.backward(gradient)", "y.sum().backward()")),
        ],
        "memory grows with every micro-batch": [
            (STAGE_BACKWARD, STAGE_BACKWARD.replace("self.kept.pop(i)", "self.kept[i]")),
        ],
        "backward() adds, and nothing is to be cleared": [
            (STAGE_BACKWARD, "        self.piece.zero_grad()\n" + STAGE_BACKWARD),
        ],
        "into operations of somebody else": [
            (STAGE_FORWARD, """        x = x.clone()
        if x.is_floating_point():
            x.requires_grad_().retain_grad()
        y = then(self.piece(x))
        self.keep(i, x, y)
        return y.detach()
"""),
        ],
    },
    "8.7": {
        "only \"F\" asks for inputs": [
            ('peer = (self.rank + (-1 if action.kind == "F" else 1)) % self.ranks',
             "peer = (self.rank - 1) % self.ranks"),
        ],
        "in a group of some ranks it is not": [
            (RECEIVE, RECEIVE.replace("group=self.line(action), group_src", "src")),
        ],
        "`src` is a rank of the whole world": [(RECEIVE, RECEIVE.replace("group_src", "src"))],
        "nobody sends them": [
            ("self.inputs[i] if self.is_first(chunk) else self.receive(action)",
             "self.receive(action)"),
        ],
        "this is the size of another micro-batch": [
            ("self.inputs[action.microbatch].shape", "self.inputs[0].shape"),
        ],
        "Without a dtype it takes the default one": [(", dtype=self.dtype)\n        peer",
                                                      ")\n        peer")],
        "recv gets the message of its own tag": [(", tag=tag_of(action))\n        return x",
                                                  ")\n        return x")],
        "tell, not the rank alone": [
            (FORWARD, FORWARD.replace("self.is_last(chunk)", "self.rank == self.ranks - 1")),
        ],
        "is outside of it": [
            (FORWARD, """        with self.around(action):
            x = self.inputs[i] if self.is_first(chunk) else self.receive(action)
            then = [partial(self.part_of_loss, i)] if self.is_last(chunk) else []
            y = self.stages[chunk].forward(i, x, *then)
        if self.is_last(chunk):
            self.losses.append(y)
        else:
            self.send(y, action)
"""),
        ],
        "behind the model's last stage there is nobody": [
            (FORWARD, FORWARD.replace("            self.send(", "        self.send(").replace(
                "self.losses.append(", "self.losses.append(y := ")),
        ],
        "the micro-batch's own mean": [
            ("partial(self.part_of_loss, i)",
             "lambda scores: self.loss_of(scores, self.targets[i])"),
        ],
        "the next stage is on the same rank": [
            (RECEIVE, RECEIVE.replace("if peer == self.rank:", "if peer is None:")),
        ],
    },
    "8.8": {
        "every micro-batch has the same share": [("* len(targets) / batch_samples", "/ 4")],
        "this divides by the number of micro-batches": [
            ("* len(targets) / batch_samples", "/ (batch_samples // len(targets))")],
        "divided by the micro-batch's samples once more": [
            ("* len(targets) / batch_samples", "/ len(targets)")],
        "it has lost how many samples": [("* len(targets) ", "")],
        "divided by the letters of a sample, too": [
            ("len(targets) / batch_samples", "len(targets) / batch_samples / targets.shape[1]")],
        "upside down": [("len(targets) / batch_samples", "batch_samples / len(targets)")],
        "a number that autograd knows": [("mean_loss(scores, targets)",
                                          "mean_loss(scores, targets).detach()")],
        "the sum over the samples of the micro-batch": [(" / batch_samples", "")],
    },
    "8.9": {
        "neither gets as far as its own send": """
def exchange(outgoing, incoming, rank, peer):
    dist.recv(incoming, peer)
    dist.send(outgoing, peer)
    return incoming
""",
        "isend begins a message, and returns": """
def exchange(outgoing, incoming, rank, peer):
    dist.isend(outgoing, peer).wait()
    dist.recv(incoming, peer)
    return incoming
""",
        "it reads `outgoing` until": """
def exchange(outgoing, incoming, rank, peer):
    dist.isend(outgoing, peer)
    dist.recv(incoming, peer)
    return incoming
""",
        "and the numbers come later": """
def exchange(outgoing, incoming, rank, peer):
    dist.irecv(incoming, peer)
    dist.isend(outgoing, peer).wait()
    return incoming
""",
        "a pair need not be an even and an odd rank": """
def exchange(outgoing, incoming, rank, peer):
    if rank % 2 == 0:
        dist.send(outgoing, peer)
        dist.recv(incoming, peer)
    else:
        dist.recv(incoming, peer)
        dist.send(outgoing, peer)
    return incoming
""",
        "this is for all ranks of the world": """
def exchange(outgoing, incoming, rank, peer):
    everybody = [torch.empty_like(incoming) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, outgoing)
    return incoming.copy_(everybody[peer])
""",
        "the caller looks there": """
def exchange(outgoing, incoming, rank, peer):
    incoming = torch.empty_like(incoming)
    request = dist.isend(outgoing, peer)
    dist.recv(incoming, peer)
    request.wait()
    return incoming
""",
        "no call for both": """
def exchange(outgoing, incoming, rank, peer):
    dist.sendrecv(outgoing, incoming, peer)
    return incoming
""",
    },
    "8.12": {
        "theirs are what a function in `later` is for": [
            ("        ctx.later.append(partial(add_weight_gradients, x, gradient, ctx.weight, "
             "ctx.bias))\n",
             "        add_weight_gradients(x, gradient, ctx.weight, ctx.bias)\n"),
        ],
        "nobody can compute the gradients": [
            ("        ctx.later.append(partial(add_weight_gradients, x, gradient, ctx.weight, "
             "ctx.bias))\n", ""),
        ],
        "one gradient for each argument": [
            ("return gradient @ ctx.weight, None, None, None", "return gradient @ ctx.weight"),
        ],
        "without a transposition": [("gradient @ ctx.weight,", "gradient @ ctx.weight.T,")],
        "the rank before waits": [("gradient @ ctx.weight,", "None,")],
        "gives them nothing": [
            ("partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias)",
             "lambda weight: add_weight_gradients(x, gradient, weight, ctx.bias)"),
        ],
        "what was there before is lost": [
            ("parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient",
             "parameter.grad = gradient"),
        ],
        "x may have more dims than two": [
            ("    gradient = gradient.flatten(0, -2)\n", ""),
            ("gradient.T @ x.flatten(0, -2)", "gradient.T @ x"),
        ],
        "saved_tensors may give another tensor than the parameter": [
            ("ctx.save_for_backward(x)", "ctx.save_for_backward(x, weight, bias)"),
            ("ctx.weight, ctx.bias, ctx.later = weight, bias, later", "ctx.later = later"),
            (LATER, LATER.replace("(x,) =", "x, weight, bias =").replace("ctx.weight", "weight")
                .replace("ctx.bias", "bias")),
        ],
        "the functions of other micro-batches are there already": [
            ("ctx.later.append(partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias))",
             "ctx.later[:] = [\n            "
             "partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias)]"),
        ],
        "a function is to be put there, not its result": [
            ("partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias)",
             "add_weight_gradients(x, gradient, ctx.weight, ctx.bias)"),
        ],
        "there may be no bias": [("    if bias is not None:\n        add_gradient(bias",
                                  "    if True:\n        add_gradient(bias")],
    },
    "8.13": {
        "the slowest stage decides": [(BALANCE, "    if stages > len(seconds):\n"
                                       "        raise ValueError('few')\n"
                                       "    return even_sizes(len(seconds), stages)\n")],
        "stays below the mean": [(BALANCE, """    sizes, mean, total = [], sum(seconds) / stages, 0
    left = len(seconds)
    for stage in range(stages - 1):
        size = 1
        while size < left - (stages - 1 - stage) and (
            sum(seconds[sum(sizes) : sum(sizes) + size + 1]) <= mean
        ):
            size += 1
        sizes.append(size)
        left -= size
    return [*sizes, left]
""")],
        "asked is how many layers each one has": [
            ("    return best(0, stages)[1]\n", "    sizes = best(0, stages)[1]\n"
             "    return [sum(sizes[: k + 1]) for k in range(stages)]\n"),
        ],
        "at least one layer": [
            ("range(begin + 1, len(seconds) - stages + 2)", "range(begin, len(seconds) + 1)"),
        ],
        "Their order is that of the model": [
            (BALANCE, "    seconds = sorted(seconds)\n" + BALANCE),
        ],
        "say so: raise ValueError": [
            (BALANCE, BALANCE.replace("if len(seconds) < stages", "if len(seconds) < stages - 99")),
        ],
    },
}  # fmt: skip


HANGS = {"neither gets as far as its own send", "isend begins a message, and returns",
         "a pair need not be an even and an odd rank"}  # fmt: skip


@pytest.mark.filterwarnings("ignore:The use of `x.T`")
@pytest.mark.parametrize(
    ("number", "phrase"), [(number, phrase) for number, of in WRONG.items() for phrase in of]
)
def test_wrong_answers_are_told_their_misconception(number, phrase, check_answer, request):
    if phrase in HANGS:
        request.getfixturevalue("quick_hangs")
    verdict = check_answer(number, WRONG[number][phrase])
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict


SYMPTOMS = {  # of the cells as they are
    "8.8": ("the gradients are 4 times those of one process", "Adam hides it"),
    "8.9": ("it hangs: after 0.6 s, 0 of 2 ranks had returned", "both ranks wait in send"),
}


@pytest.mark.usefixtures("quick_hangs")
@pytest.mark.parametrize("number", SYMPTOMS)
def test_the_program_as_it_is(number, check_answer):
    symptom, why = SYMPTOMS[number]
    verdict = check_answer(number, BROKEN[number])
    assert verdict.passed is False, verdict
    assert symptom in verdict.wrong.what, verdict
    assert why in verdict.wrong.why, verdict


@pytest.mark.usefixtures("quick_hangs")
def test_an_exchange_has_a_timeout_of_its_own(check_answer, monkeypatch):
    monkeypatch.setattr(checking, "TIMEOUT_SECONDS", 60.0)
    assert "after 0.6 s" in check_answer("8.9", BROKEN["8.9"]).wrong.what


def test_who_computes_too_much_is_told_of_no_timeout(check_answer, monkeypatch):
    monkeypatch.setattr(balancing, "LARGE_SECONDS", 0.2)
    wrong = check_answer("8.13", [("    @cache\n", "")]).wrong
    assert wrong.case == "60 layers on 10 stages"
    assert wrong.what.startswith("it is too slow, and was stopped while still at work\n  at ")
    assert "timeout=" not in wrong.what and "pipeline_parallel.py, line " in wrong.what
    assert "computed again and again" in wrong.why


def test_the_line_of_a_first_layer(check_answer):
    lines = check_answer("8.12").lines
    assert "the first layer: x needs no gradient: weight and bias later" in lines


@pytest.mark.parametrize("src", ["peer", "dist.get_rank()"])
def test_a_rank_of_the_group_is_not_one_of_the_world(src, check_answer):
    """The first is no rank of the group, for the one that receives first; the second is."""
    src = f"{src} if self.ranks == 2 else peer"
    answer = RECEIVE.replace("group_src=peer", f"src={src}").replace("self.line(action)",
                                                                     "self.group")  # fmt: skip
    wrong = check_answer("8.7", [(RECEIVE, answer)]).wrong
    assert "in a group of some ranks" not in wrong.why
    assert "a rank of the group" in wrong.why and "`group_src=peer`" in wrong.why


def test_a_fault_of_the_lab_is_not_put_down_to_the_cell(check_answer):
    learners = changed(LAB, [("y.backward(gradient)", "(2 * y).backward(gradient)")])
    verdict = check_answer("8.8", learners=learners)
    assert 'first: check("8.6")' in verdict.wrong.why, verdict


@pytest.mark.parametrize("number", EXERCISES)
def test_there_are_enough_of_all(number):
    assert len(WRONG[number]) >= 6
    assert RIGHT[number]
    assert 2 <= len(EXERCISES[number].hints) <= 4

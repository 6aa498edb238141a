"""Chapter 05, labs: right answers of any style pass, wrong ones are told what is wrong."""

import re
from types import SimpleNamespace

import pytest
from helpers import ROOT, put_lab

from pedagogy_lib import LaunchError, check
from pedagogy_lib.course import checking
from pedagogy_lib.course.build import with_holes
from pedagogy_lib.exercises import precision, recomputing, scaling
from pedagogy_lib.exercises.ch03.servers import warm_up

EXERCISES = {e.number: e for module in (precision, recomputing) for e in module.EXERCISES}
SOLVED = (ROOT / "solutions" / "labs" / "memory.py").read_text()
# What only the lab's program needs; every rank of every check would read it.
OTHERS = "Transformer = draw_batch = mean_loss = standard_library = None"


@pytest.fixture(scope="module", autouse=True)
def warm():
    warm_up()


@pytest.fixture(autouse=True)
def only_these(monkeypatch):
    for module in precision, scaling, recomputing:
        monkeypatch.setattr(module, "warm_up", lambda: None)
    monkeypatch.setattr(checking, "exercises_of", lambda chapter: EXERCISES)
    monkeypatch.setattr(checking, "TIMEOUT_SECONDS", 3.0)


@pytest.fixture
def without_ranks(monkeypatch):
    """Try answers in this process, which is quicker; but what is measured needs a rank."""

    def try_here(case, function, *args, explain=lambda error: "", **options):
        try:
            return SimpleNamespace(values=[function(*args)])
        except LaunchError:  # of measure()
            return checking.try_on_ranks(case, function, *args, explain=explain, **options)
        except Exception as error:
            raise checking.Wrong(case, repr(error), explain(error)) from None

    for module in precision, scaling, recomputing:
        monkeypatch.setattr(module, "try_on_ranks", try_here)


@pytest.fixture
def check_lab(tmp_path, monkeypatch):
    """Check one exercise with another definition of its class in the learner's file."""

    def check_one(number, source="", make=str):
        put_lab(tmp_path, monkeypatch, "language_model", OTHERS, OTHERS)
        put_lab(tmp_path, monkeypatch, "memory", f"{make(SOLVED)}\n\n{source}", SOLVED)
        return check(number)

    return check_one


def answers(text) -> dict[str, str]:
    """{phrase of the diagnosis: source} from parts that begin with `### phrase`."""
    parts = [part.partition("\n") for part in text.split("### ")[1:]]
    return {phrase.strip(): source for phrase, _, source in parts}


RIGHT = {
    "5.3": """### with data and to
class MixedPrecision(MixedPrecision):
    def __init__(self, parameters, make_optimizer):
        self.parameters = list(parameters)
        self.masters = [nn.Parameter(p.data.clone().to(torch.float32)) for p in self.parameters]
        self.optimizer = make_optimizer(self.masters)

    def step(self):
        for master, p in zip(self.masters, self.parameters):
            if p.grad is not None:
                master.grad, p.grad = p.grad.to(torch.float32), None
        self.optimizer.step()
        for master, p in zip(self.masters, self.parameters):
            p.data = master.data.to(p.dtype)
            master.grad = None
### only those that are trained, and all at once
class MixedPrecision(MixedPrecision):
    def __init__(self, parameters, make_optimizer):
        self.parameters = [p for p in parameters if p.requires_grad]
        copies = [torch.empty_like(p, dtype=torch.float32) for p in self.parameters]
        torch._foreach_copy_(copies, [p.detach() for p in self.parameters])
        self.masters = list(map(nn.Parameter, copies))
        self.optimizer = make_optimizer(self.masters)

    @torch.no_grad()
    def step(self):
        have = [(m, p) for m, p in zip(self.masters, self.parameters) if p.grad is not None]
        for m, p in have:
            m.grad = torch.empty_like(m).copy_(p.grad)
        self.optimizer.step()
        torch._foreach_copy_(self.parameters, self.masters)
        for x in self.masters + self.parameters:
            x.grad = None
### a dictionary, and only what has stepped is rounded
class MixedPrecision(MixedPrecision):
    def __init__(self, parameters, make_optimizer):
        self.master_of = {p: nn.Parameter(p.float()) for p in parameters}
        self.optimizer = make_optimizer(list(self.master_of.values()))

    def step(self):
        stepped = [p for p in self.master_of if p.grad is not None]
        for p in stepped:
            self.master_of[p].grad = p.grad.float()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            for p in stepped:
                p.set_(self.master_of[p].to(p))
                p.grad = None
""",
    "5.4": """### into new tensors, with one flat tensor of all
class LossScaler(LossScaler):
    def step(self, parameters, take_step):
        with_gradient = [p for p in parameters if p.grad is not None]
        everything = torch.cat([p.grad.flatten() for p in with_gradient])
        if torch.isfinite(everything).all():
            for p in with_gradient:
                p.grad = p.grad / self.scale
            take_step()
            self.good += 1
            if self.good % self.window == 0:
                self.scale *= 2
            return True
        self.scale *= 0.5
        self.good = 0
        return False
### with what GradScaler itself uses
class LossScaler(LossScaler):
    @torch.no_grad()
    def step(self, parameters, take_step):
        gradients = [p.grad for p in parameters if p.grad is not None]
        bad = torch.zeros(1)
        inverse = torch.tensor([1 / self.scale])
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, bad, inverse)
        if not bad:
            take_step()
        scale, good = torch.tensor([self.scale]), torch.tensor([self.good], dtype=torch.int)
        torch._amp_update_scale_(scale, good, bad, 2.0, 0.5, self.window)
        self.scale, self.good = scale.item(), good.item()
        return not bad
### a loop with for and else
class LossScaler(LossScaler):
    @torch.no_grad()
    def step(self, parameters, take_step):
        for p in parameters:
            if p.grad is None:
                continue
            p.grad.mul_(1 / self.scale)
            if p.grad.isnan().any() or p.grad.isinf().any():
                self.scale, self.good = self.scale / 2, 0
                break
        else:
            take_step()
            self.good = (self.good + 1) % self.window
            self.scale = self.scale if self.good else 2 * self.scale
            return True
        return False
""",
    "5.6": """### by hand, with grad mode and states
class Recomputed(Recomputed):
    @staticmethod
    def backward(ctx, slope):
        before = torch.get_rng_state()
        torch.set_rng_state(ctx.chance)
        x = ctx.saved_tensors[0].detach()
        x.requires_grad = True
        torch.set_grad_enabled(True)
        y = ctx.function(x)
        torch.set_grad_enabled(False)
        torch.set_rng_state(before)
        y.backward(gradient=slope)
        return None, x.grad
### the sum of y times slope
class Recomputed(Recomputed):
    @staticmethod
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        with torch.random.fork_rng(), torch.enable_grad():
            torch.set_rng_state(ctx.chance)
            x = x.clone().detach().requires_grad_(True)
            (ctx.function(x) * slope.detach()).sum().backward()
        return None, x.grad
### in one go, under fork_rng
class Recomputed(Recomputed):
    @staticmethod
    @torch.enable_grad()
    def backward(ctx, slope):
        leaf = nn.Parameter(ctx.saved_tensors[0])
        with torch.random.fork_rng(devices=[]):
            torch.random.set_rng_state(ctx.chance)
            torch.autograd.backward([ctx.function(leaf)], [slope])
        return None, leaf.grad
""",
}

# A wrong answer is one of these classes with other lines: `-` what stands there, `+` what instead.
SOURCES = {
    "5.3": """
class MixedPrecision(MixedPrecision):
    def __init__(self, parameters, make_optimizer):
        self.parameters = list(parameters)
        self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
        self.optimizer = make_optimizer(self.masters)

    @torch.no_grad()
    def step(self):
        for p, master in zip(self.parameters, self.masters):
            master.grad = None if p.grad is None else p.grad.float()
            p.grad = None
        self.optimizer.step()
        self.optimizer.zero_grad()
        for p, master in zip(self.parameters, self.masters):
            p.copy_(master)
""",
    "5.4": """
class LossScaler(LossScaler):
    @torch.no_grad()
    def step(self, parameters, take_step):
        gradients = [p.grad for p in parameters if p.grad is not None]
        for gradient in gradients:
            gradient /= self.scale
        if not all(gradient.isfinite().all() for gradient in gradients):
            self.scale, self.good = self.scale / 2, 0
            return False
        take_step()
        self.good += 1
        if self.good == self.window:
            self.scale, self.good = self.scale * 2, 0
        return True
""",
    "5.6": """
class Recomputed(Recomputed):
    @staticmethod
    def forward(ctx, function, x):
        ctx.function, ctx.chance = function, torch.get_rng_state()
        ctx.save_for_backward(x)
        return function(x)

    @staticmethod
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.chance)
            y = ctx.function(x)
        torch.autograd.backward(y, slope)
        return None, x.grad
""",
}

WRONG = {
    "5.3": """### gets the bfloat16 parameters themselves
-        self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
+        self.masters = self.parameters
### copies, but not in float32
-        self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
+        self.masters = [nn.Parameter(p.detach().clone()) for p in self.parameters]
### twice the bytes that a master has
-        self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
+        self.masters = [nn.Parameter(p.detach().double()) for p in self.parameters]
### __init__ ends with make_optimizer
-        self.optimizer = make_optimizer(self.masters)
+        self.optimizer = torch.optim.SGD(self.masters, lr=0.05)
### with the same shape and the same values
-        self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
+        flat = torch.cat([p.detach().flatten() for p in self.parameters])
+        self.masters = [nn.Parameter(flat.float())]
### begins as a copy of its parameter
-        self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
+        self.masters = [nn.Parameter(torch.zeros(p.shape)) for p in self.parameters]
### a master is a parameter, as whatever an optimizer trains
-        self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
+        self.masters = [p.detach().float().requires_grad_() for p in self.parameters]
### with a requires_grad of its own
-        self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
+        self.masters = [p.detach().clone().float() for p in self.parameters]
### is a leaf of its own
-        self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
+        self.masters = [p.float() for p in self.parameters]
### __init__ makes self.masters
-        self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
+        masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
### do not belong together
-        self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
+        self.masters = [nn.Parameter(p.float()) for p in self.parameters if p.requires_grad]
### made anew from the rounded parameters
-            master.grad = None if p.grad is None else p.grad.float()
+            master.data = p.data.float()
+            master.grad = None if p.grad is None else p.grad.float()
### what rounding has lost stays lost
-            p.copy_(master)
+            p.copy_(master)
+            master.copy_(p)
### others have been made since
-    def step(self):
+    def step(self):
+        self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
### when it steps, or others
-        self.optimizer.step()
-        self.optimizer.zero_grad()
+        self.optimizer.zero_grad()
+        self.optimizer.step()
### the parameters do not get them
-            p.copy_(master)
+            p = master.to(p.dtype)
### A new tensor with a name of its own
-        for p, master in zip(self.parameters, self.masters):
-            p.copy_(master)
+        self.parameters = [master.bfloat16() for master in self.masters]
### first step, then round
-            p.grad = None
+            p.grad = None
+            p.copy_(master)
-        for p, master in zip(self.parameters, self.masters):
-            p.copy_(master)
### step() has to call self.optimizer.step()
-        self.optimizer.step()
### one call of step() is one step
-            p.grad = None
-        self.optimizer.step()
+            p.grad = None
+            self.optimizer.step()
### the next backward adds to it
-            p.grad = None
### zeros are a gradient, and take as many bytes
-            p.grad = None
+            if p.grad is not None:
+                p.grad.zero_()
### None is meant (set_to_none=True
-        self.optimizer.zero_grad()
+        self.optimizer.zero_grad(set_to_none=False)
### a master's gradient is needed during the step alone
-        self.optimizer.zero_grad()
### 4 bytes a parameter for nothing
-            master.grad = None if p.grad is None else p.grad.float()
+            if p.grad is not None:
+                master.grad = p.grad.float() + (0 if master.grad is None else master.grad)
-        self.optimizer.zero_grad()
### goes on moving then
-            master.grad = None if p.grad is None else p.grad.float()
+            master.grad = torch.zeros_like(master) if p.grad is None else p.grad.float()
### a parameter may have no gradient
-            master.grad = None if p.grad is None else p.grad.float()
+            master.grad = p.grad.float()
### the gradient has two bytes a number
-            master.grad = None if p.grad is None else p.grad.float()
+            master.grad = p.grad
### as the decorator of step() does
-    @torch.no_grad()
-    def step(self):
+    def step(self):
### no longer one of two bytes a number
-            p.copy_(master)
+            p.data = master.data
### which may be bfloat16 or float16
-            p.copy_(master)
+            p.data = master.data.bfloat16()
### gradients, or copies?
-            p.grad = None
+            p.last, p.grad = p.grad, None
### one more float32 copy of everything
-        self.optimizer.step()
+        before = [master.clone() for master in self.masters]
+        self.optimizer.step()
""",
    "5.4": """### take_step() comes first
-        for gradient in gradients:
-            gradient /= self.scale
-        if not all(gradient.isfinite().all() for gradient in gradients):
+        if not all(gradient.isfinite().all() for gradient in gradients):
-        take_step()
+        take_step()
+        for gradient in gradients:
+            gradient /= self.scale
### the optimizer finds the gradients of the scaled loss
-        for gradient in gradients:
-            gradient /= self.scale
### A quotient is a new tensor
-            gradient /= self.scale
+            gradient = gradient / self.scale
### the first gradient is divided
-        for gradient in gradients:
+        for gradient in gradients[:1]:
### multiplied by the factor once more
-            gradient /= self.scale
+            gradient *= self.scale
### divided twice
-            gradient /= self.scale
+            gradient /= self.scale
+            gradient /= self.scale
### what the factor has saved is lost again
-            gradient /= self.scale
+            gradient.copy_(gradient.half() / self.scale)
### divided in float16
-            gradient /= self.scale
+            gradient.copy_((gradient / self.scale).half())
### divided by the next scale
-        for gradient in gradients:
-            gradient /= self.scale
+        factor = self.scale * 2 if self.good + 1 == self.window else self.scale
+        for gradient in gradients:
+            gradient /= factor
### the weights are divided
-            gradient /= self.scale
+            gradient /= self.scale
+        for p in parameters:
+            p /= self.scale
### the last parameter's gradient is seen
-        if not all(gradient.isfinite().all() for gradient in gradients):
+        if not gradient.isfinite().all():
### nan is seen, and inf is not
-        if not all(gradient.isfinite().all() for gradient in gradients):
+        if any(gradient.isnan().any() for gradient in gradients):
### nothing is looked at
-        if not all(gradient.isfinite().all() for gradient in gradients):
+        if not gradients:
### inf is seen, and nan is not
-        if not all(gradient.isfinite().all() for gradient in gradients):
+        if any(gradient.isinf().any() for gradient in gradients):
### inf is seen, and -inf is not
-        if not all(gradient.isfinite().all() for gradient in gradients):
+        if not all((gradient < float("inf")).all() for gradient in gradients):
### and the last one's is not
-        if not all(gradient.isfinite().all() for gradient in gradients):
+        if not all(gradient.isfinite().all() for gradient in gradients[:1]):
### isfinite().all(), not any()
-        if not all(gradient.isfinite().all() for gradient in gradients):
+        if not all(gradient.isfinite().any() for gradient in gradients):
### the factor is halved, and take_step() is called all the same
-            return False
### a refused step has to halve the scale
-            self.scale, self.good = self.scale / 2, 0
+            self.good = 0
### a refused step ends the row
-            self.scale, self.good = self.scale / 2, 0
+            self.scale /= 2
### a refused step is no step of a row
-        for gradient in gradients:
+        self.good += 1
+        for gradient in gradients:
-            self.scale, self.good = self.scale / 2, 0
+            self.scale /= 2
-        self.good += 1
-        if self.good == self.window:
-            self.scale, self.good = self.scale * 2, 0
+        if self.good % self.window == 0:
+            self.scale *= 2
### it is doubled after each step
-        if self.good == self.window:
-            self.scale, self.good = self.scale * 2, 0
+        self.scale *= 2
### after it has been doubled a new row begins
-        if self.good == self.window:
-            self.scale, self.good = self.scale * 2, 0
+        if self.good >= self.window:
+            self.scale *= 2
### it is doubled only once in a row
-            self.scale, self.good = self.scale * 2, 0
+            self.scale *= 2
### one step too late
-        if self.good == self.window:
+        if self.good > self.window:
### it is never doubled
-        if self.good == self.window:
-            self.scale, self.good = self.scale * 2, 0
### makes 0 of a half
-            self.scale, self.good = self.scale / 2, 0
+            self.scale, self.good = self.scale // 2, 0
### without `return` gives None
-        return True
### step() tells whether the step was taken
-        take_step()
-        self.good += 1
+        self.good += 1
-        return True
+        return take_step()
### False if it was refused
-            return False
+            return True
### take_step() has to be called
-        take_step()
### a function without arguments
-        take_step()
+        take_step(parameters)
### called more than once
-        take_step()
+        for gradient in gradients:
+            take_step()
### had no part in the loss
-        gradients = [p.grad for p in parameters if p.grad is not None]
+        gradients = [p.grad for p in parameters]
### keeps None
-        gradients = [p.grad for p in parameters if p.grad is not None]
+        for p in parameters:
+            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
+        gradients = [p.grad for p in parameters]
### the second loop finds nothing left
-        if not all(gradient.isfinite().all() for gradient in gradients):
+        if not all(p.grad.isfinite().all() for p in parameters if p.grad is not None):
### model.parameters() is a generator
-        gradients = [p.grad for p in parameters if p.grad is not None]
+        gradients = [parameters[k].grad for k in range(len(parameters))]
+        gradients = [gradient for gradient in gradients if gradient is not None]
""",
    "5.6": """### drawn other masks
-            torch.set_rng_state(ctx.chance)
### has to be set to ctx.chance
-            torch.set_rng_state(ctx.chance)
+            torch.manual_seed(0)
### the second run has moved the generator
-        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
+        with torch.enable_grad():
### puts it back, or get_rng_state before
-        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
+        with torch.enable_grad():
-        torch.autograd.backward(y, slope)
+        torch.set_rng_state(ctx.chance)
+        torch.autograd.backward(y, slope)
### there is no graph to go back through
-        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
+        with torch.random.fork_rng(devices=[]):
### it is twice the gradient of x
-        x = x.detach().requires_grad_()
+        x = x.requires_grad_()
### still hangs on the graph of what came before it
-        x = x.detach().requires_grad_()
+        x = x.detach().requires_grad_() if x.is_leaf else x
### x.grad of the detached x is to be returned
-        x = x.detach().requires_grad_()
+        x = x.detach()
### and the backward goes on into that
-        x = x.detach().requires_grad_()
-        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
+        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
+            x = x.clone().requires_grad_()
### what came before this call gets no gradient
-        return None, x.grad
+        return None, None
### a gradient for each of them
-        return None, x.grad
+        return x.grad
### returns a gradient for each
-        return None, x.grad
### in the order of the forward's inputs
-        return None, x.grad
+        return x.grad, None
### in the shape of x
-        return None, x.grad
+        return None, slope
### And x.grad is ready
-        return None, x.grad
+        return None, x.grad * slope
### and whatever is computed from y
-        torch.autograd.backward(y, slope)
+        y.sum().backward()
### this is the gradient of the sum
-            y = ctx.function(x)
-        torch.autograd.backward(y, slope)
+            ctx.function(x).sum().backward()
### has to know the gradient of y
-        torch.autograd.backward(y, slope)
+        y.backward()
### so it belongs to that
-        torch.autograd.backward(y, slope)
+        torch.autograd.backward(x, slope)
### the function's weights get no gradient
-        torch.autograd.backward(y, slope)
-        return None, x.grad
+        return None, torch.autograd.grad(y, x, slope)[0]
### returns a tuple
-        torch.autograd.backward(y, slope)
-        return None, x.grad
+        return None, torch.autograd.grad(y, x, slope)
### the x that the function runs on has no gradient
-        x = x.detach().requires_grad_()
+        x = x.detach()
-        torch.autograd.backward(y, slope)
-        return None, x.grad
+        return None, torch.autograd.grad(y, x, slope)[0]
### gradients that were there are gone
-            y = ctx.function(x)
+            y = ctx.function(x)
+        todo = [y.grad_fn]
+        for node in todo:
+            todo += [following for following, _ in node.next_functions if following]
+            if hasattr(node, "variable"):
+                node.variable.grad = None
### the graph of the first run is kept
-        ctx.save_for_backward(x)
-        return function(x)
+        with torch.enable_grad():
+            ctx.x = x.detach().requires_grad_()
+            ctx.y = function(ctx.x)
+        return ctx.y.detach()
-        (x,) = ctx.saved_tensors
-        x = x.detach().requires_grad_()
-        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
-            torch.set_rng_state(ctx.chance)
-            y = ctx.function(x)
-        torch.autograd.backward(y, slope)
-        return None, x.grad
+        torch.autograd.backward(ctx.y, slope)
+        return None, ctx.x.grad
### the backward has not run the function again
-        x = x.detach().requires_grad_()
-        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
-            torch.set_rng_state(ctx.chance)
-            y = ctx.function(x)
-        torch.autograd.backward(y, slope)
-        return None, x.grad
+        return None, slope.new_ones(x.shape)
### one more run is enough
-            y = ctx.function(x)
+            y = ctx.function(x)
+            torch.set_rng_state(ctx.chance)
+            y = ctx.function(x)
### nothing else of its size may stay in ctx
-        return function(x)
+        ctx.again = x.clone()
+        return function(x)
### only one chunk at a time
-        torch.autograd.backward(y, slope)
+        ctx.y = y
+        torch.autograd.backward(y, slope, retain_graph=True)
""",
}


def patched(number, changes) -> str:
    """The class of SOURCES with some of its lines changed."""
    source = SOURCES[number]
    for change in re.findall(r"(?:^-.*\n)+(?:^\+.*\n)*", changes, re.MULTILINE):
        lines = change.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] == mark) for mark in "-+")
        assert source.count(old) == 1, (old, source)
        source = source.replace(old, new)
    return source


@pytest.mark.parametrize("number", EXERCISES)
def test_the_hole_is_not_attempted(number, check_lab):
    verdict = check_lab(number, make=with_holes)
    assert verdict.passed is None
    assert f"write {EXERCISES[number].name} in labs/memory.py" in verdict.title


@pytest.mark.parametrize("number", EXERCISES)
def test_the_solution_is_right(number, check_lab):
    verdict = check_lab(number)
    assert verdict.passed, verdict


def cases(table):
    return [
        pytest.param(number, phrase, text, id=f"{number} {phrase}")
        for number, of_number in table.items()
        for phrase, text in answers(of_number).items()
    ]


@pytest.mark.parametrize(("number", "style", "source"), cases(RIGHT))
def test_right_answers_of_another_style(number, style, source, check_lab, without_ranks):
    verdict = check_lab(number, source)
    assert verdict.passed, verdict


@pytest.mark.parametrize(("number", "phrase", "changes"), cases(WRONG))
def test_wrong_answers_are_told_what_is_wrong(number, phrase, changes, check_lab, without_ranks):
    verdict = check_lab(number, patched(number, changes))
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict


@pytest.mark.parametrize(
    ("number", "phrase", "said"),
    [
        ("5.3", "a parameter may have no gradient", "rank 0 raised AttributeError"),
        ("5.4", "had no part in the loss", "rank 0 raised TypeError"),
        ("5.6", "a gradient for each of them", "rank 0 raised RuntimeError"),
    ],
)
def test_what_raises_on_a_rank_is_told_there(number, phrase, said, check_lab):
    verdict = check_lab(number, patched(number, answers(WRONG[number])[phrase]))
    assert said in verdict.wrong.what
    assert phrase in verdict.wrong.why, verdict


def test_an_endless_loop_is_told(check_lab, monkeypatch):
    monkeypatch.setattr(checking, "TIMEOUT_SECONDS", 1.0)
    changes = "-        take_step()\n+        while True:\n+            pass\n"
    verdict = check_lab("5.4", patched("5.4", changes))
    assert "it hangs" in verdict.wrong.what
    assert "An endless loop?" in verdict.wrong.what


@pytest.mark.parametrize("number", EXERCISES)
def test_there_are_enough_of_both(number):
    assert len(answers(WRONG[number])) >= 6
    assert len(answers(RIGHT[number])) >= 2  # and the solution
    assert 2 <= len(EXERCISES[number].hints) <= 4

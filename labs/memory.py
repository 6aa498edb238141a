# Built from chapters/ch05_memory/labs/memory.py by `make build`. Write your answers here.
"""The memory of a training step, and three ways to need less of it.

python labs/memory.py
"""

import gc
import time
from functools import partial
from statistics import median

import torch
from language_model import Transformer, draw_batch, mean_loss, standard_library
from torch import Tensor, nn

# ---- Half the bytes per number --------------------------------------------------------------


class MixedPrecision:
    """Exercise 5.3. An optimizer for bfloat16 that steps on float32 copies.

    A bfloat16 has 8 binary digits. The change in a step is often smaller than half of the last
    digit, and is rounded away. So every parameter has a copy in float32, its *master*, and the
    optimizer steps on the masters. `step()` gives the gradients to the masters in float32, lets the
    optimizer step, and rounds the masters into the parameters. Afterwards all gradients are None,
    those of the parameters and those of the masters. A parameter without a gradient stays as it is.
    If something else has changed a parameter since, its master follows, except where the parameter
    is still the rounded master. So make a new MixedPrecision after load_state_dict.

    parameters      those of the model, in bfloat16 (or float16); frozen ones have no master, so a
                    parameter that is to be trained later needs a new MixedPrecision
    make_optimizer  takes a list of parameters
    Cost            per parameter 2 bytes, its gradient 2, its master 4, and the state of the
                    optimizer: 8 with Adam; during a step, up to 4 more for gradients in float32
    Source          Micikevicius et al. 2018, "Mixed Precision Training"
    """

    def __init__(self, parameters, make_optimizer):
        self.parameters = list(dict.fromkeys(parameters))  # a tied one once
        ...  # your code here
        self.optimizer = make_optimizer(self.masters)

    def zero_grad(self):
        """Clear the gradients of the parameters, like an optimizer."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self):
        ...  # your code here


class LossScaler:
    """Exercise 5.4. A scaler that keeps gradients of a float16 forward from vanishing.

    A float16 below 3e-8 is 0. So the caller multiplies the loss by `scale` before the backward, and
    `step` divides the gradients by it afterwards, in float32. If a number of them is not finite,
    the factor was too large: no step is taken, and the factor is halved. After `window` steps in a
    row that were taken, the factor is doubled, and a new row begins. A refused step ends the row,
    too.

    Equals  torch.amp.GradScaler("cpu", scale, 2, 0.5, window), with float32 gradients, of which
            there is at least one, and factors from 2**-126 to 2**127
    Source  Micikevicius et al. 2018, "Mixed Precision Training", section 3.2
    """

    def __init__(self, scale=2.0**16, window=2000):
        self.scale, self.window, self.good = scale, window, 0  # good: steps in the present row

    @torch.no_grad()
    def step(self, parameters, take_step) -> bool:
        """Divide the gradients by the factor, and take the step or refuse it.

        parameters  in float32, as model.parameters() gives them; `.grad` has the gradient of the
                    scaled loss, or None. Its values after a refused step do not matter, because the
                    caller clears it
        take_step   takes the step, with the gradients that are in `.grad` then
        Returns     whether the step was taken
        """
        ...  # your code here


# ---- Activations: recomputed instead of kept ------------------------------------------------


class Recomputed(torch.autograd.Function):
    """Exercise 5.10. function(x), which keeps nothing but x for the backward.

    The forward runs without a graph. The backward runs it again, with a graph, from the x that was
    kept, and goes back through that at once. It has to draw the same random numbers again, so the
    generator's state is set to what it was, and afterwards back to what it has become.

    Equals  function(x) and its gradients, if x has a gradient, in a backward() without `inputs`,
            but not in torch.autograd.grad; on a CPU, torch.utils.checkpoint's checkpoint(function,
            x, use_reentrant=True), which handles autocast as well. PyTorch recommends the other
            variant. With either, BatchNorm takes its statistics in both runs
    Raises  RuntimeError for a second derivative
    Shapes  x and the function's result: one tensor each, any shape
    Cost    memory: x, and 5 kB for the generator; time: a second forward
    Source  Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"
    """

    @staticmethod
    def forward(ctx, function, x):
        ctx.function, ctx.chance = function, torch.get_rng_state()
        ctx.save_for_backward(x)
        return function(x)  # autograd records nothing in here

    @staticmethod
    def backward(ctx, grad_output):
        """Return a gradient for each input; grad_output is the gradient of the forward's result."""
        if torch.is_grad_enabled():  # as in backward(create_graph=True)
            raise RuntimeError("a recomputed function has no second derivative")
        (x,) = ctx.saved_tensors
        ...  # your code here


def recompute_in_backward(function, x: Tensor) -> Tensor:
    """Return function(x), and recompute its activations in the backward."""
    return Recomputed.apply(function, x)


def recompute_modules(modules):
    """Make each of these modules keep, from now on, nothing but its input for the backward."""
    for module in modules:
        module.register_forward_pre_hook(need_input_with_gradient)
        module.forward = partial(recompute_in_backward, module.forward)


def need_input_with_gradient(module, inputs):
    """Require a gradient for the input; autograd skips a recomputed part's backward without it.

    Raises  ValueError where the weights inside would get no gradients, without any other sign
    """
    is_trained = any(p.requires_grad for p in module.parameters())
    if torch.is_grad_enabled() and is_trained and not inputs[0].requires_grad:
        raise ValueError(
            f"the input of a recomputed {type(module).__name__} has no gradient, so its weights "
            "would get none: is the layer before it frozen? Call x.requires_grad_() on the input"
        )


# ---- The program ----------------------------------------------------------------------------


def step_in_float32(model, optimizer, inputs, targets) -> float:
    optimizer.zero_grad()
    loss = mean_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


def step_in_bfloat16(model, optimizer, inputs, targets) -> float:
    """Take a step with a MixedPrecision, which clears the gradients itself; return the loss."""
    loss = mean_loss(model(inputs).float(), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


def make_model(recompute=False):
    torch.manual_seed(0)
    model = Transformer(layers=4)
    if recompute:
        recompute_modules(model.blocks)
    return model


def ways(make_adam):
    """Yield a name, a model (the same in all), what makes its optimizer, and what takes a step."""
    yield "float32", make_model(), make_adam, step_in_float32
    yield "float32, blocks recomputed", make_model(True), make_adam, step_in_float32
    mixed = partial(MixedPrecision, make_optimizer=make_adam)
    yield "bfloat16, masters in float32", make_model().bfloat16(), mixed, step_in_bfloat16


def program(text, steps=6, samples=16) -> list[tuple]:
    """Return [(name, last loss, seconds per step)]; one more step is measured under the name."""
    from pedagogy_lib import measure

    found = []
    for name, model, make_optimizer, take_step in ways(partial(torch.optim.Adam, lr=2e-3)):
        gc.collect()  # recompute_modules makes cycles: the previous model may still exist
        optimizer, times = make_optimizer(list(model.parameters())), []
        for step in range(steps):
            batch = draw_batch(text, samples, step)
            began = time.perf_counter()
            loss = take_step(model, optimizer, *batch)
            times.append(time.perf_counter() - began)
        with measure(name):
            take_step(model, optimizer, *draw_batch(text, samples, steps))
        found.append((name, loss, median(times)))
    return found


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, standard_library(50_000), world_size=1)
    for name, loss, seconds in run.values[0]:
        peak = run[name].peak_bytes[0]
        kinds = ", ".join(f"{kind} {count / 1e6:.1f} MB" for kind, count in peak.items() if count)
        print(f"{name}: loss {loss:.2f}, {1e3 * seconds:.0f} ms a step; at most {kinds}")


if __name__ == "__main__":
    main()

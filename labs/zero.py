# Built from chapters/ch06_zero/labs/zero.py by `make build`. Write your answers here.
"""ZeRO by hand, stage by stage: model states that are sharded over the ranks.

torchrun --nproc-per-node 4 labs/zero.py
"""

import contextlib
import gc
from functools import partial
from statistics import median

import torch
import torch.distributed as dist
from collectives import all_gather_ring, reduce_scatter_ring
from complete_gradients import Calls
from language_model import Transformer, draw_batch, mean_loss, standard_library
from simple_ddp import now, share_of_rank, start_equal
from torch import Tensor, nn

# ---- Flat, padded, cut into shards ----------------------------------------------------------


def flatten_padded(tensors, n) -> Tensor:
    """Exercise 6.2. Join tensors in a new flat one, then zeros until n divides it.

    tensors  one or more, of one dtype, on one device
    Shapes   any -> (ceil(elements / n) * n,)
    """
    ...  # your code here


class Unit:
    """Parameters that travel together: one flat tensor, padded, and cut into n equal chunks.

    Rank k owns chunk k, its shard, which its optimizer steps on. As long as the unit is gathered,
    the parameters are contiguous views into `flat`, even if they were in torch.channels_last.

    flat    (n * shard,): all parameters, then padding
    chunks  n views into flat, each (shard,)
    shard   (shard,), a parameter with its own gradient: a view into flat; or, if `alone`, in
            separate memory, so that flat's memory can be freed
    """

    @torch.no_grad()
    def __init__(self, parameters, group=None, alone=False):
        self.parameters, self.group = list(parameters), group
        self.rank, self.n = dist.get_rank(group), dist.get_world_size(group)
        self.sizes = [p.numel() for p in self.parameters]
        self.shapes = [p.shape for p in self.parameters]
        self.flat = flatten_padded(self.parameters, self.n)
        self.chunks = list(self.flat.chunk(self.n))
        mine = self.chunks[self.rank]
        self.shard = nn.Parameter(mine.clone() if alone else mine)
        show_parameters(self)


def show_parameters(unit):
    """Make each parameter of a unit a view into its flat tensor."""
    parts = unit.flat[: sum(unit.sizes)].split(unit.sizes)
    for p, part, shape in zip(unit.parameters, parts, unit.shapes):
        p.data = part.view(shape)


def gradients_of(unit) -> list[Tensor]:
    """Return the flat gradient of each parameter of a unit; zeros for one that has none.

    Raises  RuntimeError if a parameter is no view into `flat` any more: it would never be updated
    """
    memory = unit.flat.untyped_storage().data_ptr()
    used = [p for p in unit.parameters if p.grad is not None and p.numel()]  # none: disposed of
    if any(p.untyped_storage().data_ptr() != memory for p in used):
        raise RuntimeError(
            "parameters have got other memory since the engine was made, so that updates would not "
            "reach them: convert the model, or load its weights, before you make the engine"
        )
    return [
        unit.flat.new_zeros(size) if p.grad is None else p.grad.reshape(-1)
        for p, size in zip(unit.parameters, unit.sizes)
    ]


def units_of(model, modules=(), group=None, alone=False) -> dict[nn.Module, Unit]:
    """Return one unit for each of some modules of a model, and one for all other parameters.

    A parameter belongs to the smallest of the modules that has it. Frozen ones are in no unit: they
    stay whole, on every rank.

    Returns  {module: its unit}, in the order of the model's parameters: a backward goes through
             them from the last to the first
    Raises   ValueError if a parameter is used outside the module that it would belong to, or if a
             unit would have two dtypes
    """
    owner = {}
    for module in sorted([model, *modules], key=lambda m: -len(list(m.modules()))):
        owner |= dict.fromkeys(module.parameters(), module)
    for user in model.modules():
        for p in user.parameters(recurse=False):
            if user not in set(owner[p].modules()):
                raise ValueError(
                    f"{type(user).__name__} shares a parameter with {type(owner[p]).__name__}: "
                    "leave that one out of the units, or take a module that has both"
                )
    taken = {}
    for p in model.parameters():
        if p.requires_grad:
            taken.setdefault(owner[p], []).append(p)
    for module, parameters in taken.items():
        if len({p.dtype for p in parameters}) > 1:
            raise ValueError(
                f"{type(module).__name__} has parameters of several dtypes, but a unit is one flat "
                "tensor of one dtype: convert the model first, as model.bfloat16() does"
            )
    return {module: Unit(parameters, group, alone) for module, parameters in taken.items()}


# ---- Stage 1: the optimizer's state ---------------------------------------------------------


@torch.no_grad()
def reduce_gradients(unit):
    """Exercise 6.3. Give every rank its part of the mean gradient; free the rest.

    `unit.shard.grad` becomes this rank's chunk of the mean over all ranks; if there is one already,
    they add up, in the parameters' dtype. Nothing else is kept in memory, and afterwards no
    parameter of the unit has a gradient. One that had none before counts as zeros. The sum is in
    the parameters' dtype, too, so that in float16 it may overflow where the mean would not.

    Cost  one reduce-scatter: each rank sends (n-1)/n of flat's bytes
    """
    ...  # your code here


class Zero1:
    """Exercise 6.4. Stage 1: each rank has the optimizer's state for its shards only.

    Call `loss.backward()` as often as you like, then `step()`. It leaves no gradients. After a
    backward that raised, call `zero_grad()` on all ranks before the next one.

    make_optimizer  takes a list of parameters; it has to treat each number by itself, as SGD and
                    Adam do
    modules         see units_of
    alone           for stage 3, which updates in another way
    Equals          averaging the gradients (zeros where there is none), and one step of
                    make_optimizer(model.parameters())
    Cost            a step: each rank sends 2(n-1)/n of the model
    Source          Rajbhandari et al. 2020, "ZeRO", section 5.1
    """

    def __init__(self, model, make_optimizer, modules=(), group=None, alone=False):
        start_equal(model, group)
        self.model = model
        self.units = units_of(model, modules, group, alone)
        self.optimizer = make_optimizer([unit.shard for unit in self.units.values()])

    def step(self):
        """Update the model with the gradients that the backwards have left in `.grad`."""
        ...  # your code here

    def update(self):
        """Update the model with the gradients of the shards, and free them. (Stage 2, too.)"""
        ...  # your code here

    def zero_grad(self):
        """Discard all gradients since the last step, as after a backward that raised."""
        for unit in self.units.values():
            for p in [*unit.parameters, unit.shard]:
                p.grad = None


# ---- Stage 2: gradients, too ----------------------------------------------------------------


class Zero2(Zero1):
    """Exercise 6.7. Stage 2: a unit's gradients are reduced, and freed, in the backward.

    That happens as soon as all of them are complete, from the last unit to the first, so that all
    ranks reduce in the same order. At the end of a backward, the remaining units are reduced,
    because a parameter may have had no part in the loss.

    All ranks run equally many backwards in a step, because each of them is a collective.

    Equals  Zero1; with reentrant recomputation, if all ranks use each recomputed unit equally often
    Cost    each backward: (n-1)/n of the model; each step: (n-1)/n of it. A unit that several
            recomputed parts have may be reduced once for each of them
    Source  Rajbhandari et al. 2020, "ZeRO", section 5.2
    """

    def __init__(self, model, *args, **kwargs):
        super().__init__(model, *args, **kwargs)
        self.left, self.in_backward = None, False  # between backwards
        self.hooks = [
            parameter.register_post_accumulate_grad_hook(partial(self.has_grown, unit))
            for unit in self.units.values()
            for parameter in unit.parameters
        ]
        self.calls = Calls(self)
        for module in {model, *self.units}:
            self.hooks.append(module.register_forward_hook(self.calls.follow))

    def begin_backward(self):
        """Begin a backward; its first gradient is ready."""
        self.in_backward = True  # and it remains so if the backward raises
        self.left = list(self.units.values())  # to be reduced; the last one comes first
        self.missing = {unit: set(unit.parameters) for unit in self.left}
        self.calls.begin_backward()
        call_after_backward(self.end_backward)

    def has_grown(self, unit, parameter):
        """Handle an addition to the gradient of a unit's parameter; autograd calls this."""
        if self.left is None:
            self.begin_backward()
        if unit not in self.left:
            self.once_more(unit)
        if self.calls.is_complete(unit, parameter):
            self.is_ready(unit, parameter)

    def once_more(self, unit):
        """Expect a unit's gradients again: two recomputed parts have it, and only one is done."""
        self.missing[unit] = set(unit.parameters)
        if unit not in self.left:
            self.left.insert(0, unit)

    def is_ready(self, unit, parameter):
        """Handle the complete gradient of a parameter of a unit."""
        if self.left is None:
            self.begin_backward()
        ...  # your code here

    def end_backward(self):
        """End a backward; autograd calls this when it is over."""
        ...  # your code here
        self.in_backward = False
        self.left = None

    def reduce(self, unit):
        """Reduce a unit, for is_ready and end_backward; stage 3 does more here."""
        reduce_gradients(unit)

    def step(self):
        """Update the model; the gradients that the backwards have left are reduced already.

        Raises  RuntimeError if a backward has raised, because gradients are missing then
        """
        if self.in_backward:
            raise RuntimeError(
                "a backward has raised before all gradients were reduced: call zero_grad(), and "
                "run the backwards of this step again, or skip it"
            )
        self.update()

    def zero_grad(self):
        super().zero_grad()
        self.left, self.in_backward = None, False


def call_after_backward(function):
    """Make autograd call a function when the present backward is over, as DDP and FSDP do."""
    torch.autograd.Variable._execution_engine.queue_callback(function)


# ---- Stage 3: parameters, too ---------------------------------------------------------------


@torch.no_grad()
def gather(unit):
    """Exercise 6.10. Make a unit whole: `flat` gets memory again, with every rank's shard.

    Afterwards its parameters are views into `flat` again.

    Cost  one all-gather: each rank sends (n-1)/n of flat's bytes
    """
    ...  # your code here


def dispose(unit):
    """Exercise 6.11. Free a unit's `flat`; its parameters then have no elements.

    They keep their dtype. The shard and its gradient stay.

    Autograd has saved views into flat's storage for the backward. They must not keep its memory
    alive, and must be good again after gather(). So the storage itself is resized to 0 bytes.
    """
    ...  # your code here


class Zero3(Zero2):
    """Exercise 6.12. Stage 3: a unit's parameters are whole while it computes, and only then.

    A unit is gathered before its module's forward and freed after it. Before its backward it is
    gathered again. As soon as its gradients are complete, they are reduced, and the unit is freed.
    Within a backward, a forward may run again (activation checkpointing); it must not free the
    unit.

    `self.need(unit)` gathers a unit unless it is gathered, and `self.drop(unit)` frees it if it is.
    `self.held` is a set for you: the units whose backward has begun and is not over.

    Units are reduced in turn, from the last to the first. So the model's own parameters, outside
    all modules that are units, should be among its first, such as its embeddings. All ranks have to
    use the same modules, in the same order; a module of a unit returns one tensor; and the loss
    depends on the model's output, at which the backward gathers the model's own parameters.

    Equals  Zero1
    Cost    each forward and backward: 3(n-1)/n of the model
    Source  Rajbhandari et al. 2020, "ZeRO", section 5.3; Zhao et al. 2023, "PyTorch FSDP"
    """

    def __init__(self, model, make_optimizer, modules=(), group=None):
        super().__init__(model, make_optimizer, modules, group, alone=True)
        self.there, self.held = set(), set()
        for module, unit in self.units.items():
            dispose(unit)
            module.register_forward_pre_hook(partial(refuse_conversion, unit))
            module.register_forward_pre_hook(partial(self.before_forward, unit))
            module.register_forward_hook(partial(self.after_forward, unit))
            module.register_forward_hook(partial(self.after_error, unit), always_call=True)

    def before_forward(self, unit, *_):
        ...  # your code here

    def after_forward(self, unit, module, inputs, output):
        """Make output call `before_backward(unit, its gradient)` when the backward reaches it."""
        if not isinstance(output, Tensor):
            raise TypeError(
                f"{type(module).__name__} returns a {type(output).__name__}: a module that is a "
                "unit of stage 3 has to return one tensor"
            )
        if output.requires_grad:
            output.register_hook(partial(self.before_backward, unit))
        ...  # your code here

    def after_error(self, unit, module, inputs, output):
        """Free the unit of a module whose forward raised, so that it cannot outlive a step.

        Within a backward PyTorch ends recomputed forwards by an exception: then it stays.
        """
        if output is None and not self.in_backward:
            self.drop(unit)

    def before_backward(self, unit, *_):
        ...  # your code here

    def reduce(self, unit):
        """Reduce a unit's gradients, and free the unit; called as in stage 2."""
        ...  # your code here

    def update(self):
        """Update the shards, and gather nothing, because the next forward does."""
        self.optimizer.step()
        for unit in self.units.values():
            unit.shard.grad = None

    def zero_grad(self):
        super().zero_grad()
        self.held.clear()
        for unit in self.units.values():
            self.drop(unit)

    def need(self, unit):
        if unit not in self.there:
            self.there.add(unit)
            gather(unit)

    def drop(self, unit):
        if unit in self.there:
            self.there.discard(unit)
            dispose(unit)


def refuse_conversion(unit, module, inputs):
    """Raise RuntimeError if a unit's parameters have got another dtype than its shard."""
    if any(p.dtype != unit.shard.dtype for p in unit.parameters):
        raise RuntimeError(
            f"parameters were converted to {unit.parameters[0].dtype}, but the engine's shards are "
            f"{unit.shard.dtype}: convert the model before you make the engine"
        )


@contextlib.contextmanager
def whole(engine: Zero1):
    """Make all parameters whole within `with whole(engine):`, in every stage, to read or save.

    Forwards may run there, but no backward. What is written into parameters is lost in stage 3.
    """
    drop_gathered(engine)
    away = [unit for unit in engine.units.values() if not unit.flat.untyped_storage().nbytes()]
    there, held = getattr(engine, "there", set()), getattr(engine, "held", set())
    try:
        for unit in away:
            gather(unit)
        there.update(away)  # so that a forward neither gathers
        held.update(away)  # nor frees them
        yield
    finally:
        drop_gathered(engine)
        there.difference_update(away)
        held.difference_update(away)
        for unit in away:
            dispose(unit)


def drop_gathered(engine: Zero1):
    """Free what an engine of labs/prefetch.py has gathered, or is gathering in its thread."""
    for unit in list(getattr(engine, "coming", ())):
        engine.drop(unit)


# ---- The program ----------------------------------------------------------------------------

STAGES = {"stage 1": Zero1, "stage 2": Zero2, "stage 3": Zero3}


def train(model, step, text, steps, samples=32):
    """Train; return the first and the last loss, and the median time of a step in seconds."""
    losses, times = [], []
    for number in range(steps):
        inputs, targets = share_of_rank(draw_batch(text, samples, number))
        began = now()
        loss = mean_loss(model(inputs), targets)
        loss.backward()
        step()
        times.append(now() - began)
        losses.append(loss.item())
    return losses[0], losses[-1], median(times)


def program(stage, text, steps=20) -> tuple[float, float, float]:
    """Train a small transformer; return train()'s result. One more step is measured: "step"."""
    from pedagogy_lib import measure

    gc.collect()  # an engine has cycles: under torchrun, the previous one may still exist
    torch.manual_seed(0)
    model = Transformer(layers=4)
    zero = STAGES[stage](model, partial(torch.optim.Adam, lr=5e-3), list(model.blocks))
    found = train(model, zero.step, text, steps)
    with measure("step"):
        train(model, zero.step, text, 1)
    for hook in getattr(zero, "hooks", ()):
        hook.remove()  # with them, nothing of this engine would ever be freed
    return found


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library()
    model_bytes = sum(p.nbytes for p in Transformer(layers=4).parameters())
    for stage in STAGES:
        run = launch(program, stage, text, world_size=4)
        if run.rank == 0:
            first, last, seconds = run.values[0]
            peak, sent = run["step"].peak_bytes[0], run["step"].sent_bytes[0]
            kinds = ("parameters", "gradients", "optimizer_state")
            print(
                f"{stage}: loss {first:.2f} to {last:.2f}, {1e3 * seconds:.0f} ms a step, "
                f"{sent / model_bytes:.2f} models sent; at most "
                + ", ".join(f"{kind} {peak[kind] / model_bytes:.2f}" for kind in kinds)
                + " models"
            )


if __name__ == "__main__":
    main()

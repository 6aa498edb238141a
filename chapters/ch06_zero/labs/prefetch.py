"""Stage 3 that sends while it computes: it gathers ahead of time and reduces gradients afterwards.

python labs/prefetch.py
"""

import contextlib
import copy
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
import torch.distributed as dist
from simple_ddp import now
from torch import nn
from zero import Zero1, Zero2, Zero3, dispose, gather, reduce_gradients

# ---- The engine -----------------------------------------------------------------------------


def make_job_queue():
    """Make one thread with a queue of jobs, for `begin` of `Prefetching`.

    Returns  a function. It puts a job, a function without arguments, at the end of the queue, and
             returns at once: a function that waits until this job is done. The thread does one job
             after another, in the order in which they were put there
    """
    thread = ThreadPoolExecutor(1)
    return lambda job: thread.submit(job).result


class Prefetching(Zero3):
    """Exercise {{prefetching}}. Stage 3 that sends while it computes: fill three holes.

    All messages are jobs of one thread, in one queue. `self.begin(job)` puts a job there and
    returns a function that waits for its end.

    need           called before a unit computes: puts the gathers of this unit and of the next ones
                   into the queue, and returns when this unit is gathered
    reduce         called when the gradients of a unit are complete: puts their reduction into the
                   queue, frees the unit, and does not wait
    end_backward   called when the backward is over: returns when all reductions are done

    depth   how many units are gathered ahead
    coming  {unit: what waits for its gather}, for the units that are gathered or on their way
    Equals  Zero1. All ranks have to use the same modules, as in Zero3
    Cost    as Zero3: 3(n-1)/n of the model for each forward and backward
    """

    def __init__(self, model, make_optimizer, modules=(), group=None, depth=1):
        super().__init__(model, make_optimizer, modules, group)
        self.begin, self.depth = make_job_queue(), depth
        self.coming, self.reductions = {}, []
        self.before, self.now = [], []  # units in the order of their use: last step's, this one's

    def ahead(self) -> list:
        """Return the units that come next: `depth` of them, in the order of the previous step.

        There are none in the first step, nor if this step goes another way than the previous one.
        """
        done = len(self.now)
        return self.before[done : done + self.depth] if self.before[:done] == self.now else []

    def need(self, unit):
        """Begin to gather a unit and the next ones, and return when this one is gathered."""
        if unit in self.there:  # within `whole`
            return
        self.now.append(unit)
        ### BEGIN SOLUTION
        for each in [unit, *self.ahead()]:
            if each not in self.coming:
                self.coming[each] = self.begin(partial(gather, each))
        self.coming[unit]()
        ### END SOLUTION

    def drop(self, unit):
        """Free a unit; if it is still on its way, wait for it first."""
        if unit in self.coming:
            self.coming.pop(unit)()
            dispose(unit)

    def reduce(self, unit):
        """Put the reduction of a unit's gradients into the queue, and free the unit."""
        taken = take_gradients(unit)
        ### BEGIN SOLUTION
        self.reductions.append(self.begin(partial(reduce_gradients, taken)))
        ### END SOLUTION
        self.held.discard(unit)
        self.drop(unit)

    def end_backward(self):
        super().end_backward()
        ### BEGIN SOLUTION
        while self.reductions:
            self.reductions.pop(0)()
        ### END SOLUTION

    def zero_grad(self):
        while self.reductions:
            self.reductions.pop(0)()  # it would add to a shard's gradient later
        super().zero_grad()
        self.now = []

    def update(self):
        for unit in list(self.coming):
            self.drop(unit)  # fetched in vain, and soon out of date
        self.before, self.now = self.now, []
        self.optimizer.step()
        self.optimizer.zero_grad()


def take_gradients(unit):
    """Return a copy of a unit that has taken over its gradients, for a job that comes later.

    The unit's parameters have none afterwards, so that gradients of the meantime cannot mix with
    those on their way. The shard is the same, so that its gradient arrives where it should.
    """
    taken = copy.copy(unit)
    taken.parameters = [nn.Parameter(p.detach()) for p in unit.parameters]
    for p, its in zip(unit.parameters, taken.parameters):
        its.grad, p.grad = p.grad, None
    return taken


# ---- Layers that sleep instead of computing --------------------------------------------------


class SleepFunction(torch.autograd.Function):
    """A function that returns its input, and sleeps: in the backward twice as long."""

    @staticmethod
    def forward(ctx, x, weight, layer):
        ctx.layer = layer
        layer.sleep("forward", 1)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.layer.sleep("backward", 2)
        return gradient, torch.ones(ctx.layer.numbers), None


class SleepLayer(nn.Module):
    """A layer of so many numbers; its forward takes `pace.seconds`, and its backward twice that."""

    def __init__(self, numbers, pace):
        super().__init__()
        self.weight, self.numbers, self.pace = nn.Parameter(torch.ones(numbers)), numbers, pace

    def sleep(self, label, times):
        self.pace.sleep(label, times)

    def forward(self, x):
        return SleepFunction.apply(x, self.weight, self)


class Pace:
    """The time of a layer's forward: 0 seconds at first, while an engine learns its order."""

    def __init__(self):
        self.seconds, self.is_watched, self.look = 0.0, False, lambda: None

    def measure_block(self, label):
        """Return a context that measures the time of a block, if that is wanted."""
        from pedagogy_lib import measure

        if not self.is_watched:
            return contextlib.nullcontext()
        return measure(label, memory=False, wire=False)

    def sleep(self, label, times):
        self.look()
        with self.measure_block(label):
            time.sleep(times * self.seconds)


# ---- One measured step -----------------------------------------------------------------------

FORWARD = 0.02  # seconds of a layer's forward
LATENCY = 0.2  # of a message, in forwards of a layer
EVEN, UNEVEN = (0.5,), (0.1, 1.3)  # how long a layer's bytes travel, in forwards; repeated
LAYERS, SIZE = 6, 50_000  # SIZE: numbers that travel during one forward


class SynchronousZero3(Prefetching):
    """Stage 3 as in labs/zero.py: it waits for each message at once. Messages are jobs, too."""

    def need(self, unit):
        self.now.append(unit)
        if unit not in self.coming:
            self.coming[unit] = self.begin(partial(gather, unit))
        self.coming[unit]()

    def reduce(self, unit):
        self.begin(partial(reduce_gradients, unit))()
        self.held.discard(unit)
        self.drop(unit)

    def end_backward(self):
        Zero3.end_backward(self)


def make_sleep_model(layers_in_a_unit, travel):
    """Return a model of `LAYERS` sleeping layers in units, and its pace."""
    pace, modules = Pace(), []
    for k in range(0, LAYERS, layers_in_a_unit):
        times = [travel[j % len(travel)] for j in range(k, k + layers_in_a_unit)]
        modules.append(nn.Sequential(*(SleepLayer(round(SIZE * t), pace) for t in times)))
    return nn.Sequential(*modules), pace


def engine_for(how, model):
    """Return stage 1 or 2, or stage 3 with so many units ahead; 0: all messages on demand."""
    classes = {"stage 1": Zero1, "stage 2": Zero2, 0: SynchronousZero3}
    make = classes.get(how) or partial(Prefetching, depth=how)
    return make(model, partial(torch.optim.SGD, lr=0.1), list(model))


def one_step(how, layers_in_a_unit=1, travel=EVEN, latency=LATENCY):
    """Train `LAYERS` layers on each of 2 ranks; the second step is measured, as "step".

    how      "stage 1", "stage 2", or how many units stage 3 gathers ahead; 0: all on demand
    travel   how long the bytes of a layer travel, in forwards of a layer; repeated
    Returns  its time in forwards of a layer; the most parameters gathered at a time, as a share of
             the model
    """
    from pedagogy_lib import throttle

    model, pace = make_sleep_model(layers_in_a_unit, travel)
    engine, x = engine_for(how, model), torch.ones(1, requires_grad=True)
    flats = [unit.flat for unit in engine.units.values()]
    seen = []
    pace.look = lambda: seen.append(sum(flat.untyped_storage().nbytes() for flat in flats))
    model(x).backward()
    engine.step()  # now it knows the order of its units
    with throttle(4 * SIZE / 2 / FORWARD, latency * FORWARD):  # each of 2 ranks sends a half
        watch(engine, pace)
        pace.seconds = FORWARD
        pace.is_watched = True
        dist.barrier()
        began = now()
        with pace.measure_block("step"):
            model(x).backward()
            engine.step()
        took = now() - began
    return took / FORWARD, max(seen) / sum(flat.nbytes for flat in flats)


def take_turns(ways, rounds=3) -> dict:
    """Launch one_step on 2 ranks in several ways that take turns; return {name: [its runs]}.

    ways  {name: arguments of one_step}
    """
    from pedagogy_lib import launch

    runs = {name: [] for name in ways}
    for name in [*ways] * rounds:
        runs[name].append(launch(one_step, *ways[name], world_size=2, device="cpu"))
    return runs


def quickest(runs):
    """Return the quickest run, because other programs can only make one slower."""
    return min(runs, key=lambda run: run.values[0][0])


def compare_steps(runs, name, other):
    """Compare the time of a step in two ways of `take_turns`, with a margin of a twentieth."""
    from pedagogy_lib import compare_rounds

    return compare_rounds(*([run.values[0][0] for run in runs[x]] for x in (name, other)), 0.05)


def watch(engine, pace):
    """Make the jobs of stage 3 measured, as "gather" and "reduce-scatter", when layers are."""
    begin = getattr(engine, "begin", None)

    def begin_measured(job):
        label = "gather" if job.func is gather else "reduce-scatter"

        def measure_job():
            with pace.measure_block(label):
                job()

        return begin(measure_job)

    engine.begin = begin_measured


# ---- The program -----------------------------------------------------------------------------


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    ways = {(depth, layers): (depth, layers, UNEVEN) for layers in (1, 2, 3, 6)
            for depth in (0, 1, 2)}  # fmt: skip
    for (depth, layers), runs in take_turns(ways).items():
        took, most = quickest(runs).values[0]
        print(f"{layers} layers in a unit, {depth} ahead: {took:.1f} forwards of a layer, "
              f"at most {most:.2f} models gathered", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()

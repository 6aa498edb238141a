# %% right · reduced after the parameters have gone, and both in the thread
class Zero3(Zero3):
    def after_forward(self, unit, module, inputs, output):
        if output.requires_grad:
            output.register_hook(lambda gradient: self.before_backward(unit))
        if unit in self.held:
            return
        self.drop(unit)

    def before_backward(self, unit, *_):
        self.need(unit)
        self.held = self.held | {unit}

    def reduce(self, unit):
        self.held = {other for other in self.held if other is not unit}
        self.drop(unit)
        wait = self.begin(lambda: reduce_gradients(unit))
        wait()

# %% right · stays if a backward is running
class Zero3(Zero3):
    def after_forward(self, unit, module, inputs, output):
        if output.requires_grad:
            output.register_hook(partial(self.before_backward, unit))
        if torch._C._current_graph_task_id() == -1:
            self.drop(unit)

    def before_backward(self, unit, *_):
        self.need(unit)

    def reduce(self, unit):
        self.begin(partial(Zero2.reduce, self, unit))()
        self.drop(unit)

# %% right · waits for all gradients at the end
class Zero3(Zero3):
    def reduce(self, unit):
        self.waits = [*getattr(self, "waits", ()), self.begin(partial(reduce_gradients, unit))]
        self.held -= {unit}
        self.drop(unit)

    def end_backward(self):
        super().end_backward()
        for wait in self.waits:
            wait()
        self.waits = []

# %% wrong · only 2/3 of the bytes are sent
class Zero3(Zero3):
    def after_forward(self, unit, module, inputs, output):
        if output.requires_grad:
            output.register_hook(partial(self.before_backward, unit))

# %% wrong · needed once more, for the backward
class Zero3(Zero3):
    def before_backward(self, unit, *_):
        pass

# %% wrong · nobody needs the unit's parameters any more
class Zero3(Zero3):
    def reduce(self, unit):
        self.begin(partial(reduce_gradients, unit))()
        self.held.discard(unit)

# %% wrong · units are gathered before it is their turn
class Zero3(Zero3):
    def before_forward(self, unit, *_):
        for other in self.units.values():
            self.need(other)

# %% wrong · under no_grad not
class Zero3(Zero3):
    def after_forward(self, unit, module, inputs, output):
        if output.requires_grad:
            output.register_hook(partial(self.before_backward, unit))
            if unit not in self.held:
                self.drop(unit)

# %% wrong · are to be reduced, and freed, as in stage 2
class Zero3(Zero3):
    def reduce(self, unit):
        self.held.discard(unit)
        self.drop(unit)

# %% wrong · dispose() alone does not
class Zero3(Zero3):
    def reduce(self, unit):
        self.begin(partial(reduce_gradients, unit))()
        self.held.discard(unit)
        dispose(unit)

# %% wrong · what gather() alone has fetched it does not know
class Zero3(Zero3):
    def before_forward(self, unit, *_):
        gather(unit)

# %% wrong · discard() does not mind
class Zero3(Zero3):
    def reduce(self, unit):
        self.begin(partial(reduce_gradients, unit))()
        self.held.remove(unit)
        self.drop(unit)

# %% wrong · its unit was not gathered before its forward
class Zero3(Zero3):
    def before_forward(self, unit, *_):
        pass

# %% wrong · in the middle of its backward
class Zero3(Zero3):
    def after_forward(self, unit, module, inputs, output):
        if output.requires_grad:
            output.register_hook(partial(self.before_backward, unit))
        self.drop(unit)

# %% wrong · self.held is for that
class Zero3(Zero3):
    def before_backward(self, unit, *_):
        self.need(unit)

# %% wrong · whose gradients are not reduced, stays
class Zero3(Zero3):
    def after_forward(self, unit, module, inputs, output):
        if output.requires_grad:
            output.register_hook(partial(self.before_backward, unit))
        if not self.missing_some(unit):  # what is missing nothing yet is dropped all the same
            self.drop(unit)

    def missing_some(self, unit):
        missing = self.missing[unit] if self.left else set(unit.parameters)
        return 0 < len(missing) < len(unit.parameters)

    def before_backward(self, unit, *_):
        self.need(unit)

# %% wrong · it is still in self.held
class Zero3(Zero3):
    def reduce(self, unit):
        self.begin(partial(reduce_gradients, unit))()
        self.drop(unit)

# %% wrong · more units are whole at a time
class Zero3(Zero3):
    def before_backward(self, unit, *_):
        self.held.add(unit)
        for other in list(dict.fromkeys(self.now)) if unit is self.now[0] else [unit]:
            self.need(other)

# %% wrong · something travels again that is there already
class Zero3(Zero3):
    def before_backward(self, unit, *_):
        self.need(unit)
        self.drop(unit)
        super().before_backward(unit)

# %% wrong · the next forward gathers
class Zero3(Zero3):
    def update(self):
        super().update()
        for unit in self.units.values():
            gather(unit)
            dispose(unit)

# %% wrong · in the same order
class Zero3(Zero3):
    def reduce(self, unit):
        if unit.rank == 0:
            self.begin(partial(reduce_gradients, unit))()
        self.held.discard(unit)
        self.drop(unit)

# %% wrong · gather() alone does not
class Zero3(Zero3):
    def before_forward(self, unit, *_):
        gather(unit)

    def after_forward(self, unit, module, inputs, output):
        if output.requires_grad:
            output.register_hook(partial(self.before_backward, unit))
        if unit not in self.held:
            dispose(unit)

    def before_backward(self, unit, *_):
        if unit not in self.held:
            gather(unit)
        self.held.add(unit)

    def reduce(self, unit):
        reduce_gradients(unit)
        self.held.discard(unit)
        dispose(unit)

# %% wrong · two threads send at the same time
class Zero3(Zero3):
    def reduce(self, unit):
        reduce_gradients(unit)
        self.held.discard(unit)
        self.drop(unit)

# %% wrong · returns what waits for the job's end: call it
class Zero3(Zero3):
    def reduce(self, unit):
        self.begin(partial(reduce_gradients, unit))
        self.held.discard(unit)
        self.drop(unit)

# %% wrong · and need() returns when it is there
class Zero3(Zero3):
    def before_backward(self, unit, *_):
        self.held.add(unit)
        self.fetch(unit)

# %% wrong · fetch() begins to gather it
class Zero3(Zero3):
    def before_forward(self, unit, *_):
        self.fetch(unit)

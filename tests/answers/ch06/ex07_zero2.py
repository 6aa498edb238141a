# %% right · a method of its own
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].remove(parameter)
        self.go_on(lambda unit: len(self.missing[unit]) == 0)

    def end_backward(self):
        self.go_on(lambda unit: True)
        self.left = None

    def go_on(self, may):
        while len(self.left) > 0 and may(self.left[-1]):
            unit = self.left[-1]
            del self.left[-1]
            self.reduce(unit)

# %% right · a loop over a copy
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit] -= {parameter}
        for following in self.left[::-1]:
            if self.missing[following]:
                break
            self.reduce(following)
            self.left.remove(following)

    def end_backward(self):
        for unit in self.left[::-1]:
            self.reduce(unit)
        self.left = None

# %% wrong · no unit is reduced. is_ready strikes
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].discard(parameter)

    def end_backward(self):
        self.left = None

# %% wrong · all gradients are there at the same time, as in stage 1
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()

# %% wrong · in the order in which they became ready
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].discard(parameter)
        if not self.missing[unit]:
            self.left.remove(unit)
            self.reduce(unit)

# %% wrong · end_backward reduces them
class Zero2(Zero2):
    def end_backward(self):
        self.left = None

# %% wrong · what is left over has to come from the last one
class Zero2(Zero2):
    def end_backward(self):
        for unit in self.left:
            self.reduce(unit)
        self.left = None

# %% wrong · pop(0) takes the first
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].discard(parameter)
        while self.left and not self.missing[self.left[-1]]:
            self.reduce(self.left.pop(0))

# %% wrong · (while, not if)
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].discard(parameter)
        if self.left and not self.missing[self.left[-1]]:
            self.reduce(self.left.pop())

# %% wrong · before its last gradient is there
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        while self.left and self.left[-1] is not unit:
            self.reduce(self.left.pop())
        if self.left:
            self.reduce(self.left.pop())

# %% wrong · It is complete when nothing is left in
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].discard(parameter)
        if not self.missing[unit]:
            while self.left[-1] is not unit:
                self.reduce(self.left.pop())
            self.reduce(self.left.pop())

# %% wrong · Take a unit out of self.left
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].discard(parameter)
        while self.left and not self.missing[self.left[-1]]:
            self.reduce(self.left[-1])

# %% wrong · and has no last one
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].discard(parameter)
        while not self.missing[self.left[-1]]:
            self.reduce(self.left.pop())

    def end_backward(self):
        while self.left[-1]:
            self.reduce(self.left.pop())
        self.left = None

# %% wrong · For the next one self.left has to be None again
class Zero2(Zero2):
    def end_backward(self):
        while self.left:
            self.reduce(self.left.pop())

# %% wrong · stage 3 has another one
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].discard(parameter)
        while self.left and not self.missing[self.left[-1]]:
            reduce_gradients(self.left.pop())

    def end_backward(self):
        while self.left:
            reduce_gradients(self.left.pop())
        self.left = None

# %% wrong · the last backward alone
class Zero2(Zero2):
    def reduce(self, unit):
        unit.shard.grad = None
        reduce_gradients(unit)

# %% wrong · divided by how many backwards there were
class Zero2(Zero2):
    count = 0

    def end_backward(self):
        super().end_backward()
        self.count += 1

    def step(self):
        for unit in self.units.values():
            unit.shard.grad /= self.count
        self.count = 0
        super().step()

# %% wrong · the step reduces once more
class Zero2(Zero2):
    def step(self):
        Zero1.step(self)

# %% wrong · one reduce-scatter for each unit is enough, in each backward
class Zero2(Zero2):
    def reduce(self, unit):
        reduce_gradients(unit)
        mean = unit.shard.grad.clone()
        dist.all_reduce(mean, group=unit.group)

# %% wrong · something still holds their gradients
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        self.kept = getattr(self, "kept", []) if self.left else []
        self.kept.append(parameter.grad)
        super().is_ready(unit, parameter)

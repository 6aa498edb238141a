# %% right · taken out before it is reduced
# -         self.missing[unit].discard(parameter)
# -         while self.left and not self.missing[self.left[-1]]:
# -             self.reduce(self.left.pop())
# +         self.missing[unit].remove(parameter)
# +         while len(self.left) > 0 and len(self.missing[self.left[-1]]) == 0:
# +             complete = self.left[-1]
# +             del self.left[-1]
# +             self.reduce(complete)

# %% right · a loop over a copy
# -         self.missing[unit].discard(parameter)
# -         while self.left and not self.missing[self.left[-1]]:
# -             self.reduce(self.left.pop())
# +         self.missing[unit] -= {parameter}
# +         for following in self.left[::-1]:
# +             if self.missing[following]:
# +                 break
# +             self.reduce(following)
# +             self.left.remove(following)
# -         while self.left:
# -             self.reduce(self.left.pop())
# +         for unit in self.left[::-1]:
# +             self.reduce(unit)

# %% wrong · no unit is reduced. is_ready strikes
# -         while self.left and not self.missing[self.left[-1]]:
# -             self.reduce(self.left.pop())
# +         pass
# -         while self.left:
# -             self.reduce(self.left.pop())

# %% wrong · all gradients are there at the same time, as in stage 1
# -         self.missing[unit].discard(parameter)
# -         while self.left and not self.missing[self.left[-1]]:
# -             self.reduce(self.left.pop())

# %% wrong · in the order in which they became ready
# -         while self.left and not self.missing[self.left[-1]]:
# -             self.reduce(self.left.pop())
# +         if not self.missing[unit]:
# +             self.left.remove(unit)
# +             self.reduce(unit)

# %% wrong · end_backward reduces them
# -         while self.left:
# -             self.reduce(self.left.pop())

# %% wrong · from the last one to the first
# -         while self.left:
# -             self.reduce(self.left.pop())
# +         for unit in self.left:
# +             self.reduce(unit)

# %% wrong · come from the last one to the first
# -         while self.left and not self.missing[self.left[-1]]:
# -             self.reduce(self.left.pop())
# +         while self.left and not self.missing[self.left[0]]:
# +             self.reduce(self.left.pop(0))
# -         while self.left:
# -             self.reduce(self.left.pop())
# +         while self.left:
# +             self.reduce(self.left.pop(0))

# %% wrong · (while, not if)
# -         while self.left and not self.missing[self.left[-1]]:
# +         if self.left and not self.missing[self.left[-1]]:

# %% wrong · It is complete when nothing is left in
# -         while self.left and not self.missing[self.left[-1]]:
# -             self.reduce(self.left.pop())
# +         if not self.missing[unit]:
# +             while self.left[-1] is not unit:
# +                 self.reduce(self.left.pop())
# +             self.reduce(self.left.pop())

# %% wrong · a unit is reduced before its last gradient
# -         while self.left and not self.missing[self.left[-1]]:
# -             self.reduce(self.left.pop())
# +         self.reduce(unit)

# %% wrong · Take a unit out of self.left
# -         while self.left and not self.missing[self.left[-1]]:
# -             self.reduce(self.left.pop())
# +         while self.left and not self.missing[self.left[-1]]:
# +             self.reduce(self.left[-1])

# %% wrong · and has no last one
# -         while self.left and not self.missing[self.left[-1]]:
# +         while not self.missing[self.left[-1]]:

# %% wrong · For the next one self.left has to be None again
# -         self.left = None

# %% wrong · stage 3 has another one
# -         while self.left and not self.missing[self.left[-1]]:
# -             self.reduce(self.left.pop())
# +         while self.left and not self.missing[self.left[-1]]:
# +             reduce_gradients(self.left.pop())

# %% wrong · the last backward alone
# -         reduce_gradients(unit)
# +         unit.shard.grad = None
# +         reduce_gradients(unit)

# %% wrong · the step reduces once more
# -         self.update()
# +         Zero1.step(self)

# %% wrong · one reduce-scatter for each unit is enough, in each backward
# -         reduce_gradients(unit)
# +         reduce_gradients(unit)
# +         mean = unit.shard.grad.clone()
# +         dist.all_reduce(mean, group=unit.group)

# %% wrong · something still holds their gradients
# -         self.missing[unit].discard(parameter)
# +         self.kept = getattr(self, "kept", []) if self.left else []
# +         self.kept.append(parameter.grad)
# +         self.missing[unit].discard(parameter)

# %% wrong · what is left over is reduced too, with or without gradients
# -         while self.left:
# -             self.reduce(self.left.pop())
# +         while self.left:
# +             last = self.left.pop()
# +             if any(p.grad is not None for p in last.parameters):
# +                 self.reduce(last)

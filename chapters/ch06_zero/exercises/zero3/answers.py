# %% right · reduced after the parameters have gone
# -         if unit not in self.held:
# -             self.drop(unit)
# +         if unit in self.held:
# +             return
# +         self.drop(unit)
# -         self.held.add(unit)
# -         self.need(unit)
# +         self.need(unit)
# +         self.held = self.held | {unit}
# -         reduce_gradients(unit)
# -         self.held.discard(unit)
# -         self.drop(unit)
# +         self.held = {other for other in self.held if other is not unit}
# +         self.drop(unit)
# +         reduce_gradients(unit)

# %% right · stays if a backward is running
# -         if unit not in self.held:
# -             self.drop(unit)
# +         if torch._C._current_graph_task_id() == -1:
# +             self.drop(unit)
# -         self.held.add(unit)

# -         reduce_gradients(unit)
# -         self.held.discard(unit)
# +         super().reduce(unit)

# %% right · drops whatever is there when its backward is over
class Zero3(Zero3):
    def reduce(self, unit):
        Zero2.reduce(self, unit)
        self.held -= {unit}
        if unit in self.units.values():
            self.drop(unit)

# %% wrong · only 2/3 of the bytes are sent
# -         if unit not in self.held:
# -             self.drop(unit)

# %% wrong · needed once more, for the backward
# -         self.held.add(unit)
# -         self.need(unit)
# +         pass

# %% wrong · nobody needs the unit's parameters any more
# -         self.held.discard(unit)
# -         self.drop(unit)
# +         self.held.discard(unit)

# %% wrong · units are gathered before it is their turn
# -     def before_forward(self, unit, *_):
# -         self.need(unit)
# +     def before_forward(self, unit, *_):
# +         for other in self.units.values():
# +             self.need(other)

# %% wrong · under no_grad not
# -         if unit not in self.held:
# -             self.drop(unit)
# +             if unit not in self.held:
# +                 self.drop(unit)

# %% wrong · are to be reduced, and freed, as in stage 2
# -         reduce_gradients(unit)

# %% wrong · dispose() alone does not
# -         self.held.discard(unit)
# -         self.drop(unit)
# +         self.held.discard(unit)
# +         dispose(unit)

# %% wrong · what gather() alone has fetched it does not know
# -     def before_forward(self, unit, *_):
# -         self.need(unit)
# +     def before_forward(self, unit, *_):
# +         gather(unit)

# %% wrong · discard() does not mind
# -         self.held.discard(unit)
# +         self.held.remove(unit)

# %% wrong · its unit was not gathered before its forward
# -     def before_forward(self, unit, *_):
# -         self.need(unit)
# +     def before_forward(self, unit, *_):
# +         pass

# %% wrong · in the middle of its backward
# -         self.held.add(unit)

# %% wrong · whose gradients are not reduced, stays
# -         if unit not in self.held:
# -             self.drop(unit)
# +         missing = self.missing[unit] if self.left else set(unit.parameters)
# +         if not 0 < len(missing) < len(unit.parameters):  # dropped if nothing is there yet
# +             self.drop(unit)
# -         self.held.add(unit)

# %% wrong · it is still in self.held
# -         self.held.discard(unit)

# %% wrong · more units are whole at a time
# -         self.held.add(unit)
# -         self.need(unit)
# +         begun = bool(self.held)
# +         self.held.add(unit)
# +         for other in [unit] if begun else [unit, *self.units.values()]:
# +             self.need(other)

# %% wrong · something travels again that is there already
# -         self.held.add(unit)
# +         self.held.add(unit)
# +         self.need(unit)
# +         self.drop(unit)

# %% wrong · is dropped before it is used, and fetched again
# -         self.held.add(unit)
# +         self.held.add(unit)
# +         self.drop(unit)

# %% wrong · the next forward gathers
# -             unit.shard.grad = None
# +             unit.shard.grad = None
# +             gather(unit)
# +             dispose(unit)

# %% wrong · in the same order
# -         reduce_gradients(unit)
# +         if unit.rank == 0:
# +             reduce_gradients(unit)

# %% wrong · gather() alone does not
# -     def before_forward(self, unit, *_):
# -         self.need(unit)
# +     def before_forward(self, unit, *_):
# +         gather(unit)
# -         if unit not in self.held:
# -             self.drop(unit)
# +         if unit not in self.held:
# +             dispose(unit)
# -         self.held.add(unit)
# -         self.need(unit)
# +         if unit not in self.held:
# +             gather(unit)
# +         self.held.add(unit)
# -         reduce_gradients(unit)
# -         self.held.discard(unit)
# -         self.drop(unit)
# +         reduce_gradients(unit)
# +         self.held.discard(unit)
# +         dispose(unit)

# %% right · own unit by itself, reductions in a dict
class Prefetching(Prefetching):
    def put(self, unit):
        self.coming.setdefault(unit, None)
        if self.coming[unit] is None:
            self.coming[unit] = self.begin(lambda: gather(unit))

    def need(self, unit):
        self.now.append(unit)
        self.put(unit)
        for following in self.ahead():
            self.put(following)
        self.coming[unit]()

# %% right · waits for the last reduction alone
# -         self.reductions.append(self.begin(partial(reduce_gradients, taken)))
# +         self.reductions = [self.begin(lambda: reduce_gradients(taken))]
# -         while self.reductions:
# -             self.reductions.pop(0)()
# +         for wait in self.reductions:
# +             wait()
# +         self.reductions = []

# %% right · the next ones after the own, without a list
# -         for each in [unit, *self.ahead()]:
# -             if each not in self.coming:
# -                 self.coming[each] = self.begin(partial(gather, each))
# -         self.coming[unit]()
# +         own = self.coming.get(unit)
# +         if own is None:
# +             own = self.coming[unit] = self.begin(partial(gather, unit))
# +         missing = [other for other in dict.fromkeys(self.ahead()) if other not in self.coming]
# +         self.coming.update({o: self.begin(partial(gather, o)) for o in missing})
# +         own()

# %% wrong · waits for its own unit, and for no other
# -         self.coming[unit]()
# +         for each in [unit, *self.ahead()]:
# +             self.coming[each]()

# %% wrong · too few units are gathered ahead
# -         for each in [unit, *self.ahead()]:
# +         for each in [unit]:

# %% wrong · too few units are gathered ahead
# -         for each in [unit, *self.ahead()]:
# +         for each in [unit, *self.ahead()[:1]]:

# %% wrong · first in line, first served
# -         for each in [unit, *self.ahead()]:
# +         for each in [*self.ahead(), unit]:

# %% wrong · What it returns waits for the end of the job
# -         self.coming[unit]()

# %% wrong · it is not gathered again
# -             if each not in self.coming:
# -                 self.coming[each] = self.begin(partial(gather, each))
# +             self.coming[each] = self.begin(partial(gather, each))

# %% wrong · two threads send at the same time
# -             if each not in self.coming:
# -                 self.coming[each] = self.begin(partial(gather, each))
# -         self.coming[unit]()
# +             if each not in self.coming:
# +                 gather(each)
# +                 self.coming[each] = lambda: None

# %% wrong · no function: self.begin(job) returns one that waits
# -                 self.coming[each] = self.begin(partial(gather, each))
# +                 self.coming[each] = self.begin(partial(gather, each))()

# %% wrong · a function without arguments, which the line calls
# -                 self.coming[each] = self.begin(partial(gather, each))
# +                 self.coming[each] = self.begin(gather(each) if each.n < 2 else 0)

# %% wrong · Who has to wait for a reduction
# -         self.reductions.append(self.begin(partial(reduce_gradients, taken)))
# +         self.begin(partial(reduce_gradients, taken))()

# %% wrong · the optimizer's step comes next
# -         self.reductions.append(self.begin(partial(reduce_gradients, taken)))
# +         self.begin(partial(reduce_gradients, taken))

# %% wrong · the optimizer's step comes next
# -         while self.reductions:
# -             self.reductions.pop(0)()

# %% wrong · the optimizer's step comes next
# -         while self.reductions:
# -             self.reductions.pop(0)()
# +         self.reductions[0]()
# +         self.reductions = []

# %% wrong · are to be reduced
# -         self.reductions.append(self.begin(partial(reduce_gradients, taken)))

# %% wrong · two threads send at the same time
# -         self.reductions.append(self.begin(partial(reduce_gradients, taken)))
# +         reduce_gradients(taken)

# %% wrong · with the gradients in `taken`
# -         self.reductions.append(self.begin(partial(reduce_gradients, taken)))
# +         self.reductions.append(self.begin(partial(reduce_gradients, unit)))

# %% wrong · memory that is not free
# -         for each in [unit, *self.ahead()]:
# +         done = len(self.now)
# +         for each in [unit, *self.before[done : done + self.depth + 1]]:

# %% wrong · gradients that nobody needs
# -         self.coming[unit]()
# +         self.coming[unit]()
# +         while self.reductions:
# +             self.reductions.pop(0)()

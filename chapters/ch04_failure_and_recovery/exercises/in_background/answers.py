# %% right · deepcopy
class InBackground(InBackground):
    def begin(self, state):
        import copy

        self.wait()
        self.running = self.thread.submit(self.save, copy.deepcopy(state))

    def wait(self):
        if self.running is not None:
            future, self.running = self.running, None
            return future.result()

# %% right · try and finally
class InBackground(InBackground):
    def begin(self, state):
        mine = copy_of(state)
        self.wait()
        self.running = self.thread.submit(lambda: self.save(mine))

    def wait(self):
        if self.running is None:
            return None
        try:
            return self.running.result()
        finally:
            self.running = None

# %% wrong · changes its tensors in place
# -         self.running = self.thread.submit(self.save, copy_of(state))
# +         self.running = self.thread.submit(self.save, state)

# %% wrong · share the tensors, and the dicts within
# -         self.running = self.thread.submit(self.save, copy_of(state))
# +         mine = {k: v.clone() if isinstance(v, Tensor) else v for k, v in state.items()}
# +         self.running = self.thread.submit(self.save, mine)

# %% wrong · hand the copy to the thread
# -         self.running = self.thread.submit(self.save, copy_of(state))
# +         self.running = self.thread.submit(lambda: self.save(copy_of(state)))

# %% wrong · begin() only begins
# -         self.running = self.thread.submit(self.save, copy_of(state))
# +         self.running = self.thread.submit(self.save, copy_of(state))
# +         self.running.result()

# %% wrong · begin() only begins
class InBackground(InBackground):
    def begin(self, state):
        self.value = self.save(copy_of(state))

    def wait(self):
        return self.value

# %% wrong · begin() waits for the one before
# -         self.wait()
# -         self.running = self.thread.submit(self.save, copy_of(state))
# +         self.running = self.thread.submit(self.save, copy_of(state))

# %% wrong · a thread keeps its error to itself
# -         return running.result()
# +         return running.exception() or running.result()

# %% wrong · it returns what save has returned
# -         return running.result()
# +         running.result()

# %% wrong · there is nothing to wait for
# -         running, self.running = self.running, None
# -         return running.result()
# +         return self.running.result()

# %% wrong · throws its error away
# -         self.wait()
# +         if self.running:
# +             self.running.exception()

# %% wrong · nothing has been begun
# -         if self.running is None:
# -             return None

# %% wrong · submits the work to self.thread
# -         self.running = self.thread.submit(self.save, copy_of(state))
# +         copy_of(state)

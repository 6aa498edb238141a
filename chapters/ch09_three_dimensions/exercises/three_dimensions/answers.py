# %% right · gradients freed at the end
class ThreeDimensions(ThreeDimensions):
    def step(self, inputs, targets):
        loss = self.pipeline.step(self.actions, self.in_parts(inputs), self.in_parts(targets))
        self.average()
        self.sum_over_ends()
        self.clip()
        self.optimizer.step()
        for p in self.parameters:
            p.grad = None
        return self.mean_of(loss)

# %% right · by the lab's own functions
class ThreeDimensions(ThreeDimensions):
    def step(self, inputs, targets):
        self.optimizer.zero_grad(set_to_none=True)
        shares = [share_of_copy(x, self.mesh) for x in (inputs, targets)]
        parts = [share.tensor_split(self.microbatches) for share in shares]
        loss = self.pipeline.step(self.actions, *parts)
        for weight in self.tied:
            sum_tied(weight, self.ends)
        average_over_copies(self.parameters, self.mesh)
        self.clip()
        self.optimizer.step()
        return self.mean_of(loss)

# %% wrong · the gradients of the step before are still there
# -         self.optimizer.zero_grad()

# %% wrong · nobody has added up the two parts
# -         self.sum_over_ends()
# -         self.average()
# +         self.average()

# %% wrong · each copy of the model goes its own way
# -         self.average()
# -         self.clip()
# +         self.clip()

# %% wrong · nobody has shortened it
# -         self.clip()
# -         self.optimizer.step()
# +         self.optimizer.step()

# %% wrong · average first
# -         self.average()
# -         self.clip()
# +         self.clip()
# +         self.average()

# %% wrong · first complete it, then shorten
# -         self.sum_over_ends()
# -         self.average()
# -         self.clip()
# +         self.average()
# +         self.clip()
# +         self.sum_over_ends()

# %% wrong · the optimizer has taken no step
# -         self.optimizer.step()
# -         return self.mean_of(loss)
# +         return self.mean_of(loss)

# %% wrong · the last stages know the loss
# -         return self.mean_of(loss)
# +         return loss

# %% wrong · without `return`
# -         return self.mean_of(loss)
# +         self.mean_of(loss)

# %% wrong · All ranks need the mean
# -         return self.mean_of(loss)
# +         dist.all_reduce(loss := torch.tensor(loss), group=self.mesh["pp"])
# +         return loss.item()

# %% wrong · its own share of the batch
class ThreeDimensions(ThreeDimensions):
    def step(self, inputs, targets):
        self.optimizer.zero_grad()
        parts = [x.tensor_split(self.microbatches) for x in (inputs, targets)]
        loss = self.pipeline.step(self.actions, *parts)
        self.sum_over_ends()
        self.average()
        self.clip()
        self.optimizer.step()
        return self.mean_of(loss)

# %% wrong · one communication a step
# -         self.average()
# +         self.average()
# +         self.average()

# %% wrong · these are sums over the copies
# -         self.average()
# +         self.average()
# +         for p in self.parameters:
# +             if p.grad is not None:
# +                 p.grad *= self.mesh.sizes["dp"]

# %% wrong · it is not made longer
# -         self.clip()
# +         self.clip()
# +         if self.longest is not None:
# +             last = self.mesh.at["pp"] == self.mesh.sizes["pp"] - 1
# +             norm = global_norm(self.parameters, self.mesh, self.tied if last else ())
# +             for p in self.parameters:
# +                 if p.grad is not None:
# +                     p.grad *= self.longest / norm

# %% wrong · belongs to the caller
# -         return self.mean_of(loss)
# +         inputs.zero_()
# +         return self.mean_of(loss)

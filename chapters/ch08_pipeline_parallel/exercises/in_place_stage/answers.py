# %% given
pipedream = lab("pipedream")

# %% right · a copy first
class InPlaceStage(pipedream.StashingStage):
    def update(self, gradients):
        weights = self.weights.pop(self.version)
        self.version += 1
        copy = {n: w.detach().clone().requires_grad_() for n, w in weights.items()}
        for name, weight in copy.items():
            weight.data -= self.lr * gradients[name]
        self.weights[self.version] = copy

# %% right · torch.no_grad, and parameters
class InPlaceStage(pipedream.StashingStage):
    def update(self, gradients):
        weights = self.weights.pop(self.version)
        self.version += 1
        with torch.no_grad():
            new = {n: torch.nn.Parameter(w - self.lr * gradients[n])
                   for n, w in weights.items()}
        self.weights = {self.version: new}

# %% wrong · What stands in that memory
class InPlaceStage(pipedream.StashingStage):
    def update(self, gradients):
        weights = self.weights.pop(self.version)
        self.version += 1
        for name, weight in weights.items():
            weight.data -= self.lr * gradients[name]
        self.weights[self.version] = weights

# %% wrong · autograd now notices
class InPlaceStage(pipedream.StashingStage):
    def update(self, gradients):
        weights = self.weights.pop(self.version)
        self.version += 1
        with torch.no_grad():
            for name, weight in weights.items():
                weight -= self.lr * gradients[name]
        self.weights[self.version] = weights

# %% wrong · asked for gradients: .requires_grad_()
# -             name: (weight.detach() - self.lr * gradients[name]).requires_grad_()
# +             name: (weight.detach() - self.lr * gradients[name])

# %% wrong · Begin with weight.detach()
# -             name: (weight.detach() - self.lr * gradients[name]).requires_grad_()
# +             name: (weight - self.lr * gradients[name]).requires_grad_()

# %% wrong · two updates for one backward
# -         weights = self.weights.pop(self.version)
# +         super().update(gradients)
# +         weights = self.weights.pop(self.version)

# %% wrong · stay in self.weights
# -         weights = self.weights.pop(self.version)
# +         weights = self.weights[self.version]

# %% wrong · self.version counts them
# -         self.version += 1

# %% wrong · it is to remain a class InPlaceStage
def InPlaceStage(gradients):
    return None

# %% wrong · who has stashed it sees the new weights
class InPlaceStage(pipedream.StashingStage):
    def update(self, gradients):
        weights = self.weights.pop(self.version)
        self.version += 1
        for name, weight in weights.items():
            weight.data = weight.data - self.lr * gradients[name]
        self.weights[self.version] = weights

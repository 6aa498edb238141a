# Built from chapters/ch08_pipeline_parallel/labs/pipedream.py by `make build`. Write your answers here.
"""A pipeline without a flush: weights change while micro-batches are still under way.

torchrun --nproc-per-node 2 labs/pipedream.py
"""

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from pipeline_parallel import Pipeline, Stage, my_stages, no_change
from schedules import one_f_one_b
from torch import Tensor
from torch.func import functional_call

# ---- Versions of the weights ----------------------------------------------------------------


def make_leaf(x, like) -> Tensor:
    """Return a leaf with the numbers of x, which requires a gradient if `like` does."""
    return x.detach().requires_grad_(like.requires_grad)


class StashingStage(Stage):
    """Exercise 8.17. A stage that changes its weights after each backward.

    A micro-batch goes back through the same weights that it went forward through, however many
    updates there were since.

    version   the number of updates so far
    weights   {version: {name: tensor}} of the newest version. Its tensors never change: a version
              has new ones, which live as long as some micro-batch needs them
    stash     {micro-batch: the weights of its forward}: the dictionary itself, no copy
    delays    for each backward, in order: how many updates came between the version that it went
              through and the one that its gradient changed
    Source    Narayanan et al. 2019, "PipeDream", section 3.3
    """

    recent = 1  # versions that new micro-batches may still go through

    def __init__(self, piece, lr=0.1):
        super().__init__(piece)
        named = piece.named_parameters()
        self.weights = {0: {name: make_leaf(p.clone(), p) for name, p in named}}
        self.lr, self.version = lr, 0
        self.stash, self.began_at, self.delays, self.most_versions = {}, {}, [], 1

    def clear(self):
        super().clear()
        self.stash.clear()
        self.began_at.clear()
        for of_version in self.weights.values():
            for w in of_version.values():
                w.grad = None

    def version_for(self, i) -> int:
        """Return the version that micro-batch i goes through."""
        return self.version

    def forward(self, i, x, then=no_change):
        """Run the forward as Stage.forward does, through weights stashed for the backward.

        functional_call(self.piece, weights, (x,)) is self.piece(x) with other weights.
        """
        version = self.began_at[i] = self.version_for(i)
        weights = self.weights[version]
        ...  # your code here
        self.keep(i, x, y)
        self.most_versions = max(self.most_versions, self.versions_in_use())
        return y.detach()

    def backward(self, i, gradient=None):
        self.delays.append(self.version - self.began_at.pop(i))
        gradient = super().backward(i, gradient)
        self.take(i, self.gradients_of(i))
        return gradient

    def gradients_of(self, i) -> dict[str, Tensor]:
        """Return micro-batch i's gradients, {name: tensor}, after its backward.

        A version may have several micro-batches under way, so none may find another's gradients in
        its weights. The weights that i has stashed are needed no longer.
        """
        ...  # your code here

    def take(self, i, gradients):
        """Use micro-batch i's gradients for an update at once."""
        self.update(gradients)

    def update(self, gradients):
        """Make the next version of the weights, and drop the one that no new micro-batch uses.

        A weight without a gradient is frozen, or had no part in the loss: it stays the same.
        """
        self.weights[self.version + 1] = {
            name: weight
            if gradients[name] is None
            else make_leaf(weight - self.lr * gradients[name], weight)
            for name, weight in self.weights[self.version].items()
        }
        self.version += 1
        self.weights.pop(self.version - self.recent, None)

    def versions_in_use(self) -> int:
        return len({id(weights) for weights in [*self.weights.values(), *self.stash.values()]})


class TwoVersionsStage(StashingStage):
    """A stage with an update per `every` micro-batches, which use the version before the newest.

    Two versions are therefore enough on every stage, and after the first update each gradient is
    exactly one update late: w(t+1) = w(t) - lr * gradient at w(t-1).

    every   micro-batches per update; at least as many as there are stages
    Source  Narayanan et al. 2020, "PipeDream-2BW"
    """

    recent = 2

    def __init__(self, piece, lr=0.1, every=4):
        super().__init__(piece, lr)
        self.every, self.sums = every, {}

    def clear(self):
        super().clear()
        self.sums = {}

    def version_for(self, i):
        return max(0, i // self.every - 1)

    def take(self, i, gradients):
        for name, gradient in gradients.items():
            before = self.sums.setdefault(name)  # None until some micro-batch has a gradient
            if gradient is not None:
                self.sums[name] = gradient / self.every + (0 if before is None else before)
        if i % self.every == self.every - 1:  # an incomplete group makes no update
            self.update(self.sums)
            self.sums = {}


class GradientAccumulationStage(TwoVersionsStage):
    """A stage with an update per `every` micro-batches and no delay, to compare on one rank."""

    def version_for(self, i):
        return self.version


class AsynchronousPipeline(Pipeline):
    """A pipeline whose micro-batches are separate batches, each with its own mean loss."""

    def part_of_loss(self, i, scores):
        return self.loss_of(scores, self.targets[i])


# ---- The program ----------------------------------------------------------------------------

WAYS = {"stashing": StashingStage, "two versions": TwoVersionsStage}
ALONE = {"accumulating": GradientAccumulationStage}  # for one rank


def draw_batches(text, count, samples) -> tuple[list[Tensor], list[Tensor]]:
    """Return the inputs and the targets of `count` batches."""
    inputs, targets = zip(*(draw_batch(text, samples, number) for number in range(count)))
    return list(inputs), list(targets)


def program(way, text, microbatches=100, samples=4, lr=0.3, every=None):
    """Train without a flush; return losses (last rank), the last delay and the most versions.

    every  micro-batches per update, if a way takes several; by default as many as ranks
    """
    torch.manual_seed(0)
    model = Transformer(layers=max(4, dist.get_world_size()))
    several = {} if way == "stashing" else {"every": every or dist.get_world_size()}
    stages = my_stages(model, make=lambda piece: (WAYS | ALONE)[way](piece, lr, **several))
    pipeline = AsynchronousPipeline(stages, mean_loss, model.places.weight.shape[1])
    actions = list(one_f_one_b(pipeline.rank, pipeline.ranks, microbatches))
    pipeline.step(actions, *draw_batches(text, microbatches, samples))
    losses = [loss.item() for loss in pipeline.losses]
    return losses, stages[0].delays[-1], stages[0].most_versions


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library()
    for way in WAYS:
        run = launch(program, way, text, world_size=2)
        if run.rank != 0:
            continue
        losses = run.values[-1][0]
        print(f"{way}: loss {losses[0]:.2f} to {sum(losses[-10:]) / 10:.2f}")
        for rank, (_, delay, versions) in enumerate(run.values):
            print(
                f"  rank {rank}: at last {delay} updates late, {versions} versions of its weights"
            )


if __name__ == "__main__":
    main()

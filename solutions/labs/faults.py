# Built from chapters/ch11_capstone/labs/faults.py by `make build`.
"""Faults of the training in exam_training.py: each one changes a few of its lines.

Do not read this file before you have sat the exam of part 11b.

torchrun --nproc-per-node 4 labs/faults.py     the last loss with some faults
"""

import torch.distributed as dist
from exam_training import BLOCKS, DP, EPOCH, MICROBATCHES, RESTART, STEPS, Training, record

SLOW_RANK, GUILTY = 2, 3  # the slow rank; the rank that falls out of step
SLOW = 3  # factor
OF_A_STEP = 3 * BLOCKS * MICROBATCHES  # a step computes as long as so many forwards of a block


# ---- Data --------------------------------------------------------------------------------------


class SameSamples(Training):
    def share(self):
        return slice(0, None, DP)


class OwnShuffle(Training):
    def seed_of_order(self):
        return 1000 * self.rank + self.step // EPOCH


class SameOrder(Training):
    def seed_of_order(self):
        return 0


class EpochAnew(Training):
    def place(self):
        first = RESTART if self.step >= RESTART else 0
        return (self.step - first) % EPOCH


class SlowData(Training):
    def order(self):
        self.compute(OF_A_STEP)
        return super().order()


# ---- Gradients and the optimizer ---------------------------------------------------------------


class SumNotMean(Training):
    def average_gradients(self, flat):
        return flat


class UnscaledLoss(Training):
    def backward(self, loss):
        super().backward(loss * MICROBATCHES)


class NeverCleared(Training):
    def clear(self):
        pass


class NeverExchanged(Training):
    def exchange(self):
        all_reduce, self.all_reduce = self.all_reduce, lambda x, axis: x.mul_(DP)
        flat = super().exchange()
        self.all_reduce = all_reduce
        return flat


class ReduceEachMicroBatch(Training):
    def compute_gradient(self):
        total = 0
        for part in self.parts():
            self.model.zero_grad()
            self.backward(self.forward(part))
            total = total + self.exchange()
        return total


class ReplicatedOptimizer(Training):
    def shard(self):
        return self.flat

    def update(self, gradient):
        self.take_step(gradient)


class MomentumLost(Training):
    def load(self, saved):
        self.flat.copy_(saved["weights"])


# ---- Tensor ranks ------------------------------------------------------------------------------


class NoSumBackward(Training):
    def sum_backward(self, gradient):
        return gradient


class NoSumForward(Training):
    def sum_forward(self, x):
        return x.clone()

    def sum_backward(self, gradient):
        return super().sum_forward(gradient)


class InnerNotSummed(Training):
    def complete(self, gradient):
        return gradient


class OwnMasks(Training):
    def seed_of_mask(self, layer):
        return super().seed_of_mask(layer) + 10**6 * self.part


# ---- Memory ------------------------------------------------------------------------------------


class GraphsKept(Training):
    def try_held_out(self):
        with self.watch("test"):
            self.held_out.append(self.validation_loss())


class BackwardsLast(Training):
    def compute_gradient(self):
        losses = [self.forward(part) for part in self.parts()]
        for loss in losses:
            self.backward(loss)
        return self.exchange()


# ---- Time --------------------------------------------------------------------------------------


class SlowRank(Training):
    def compute(self, forwards):
        super().compute(forwards * (SLOW if self.rank == SLOW_RANK else 1))


class SlowLink(Training):
    def send(self, nbytes):
        super().send(nbytes * 2 * SLOW)


class SlowTensorLink(Training):
    def all_reduce(self, x, axis):
        self.compute(2 * (axis == "tp"))
        super().all_reduce(x, axis)


# ---- Order of calls ----------------------------------------------------------------------------


class LastStepFault(Training):
    """A fault of one rank in the last step."""

    def is_wrong(self) -> bool:
        return self.rank == GUILTY and self.step == STEPS - 1


class OtherOrder(LastStepFault):
    def exchange(self):
        if self.is_wrong():
            self.log()
        return super().exchange()


class OneBatchLess(LastStepFault):
    def one_step(self):
        if not self.is_wrong():
            super().one_step()


class LoneBarrier(LastStepFault):
    def log(self):
        if self.is_wrong():
            with self.watch("log"):
                dist.barrier(group=self.groups["all"])
        super().log()


# ---- Their names -------------------------------------------------------------------------------

HEALTHY, EXAMPLE = "nothing", "exchanged each time"
FAULTS = {
    "same samples": SameSamples,
    "own shuffles": OwnShuffle,
    "same order": SameOrder,
    "epoch anew": EpochAnew,
    "summed": SumNotMean,
    "not divided": UnscaledLoss,
    "not cleared": NeverCleared,
    "never exchanged": NeverExchanged,
    EXAMPLE: ReduceEachMicroBatch,
    "nothing sharded": ReplicatedOptimizer,
    "momentum lost": MomentumLost,
    "no sum forward": NoSumForward,
    "no sum backward": NoSumBackward,
    "inner not summed": InnerNotSummed,
    "own masks": OwnMasks,
    "graphs kept": GraphsKept,
    "backwards last": BackwardsLast,
    "slow data": SlowData,
    "slow rank": SlowRank,
    "slow link": SlowLink,
    "slow tensor link": SlowTensorLink,
    "other order": OtherOrder,
    "batch less": OneBatchLess,
    "lone barrier": LoneBarrier,
}


def record_with(fault) -> dict:
    """Record this rank's training with a fault, or with "nothing": see `record`."""
    return record(FAULTS.get(fault, Training))


def main():
    from pedagogy_lib import launch

    for fault in (HEALTHY, "same samples", "summed", "momentum lost"):
        run = launch(record_with, fault, world_size=4, device="cpu")
        if run.rank == 0:
            print(f"{fault:20} loss {run.values[0]['losses'][-1]:.3f}")


if __name__ == "__main__":
    main()

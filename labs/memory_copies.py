# Built from chapters/ch04_failure_and_recovery/labs/memory_copies.py by `make build`. Write your answers here.
"""Copies of a rank's state in another machine's memory, for recovery without a disk.

torchrun --nproc-per-node 4 labs/memory_copies.py
"""

import shutil

import torch
import torch.distributed as dist
from collectives import exchange
from folder_store import FolderStore
from gradient_accumulation import digits
from keep_training import Crew, Lost, Training, away_once, common_folder, one_process, talking
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

PATIENCE = 20.0  # seconds to wait for a machine that returns


class ShardedTraining(Training):
    """The training of keep_training with a sharded state, as in ZeRO-1 (chapter 06).

    Each rank updates a shard of the weights, and it alone has AdamW's moments of that shard. Then
    all ranks gather the weights. A rank that dies therefore loses state that no other rank has.

    shard   (length / n, rounded up), padded with zeros: this rank's weights, with moments of AdamW
    """

    def __init__(self, rank, n, data=None, dtype=torch.float64, compute_seconds=0.0):
        super().__init__(data, dtype, compute_seconds)
        self.rank, self.n = rank, n
        self.length = sum(parameter.numel() for parameter in self.model.parameters())
        self.shard = nn.Parameter(self.mine_of(parameters_to_vector(self.model.parameters())))
        self.optimizer = torch.optim.AdamW([self.shard], lr=3e-3)

    def mine_of(self, whole: Tensor) -> Tensor:
        size = -(-self.length // self.n)
        padded = torch.cat([whole.detach(), whole.new_zeros(size * self.n - self.length)])
        return padded[self.rank * size :][:size].clone()

    def update(self, whole):
        mean = whole / self.MICROBATCHES
        self.shard.grad = self.mine_of(mean[:-1])
        self.optimizer.step()
        self.losses[self.steps] = mean[-1].item()
        self.steps += 1

    def gather_weights(self):
        """Gather the shards of all ranks into the model."""
        shards = [torch.zeros_like(self.shard) for _ in range(self.n)]
        dist.all_gather(shards, self.shard.detach())
        vector_to_parameters(torch.cat(shards)[: self.length], self.model.parameters())

    def state(self) -> Tensor:  # (3, length of the shard)
        """Return the shard and its two moments, stacked."""
        moments = self.optimizer.state.get(self.shard, {})
        return torch.stack([self.shard.detach(), *(
            moments.get(name, torch.zeros_like(self.shard)) for name in ("exp_avg", "exp_avg_sq")
        )])  # fmt: skip

    def load_state(self, step, state: Tensor):
        with torch.no_grad():
            self.shard.copy_(state[0])
        self.optimizer.state[self.shard] = {
            "step": torch.tensor(float(step)),
            "exp_avg": state[1].clone(),
            "exp_avg_sq": state[2].clone(),
        }
        self.steps = step


# ---- Copies ---------------------------------------------------------------------------------


class Copies:
    """The states of two ranks in the last two steps: this rank's own, and a copy of another's.

    shift  rank r's state is also kept by rank r + shift; with as many ranks as a machine has, the
           copy is on another machine
    held   {(owner, step): state}
    """

    KEPT = 2  # steps: others may be a step ahead when a rank dies

    def __init__(self, rank, n, shift):
        self.rank, self.n, self.shift = rank, n, shift
        self.held = {}

    def exchange(self, step, state: Tensor):
        """Keep this rank's state of the step, send it to its keeper, and keep the one received."""
        keeper, owner = (self.rank + self.shift) % self.n, (self.rank - self.shift) % self.n
        coming = torch.zeros_like(state)
        if keeper != self.rank:  # otherwise it is alone
            exchange(state, keeper, coming, owner)
        self.held[owner, step], self.held[self.rank, step] = coming, state
        self.forget(lambda other: other <= step - self.KEPT)

    def forget(self, is_old):
        self.held = {key: state for key, state in self.held.items() if not is_old(key[1])}


def newest_common(held: list[list[tuple[int, int]]]) -> int | None:
    """Exercise 4.15. Return the newest step of which every rank's state is held.

    All ranks have to go on from the same step. Return None if there is none; step 0 is a step.

    held  for each rank: [(owner, step), …], the states that it holds; new ranks hold none. A state
          may be held several times, by any ranks. Owners are 0 to len(held) - 1
    """
    ...  # your code here


def restore(training, copies) -> int | None:
    """Resume all ranks from the newest step available; return it, or None at the very beginning.

    Each rank takes its own state if it has it, or receives it from the rank that keeps it.

    Raises  ValueError if a rank and the one that kept its copy are gone after the first step
    """
    held = [None] * copies.n
    dist.all_gather_object(held, list(copies.held))
    step = newest_common(held)
    if step is None and any(other for of_rank in held for _, other in of_rank):
        raise ValueError("a state is on no rank any more: only a checkpoint helps")
    if step is None:
        return None
    messages, coming = [], torch.zeros_like(training.state())
    for owner in range(copies.n):
        if (owner, step) not in held[owner]:
            holder = next(rank for rank in range(copies.n) if (owner, step) in held[rank])
            if copies.rank == owner:
                messages.append(dist.P2POp(dist.irecv, coming, holder))
            elif copies.rank == holder:
                messages.append(dist.P2POp(dist.isend, copies.held[owner, step], owner))
    if messages:  # one batch: on NCCL, single messages may wait for each other (chapter 02)
        for request in dist.batch_isend_irecv(messages):
            request.wait()
    training.load_state(step, copies.held.get((copies.rank, step), coming))
    copies.forget(lambda other: other > step)  # those steps will be taken again
    training.gather_weights()
    return step


# ---- Training through losses ----------------------------------------------------------------


def take_step(training, copies):
    """Take one step, gather the weights, and exchange copies of the states."""
    sums = training.compute(training.rank, training.n)
    with talking():
        dist.all_reduce(sums)
    training.update(sums)
    with talking():
        training.gather_weights()
        copies.exchange(training.steps, training.state())


def train(training, crew, copies, steps, step=take_step) -> list[int] | None:
    """Train up to so many steps; whenever ranks die, all wait for their replacements.

    Returns  the steps from which it went on, one for each meeting but the first
    """
    went_on, is_to_meet = [], True
    while True:
        try:
            if is_to_meet:
                if not crew.meet():
                    return went_on
                is_to_meet = len(crew.names) < copies.n  # a rank is still missing
                if is_to_meet:
                    continue
                with talking():
                    restored = restore(training, copies)
                    copies.exchange(training.steps, training.state())  # new ranks hold nothing yet
                went_on += [restored] * (restored is not None)
            elif training.steps < steps:
                is_to_meet = bool(step(training, copies))
            elif crew.all_is_done():
                return went_on
            else:
                is_to_meet = True
        except Lost:
            is_to_meet = True


# ---- The program ----------------------------------------------------------------------------


def program(data, steps=40) -> tuple[list[int], Tensor]:
    folder, rank, n = common_folder(), dist.get_rank(), dist.get_world_size()
    crew = Crew(FolderStore(folder / "store"), n, PATIENCE)
    training, copies = ShardedTraining(rank, n, data), Copies(rank, n, max(1, n // 2))

    def begin_anew():
        training.__init__(rank, n, data)
        copies.held.clear()

    step = away_once(take_step, steps // 2, crew, begin_anew)
    went_on = train(training, crew, copies, steps, step)
    dist.barrier()
    shutil.rmtree(folder, ignore_errors=True)
    return went_on, parameters_to_vector(training.model.parameters()).detach()


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, digits(), device="cpu")
    if run.rank == 0:
        went_on, weights = run.values[0]
        print("a rank came back with nothing; all went on from step", *went_on)
        print(f"largest difference from one process: {(weights - one_process()).abs().max():.0e}")


if __name__ == "__main__":
    main()

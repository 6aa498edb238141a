"""Copies of a rank's state in the memory of another machine: no disk is needed to go on.

torchrun --nproc-per-node 4 labs/memory_copies.py
"""

import shutil

import torch
import torch.distributed as dist
from folder_store import FolderStore
from gradient_accumulation import digits
from keep_training import Crew, Lost, Training, away_once, common_folder, one_process, talking
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

PATIENCE = 20.0  # seconds to wait for a machine that comes back


class ShardedTraining(Training):
    """The same training, with a state that no two ranks share (as ZeRO-1 does, chapter 06).

    Each rank updates a shard of the weights, and it alone has AdamW's moments of that shard. Then
    all gather the weights. So a rank that dies takes something with it that nobody else has.

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
        """Give the model the shards of all ranks."""
        shards = [torch.zeros_like(self.shard) for _ in range(self.n)]
        dist.all_gather(shards, self.shard.detach())
        vector_to_parameters(torch.cat(shards)[: self.length], self.model.parameters())

    def state(self) -> Tensor:  # (3, length of the shard)
        """The shard, and its two moments."""
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
    """The states of two ranks, of the last two steps: this rank's own, and a copy of another's.

    shift  rank r's state is kept by rank r + shift, too: as many as a machine has ranks, so that
           it is on another machine
    held   {(owner, step): state}
    """

    KEPT = 2  # steps: when a rank dies, others may be a step ahead

    def __init__(self, rank, n, shift):
        self.rank, self.n, self.shift = rank, n, shift
        self.held = {}

    def exchange(self, step, state: Tensor):
        """Keep the own state of this step, send it to its keeper, and keep what comes."""
        keeper, owner = (self.rank + self.shift) % self.n, (self.rank - self.shift) % self.n
        coming = torch.zeros_like(state)
        if keeper != self.rank:  # else it is alone
            requests = [dist.irecv(coming, owner), dist.isend(state, keeper)]
            for request in requests:
                request.wait()
        self.held[owner, step], self.held[self.rank, step] = coming, state
        self.forget(lambda other: other <= step - self.KEPT)

    def forget(self, is_old):
        self.held = {key: state for key, state in self.held.items() if not is_old(key[1])}


def newest_common(held: list[list[tuple[int, int]]]) -> int | None:
    """Exercise {{newest_common}}. The newest step of which somebody holds the state of every rank.

    All ranks have to go on from the same step. None if there is none; step 0 is a step.

    held  for each rank: [(owner, step), …], the states that it holds; ranks that are new hold none.
          A state may be held several times, by anybody. Owners are 0 to len(held) - 1
    """
    ### BEGIN SOLUTION
    n = len(held)
    there = {state for of_rank in held for state in of_rank}
    steps = {step for _, step in there}
    whole = [step for step in steps if all((owner, step) in there for owner in range(n))]
    return max(whole, default=None)
    ### END SOLUTION


def restore(training, copies) -> int | None:
    """All go on from the newest step that can be had; returns it, None at the very beginning.

    Raises ValueError if a rank and the one that kept its copy are gone.

    Each rank takes its own state, if it has it, or gets it from the one that keeps it.
    """
    held = [None] * copies.n
    dist.all_gather_object(held, list(copies.held))
    step = newest_common(held)
    if step is None and any(held):
        raise ValueError("a state is on no rank any more: only a checkpoint helps")
    if step is None:
        return None
    requests, coming = [], torch.zeros_like(training.state())
    for owner in range(copies.n):
        if (owner, step) not in held[owner]:
            holder = next(rank for rank in range(copies.n) if (owner, step) in held[rank])
            if copies.rank == owner:
                requests.append(dist.irecv(coming, holder))
            elif copies.rank == holder:
                requests.append(dist.isend(copies.held[owner, step], owner))
    for request in requests:
        request.wait()
    training.load_state(step, copies.held.get((copies.rank, step), coming))
    copies.forget(lambda other: other > step)  # of steps that will be taken again
    training.gather_weights()
    return step


# ---- Going on -------------------------------------------------------------------------------


def take_step(training, copies):
    sums = training.compute(training.rank, training.n)
    with talking():
        dist.all_reduce(sums)
    training.update(sums)
    with talking():
        training.gather_weights()
        copies.exchange(training.steps, training.state())


def train(training, crew, copies, steps, step=take_step) -> list[int] | None:
    """Train up to so many steps; whenever ranks die, all wait for those that take their places.

    Returns  from which step it went on, after each meeting but the first
    """
    went_on, is_to_meet = [], True
    while True:
        try:
            if is_to_meet:
                if not crew.meet():
                    return went_on
                is_to_meet = len(crew.names) < copies.n  # somebody is still missing
                if is_to_meet:
                    continue
                with talking():
                    restored = restore(training, copies)
                    if restored is None:  # the very beginning can be gone back to, too
                        copies.exchange(0, training.state())
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

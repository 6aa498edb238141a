# Built from chapters/ch11_capstone/labs/capstone_state.py by `make build`.
"""Checkpoints that any recipe can read, because each number of the model has an address.

torchrun --nproc-per-node 4 labs/capstone_state.py
"""

import json
import shutil
from pathlib import Path

import torch
import torch.distributed as dist
from capstone import SETTING, Engine, Recipe, whole_model
from checkpoints import LIST, newest_whole, save
from collectives import all_gather_ring
from keep_training import common_folder
from language_model import draw_batch, standard_library
from live_plans import Setting
from torch import Tensor, nn

KINDS = ("weights", "exp_avg", "exp_avg_sq")  # for each number, a rank saves one float of each kind

# ---- Addresses ------------------------------------------------------------------------------


@torch.no_grad()
def fill_with_addresses(model):
    """Set each weight of a model to its own address, 1, 2, 3, … through all parameters; return it.

    Whatever cuts, flattens and shards this model does the same to the addresses.

    Raises  ValueError if they are not exact in the model's dtype
    """
    count, number = sum(p.numel() for p in model.parameters()), 1
    dtype = next(model.parameters()).dtype
    if count > 1 / torch.finfo(dtype).eps:
        raise ValueError(f"{dtype} has no whole numbers up to {count:,}: take a wider one")
    for p in model.parameters():
        p.copy_(torch.arange(number, number + p.numel()).view_as(p))
        number += p.numel()
    return model


def addresses_of(setting: Setting, recipe: Recipe) -> list[Tensor]:
    """Return the address of each number that this rank's optimizer steps on; 0 for padding.

    All ranks have to call this: it makes an engine with the addressed model, and drops it.
    """
    wide = Recipe(**vars(recipe) | {"half": False})
    _, stepped_on = optimizer_of(Engine(fill_with_addresses(whole_model(setting)), wide))
    return [p.detach().flatten().long() for p in stepped_on]


def optimizer_of(engine) -> tuple[torch.optim.Optimizer, list[nn.Parameter]]:
    """Return the innermost optimizer, and its parameters: plain ones, shards, or float32 copies."""
    optimizer = engine.zero.optimizer if engine.zero is not None else engine.optimizer
    optimizer = getattr(optimizer, "optimizer", optimizer)
    return optimizer, optimizer.param_groups[0]["params"]


def find_numbers(saved, wanted: Tensor) -> Tensor:
    """Exercise 11.2. Find the numbers at some addresses in any number of ranks' files.

    Each number of the model has an address: 1, 2, 3, … The address 0 belongs to padding, and what
    is saved there means nothing.

    saved    [(addresses, numbers), …], one pair for each file: flat tensors of the same length. An
             address may be in several files, or twice in one: these are copies of the same number
    wanted   addresses, a flat tensor: in any order, and some may occur in it several times
    Returns  the numbers there, in the order of `wanted` and in the dtype of the files; 0 at the
             address 0, even if no file has it, and even if there is no file
    Raises   ValueError if any other wanted address is in no file
    """
    ### BEGIN SOLUTION
    dtype, every = saved[0][1].dtype if saved else None, [wanted, *(of for of, _ in saved)]
    last = max((int(x.max()) for x in every if len(x)), default=0)
    numbers, is_known = (torch.zeros(last + 1, dtype=of) for of in (dtype, torch.bool))
    for addresses, values in saved:
        numbers[addresses] = values
        is_known[addresses] = True
    numbers[0], is_known[0] = 0, True
    if not is_known[wanted].all():
        missing = wanted[~is_known[wanted]][0].item()
        raise ValueError(f"no file has the number at address {missing}")
    return numbers[wanted]
    ### END SOLUTION


# ---- Checkpoints saved by some ranks and read by others -------------------------------------


def save_state(engine, addresses, folder, steps):
    """Save what this rank's optimizer steps on, and both averages of it: see `save`.

    Raises  OSError on all ranks if one of them could not write its part
    """
    optimizer, stepped_on = optimizer_of(engine)
    kept = [[p.detach(), *(optimizer.state[p][kind] for kind in KINDS[1:])] for p in stepped_on]
    state = {kind: flat(of) for kind, of in zip(KINDS, zip(*kept))}
    problem = save(folder, steps, {"addresses": torch.cat(addresses), **state})
    if problem:
        found, newest = newest_steps(folder)
        if not found or newest != steps:  # otherwise it has been saved before
            raise OSError(f"the checkpoint of step {steps} was not written: {problem}")


def flat(tensors) -> Tensor:
    return torch.cat([x.flatten() for x in tensors])


def newest_steps(folder) -> tuple[Path | None, int]:
    """Find the newest whole checkpoint and its number of steps; rank 0 looks, so that all agree."""
    found = [newest_whole(folder) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(found)
    return found[0], int(found[0].name.partition("-")[2]) if found[0] else 0


def files_of(checkpoint: Path) -> list[dict]:
    """Load what each rank has saved; of a file, only what is used is read."""
    names = json.loads((checkpoint / LIST).read_text())["files"]
    return [torch.load(checkpoint / name, mmap=True) for name in names]


@torch.no_grad()
def load_state(engine, addresses, checkpoint: Path, steps):
    """Give an engine of any recipe the state that ranks of any other recipe have saved."""
    files, wanted = files_of(checkpoint), torch.cat(addresses)
    optimizer, stepped_on = optimizer_of(engine)
    sizes, shapes = [p.numel() for p in stepped_on], [p.shape for p in stepped_on]
    found = {}
    for kind in KINDS:
        numbers = find_numbers([(file["addresses"], file[kind]) for file in files], wanted)
        found[kind] = [x.view(shape) for x, shape in zip(numbers.split(sizes), shapes)]
    for p, weight, first, second in zip(stepped_on, *found.values()):
        p.copy_(weight)
        step = torch.tensor(float(steps), dtype=torch.float32)
        optimizer.state[p] = {"step": step, "exp_avg": first, "exp_avg_sq": second}
    spread(engine)


def spread(engine):
    """Copy the optimizer's new values to all that is made from them."""
    outer = engine.zero.optimizer if engine.zero is not None else engine.optimizer
    for p, master in zip(getattr(outer, "parameters", ()), getattr(outer, "masters", ())):
        p.copy_(master)  # rounded
    for unit in engine.zero.units.values() if engine.zero is not None else ():
        if unit.flat.untyped_storage().nbytes():  # in stage 3, parameters are gathered when needed
            all_gather_ring(unit.chunks, unit.group)


def whole_from(checkpoint: Path, setting: Setting):
    """Load the whole model, in float32, in one process."""
    model = whole_model(setting)
    wanted = flat(
        [p.detach().long() for p in fill_with_addresses(whole_model(setting)).parameters()]
    )
    files = files_of(checkpoint)
    numbers = find_numbers([(file["addresses"], file["weights"]) for file in files], wanted)
    nn.utils.vector_to_parameters(numbers.float(), model.parameters())
    return model


# ---- The program ----------------------------------------------------------------------------


def train_and_resume(first: Recipe, second: Recipe, setting: Setting, text, folder) -> list[float]:
    """Return the losses of three steps under one recipe, and of three more under another."""
    losses, steps = [], 0
    for recipe in (first, second):
        engine, addresses = Engine(whole_model(setting), recipe), addresses_of(setting, recipe)
        checkpoint, steps = newest_steps(folder)
        if checkpoint:
            load_state(engine, addresses, checkpoint, steps)
        for _ in range(3):
            batch = draw_batch(text, setting.samples, steps, setting.context)
            losses.append(engine.step(*batch))
            steps += 1
        save_state(engine, addresses, folder, steps)
    return losses


def program(setting, text) -> list[float]:
    folder, n = common_folder(), dist.get_world_size()
    first, second = Recipe(dp=n, zero=3), Recipe(tp=n, micro_batch=setting.samples)
    losses = train_and_resume(first, second, setting, text, folder)
    dist.barrier()
    shutil.rmtree(folder, ignore_errors=True)
    return losses


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    setting = Setting(4, 32, 4, 32, 8, SETTING.flops, SETTING.card)  # four ranks, or torchrun's
    run = launch(program, setting, standard_library(50_000), world_size=4, device="cpu")
    if run.rank == 0:
        told = " ".join(f"{loss:.3f}" for loss in run.values[0])
        print(f"three steps with ZeRO 3, and three with tensor parallel: losses {told}")


if __name__ == "__main__":
    main()

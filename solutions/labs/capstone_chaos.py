# Built from chapters/ch11_capstone/labs/capstone_chaos.py by `make build`.
"""Training of a model in parts that continues through a bad day, under several recipes.

python labs/capstone_chaos.py
"""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Thread
from typing import NamedTuple
from unittest.mock import patch

import torch
import torch.distributed as dist
from capstone import SETTING, Engine, Recipe, describe_recipe, forget, losses_alone, whole_model
from capstone_state import addresses_of, load_state, newest_steps, save_state
from folder_store import FolderStore
from keep_training import Crew, common_folder, talking, train
from language_model import draw_batch, standard_library
from live_plans import Setting
from torch import Tensor

EVERY = 5  # steps from one checkpoint to the next
PATIENCE, TIMEOUT = 3.0, 5.0  # seconds of a meeting, and of a group's collectives
CABLE_SECONDS = 1.2  # how long the cable is unplugged

# ---- Training with the ranks that are present -----------------------------------------------


class Campaign:
    """Training as ranks come and go; each step's batch is the same under every recipe.

    recipes      {number of ranks: the Recipe for so many}
    checkpoints  a folder on a disk that all processes see
    notes        another folder, for the events of one day
    steps        how many have been taken so far
    engine       None until build() makes one
    """

    def __init__(self, recipes: Mapping[int, Recipe], setting: Setting, text: Tensor, checkpoints,
                 notes, before_step=lambda campaign: None):  # fmt: skip
        self.recipes, self.setting, self.text = recipes, setting, text
        self.checkpoints, self.notes, self.before_step = checkpoints, Path(notes), before_step
        self.steps, self.engine, self.addresses = 0, None, []

    def build(self, recipe: Recipe):
        """Build an engine with new weights for the ranks present; all of them have to call this."""
        self.drop()
        with groups_that_time_out(TIMEOUT):
            self.engine = Engine(whole_model(self.setting), recipe)
            self.addresses = addresses_of(self.setting, recipe)

    def drop(self):
        """Forget the engine, and with it the groups through which it communicates."""
        if self.engine is not None:
            forget(self.engine)
        self.engine, self.addresses = None, []

    def save(self):
        """Save a checkpoint of this step, each rank its part; the whole group has to call this.

        Raises  OSError on all ranks if one of them could not write its part
        """
        save_state(self.engine, self.addresses, self.checkpoints, self.steps)
        self.note("saved", self.steps)

    def load(self):
        """Restore the engine and `steps` from the newest checkpoint. Without one, `steps` is 0.

        All ranks of the group have to call this. Without an engine, it sets only `steps`.
        """
        checkpoint, self.steps = newest_steps(self.checkpoints)
        if checkpoint and self.engine is not None:
            load_state(self.engine, self.addresses, checkpoint, self.steps)

    def step(self):
        """Take the next step, with all ranks of the group."""
        from pedagogy_lib import SlowProducts

        self.before_step(self)
        of = self.setting
        batch = draw_batch(self.text, of.samples, self.steps, of.context)
        try:
            with SlowProducts(of.flops, measured=False):
                loss = self.engine.step(*batch)
        except RuntimeError:
            self.drop()  # closes connections, so that others get an error, too
            raise
        self.steps += 1
        self.note("step", self.steps, loss, dist.get_world_size())

    def note(self, *words):
        """Write a note into this process's own file, so that no process disturbs another one."""
        name = f"noted-{os.environ['RANK']}-{os.getpid()}.txt"
        with open(self.notes / name, "a") as file:
            print(*words, time.perf_counter(), sep=",", file=file)


def groups_that_time_out(seconds):
    """Give new groups this timeout in the block; without it, Gloo's have 30 minutes."""
    impatient = partial(dist.new_group, timeout=timedelta(seconds=seconds))
    return patch.object(dist, "new_group", impatient)


def is_true_for_any(mine: bool) -> bool:
    """Return whether `mine` is true on any rank of the group, the same answer on all of them."""
    flag = torch.tensor([float(mine)])
    dist.all_reduce(flag)
    return flag.item() > 0


def carry_on(campaign: Campaign, crew: Crew, steps: int) -> None:
    """Exercise 11.3. Train up to so many steps with the ranks present, whatever happens.

    It is called in every process, also in those that replace a dead one. It uses train() of the
    lab keep_training, saves after every EVERY steps, and loses no step when newcomers join. While
    `recipes` has no recipe for so many ranks, it takes no step: it waits 0.1 s, and meets again.

    campaign  has `recipes`, `steps`, `engine`, build(recipe), drop(), load(), save() and step()
    crew      of the lab keep_training: for train(), and somebody_waits()
    steps     how many the campaign has at the end, including those before this call
    """
    ### BEGIN SOLUTION

    def begin(campaign):
        recipe = campaign.recipes.get(dist.get_world_size())
        if recipe is None:
            campaign.drop()
        else:
            campaign.build(recipe)
        campaign.load()

    def step(campaign, crew):
        if campaign.engine is None:
            time.sleep(0.1)
            return True
        with talking():
            campaign.step()
            waits = is_true_for_any(crew.somebody_waits())
            if waits or campaign.steps % EVERY == 0:
                campaign.save()
        return waits

    train(campaign, crew, steps, step, begin)
    ### END SOLUTION


# ---- Events ---------------------------------------------------------------------------------


class Event(NamedTuple):
    """An event that happens once, when a step is to be taken.

    what  "kill", "hang", "cable out", "power out" (of the second half of the ranks, machine 1), or
          "power back"
    step  how many steps have been taken before
    rank  of "kill" and "hang": the rank to which it happens; of the others: the rank that makes it
          happen, one on machine 0
    """

    what: str
    step: int
    rank: int = 0


def bad_day(first: int) -> list[Event]:
    """Return the events of a day that begins with this step, and has twenty-four."""
    return [Event("kill", first + 2, 2), Event("hang", first + 6, 5),
            Event("cable out", first + 9), Event("power out", first + 12),
            Event("power back", first + 16)]  # fmt: skip


class Fate:
    """A plan of events that makes them happen, as before_step of a Campaign.

    on_machines  whether there are machines that can lose their power
    """

    def __init__(self, plan, store, on_machines):
        self.plan, self.store, self.on_machines = plan, store, on_machines
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        if self.rank >= self.ranks // 2:  # on machine 1, or in place of it
            if store.check([DARK]):
                store.wait([LIGHT])
            elif not on_machines:
                Thread(target=self.end_in_the_dark, daemon=True).start()

    def end_in_the_dark(self):
        """Kill this process when the power goes out, where ranks share this computer."""
        self.store.wait([DARK], timedelta(days=1))
        os.kill(os.getpid(), signal.SIGKILL)

    def __call__(self, campaign):
        for number, (what, step, rank) in enumerate(self.plan):
            is_time = campaign.steps >= step and not (what == "power out" and campaign.steps > step)
            if self.rank == rank and is_time and self.store.add(f"event {number}", 1) == 1:
                campaign.note("event", what, campaign.steps)
                HAPPENS[what](self)

    def machines(self):
        from pedagogy_lib import machines_around

        return machines_around()

    def take_cable_out(self):
        if self.on_machines:
            self.machines().unplug(1)
        time.sleep(CABLE_SECONDS)
        if self.on_machines:
            self.machines().plug(1)

    def cut_power(self):
        self.store.set(DARK, "")
        if self.on_machines:
            self.machines().kill(1)

    def bring_power_back(self):
        self.store.set(LIGHT, "")
        if self.on_machines:
            self.machines().revive(1)


DARK, LIGHT = "power is out", "power is back"
HAPPENS = {
    "kill": lambda fate: os.kill(os.getpid(), signal.SIGKILL),
    "hang": lambda fate: os.kill(os.getpid(), signal.SIGSTOP),
    "cable out": Fate.take_cable_out,
    "power out": Fate.cut_power,
    "power back": Fate.bring_power_back,
}

# ---- The day --------------------------------------------------------------------------------


def live_through(carry_on, plan, recipes, setting, text, checkpoints, day, steps,
                 on_machines=False) -> int:  # fmt: skip
    """Run one process through a day; return how many steps it has at the end.

    checkpoints  a folder: training resumes from the newest checkpoint in it, if there is one
    day          another folder, an empty one: for the store, and for notes
    """
    store = FolderStore(Path(day, "store"))
    crew = Crew(store, int(os.environ["WORLD_SIZE"]), PATIENCE, TIMEOUT)
    fate = Fate(plan, store, on_machines)
    campaign = Campaign(recipes, setting, text, checkpoints, day, fate)
    carry_on(campaign, crew, steps)
    return campaign.steps


def read_notes(day) -> dict[tuple[int, int], list[list[str]]]:
    """Return {(rank, pid): what this process has noted, in order}."""
    found = {}
    for path in sorted(Path(day).glob("noted-*.txt")):
        _, rank, pid = path.stem.split("-")
        found[int(rank), int(pid)] = [line.split(",") for line in path.read_text().splitlines()]
    return found


def read_events(day) -> tuple[list, dict, dict]:
    """Return [(what, rank, when), …] of events, {(rank, pid): [(step, when), …]} of steps, and
    {step: (loss, ranks)} for the last time that each step was taken.
    """
    events, taken, last = [], {}, {}
    for (rank, pid), lines in read_notes(day).items():
        events += [(what, rank, float(at)) for kind, what, *_, at in lines if kind == "event"]
        steps = [line for line in lines if line[0] == "step"]
        taken[rank, pid] = [(int(step), float(at)) for _, step, *_, at in steps]
        for _, step, loss, ranks, at in steps:
            last[int(step)] = max(last.get(int(step), (0.0,)), (float(at), float(loss), int(ranks)))
    counts = {step: last[step][1:] for step in sorted(last)}
    return sorted(events, key=lambda event: event[2]), taken, counts


def steps_lost(taken) -> int:
    """Return how many steps were repeated by the process that repeated most of them."""
    return max((len(steps) - len({step for step, _ in steps}) for steps in taken.values()),
               default=0)  # fmt: skip


# ---- The program ----------------------------------------------------------------------------


def program(plan, recipes, setting, text, steps, folder=None) -> tuple[list, dict]:
    """Run a small day; return its events, and {step: (loss, ranks)}."""
    folder = Path(folder or common_folder())
    live_through(carry_on, plan, recipes, setting, text, folder / "checkpoints", folder, steps)
    dist.barrier()
    events, _, counts = read_events(folder)
    dist.barrier()
    shutil.rmtree(folder, ignore_errors=True)
    return events, counts


def main(steps=30):
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    recipes = {4: Recipe(pp=2, dp=2, zero=1), 2: Recipe(dp=2, zero=3)}
    setting = Setting(4, 32, 4, 32, 8, SETTING.flops, SETTING.card)
    text, plan, settings = standard_library(50_000), [], {}
    if "RANK" not in os.environ:  # torchrun ends all ranks if one dies, so it has no event
        plan, settings = [Event("kill", 14, 1)], {"replacements": 4, "device": "cpu"}
    folder = tempfile.mkdtemp(prefix="capstone-") if plan else None
    run = launch(program, plan, recipes, setting, text, steps, folder, **settings)
    if run.rank == 0:
        events, counts = run.values[0]
        alone = losses_alone(setting, [draw_batch(text, 8, k, 32) for k in range(steps)])
        gap = max(abs(alone[step - 1] - loss) for step, (loss, _) in counts.items())
        happened = ", ".join(what for what, *_ in events) or "nothing"
        print(f"{describe_recipe(recipes[run.world_size])}; happened: {happened}")
        print(f"{len(counts)} steps; losses as of one process, to {gap:.0e}")


if __name__ == "__main__":
    main()

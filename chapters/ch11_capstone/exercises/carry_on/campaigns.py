"""One day of training a small model in parts, next to an answer, and the events noted that day."""

import os
import signal
import tempfile
import time
from collections import Counter
from functools import partial
from types import MappingProxyType

import torch

from coursekit.answers.remote_answer import try_on_ranks
from coursekit.kit import Wrong
from pedagogy_lib.basics.errors import HangError
from pedagogy_lib.ranks.launcher import launch

from .campaign_reasons import HANGS, why_it_ended

RANKS, STEPS, EVERY = 4, 24, 8
SECONDS = 40.0  # of a case, which takes five on a quiet machine
LATE_SECONDS = 10.0  # for which newcomers wait at most until the others go on without them

IN_SAVE = 16  # steps taken when a rank dies in the middle of a checkpoint
LOOKS = 2  # that all ranks but the last one take before they see a waiting newcomer

UNDISTURBED, ONE_DIES, TWO_LEFT = "nothing happens", "a rank dies", "two are lost for good"
BACK = "two are lost, and come back later"
KILLS = {  # {case: (((steps taken before, rank), …), number of restarted processes)}
    UNDISTURBED: ((), 0),
    ONE_DIES: (((IN_SAVE, 1),), 1),
    TWO_LEFT: (((10, 2), (10, 3)), 0),
    BACK: (((9, 2), (9, 3)), 2),
}
BACK_AT = 11  # steps of the remaining ranks when newcomers come; no checkpoint is due then


def run_campaign(answer, name) -> dict:
    """Run a case; return its error as `wrong`, the ranks' values, and the events they noted."""
    kills, replacements = KILLS[name]
    with tempfile.TemporaryDirectory(prefix="campaign-") as place:
        found = {"wrong": None, "values": [], "seconds": 0.0}
        try:
            run = try_on_ranks(
                name, live, answer, name, kills, place, world_size=RANKS, timeout=SECONDS,
                replacements=replacements, explain=partial(why, name),
            )  # fmt: skip
            found |= {"values": run.values, "seconds": run.seconds}
        except Wrong as wrong:
            found["wrong"] = wrong
        noted = answer.lab.read_notes(place)
        return found | {"taken": steps_in(noted), "saved": saves_in(noted)}


def why(name, error) -> str:
    return HANGS[name] if isinstance(error, HangError) else why_it_ended(str(error))


def steps_in(noted) -> dict:
    """Return {(rank, pid): [(step, its loss, the number of ranks that took it), …]}."""
    return {process: [(int(step), float(loss), int(ranks))
                      for kind, step, loss, ranks, _ in lines_of("step", lines, 5)]
            for process, lines in noted.items()}  # fmt: skip


def saves_in(noted) -> list:
    """Return [(rank, pid, the step after which it saved), …]."""
    return [(*process, int(step)) for process, lines in noted.items()
            for _, step, _ in lines_of("saved", lines, 3)]  # fmt: skip


def lines_of(kind, lines, words) -> list:
    """Return the complete lines of a kind: a process may die in the middle of a line."""
    return [line for line in lines if line[0] == kind and len(line) == words]


# ---- On ranks -------------------------------------------------------------------------------


def setting_of(lab):
    """Return a small model's setting; devices are slow, so newcomers are seen within few steps."""
    return lab.Setting(RANKS, 16, 4, 16, 8, 5e7, 1e9, heads=4)


def recipes_of(lab) -> dict:
    """Return recipes for four ranks and for two.

    Under both, each rank has numbers that no other rank has.
    """
    return {4: lab.Recipe(pp=2, dp=2, zero=1), 2: lab.Recipe(tp=2, micro_batch=4)}


def live(answer, name, kills, place):
    """Run the day in one process, and return its steps."""
    torch.set_default_dtype(torch.float64)
    lab = answer.lab
    scope = getattr(lab, answer.__name__).__globals__
    scope |= {"EVERY": EVERY, "PATIENCE": 1.5, "TIMEOUT": 4.0}
    is_new = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0
    if is_new and name == ONE_DIES:
        wait_until(lambda: second_meeting(lab, place))
    if is_new and name == BACK:
        wait_until(lambda: two_have_gone_on(lab, place))
    lab.Crew.somebody_waits = delay_last_rank(lab.Crew.somebody_waits)
    plan = [lab.Event("kill", *event) for event in kills if name != ONE_DIES]
    if name == ONE_DIES and not is_new:
        lab.Campaign.save = kill_during_save(lab.Campaign.save, *kills[0])
    text = lab.standard_library(20_000)
    args = (
        plan,
        MappingProxyType(recipes_of(lab)),
        setting_of(lab),
        text,
        f"{place}/checkpoints",
        place,
        STEPS,
    )
    return lab.live_through(answer, *args)


def delay_last_rank(somebody_waits):
    """Return a version of `somebody_waits` in which the last rank notices a newcomer first.

    Each rank notices it at another moment anyway; this fixes the order.
    """
    looks = Counter()

    def notice_waiting(crew):
        if not somebody_waits(crew):
            return False
        looks[crew.meeting] += 1
        return crew.me == crew.names[-1] or looks[crew.meeting] > LOOKS

    return notice_waiting


def kill_during_save(save, after, rank):
    """Return a `save` in which a rank dies before it has written any file."""

    def save_or_die(campaign):
        if campaign.steps == after and int(os.environ["RANK"]) == rank:
            os.kill(os.getpid(), signal.SIGKILL)
        save(campaign)

    return save_or_die


def wait_until(condition):
    """Wait until a condition holds, for LATE_SECONDS at most, like a machine that boots."""
    until = time.monotonic() + LATE_SECONDS
    while time.monotonic() < until and not condition():
        time.sleep(0.02)


def second_meeting(lab, place) -> bool:
    """Return whether the remaining three ranks have met, for which there is no recipe."""
    store = lab.FolderStore(f"{place}/store")
    return store.check(["meeting"]) and int(store.get("meeting")) >= 2


def two_have_gone_on(lab, place) -> bool:
    of_two = [step for steps in steps_in(lab.read_notes(place)).values()
              for step, _, ranks in steps if ranks == 2]  # fmt: skip
    return max(of_two, default=0) >= BACK_AT


def losses_alone(lab) -> list[float]:
    """Return the losses of one process in float64.

    The process is a rank, because a first optimizer imports for seconds.
    """
    return launch(train_alone, lab, world_size=1, device="cpu").values[0]


def train_alone(lab):
    torch.set_default_dtype(torch.float64)
    setting, text = setting_of(lab), lab.standard_library(20_000)
    batches = [lab.draw_batch(text, setting.samples, step, setting.context)
               for step in range(STEPS)]  # fmt: skip
    return lab.losses_alone(setting, batches)

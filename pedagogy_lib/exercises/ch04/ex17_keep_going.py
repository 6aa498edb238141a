"""The exam: one thing after another happens to a training, and then all of them."""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from operator import itemgetter

from ...basics.closeness import close
from ...basics.errors import HangError
from ...basics.units import counted
from ...course.checking import Exercise, Wrong, try_on_ranks
from ...machines.disks import Disk
from ...machines.network import try_machines
from ...machines.spec import Machines
from ...pictures.happenings import plot_happenings
from ...pictures.style import Picture
from .chaos_plans import ALL, AT, DISK_FULL, LAST, OTHERS, RANKS, plans_of, steps_of
from .chaos_reasons import FEW_STEP, HANGS, LOSES, SAVES, WRONG_WEIGHTS, why_it_ended
from .chaos_watched import FEW, SAVED, noted, sit

SECONDS = 30.0  # of a case; on a quiet machine, one takes five
PACE = 10  # seconds more, where all happens, for each second of the undisturbed run: it takes six
REPLACEMENTS = 40
CABLE = 0.9, 1.7  # seconds after the start: machine 1 of two is without network between them


class Case:
    """What happened when the answer trained under a plan.

    values  of each rank: (steps, weights), or None
    events  what has happened
    taken   {(rank, pid): [(step, when), …]}, of each process; `steps` has the steps alone
    cables  [(when, what happened to a cable), …]
    saved   [(rank, pid, after which step), …]
    few     [(rank, pid, ranks), …] of steps that too few have taken
    wrong   the `Wrong` that was found, or None
    """

    def __init__(self, name, answer, plan, disk, machines=None, seconds=SECONDS):
        self.name, self.plan, self.chaos = name, plan, answer.lab
        self.steps_asked = steps_of(name)
        self.wrong, self.cables, self.began = None, [], time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="exam-") as place:
            try:
                self.keep(try_on_ranks(
                    name, sit, answer, plan, place, disk or place, self.steps_asked, name,
                    world_size=RANKS, timeout=seconds, replacements=REPLACEMENTS,
                    machines=machines, explain=self.explain,
                ))  # fmt: skip
            except Wrong as wrong:
                self.wrong = wrong
            self.events, self.taken = self.chaos.events_of(place), self.chaos.steps_of(place)
            self.saved, self.few = (noted(self.chaos, place, what) for what in (SAVED, FEW))
        self.steps = {process: [step for step, _ in taken] for process, taken in self.taken.items()}

    def keep(self, run):
        self.values, self.seconds, self.lost = run.values, run.seconds, len(run.lost)
        self.began = time.perf_counter() - run.seconds
        self.cables = run.cards.events if run.cards else []

    def look(self):
        """Find out whether it has come through, and has lost no more than it has to."""
        self.need_all_steps()
        self.need_right_weights()
        if self.name == "undisturbed":
            self.need_few_saves()
        if self.name != ALL:
            self.need_little_lost()
        self.need_enough_ranks()

    def film(self) -> Iterator[Picture]:
        """As soon as anybody has taken a step."""
        crosses = [(what, rank, at - self.began) for what, rank, _, at in self.events]
        crosses += [(words, None, at) for at, words in self.cables]
        taken = {process: [(step, at - self.began) for step, at in steps]
                 for process, steps in self.taken.items()}  # fmt: skip
        if any(taken.values()):
            yield plot_happenings(taken, crosses, title=f"Your training: {self.name}")

    def explain(self, error) -> str:
        if isinstance(error, HangError):
            return HANGS[self.name]
        return why_it_ended(str(error))

    def need_all_steps(self):
        for rank, value in enumerate(self.values):
            if value is None or value[0] != self.steps_asked:
                got = f"{value[0]} of {self.steps_asked} steps" if value else "nothing"
                why = (
                    "at the end every rank has taken all steps, also one that has been replaced: "
                    "who comes anew gets the state of the others"
                )
                raise Wrong(self.name, f"rank {rank} has {got} at the end", why)

    def need_enough_ranks(self):
        for rank, _, n in self.few:
            what = f"rank {rank} takes a step in a group of {counted(int(n), 'rank')}"
            raise Wrong(self.name, what, FEW_STEP)

    def need_few_saves(self):
        every = self.chaos.EVERY
        for rank, _, step in self.saved:
            if int(step) % every:
                what = f"rank {rank} saves after step {step}, and EVERY is {every}"
                raise Wrong(self.name, what, SAVES["often"])
        if len(ranks := sorted({rank for rank, *_ in self.saved})) > 1:
            raise Wrong(self.name, f"ranks {ranks} save", SAVES["all"])

    def need_right_weights(self):
        right = self.chaos.one_process(steps=self.steps_asked)
        for rank, (_, weights) in enumerate(self.values):
            if not close(weights, right):
                gap = (weights - right).abs().max().item()
                what = f"rank {rank}: weights differ by {gap:.1g} from those of an undisturbed run"
                raise Wrong(self.name, what, WRONG_WEIGHTS.get(self.name, ""))

    def taken_twice(self) -> int:
        """The most steps that one process has taken a second time."""
        return max((len(steps) - len(set(steps)) for steps in self.steps.values()), default=0)

    def need_little_lost(self):
        if self.name != "power cut" and self.lost > len(self.plan) + 1:  # one may be late
            what = f"{self.lost} processes have ended, and {len(self.plan)} had to be replaced"
            raise Wrong(self.name, what, LOSES["processes"])
        if twice := self.taken_twice():
            what = f"{counted(twice, 'step')} taken twice by a process that did not die"
            raise Wrong(self.name, what, LOSES["others"])
        if self.name == "power cut":
            firsts = [steps[0] for steps in self.steps.values() if steps[0] != 1]
            newest = AT - AT % self.chaos.EVERY
            if not firsts or min(firsts) <= newest:
                first = min(firsts, default=1)
                what = f"after it, training goes on with step {first}, and not with {newest + 1}"
                raise Wrong(self.name, what, LOSES["power cut"])

    def told(self) -> str:
        words = [event.what for event in self.events] + ["a cable"] * bool(self.cables)
        words = [self.name] if self.name in LAST else words
        happened = ", ".join(dict.fromkeys(words)) or "nothing"
        lost = counted(self.lost, "process")
        return f"{happened}: right weights after {self.seconds:.1f} s, {lost} lost"


def examine(answer):
    """All of it at once, and what is lost; if that goes wrong, one after another tells why."""
    plans = plans_of(answer.lab)
    undisturbed = tried(answer, "undisturbed", plans)
    yield from outcome(undisturbed)
    everything = tried(answer, ALL, plans, SECONDS + PACE * undisturbed.seconds)
    if everything.wrong:
        for what in OTHERS:
            yield from outcome(tried(answer, what, plans))
    yield from outcome(everything)
    for what in LAST:
        yield from outcome(tried(answer, what, plans))
    yield from everything.film()


def outcome(case):
    """Yield the line of a case; or its film, and raise what is wrong."""
    if case.wrong:
        yield from case.film()
        raise case.wrong
    yield case.told()


def tried(answer, name, plans, seconds=SECONDS) -> Case:
    """seconds: until it counts as hung. A rank that stands still has all others wait: they do not
    compute, and patience with a busy machine is none with those that wait.
    """
    disk = Disk.here(megabytes=1) if DISK_FULL in map(itemgetter(0), plans[name]) else None
    machines = None
    if name == ALL and not try_machines():
        machines = Machines(2).unplug(1, after_seconds=CABLE[0]).plug(1, after_seconds=CABLE[1])
    with disk or contextlib.nullcontext():
        plan = [event for event in plans[name] if disk or event.what != DISK_FULL]
        case = Case(name, answer, plan, disk and disk.path, machines, seconds)
    try:
        if not case.wrong:
            case.look()
    except Wrong as wrong:
        case.wrong = wrong
    return case


EXERCISE = Exercise(
    "4.17",
    "keep_going",
    examine,
    lab="chaos",
    needs=("4.13", "4.14", "4.10"),
    hints=(
        "train(training, crew, steps, step) of keep_training does the meetings, and calls "
        "catch_up. What has to be in your step, and what has to be done once, before it?",
        "Before: load_alone(folder), if there is a state. In a step: compute the sums of this rank "
        "and of the next one with wrong_by_recomputing; whoever is wrong ends its own process, all "
        "others raise Lost.",
        "Then all_reduce this rank's sums under talking(), together with somebody_waits(), as "
        "take_step does; update; and on rank 0 save_alone after every EVERY steps.",
        "With fewer than three ranks nobody can tell who is wrong. Do not take a step then: return "
        "True, so that the next meeting comes.",
    ),
)  # fmt: skip

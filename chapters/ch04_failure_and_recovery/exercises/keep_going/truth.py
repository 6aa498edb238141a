"""The right results, and the results of known mistakes."""

from collections.abc import Iterator

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.kit import Wrong
from coursekit.labs import find_lab
from pedagogy_lib.basics.closeness import close
from pedagogy_lib.basics.units import format_count
from pedagogy_lib.pictures.happenings import plot_happenings
from pedagogy_lib.pictures.style import Picture

from .chaos_plans import ALL, AT, LAST, steps_of
from .chaos_reasons import FEW_STEP, LOSES, SAVES, WRONG_WEIGHTS
from .chaos_run import run_chaos

SECONDS = 30.0  # for a case, which takes five on a quiet machine

TOLD = ("values", "seconds", "lost", "planned", "began", "cables", "events", "taken", "saved",
        "few", "wrong")  # fmt: skip

PACE = 10  # seconds more with all events, for each second of the undisturbed run; they take six


class Case:
    """The course of a training run by the answer under a plan.

    values  (steps, weights) of each rank, or None
    events  [(kind of event, rank, when), …]
    taken   {(rank, pid): [(step, when), …]} of each process; `steps` has only the steps
    cables  [(when, what happened to a cable), …]
    saved   [(rank, pid, step after which it saved), …]
    few     [(rank, pid, ranks), …] for steps that too few ranks have taken
    wrong   the `Wrong` that was found, or None
    """

    def __init__(self, name, found):
        """Take over `found`, the attributes that `run_chaos` returns."""
        self.name, self.chaos, self.steps_asked = name, find_lab("chaos"), steps_of(name)
        for told in TOLD:
            setattr(self, told, found.get(told))
        self.steps = {process: [step for step, _ in taken] for process, taken in self.taken.items()}

    def look(self):
        """Raise `Wrong` unless the run has succeeded and lost no more than it had to."""
        self.need_all_steps()
        self.need_right_weights()
        if self.name == "undisturbed":
            self.need_few_saves()
        if self.name != ALL:
            self.need_little_lost()
        self.need_enough_ranks()

    def film(self) -> Iterator[Picture]:
        """Yield a picture of the run if any process has taken a step."""
        crosses = [(what, rank, at - self.began) for what, rank, at in self.events]
        crosses += [(words, None, at) for at, words in self.cables]
        taken = {process: [(step, at - self.began) for step, at in steps]
                 for process, steps in self.taken.items()}  # fmt: skip
        if any(taken.values()):
            yield plot_happenings(taken, crosses, title=f"Your training: {self.name}")

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
            what = f"rank {rank} takes a step in a group of {format_count(int(n), 'rank')}"
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

    def count_repeated_steps(self) -> int:
        """Return the most steps that one process has taken a second time."""
        return max((len(steps) - len(set(steps)) for steps in self.steps.values()), default=0)

    def need_little_lost(self):
        if self.name != "power cut" and self.lost > self.planned + 1:  # one may be late
            what = f"{self.lost} processes have ended, and {self.planned} had to be replaced"
            raise Wrong(self.name, what, LOSES["processes"])
        if twice := self.count_repeated_steps():
            what = f"{format_count(twice, 'step')} taken twice by a process that did not die"
            raise Wrong(self.name, what, LOSES["others"])
        if self.name == "power cut":
            firsts = [steps[0] for steps in self.steps.values() if steps[0] != 1]
            newest = AT - AT % self.chaos.EVERY
            if not firsts or min(firsts) <= newest:
                first = min(firsts, default=1)
                what = f"after it, training goes on with step {first}, and not with {newest + 1}"
                raise Wrong(self.name, what, LOSES["power cut"])

    def describe(self) -> str:
        words = [what for what, *_ in self.events] + ["a cable"] * bool(self.cables)
        words = [self.name] if self.name in LAST else words
        happened = ", ".join(dict.fromkeys(words)) or "nothing"
        lost = format_count(self.lost, "process")
        return f"{happened}: right weights after {self.seconds:.1f} s, {lost} lost"


def outcome(case):
    """Yield the line of a case or, if it went wrong, its film, and raise the error."""
    if case.wrong:
        yield from case.film()
        raise case.wrong
    yield case.describe()


def try_case(answer, name, seconds=SECONDS) -> Case:
    """Run and examine a case, which counts as hung after `seconds`. If a rank hangs, all others
    wait and do not compute, so the patience with a busy machine does not apply to them.
    """
    case = Case(name, call_next_to_answer(run_chaos, answer, name, seconds))
    try:
        if not case.wrong:
            case.look()
    except Wrong as wrong:
        case.wrong = wrong
    return case

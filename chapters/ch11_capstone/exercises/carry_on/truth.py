"""The right results, and the results of known mistakes."""

from coursekit.kit import Wrong
from pedagogy_lib.basics.closeness import close
from pedagogy_lib.basics.units import format_count

from .campaign_reasons import FEWER, NO_END, SAVES, TWICE, UNSAVED, WRONG_LOSSES
from .campaigns import BACK, EVERY, KILLS, ONE_DIES, RANKS, STEPS, TWO_LEFT, UNDISTURBED


class Case:
    """The events of a day.

    values  the steps of each rank at the end
    taken   {(rank, pid): [(step, its loss, the number of ranks that took it), …]}
    saved   [(rank, pid, the step after which it saved), …]
    """

    def __init__(self, name, found):
        self.name = name
        self.wrong, self.values, self.seconds = found["wrong"], found["values"], found["seconds"]
        self.taken, self.saved = found["taken"], found["saved"]

    def look(self, alone):
        if self.wrong:
            raise self.wrong
        self.need_right_losses(alone)
        self.need_all_steps()
        self.need_few_saves()
        self.need_little_lost()
        self.need_the_right_number()

    def need_right_losses(self, alone):
        for (rank, _), steps in self.taken.items():
            for step, loss, _ in steps:
                if not (1 <= step <= STEPS and close(loss, alone[step - 1])):
                    wanted = f"{alone[step - 1]:.6f}" if 1 <= step <= STEPS else "no such step"
                    what = f"rank {rank}, step {step}: loss {loss:.6f}, one process has {wanted}"
                    raise Wrong(self.name, what, WRONG_LOSSES[self.name])

    def need_all_steps(self):
        dead = {rank for _, rank in KILLS[self.name][0]} if self.name == TWO_LEFT else set()
        for rank in set(range(RANKS)) - dead:
            steps = self.values[rank]
            if steps != STEPS:
                raise Wrong(self.name, f"rank {rank} has {steps} of {STEPS} steps", NO_END)

    def need_few_saves(self):
        """Raise `Wrong` for a missing checkpoint, or an extra one where no newcomer waits."""
        odd = sorted({step for *_, step in self.saved if step % EVERY})
        if odd and self.name in (UNDISTURBED, TWO_LEFT):
            what = f"a checkpoint after step {odd[0]}, and EVERY is {EVERY}"
            raise Wrong(self.name, what, SAVES)
        saved = {step for *_, step in self.saved}
        for due in range(EVERY, STEPS + 1, EVERY):
            if due not in saved:
                what = f"no checkpoint after step {due}, and EVERY is {EVERY}"
                raise Wrong(self.name, what, UNSAVED)

    def need_little_lost(self):
        """Raise `Wrong` if too many steps were taken twice.

        A death costs the steps since the checkpoint, while the arrival of newcomers costs none.
        """
        kills, _ = KILLS[self.name]
        allowed = max((step % EVERY for step, _ in kills), default=0)
        if self.name == ONE_DIES:
            allowed = EVERY  # the checkpoint during which the rank dies is lost, too
        twice = max((len(steps) - len({step for step, *_ in steps})
                     for steps in self.taken.values()), default=0)  # fmt: skip
        if twice > allowed:
            what = (
                f"{format_count(twice, 'step')} taken twice by a process, where {allowed} had to be"
            )
            raise Wrong(self.name, what, TWICE.get(self.name, ""))

    def need_the_right_number(self):
        """Raise `Wrong` unless the right number of ranks took the last step."""
        wanted = 2 if self.name == TWO_LEFT else RANKS
        last = [ranks for steps in self.taken.values() for step, _, ranks in steps if step == STEPS]
        if set(last) != {wanted}:
            what = f"the last step was taken by {sorted(set(last))} ranks, and {wanted} were there"
            raise Wrong(self.name, what, FEWER[self.name])

    def describe_success(self) -> str:
        recipes = "as one process"
        if self.name in (TWO_LEFT, BACK):
            recipes += ", under both recipes"
        again = {ONE_DIES: ", after the step was taken again"}.get(self.name, "")
        return f"{self.name}: {format_count(STEPS, 'step')}, losses {recipes}{again}"

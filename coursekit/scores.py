"""`Scoreboard`: one's own runs, kept beside the notebook, and others to compare them with."""

from collections.abc import Mapping

from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.screen import someone_watches
from pedagogy_lib.basics.tables import Table
from pedagogy_lib.basics.units import brief

from .learner_state import StateFile

MOST_KEPT = 20  # runs; of more, the ones that are no good are forgotten first


class Scoreboard:
    """Runs with their figures, the best first.

    name  of the file, in the notebook's folder, in which they outlive the kernel. What is stored
          there does not show up where nobody watches, as in tests and reports
    best  the figure by which runs are ordered; the highest comes first
    """

    def __init__(self, name: str, best: str):
        self.kept, self.best = StateFile(f"scores-{name}"), best
        self.here: dict[str, dict] = {}

    def add(self, run: str, figures: Mapping[str, float]):
        """Remember a run; one of the same name counts if it was no worse.

        Raises  LaunchError unless the figures are numbers, the one that orders them among them
        """
        is_numbers = isinstance(figures, Mapping) and self.best in figures
        is_numbers = is_numbers and all(isinstance(x, (int, float)) for x in figures.values())
        need(is_numbers, f"a run's figures are numbers, among them {self.best!r}, "
             f"not {brief(figures)}")  # fmt: skip
        former = self.runs().get(run)
        if former and former[self.best] > figures[self.best]:
            return
        self.here[run] = dict(figures)
        if someone_watches():
            self.kept.put(run, self.here[run])
            for name in list(self.runs())[MOST_KEPT:]:
                self.here.pop(name, None)
                self.kept.put(name, None)

    def runs(self) -> dict[str, dict]:
        """All runs, the best first; what is spoilt in the file is left out."""
        kept = self.kept.read() if someone_watches() else {}
        found = {name: of for name, of in kept.items() if self.is_run(of)} | self.here
        return dict(sorted(found.items(), key=lambda run: -run[1][self.best]))

    def is_run(self, figures) -> bool:
        return isinstance(figures, dict) and isinstance(figures.get(self.best), (int, float))

    def table(self, columns: Mapping[str, str], others=None, title="") -> Table:
        """One's own runs, the best first, and others below; "–" for a figure that there is not.

        columns  {figure: how it is written, as in ",.0f"}
        others   {name: figures}, such as an engine's or what was predicted
        """
        rows = [[name, *self.format_row(figures, columns)]
                for name, figures in [*self.runs().items(), *(others or {}).items()]]  # fmt: skip
        return Table(["", *columns], rows, title=title)

    @staticmethod
    def format_row(figures, columns) -> list[str]:
        return [format(figures[name], how) if name in figures else "–"
                for name, how in columns.items()]  # fmt: skip

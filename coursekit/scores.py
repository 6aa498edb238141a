"""`Scoreboard`: the learner's own runs, stored next to the notebook, and others to compare with."""

from collections.abc import Mapping

from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.screen import someone_watches
from pedagogy_lib.basics.tables import Table
from pedagogy_lib.basics.units import brief

from .progress.learner_state import StateFile

MOST_KEPT = 20  # runs; of more, the worst are deleted


class Scoreboard:
    """Runs with their figures, the best first.

    name  the name of the file in the notebook's folder in which they outlive the kernel. Stored
          runs do not appear where nobody watches, as in tests and reports
    best  the figure by which runs are ordered; the highest is the first
    """

    def __init__(self, name: str, best: str):
        self.kept, self.best = StateFile(f"scores-{name}"), best
        self.here: dict[str, dict] = {}

    def add(self, run: str, figures: Mapping[str, float]):
        """Store a run, unless an earlier one of the same name was better.

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
        """Return all runs, the best first, without corrupt entries of the file."""
        kept = self.kept.read() if someone_watches() else {}
        found = {name: of for name, of in kept.items() if self.is_run(of)} | self.here
        return dict(sorted(found.items(), key=lambda run: -run[1][self.best]))

    def is_run(self, figures) -> bool:
        return isinstance(figures, dict) and isinstance(figures.get(self.best), (int, float))

    def table(self, columns: Mapping[str, str], others=None, title="") -> Table:
        """Return a table of the learner's runs, the best first, and others below.

        A figure that a run does not have is shown as "–".

        columns  {figure: its format, as in ",.0f"}
        others   {name: figures}, such as an engine's or predicted ones
        """
        rows = [[name, *self.format_row(figures, columns)]
                for name, figures in [*self.runs().items(), *(others or {}).items()]]  # fmt: skip
        return Table(["", *columns], rows, title=title)

    @staticmethod
    def format_row(figures, columns) -> list[str]:
        return [format(figures[name], how) if name in figures else "–"
                for name, how in columns.items()]  # fmt: skip

"""What README's table and the sources say of each part: minutes, exercises, what it needs."""

import re
from dataclasses import dataclass
from functools import cache

from pedagogy_lib.course.build import ROOT, lab_sources, source_of, sources
from pedagogy_lib.course.checking import chapters_with_checks, exercises_of

ROW = re.compile(
    r"^\| \[(?P<name>\d\d[a-z]?) · (?P<title>[^\]]+)\]\(solutions/(?P<stem>\w+)\.ipynb\) \|"
    r"(?P<write>[^|]*)\|(?P<measure>[^|]*)\| (?P<read>\d+)(?: \+ (?P<practise>\d+))? \|$",
    re.MULTILINE,
)
EXERCISES = re.compile(r'\bcheck\("(\d+\.\d+)"')
LINKED = re.compile(r"\]\((\d\d[a-z]?)_\w+\.ipynb\)")


@dataclass(frozen=True)
class Part:
    """A row of README's table.

    read      minutes to read and run; `practise` are those for the exercises
    needs     the parts that its cover links under "It needs"
    checked   numbers of its exercises
    """

    name: str
    title: str
    stem: str
    write: str
    measure: str
    read: int
    practise: int
    needs: tuple[str, ...]
    checked: tuple[str, ...]

    @property
    def chapter(self) -> str:
        return self.name[:2]


@cache
def parts() -> dict[str, Part]:
    """All parts in the order of the course, by name."""
    table = (ROOT / "README.md").read_text(encoding="utf-8")
    return {row["name"]: part_of(row) for row in ROW.finditer(table)}


def part_of(row) -> Part:
    source = source_of(row["stem"]).read_text(encoding="utf-8")
    words = {name: row[name].strip() for name in ("name", "title", "stem", "write", "measure")}
    return Part(
        **words,
        read=int(row["read"]),
        practise=int(row["practise"] or 0),
        needs=needs_in(source, row["name"]),
        checked=tuple(dict.fromkeys(EXERCISES.findall(source))),
    )


def needs_in(source: str, name: str) -> tuple[str, ...]:
    """Parts linked by the sentence; "parts 08b to 08f" are all between them, too."""
    found = re.search(r"\*\*It needs\*\*(.*?)\n\n", source.replace("\n#\n", "\n\n"), re.DOTALL)
    told = " ".join(re.split(r"\n# %%", found[1])[0].replace("\n# ", " ").split())
    needed = LINKED.findall(told)
    if re.search(r"\) to \[", told):
        every = [source.stem.split("_")[0] for source in sources()]
        needed = [every[k] for k in range(every.index(needed[0]), every.index(needed[1]) + 1)] + (
            needed[2:]
        )
    return tuple(dict.fromkeys(part for part in needed if part != name))


@cache
def part_of_exercise() -> dict[str, str]:
    return {number: part.name for part in parts().values() for number in part.checked}


@cache
def built_on() -> dict[str, tuple[str, ...]]:
    """{part: others whose exercises its own labs or checks use}, from imports and `needs`."""
    found = {name: [] for name in parts()}
    for number, exercise in checks().items():
        if number not in part_of_exercise():
            continue
        used = [
            *getattr(exercise, "needs", ()),
            *(e for lab in imported_by(exercise.lab) for e in written_in(lab)),
        ]
        found[part_of_exercise()[number]] += [part_of_exercise().get(e) for e in used]
    order = list(parts())
    return {name: tuple(p for p in order[: order.index(name)] if p in others)
            for name, others in found.items()}  # fmt: skip


@cache
def checks() -> dict:
    return {
        e.number: e for chapter in chapters_with_checks() for e in exercises_of(chapter).values()
    }


@cache
def imported_by(lab: str | None) -> tuple[str, ...]:
    """Labs that a lab imports, at its top."""
    if lab is None:
        return ()
    labs = {path.stem: path for path in lab_sources()}
    names = re.findall(r"^(?:from|import) (\w+)", labs[lab].read_text(encoding="utf-8"), re.M)
    return tuple(name for name in names if name in labs)


@cache
def written_in(lab: str) -> tuple[str, ...]:
    return tuple(number for number, exercise in checks().items() if exercise.lab == lab)


def needed_by(name: str) -> set[str]:
    """All parts that come before this one, directly or through others."""
    found, new = set(), set(parts()[name].needs)
    while new:
        found |= new
        new = {other for part in new for other in parts()[part].needs} - found
    return found

"""The prerequisites of the course's parts, from chapter.toml, the labs and the checks."""

import re
from functools import cache

from coursekit.building.build import lab_sources
from coursekit.chapters import parts
from coursekit.check_runner import chapters_with_checks, exercises_of


@cache
def part_of_exercise() -> dict[str, str]:
    return {number: part.name for part in parts().values() for number in part.numbers}


@cache
def find_used_parts() -> dict[str, tuple[str, ...]]:
    """Return {part: earlier ones whose exercises its labs or checks use}: imports and `needs`."""
    found = {name: [] for name in parts()}
    for number, exercise in checks().items():
        if number not in part_of_exercise():
            continue
        used = [
            *getattr(exercise, "needs", ()),
            *(e for lab in find_lab_imports(exercise.lab) for e in find_lab_exercises(lab)),
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
def find_lab_imports(lab: str | None) -> tuple[str, ...]:
    """Return the labs that a lab imports, at its top."""
    if lab is None:
        return ()
    labs = {path.stem: path for path in lab_sources()}
    names = re.findall(r"^(?:from|import) (\w+)", labs[lab].read_text(encoding="utf-8"), re.M)
    return tuple(name for name in names if name in labs)


@cache
def find_lab_exercises(lab: str) -> tuple[str, ...]:
    return tuple(number for number, exercise in checks().items() if exercise.lab == lab)


def find_required_parts(name: str) -> set[str]:
    """Return all parts that come before this one, directly or through others."""
    found, new = set(), set(parts()[name].prerequisites)
    while new:
        found |= new
        new = {other for part in new for other in parts()[part].prerequisites} - found
    return found

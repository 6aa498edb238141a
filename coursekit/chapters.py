"""The chapters and their parts, as the files chapters/*/chapter.toml describe them."""

import re
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path

from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.folders import PUBLISHED

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

FOLDER = PUBLISHED / "chapters"
# check("2.9", sent_bytes); in the JSON of a notebook, quotes have a backslash.
CHECK = re.compile(r"""\bcheck\(\s*\\?["'](\d+\.\d+)\\?["'](?:\s*,\s*(\w+))?""")
NAMED = re.compile(r"\[(\d\d[a-z]?)\]")
MARKER = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True)
class Part:
    """A notebook of the course.

    stem        the name of its source without the ending: "06c_gradients_in_parts"
    write       what the reader writes, for the table; `measure` is what the notebook measures
    reading     minutes to read and run it; `writing` is the minutes for its exercises
    needs       its prerequisites, a phrase in which a name in brackets is a part: "[06], [03c]"
    tried_with  other parameters that the tests run it with; `then_shows` is what it then prints
    exercises   the names of its exercises, in order
    """

    chapter: str
    stem: str
    title: str
    measure: str
    reading: int
    needs: str
    tried_with: dict
    then_shows: tuple[str, ...]
    write: str = ""
    writing: int = 0
    exercises: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The beginning of its file's name: "06c"."""
        return self.stem.partition("_")[0]

    @property
    def prerequisites(self) -> tuple[str, ...]:
        """The names of the parts that come before it."""
        return tuple(NAMED.findall(self.needs))

    @property
    def numbers(self) -> tuple[str, ...]:
        """The numbers of its exercises, which follow from their order in the chapter."""
        before = [part for part in chapters()[self.chapter].parts if part.stem < self.stem]
        first = 1 + sum(len(part.exercises) for part in before)
        return tuple(f"{int(self.chapter)}.{first + k}" for k in range(len(self.exercises)))

    def __str__(self):
        return f"{self.name} · {self.title}"


@dataclass(frozen=True)
class Chapter:
    """A chapter of the course; number "06" has the folder chapters/ch06_zero."""

    number: str
    title: str
    folder: Path
    parts: tuple[Part, ...]

    @property
    def reading(self) -> int:
        return sum(part.reading for part in self.parts)

    @property
    def writing(self) -> int:
        return sum(part.writing for part in self.parts)

    @property
    def exercises(self) -> tuple[str, ...]:
        """The names of its exercises, in order."""
        return tuple(name for part in self.parts for name in part.exercises)


@cache
def chapters() -> dict[str, Chapter]:
    """Return all chapters by number.

    Raises  WrongInput where a chapter.toml is missing or wrong
    """
    found = [read_chapter(folder / "chapter.toml") for folder in sorted(FOLDER.glob("ch*"))]
    names = [name for chapter in found for name in chapter.exercises]
    twice = sorted({name for name in names if names.count(name) > 1})
    need(not twice, f"two chapters list an exercise {', '.join(twice)}; give one another name")
    every = [part for chapter in found for part in chapter.parts]
    for part in every:
        unknown = sorted({*part.prerequisites} - {one.name for one in every})
        need(not unknown, f"part {part.stem} needs [{'], ['.join(unknown)}], which does not exist")
    return {chapter.number: chapter for chapter in found}


@cache
def parts() -> dict[str, Part]:
    """Return all parts by name, in the order of the course."""
    return {part.name: part for chapter in chapters().values() for part in chapter.parts}


@cache
def exercise_numbers() -> dict[str, str]:
    """Return the numbers of all exercises by name: {"reduce_gradients": "6.3"}.

    A number follows from the place in chapter.toml.
    """
    return {
        name: f"{int(chapter.number)}.{place}"
        for chapter in chapters().values()
        for place, name in enumerate(chapter.exercises, 1)
    }


def insert_numbers(text: str) -> str:
    """Return a text with exercises' names, such as {{reduce_gradients}}, replaced by numbers."""
    numbers = exercise_numbers()
    return MARKER.sub(lambda found: numbers.get(found[1], found[0]), text)


@cache
def exercise_folders() -> dict[str, Path]:
    """Return the folders of the exercises by number: {"6.3": chapters/ch06_zero/exercises/…}.

    A handout has only some of them.
    """
    places = {name: chapter.folder for chapter in chapters().values() for name in chapter.exercises}
    return {
        number: folder
        for name, number in exercise_numbers().items()
        if ((folder := places[name] / "exercises" / name) / "check.py").exists()
    }


@cache
def course() -> dict[str, list[dict]]:
    """Return the questions and the paths of course.toml."""
    return read_toml(FOLDER / "course.toml")


def read_chapter(path: Path) -> Chapter:
    """Return the chapter that a chapter.toml describes.

    Raises  WrongInput where it does not agree with the files in its folder
    """
    number = path.parent.name[2:4]
    told = read_toml(path)
    its = tuple(read_part(number, entry, path) for entry in told.get("parts", []))
    stems = [part.stem for part in its]
    sources = sorted(source.stem for source in path.parent.glob("[0-9]*.py"))
    is_source = (FOLDER / "course.toml").exists()  # a handout has neither this nor all files
    if is_source:
        need_equal_stems(stems, sources, short(path))
    names = [name for part in its for name in part.exercises]
    twice = sorted({name for name in names if names.count(name) > 1})
    need(not twice, f"{short(path)} lists the exercise {', '.join(twice)} twice")
    checked = {check.parent.name for check in path.parent.glob("exercises/*/check.py")}
    missing, more = sorted(set(names) - checked), sorted(checked - set(names))
    need(
        not (is_source and missing),
        f"{short(path)} lists the exercise {', '.join(missing)}, and there is no check.py in "
        f"exercises/{next(iter(missing), '')}",
    )
    need(not more, f"{short(path)} does not list the exercise {', '.join(more)}")
    need("title" in told, f"{short(path)} has no title")
    return Chapter(number, told["title"], path.parent, its)


def need_equal_stems(listed: list[str], sources: list[str], path: str):
    """Raise WrongInput unless a chapter.toml lists the parts of its folder, in their order."""
    missing, more = sorted({*listed} - {*sources}), sorted({*sources} - {*listed})
    need(not missing, f"{path} lists the part {', '.join(missing)}, and there is no source of it")
    need(not more, f"{path} does not list the part {', '.join(more)}")
    need(listed == sources, f"{path} has to list its parts in this order: {', '.join(sources)}")


def read_part(chapter: str, entry: dict, path: Path) -> Part:
    _, *known = fields(Part)
    names = [field.name for field in known]
    which = f"{short(path)}, part {entry.get('stem', 'without a stem')}"
    unknown = sorted(set(entry) - set(names))
    need(not unknown, f"{which}: {', '.join(unknown)} means nothing; there are {', '.join(names)}")
    missing = [
        field.name for field in known if field.default is MISSING and field.name not in entry
    ]
    need(not missing, f"{which} has no {', '.join(missing)}")
    entry = {name: tuple(v) if isinstance(v, list) else v for name, v in entry.items()}
    return Part(chapter, **entry)


def find_checks(text: str) -> dict[str, str]:
    """Return {number: the function passed, or ""} for the calls of `check` in a text, in order."""
    found = {}
    for number, name in CHECK.findall(text):
        found[number] = name or found.get(number, "")
    return found


def read_toml(path: Path) -> dict:
    need(path.exists(), f"{short(path)} is missing")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        need(False, f"{short(path)} cannot be read: {error}")


def short(path: Path) -> str:
    return path.relative_to(FOLDER.parent).as_posix()

"""plans.md: weeks from `weeks.py`, with minutes, prerequisites and goals from the course."""

import re
from pathlib import Path

from coursekit.building.build import source_of, text_of
from coursekit.chapters import Part, exercise_numbers, parts

from .deck import record_of, slides_of
from .prerequisites import find_required_parts, find_used_parts, part_of_exercise
from .weeks import SIX, TWELVE, Week

PAGE = Path(__file__).with_name("plans.md")
TOP = """# A course of 6 or of 12 weeks

Written by `python -m classroom.teaching plans`: do not change it by hand. Minutes are those of
[CHAPTERS.md](../../CHAPTERS.md): to read and run a part, and for its exercises.
What a part needs is what its cover says. Where its labs or checks use functions of other parts'
exercises, these parts are named as *also uses*: they need not be solved, as unsolved functions come
from the solution. A goal is what the part's cover promises, and how you see that it is reached.

Each week has time in class for the predictions, the pictures and the discussion; reading and
exercises can be done at home. For slides: `make slides`.
"""


def write() -> Path:
    PAGE.write_text(text(), encoding="utf-8")
    return PAGE


def text() -> str:
    both = {"Six weeks": SIX, "Twelve weeks": TWELVE}
    return TOP + "".join(plan(title, weeks) for title, weeks in both.items())


def plan(title: str, weeks: list[Week]) -> str:
    lines = ["", f"## {title}", "", "| week | parts | to read | exercises |", "|---|---|---|---|"]
    for number, week in enumerate(weeks, 1):
        read, practise = minutes(week)
        lines.append(f"| {number} · {week.title} | {week.parts} | {read} min | {practise} min |")
    read, practise = (sum(column) for column in zip(*map(minutes, weeks)))
    lines.append(f"| together | | {read} min | {practise} min |")
    for number, week in enumerate(weeks, 1):
        lines += ["", *format_week(number, week)]
    return "\n".join(lines) + "\n"


def minutes(week: Week) -> tuple[int, int]:
    chosen = [parts()[name] for name in week.parts.split()]
    return sum(part.reading for part in chosen), sum(part.writing for part in chosen)


def format_week(number: int, week: Week) -> list[str]:
    heads = "| part | minutes | needs | goal: you can … | seen by |"
    lines = [f"### Week {number} · {week.title}", "", heads, "|---|---|---|---|---|"]
    for name in week.parts.split():
        part = parts()[name]
        took = f"{part.reading} + {part.writing}" if part.writing else f"{part.reading}"
        lines.append(
            f"| [{name} · {part.title}](../../solutions/{part.stem}.ipynb) | {took} | "
            f"{needs(part)} | {goal(part)} | {proof(part)} |"
        )
    homework = ", ".join(exercise_numbers()[name] for name in week.homework.split())
    return [*lines, "", f"**In class**: {week.show}", "", f"**At home**: exercises {homework}."]


def needs(part: Part) -> str:
    also = [
        name for name in find_used_parts()[part.name] if name not in find_required_parts(part.name)
    ]
    return " ".join(part.prerequisites) + (f" (also uses {' '.join(also)})" if also else "") or "–"


def goal(part: Part) -> str:
    """Return what the cover promises."""
    source = text_of(source_of(part.stem))
    words = " ".join(source.replace("\n# ", " ").split())
    return re.search(r"\*\*After this part you can\*\* (.+?\.)(?= #| \*\*|$)", words)[1]


def proof(part: Part) -> str:
    """Return a part's exercises or, if it has none, its first prediction."""
    if part.numbers:
        return "exercise" + "s" * (len(part.numbers) > 1) + " " + ", ".join(part.numbers)
    asked = [slide for slide in slides_of(record_of(part.name)) if slide.kind == "predict"]
    return "prediction: " + re.sub(r"\*\*", "", asked[0].texts[-1]) if asked else "a talk"


def order_faults(weeks: list[Week]) -> list[str]:
    """Return what is in the wrong order: parts before what they need, another week's homework."""
    faults, taught = [], []
    for week in weeks:
        for name in week.parts.split():
            missing = [need for need in parts()[name].prerequisites if need not in taught]
            faults += [f"{name} comes before {need}" for need in missing]
            taught.append(name)
        here = week.parts.split()
        faults += [f"{name} is not of this week" for name in week.homework.split()
                   if part_of_exercise()[exercise_numbers()[name]] not in here]  # fmt: skip
    return faults

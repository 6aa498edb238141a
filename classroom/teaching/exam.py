"""An exam: some questions in any number of versions, each with a separate sheet of answers."""

import random
import string
from dataclasses import dataclass
from html import escape
from pathlib import Path

from pedagogy_lib.basics.errors import WrongInput

from .pages import page, prose
from .question import LEVELS, Question, QuestionVariant
from .questions import questions_of

UNITS = "1 kB, MB, GB are 10³, 10⁶, 10⁹ bytes; MiB is 2²⁰. Write down how you get to a number."


@dataclass(frozen=True)
class Exam:
    """A version of an exam: "A" and "B" have the same questions in other orders and other numbers.

    seed  of all versions together: the same seed, chapters and number give the same exam
    """

    version: str
    seed: int
    written: list[QuestionVariant]

    @property
    def minutes(self) -> int:
        return sum(written.question.minutes for written in self.written)


def exams(chapters, questions: int, seed: int, versions: int = 1) -> list[Exam]:
    """Return versions with the same questions, in other orders and with other numbers.

    Raises  WrongInput if there are not as many questions, or no such chapters
    """
    there = questions_of(chapters)
    for name in chapters:
        if not any(name in (q.chapter, q.part) for q in there):
            raise WrongInput(f"there is no question on {name!r}: name chapters 00 to 10, or parts")
    if not 1 <= questions <= len(there):
        raise WrongInput(
            f"{' '.join(chapters)} has {len(there)} questions: ask for 1 to {len(there)} of them"
        )
    if not 1 <= versions <= len(string.ascii_uppercase):
        raise WrongInput("an exam has 1 to 26 versions")
    chosen = spread(there, questions, random.Random(seed))
    return [version_of(chosen, seed, name) for name in string.ascii_uppercase[:versions]]


def spread(there: list[Question], count: int, chance: random.Random) -> list[Question]:
    """Draw questions from as many chapters as possible, and within these from as many parts."""
    pool = chance.sample(there, len(there))
    chosen: list[Question] = []
    while len(chosen) < count:

        def crowd(question):
            alike = [q for q in chosen if q.chapter == question.chapter]
            return len(alike), sum(q.part == question.part for q in alike)

        chosen.append(min((q for q in pool if q not in chosen), key=crowd))
    return chosen


def version_of(chosen, seed, name) -> Exam:
    chance = random.Random(f"{seed} {name}")
    order = chance.sample(chosen, len(chosen))
    return Exam(
        name, seed, [question.build_variant(question.draw_variant(chance)) for question in order]
    )


def write(exams: list[Exam], folder: Path, title: str) -> list[Path]:
    """Write each version as exam-A.html, and its answers as answers-A.html and answers-A.md."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for exam in exams:
        files[f"exam-{exam.version}.html"] = page(title, sheet(exam, title))
        files[f"answers-{exam.version}.html"] = page(f"{title}: answers", answers(exam, title))
        files[f"answers-{exam.version}.md"] = answers_as_text(exam, title)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


def sheet(exam: Exam, title: str) -> str:
    """Return the students' sheet, in which nothing gives away a number of the answers."""
    questions = "\n".join(
        f'<section class="question"><h2>Question {number} '
        f'<span class="minutes">{written.question.minutes} minutes</span></h2>'
        f'{prose(written.text)}<div class="room" style="height:'
        f'{2.5 + 0.6 * written.question.minutes:.1f}em"></div></section>'
        for number, written in enumerate(exam.written, 1)
    )
    return (
        f"<h1>{escape(title)} <small>version {exam.version}</small></h1>"
        f'<p class="name">Name</p><p>{len(exam.written)} questions, {exam.minutes} minutes. {UNITS}'
        f"</p>\n{questions}"
    )


def answers(exam: Exam, title: str) -> str:
    entries = "\n".join(
        f'<section class="answer"><h2>Question {number} <span '
        f'class="minutes">{describe_question(written)}'
        f'</span></h2>{prose(written.text)}<div class="right">{prose(written.answer)}</div>'
        f"{prose(written.why)}</section>"
        for number, written in enumerate(exam.written, 1)
    )
    version = f"version {exam.version}, {how(exam)}"
    return f"<h1>{escape(title)}: answers <small>{version}</small></h1>{entries}"


def answers_as_text(exam: Exam, title: str) -> str:
    lines = [f"# {title}: answers, version {exam.version} ({how(exam)})", ""]
    for number, written in enumerate(exam.written, 1):
        lines += [f"## Question {number} ({describe_question(written)})", "", written.text, ""]
        lines += [f"**{written.answer}**", "", written.why, ""]
    return "\n".join(lines)


def describe_question(written: QuestionVariant) -> str:
    question = written.question
    level = LEVELS[question.level]
    return f"{question.number}, part {question.part}, {level}, {question.minutes} minutes"


def how(exam: Exam) -> str:
    return f"seed {exam.seed}, {exam.minutes} minutes"

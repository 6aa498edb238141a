"""A question with a field for a number, in the browser."""

from collections.abc import Callable
from pathlib import Path

import anywidget
import traitlets

HERE = Path(__file__).parent


class Question(anywidget.AnyWidget):
    """A question, a field with its unit, and the kernel's reply to the typed text.

    Attributes, shared with the browser
        question, unit  texts as they are shown
        typed           {"text": the typed text, "at": its time, in seconds since 1970}; sent when
                        the field is left, or at Enter
        answered        number of the kernel's replies
        reply           the kernel's reply
        is_good         whether the text was accepted
    """

    _esm = HERE / "question.js"
    _css = HERE / "course.css"
    question = traitlets.Unicode().tag(sync=True)
    unit = traitlets.Unicode().tag(sync=True)
    typed = traitlets.Dict().tag(sync=True)
    answered = traitlets.Int().tag(sync=True)
    reply = traitlets.Unicode().tag(sync=True)
    is_good = traitlets.Bool(True).tag(sync=True)

    def __init__(self, question, unit, text, reply, answer: Callable[..., tuple[bool, str]]):
        """Show a question; `answer(text, at)` returns whether it accepts the text, and a reply."""
        super().__init__(question=question, unit=unit, typed={"text": text}, reply=reply)
        self.take = answer
        self.observe(lambda change: self.answer(change["new"]), "typed")

    def answer(self, typed):
        with self.hold_sync():  # the browser shows all of it at once
            self.is_good, self.reply = self.take(typed["text"], typed.get("at"))
            self.answered += 1

"""An exercise's hints, each folded into the one before it; only the notebook has the last one."""

import re
from html import escape

from coursekit.check_runner import find_exercise

CODE = re.compile(r"`([^`\n]+)`")
PLACE = re.compile(r"\./([\w./-]+\.py):\d+")


def hints_of(number: str) -> str:
    """Return the HTML of all hints but the last, which may be nearly the answer."""
    exercise = find_exercise(number)
    count = len(exercise.hints)
    told = f"The last hint comes in the notebook: <code>hint(&quot;{number}&quot;)</code>."
    inner = f"<p>{told}</p>" if count > 1 else ""
    for step in range(count - 1, 0, -1):
        text = f"<p>{render_hint(exercise.hints[step - 1])}</p>"
        inner = f"<details><summary>Hint {step} of {count}</summary>{text}{inner}</details>"
    head = (
        f"<p><b>Exercise {number} · <code>{escape(exercise.name)}</code></b>{where(exercise)}</p>"
    )
    return f'<div class="course-hints">{head}{inner}</div>'


def where(exercise) -> str:
    """Return the words that say where the learner writes the function."""
    lab = exercise.lab
    if lab is None:
        return ", in a cell of the notebook"
    return f', in <a href="../labs/{lab}.html">labs/{lab}.py</a>'


def render_hint(text: str) -> str:
    """Return the HTML of a hint's text, with its code as code."""
    return CODE.sub(r"<code>\1</code>", escape(PLACE.sub(r"\1", text), quote=False))

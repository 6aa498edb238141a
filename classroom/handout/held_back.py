"""Functions of labs that answer an exercise of a notebook's cell: in a handout they are holes.

Later parts call them from the lab. In a handout, whoever has solved the exercise writes the answer
there, too: until then, the lab says which exercise comes first.
"""

import ast

from pedagogy_lib.course.build import HOLE, source_of, with_holes

HELD_BACK = {  # {lab: {function: its exercise}}
    "collectives_measured": {"sent_bytes": "2.9"},
    "expert_training": {"average_gradients": "9.22"},
    "how_often": {"best_period": "4.5"},
    "meshes": {"my_group": "9.3"},
    "model_in_parts": {"norm_with_copies": "7.15"},
    "parameter_server": {"exchange_seconds": "3.17"},
    "plan_space": {"count_ways": "10.14"},
    "scaling": {"efficiencies": "3.20"},
    "schedules": {"zero_bubble": "8.13"},
    "serving": {"most_users": "10.6"},
    "wide": {"slowdown": "7.21"},
    "three_dimensions": {"seed_of_mask": "9.8", "share_of_copy": "9.4", "state_bytes": "9.29"},
}
FIRST = "Exercise {}. Write here what you have written there, in this form.\n\n{}"


def lab_text(name: str) -> str:
    """A lab as it is handed out."""
    text = with_holes(source_of(name).read_text(encoding="utf-8"))
    for function, number in HELD_BACK.get(name, {}).items():
        text = with_hole_in(text, function, number)
    return text


def with_hole_in(text: str, function: str, number: str) -> str:
    """The text without what this function does: its docstring names the exercise."""
    node = next(n for n in ast.parse(text).body if getattr(n, "name", None) == function)
    told, *body = node.body
    lines = text.splitlines(keepends=True)
    words = FIRST.format(number, ast.get_docstring(node, clean=False).strip())
    lines[told.lineno - 1 : body[-1].end_lineno] = [
        f'    """{words}\n    """\n'.replace("\n\n", "\n\n    ", 1),
        HOLE.format(indent="    "),
    ]
    return "".join(lines)

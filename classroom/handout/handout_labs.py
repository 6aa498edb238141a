"""The functions of labs that answer an exercise of a notebook's cell; in a handout they are holes.

Later parts call them from the lab. In a handout, whoever has solved the exercise writes the answer
into the lab, too; until then, the lab says which exercise comes first.
"""

import ast

from coursekit.building.build import HOLE, insert_holes, source_of, text_of
from coursekit.chapters import exercise_numbers

HELD_BACK = {  # {lab: {function: its exercise}}
    "collectives_measured": {"sent_bytes": "sent_bytes"},
    "expert_training": {"average_gradients": "average_gradients_of_experts"},
    "how_often": {"best_period": "best_period"},
    "meshes": {"my_group": "my_group"},
    "model_in_parts": {"norm_with_copies": "gradient_norm"},
    "parameter_server": {"exchange_seconds": "exchange_seconds"},
    "plan_space": {"count_ways": "ways"},
    "scaling": {"efficiencies": "efficiency"},
    "schedules": {"zero_bubble": "my_schedule"},
    "serving": {"most_users": "most_users"},
    "wide": {"slowdown": "slowdown"},
    "three_dimensions": {
        "seed_of_mask": "seed_of_mask",
        "share_of_copy": "share_of_copy",
        "state_bytes": "state_bytes",
    },
}
FIRST = "Exercise {}. Write here what you have written there, in this form.\n\n{}"


def lab_text(name: str) -> str:
    """Return a lab as it is handed out."""
    text = insert_holes(text_of(source_of(name)))
    for function, exercise in HELD_BACK.get(name, {}).items():
        text = put_hole(text, function, exercise_numbers()[exercise])
    return text


def put_hole(text: str, function: str, number: str) -> str:
    """Replace the body of this function by a hole; its docstring then names the exercise."""
    node = next(n for n in ast.parse(text).body if getattr(n, "name", None) == function)
    told, *body = node.body
    lines = text.splitlines(keepends=True)
    words = FIRST.format(number, ast.get_docstring(node, clean=False).strip())
    lines[told.lineno - 1 : body[-1].end_lineno] = [
        f'    """{words}\n    """\n'.replace("\n\n", "\n\n    ", 1),
        HOLE.format(indent="    "),
    ]
    return "".join(lines)

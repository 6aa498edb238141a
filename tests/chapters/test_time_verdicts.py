"""No cell of a part decides by a bare comparison of two times."""

import ast
import re
from operator import attrgetter

from each import repeat_for_each

from coursekit.building import build

TIME = re.compile(r"second|took|times?$|rounds|idle|busy|fast|slow", re.IGNORECASE)
MARGIN = {"low", "high"}  # of what compare_rounds returns
ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
COMPUTED = (
    "10c",
    "10f",
    "10g",
)  # parts whose seconds are published or predicted, not measured here
KNOWN = {  # comparisons that no disturbance can turn round, and those of computed times
    "00c": {"slept.seconds[0] >= 0.1"},  # a sleep is never shorter
    "02b": {"busy['broadcast_tree'] < 0.9"},  # 29 % by theory, and other programs only lower it
    "02f": {"took > 2 * by_formula"},  # each of 128 calls at its best of nine; twenty times as long
    "07g": {"max(all_times) < 10"},  # computed
    "08": {"naive.idle_share > 0.9 * (1 - 1 / p)",  # other programs only add to it
           "abs(gpipe_simulated.overhead - over) < 1e-09 < abs(gpipe_simulated.idle_share - over)"},
    "08f": {"abs(gpipe - idle_of['1F1B'][0]) > 1e-09"},  # simulated
    "08g": {"idle['even'] > idle['equal stages']"},  # simulated
    "10b": {"abs(seconds / took[chosen[0]] - 1) < 0.1",
            "last_but_one > 1.5 * second"},  # of twelve plans, without the odd one at either end
}  # fmt: skip


def names_in(node) -> set[str]:
    """Return all names, attributes and keys in an expression."""
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Attribute):
            found.add(part.attr)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            found.add(part.value)
    return found


def bare_comparisons(code) -> set[str]:
    """Return the comparisons of times in a cell that have no margin of `compare_rounds`."""
    return {ast.unparse(node) for node in ast.walk(ast.parse(code))
            if isinstance(node, ast.Compare) and any(isinstance(op, ORDER) for op in node.ops)
            and any(map(TIME.search, names_in(node))) and not names_in(node) & MARGIN}  # fmt: skip


@repeat_for_each("source", build.sources, attrgetter("stem"))
def test_a_verdict_on_times_has_a_margin(source):
    name = source.stem.partition("_")[0]
    cells = build.make_notebook(build.text_of(source), source.stem).cells
    found = set().union(*(bare_comparisons(c.source) for c in cells if c.cell_type == "code"))
    if name not in COMPUTED:
        assert found <= KNOWN.get(name, set()), "take rounds in turns, and compare_rounds()"


def test_a_bare_comparison_of_times_is_found():
    assert bare_comparisons("x = 'right' if took['a'] < 0.9 * took['b'] else 'wrong'")
    assert bare_comparisons("print(f'{\"faster\" if run.seconds[0] < other.seconds[0] else 0}')")
    assert not bare_comparisons("compare_rounds(took['a'], took['b']).high < 0.9")
    assert not bare_comparisons("sent['a'] < sent['b']")

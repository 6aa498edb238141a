"""The structure of a lab's text: where its exercises are, and which of them still have holes."""

import ast
import re

EXERCISE = re.compile(r"Exercise (\d+\.\d+)")
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # in which statements hold others
ANSWER = "### BEGIN SOLUTION"  # in a solution, where the learner has a hole


def is_hole(node) -> bool:
    """Return whether a part of a program is or contains the three dots of a hole."""
    return count_holes(node) > 0


def count_holes(node) -> int:
    return sum(map(is_three_dots, statements_in(node)))


def is_three_dots(n) -> bool:
    return isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant) and n.value.value is ...


def first_holes(tree) -> dict[str, int]:
    """Return {function or class: the line of its first hole}, of those that have one."""
    holes = {node.name: [n.lineno for n in statements_in(node) if is_three_dots(n)]
             for node in functions_in(tree)}  # fmt: skip
    return {name: lines[0] for name, lines in holes.items() if lines}


def statements_in(node):
    """Yield a node and all statements in it; this skips the many expressions of `ast.walk`."""
    yield node
    for field in () if isinstance(node, ast.expr) else BLOCKS:
        for part in getattr(node, field, ()):
            yield from statements_in(part)


def functions_in(tree) -> list:
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [node for node in tree.body if isinstance(node, kinds)]


def is_class(node) -> bool:
    return isinstance(node, ast.ClassDef)


def methods_with_holes(tree) -> dict[str, list[str]]:
    """Return {class: its methods with a hole}, of the classes that have any."""
    classes = filter(is_class, functions_in(tree))
    found = {c.name: [node.name for node in functions_in(c) if is_hole(node)] for c in classes}
    return {name: methods for name, methods in found.items() if methods}


def begun_in(mine, ours, text) -> set[str]:
    """Return the classes with holes, but fewer than there are answers in our text of them."""
    lines = text.splitlines()
    answers = {
        node.name: sum(ANSWER in line for line in lines[node.lineno - 1 : node.end_lineno])
        for node in functions_in(ours)
    }
    return {
        node.name
        for node in filter(is_class, functions_in(mine))
        if 0 < count_holes(node) < answers.get(node.name, 0)
    }


def numbers_in(tree) -> dict[str, str]:
    """Return {function: number of the exercise that its docstring names}, in the file's order."""
    found = {
        node.name: EXERCISE.search(ast.get_docstring(node) or "") for node in functions_in(tree)
    }
    return {name: match[1] for name, match in found.items() if match}


def names_of(node) -> list[str]:
    """Return the names that a statement of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return [n.id for t in targets if t for n in ast.walk(t) if isinstance(n, ast.Name)]

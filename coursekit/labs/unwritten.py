"""The holes that a program of labs/ would reach and that the learner has still to write."""

import ast
import os
from pathlib import Path

from .holes import EXERCISE, is_hole, names_of
from .snapshot import parse


def misses_something(path) -> bool:
    """Return whether the program at `path` would reach a hole; rank 0 prints the holes."""
    missing = still_to_write(path)
    if missing and os.environ.get("RANK", "0") == "0":
        print("still to be written, here and in other labs:", ", ".join(missing))
    return bool(missing)


def still_to_write(path, names=("main",)) -> list[str]:
    """Return the functions with a hole that `names` of a lab call, directly or indirectly.

    path     path of the lab; labs that it imports are in the same folder and are searched, too
    Returns  `flatten_padded (exercise 6.2)`, …, each once, in the order in which they are reached
    """
    found: dict[tuple, str] = {}
    follow(Path(path), names, found, set(), {})
    return list(found.values())


def follow(path, names, found, seen, modules):
    """Add to `found` the holes that `names` of the module at `path` reach."""
    if path not in modules:
        modules[path] = {name: node for node in parse(path).body for name in names_of(node)}
    for name in names:
        node = modules[path].get(name)
        if node is None or (path, name) in seen:
            continue
        seen.add((path, name))
        if isinstance(node, ast.ImportFrom):
            other = path.parent / f"{node.module}.py"
            if other.exists():
                follow(other, [name], found, seen, modules)
            continue
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and is_hole(node):
            number = EXERCISE.search(ast.get_docstring(node) or "")
            found[path, name] = f"{name} (exercise {number[1]})" if number else name
        used = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
        follow(path, dict.fromkeys(used), found, seen, modules)

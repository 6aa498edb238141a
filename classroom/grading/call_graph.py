"""The exercises of labs that an answer calls, directly or through the student's other functions."""

import ast
from functools import lru_cache

from . import course
from .scopes import IMPORTS, bound_by, find_free_names


def find_called_exercises(statements, labs, own=()) -> set[str]:
    """Return the numbers of the exercises in labs that these statements call.

    labs  {lab: its statements}
    own   (lab, function) that these statements belong to, which does not count
    """
    reached: set[tuple[str, str]] = set()
    todo = list(find_lab_calls(statements, statements, labs, ""))
    if own:
        todo = list(find_lab_calls(statements, labs.get(own[0], statements), labs, own[0]))
    while todo:
        place = todo.pop()
        if place in reached or place == own:
            continue
        reached.add(place)
        lab, function = place
        inside = [one for one in labs[lab] if function in bound_by(one.node)]
        todo += find_lab_calls(inside, labs[lab], labs, lab)
    numbers = (course.numbers_of_lab(lab).get(function) for lab, function in reached)
    return set(filter(None, numbers))


def find_lab_calls(statements, around, labs, here):
    """Yield (lab, name) for each name of a lab in statements; `here` is the lab they are in."""
    for statement in statements:
        attributes = attributes_of(statement.text)
        for name in find_free_names(statement.text):
            if here and any(name in bound_by(one.node) for one in around):
                yield here, name
            for lab, meant in meanings(name, around, labs):
                if meant:
                    yield lab, meant
                else:
                    yield from ((lab, attribute) for of, attribute in attributes if of == name)


def meanings(name, around, labs):
    """Yield (lab, function) for each meaning of a name, with "" where it means the lab itself."""
    for statement in around:
        node = statement.node
        if name not in bound_by(node):
            continue
        if isinstance(node, IMPORTS):
            yield from resolve_import(node, name, labs)
        else:
            for lab in labs_opened(node):
                if lab in labs:
                    yield lab, ""


def resolve_import(node, name, labs):
    for alias in node.names:
        if (alias.asname or alias.name).split(".")[0] != name:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[-1] in labs:
            yield node.module.split(".")[-1], alias.name
        elif alias.name.split(".")[-1] in labs:
            yield alias.name.split(".")[-1], ""


def labs_opened(node) -> list[str]:
    """Return the names in calls such as `lab("collectives")`."""
    return [
        call.args[0].value
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "lab"
        and call.args and isinstance(call.args[0], ast.Constant)
    ]  # fmt: skip


@lru_cache(4096)
def attributes_of(text) -> frozenset[tuple[str, str]]:
    """Return (name, attribute) of each `name.attribute`."""
    return frozenset(
        (node.value.id, node.attr)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    )

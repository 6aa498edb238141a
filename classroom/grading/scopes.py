"""The names that statements bind and need from outside, read from their text and never run."""

import ast
import builtins
import symtable
from functools import lru_cache

from coursekit.labs.holes import count_holes

from .programs import UNREADABLE, Statement

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)
KNOWN = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}


def bound_by(node) -> set[str]:
    """Return the names that a statement of a program binds."""
    if isinstance(node, DEFINITIONS):
        return {node.name}
    if isinstance(node, IMPORTS):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    found = (
        {node.id} if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else set()
    )
    inside = () if isinstance(node, SCOPES) else ast.iter_child_nodes(node)
    return found.union(*map(bound_by, inside)) if inside else found


def find_changed_names(node) -> set[str]:
    """Return the names whose values a statement may change: `x[0] = 1`, `x.append(2)`."""
    if isinstance(node, SCOPES):
        return set()
    is_place = isinstance(node, (ast.Attribute, ast.Subscript))
    is_stored = is_place and not isinstance(node.ctx, ast.Load)
    is_called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    place = node if is_stored else node.value.func if is_called else None
    while isinstance(place, (ast.Attribute, ast.Subscript)):
        place = place.value
        if isinstance(place, ast.Name):
            return {place.id}
    return set().union(*map(find_changed_names, ast.iter_child_nodes(node)))


@lru_cache(4096)
def find_free_names(text: str) -> frozenset[str]:
    """Return the names that a statement takes from the program around it, without Python's own."""
    try:
        table = symtable.symtable(text, "", "exec")
    except UNREADABLE:
        return frozenset()
    return frozenset(find_table_names(table) - KNOWN)


def find_table_names(table) -> set[str]:
    is_top = table.get_type() == "module"
    own = {
        one.get_name()
        for one in table.get_symbols()
        if (one.is_referenced() if is_top else one.is_global())
    }
    return own.union(*map(find_table_names, table.get_children()))


@lru_cache(4096)
def find_immediate_names(text: str) -> frozenset[str]:
    """Return the names that a statement needs when it runs itself, and not later in a call."""
    try:
        table = symtable.symtable(text, "", "exec")
    except UNREADABLE:
        return frozenset()
    return frozenset(one.get_name() for one in table.get_symbols() if one.is_referenced())


def begins(statement: Statement, name: str) -> bool:
    """Return whether the earlier meaning of a name does not matter after this statement."""
    node = statement.node
    is_plain = isinstance(node, (*DEFINITIONS, *IMPORTS, ast.Assign))
    return is_plain and name in bound_by(node) and name not in find_immediate_names(statement.text)


def is_complete(node) -> bool:
    return count_holes(node) == 0


def same_code(a, b) -> bool:
    """Return whether two definitions differ only in layout, comments and docstrings."""
    return a is not None and b is not None and bare(a) == bare(b)


def bare(node) -> str:
    copy = ast.parse(ast.unparse(node))
    for one in ast.walk(copy):
        if isinstance(one, DEFINITIONS) and ast.get_docstring(one) is not None:
            one.body = one.body[1:] or [ast.Pass()]
    return ast.dump(copy)

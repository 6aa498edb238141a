"""Programs as sequences of tokens in which the names that a student has chosen do not count."""

import ast

# Statements that say nothing about how an exercise was solved.
SKIPPED = (ast.Import, ast.ImportFrom, ast.Pass)
OWN = "v"  # replaces every name that the program itself defines


def tokens_of(source: str) -> list[tuple[str, int]]:
    """Return each token with its line, from 1; [] for a text that does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    own = names_defined_in(tree)
    return list(tokens(tree, own, 1))


def names_defined_in(tree) -> set[str]:
    return {name for name in map(name_defined_by, ast.walk(tree)) if name}


def name_defined_by(node) -> str | None:
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            return name
        case ast.arg(arg=name):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name


def tokens(node, own, line):
    """Yield (token, line) of a tree in the order of the text, more or less."""
    line = getattr(node, "lineno", line)
    yield token_of(node, own), line
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "type_comment", "ctx", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not is_silent(child):
                yield from tokens(child, own, line)


def is_silent(node) -> bool:
    """Return whether a node is a docstring, a comment in quotes, or in every program."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, SKIPPED)


def token_of(node, own) -> str:
    match node:
        case ast.Name():
            return OWN if node.id in own else node.id
        case ast.Attribute():
            return f".{node.attr}"
        case ast.Constant():
            return repr(node.value)[:40]
        case ast.arg() | ast.FunctionDef() | ast.ClassDef():
            return type(node).__name__
        case ast.keyword():
            return f"{node.arg}="
        case ast.AnnAssign():  # the same as without a type
            return "Assign"
    return type(node).__name__

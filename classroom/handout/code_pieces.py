"""Pieces of code in a form in which names do not matter: those searched for, and those in files."""

import ast
import builtins
import json
import re
import textwrap

SAME_EVERYWHERE = {*dir(builtins), "torch", "dist", "F", "nn", "math", "itertools", "functools"}
SMALLEST_PART = 12  # nodes: a smaller expression cannot be told from any other
SMALLEST_WHOLE = 5
IN_TEXT = re.compile(r"`([^`\n]+)`")
ENDS = re.compile(r"[.:;,]\s+|\n")
EMPHASIS = re.compile(r"(?<![\w*])\*([^\s*][^*\n]*)\*(?![\w*])")  # *words* in a sentence
FENCED = re.compile(r"```(?:python)?\n(.*?)```", re.DOTALL)
IGNORED = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)
LONGEST_WORD = 60
COMPUTING = (ast.BinOp, ast.Compare, ast.BoolOp, ast.Attribute, ast.IfExp, ast.ListComp,
             ast.GeneratorExp, ast.DictComp, ast.SetComp)  # fmt: skip
MOST_TEXT = 20_000  # characters of a string that may be code


def size_of(node) -> int:
    """Count the nodes of a statement or an expression, or of a list of them."""
    if isinstance(node, list):
        return sum(map(size_of, node))
    return sum(not isinstance(n, IGNORED) for n in ast.walk(node))


def normal_form(node) -> str:
    """Return a node's code without annotations, with its own names numbered as they appear."""
    names: dict[str, str] = {}

    def name_of(name):
        return name if name in SAME_EVERYWHERE else names.setdefault(name, f"v{len(names)}")

    def write(n):
        if isinstance(n, ast.Name):
            return name_of(n.id)
        if isinstance(n, ast.arg):
            return name_of(n.arg)
        if isinstance(n, ast.Constant):
            return repr(n.value)
        if isinstance(n, list):
            return f"[{','.join(map(write, n))}]"
        if not isinstance(n, ast.AST):
            return str(n)
        fields = (
            write(value)
            for field, value in ast.iter_fields(n)
            if field not in ("ctx", "annotation", "returns", "type_comment", "kind", "name")
        )
        return f"{type(n).__name__}({','.join(fields)})"

    return write(node)


def shape_of(node, size) -> tuple[str, int]:
    """Return a piece's kind and size: only pieces of one shape can be the same."""
    kind = f"{len(node)} statements" if isinstance(node, list) else type(node).__name__
    return kind, size


def strip_docstrings(tree):
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and is_text(body[0]):
            node.body = body[1:] or [ast.copy_location(ast.Pass(), body[0])]
    return tree


def is_text(node) -> bool:
    is_expression = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_expression and isinstance(node.value.value, str)


def pieces_of(statements, smallest=SMALLEST_WHOLE):
    """Yield (kind, node) of an answer: the whole of it, and each part that is distinctive alone.

    A node is a list where it is several statements. The value of a lone `return` counts as the
    whole, because a lambda may have it.

    smallest  the fewest nodes of a whole that is searched for
    """
    if len(statements) > 1:
        yield "whole", statements
    whole = statements[0].value if len(statements) == 1 and is_return(statements[0]) else None
    if whole is not None and size_of(whole) >= smallest and says_something(whole):
        yield "whole", whole
    for statement in statements:
        for node in ast.walk(statement):
            value = getattr(node, "value", None) if isinstance(node, ast.stmt) else None
            for part in (node if isinstance(node, ast.stmt) else None, value):
                if isinstance(part, ast.AST) and size_of(part) >= SMALLEST_PART:
                    yield "part", part


def says_something(node) -> bool:
    """Return whether a node computes something, and does not only call a function by its name."""
    return any(isinstance(n, COMPUTING) for n in ast.walk(node))


def is_return(node) -> bool:
    return isinstance(node, ast.Return) and node.value is not None


def codes_in(name: str, data: bytes):
    """Yield the trees of all code in a file: programs, cells, and texts that are code."""
    if name.endswith(".py"):
        tree = ast.parse(data)
        yield tree
        yield from codes_in_strings(tree)
    elif name.endswith(".ipynb"):
        for cell in json.loads(data)["cells"]:
            text = "".join(cell["source"])
            if cell["cell_type"] == "code":
                text = re.sub(r"(?m)^\s*[%!].*$", "", text)
                yield from trees_of(text)
            else:
                yield from codes_in_text(text)
    elif name.endswith(".json"):
        for text in strings_in(json.loads(data)):
            if " " in text or len(text) < LONGEST_WORD:  # not the bytes of a tensor
                yield from codes_in_text(text)
    elif name.endswith((".md", ".txt", ".yml", ".toml", ".js", ".css")) or "." not in name:
        yield from codes_in_text(data.decode())


def codes_in_strings(tree):
    """Yield the code in a program's texts, without hints, which help with an answer on purpose."""
    hints = {id(n) for call in ast.walk(tree) if isinstance(call, ast.keyword)
             and call.arg == "hints" for n in ast.walk(call)}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hints:
            yield from codes_in_text(node.value)


def codes_in_text(text: str):
    """Yield the code in a text: all of it, a block, a part in backticks, or a clause."""
    if len(text) < SMALLEST_WHOLE or len(text) > MOST_TEXT:
        return
    text = EMPHASIS.sub(r"\1", text)
    candidates = [text, *FENCED.findall(text), *IN_TEXT.findall(text), *ENDS.split(text)]
    for candidate in dict.fromkeys(candidates):
        if any(sign in candidate for sign in "(+-*/[="):
            yield from trees_of(candidate)


def trees_of(text: str):
    """Yield the tree of a text, if it is Python."""
    try:
        yield ast.parse(textwrap.dedent(text).strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return


def strings_in(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from strings_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings_in(one)

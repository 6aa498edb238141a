"""Functions and classes in a program's text: a lookup by name, and the merge of two versions."""

import ast
import hashlib

from .labs.holes import functions_in, is_hole, names_of, numbers_in


class Program:
    """A text with its functions. Raises SyntaxError if it is not Python."""

    def __init__(self, text: str):
        self.text, self.tree = text, ast.parse(text)
        self.lines = text.splitlines(keepends=True)
        self.nodes = {node.name: node for node in functions_in(self.tree)}
        self.exercises = numbers_in(self.tree)

    def text_of(self, node) -> str:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        return "".join(self.lines[first - 1 : node.end_lineno]).rstrip() + "\n"

    def function(self, name) -> str:
        return self.text_of(self.nodes[name])

    def is_written(self, name) -> bool:
        return name in self.nodes and not is_hole(self.nodes[name])

    def digests(self) -> dict[str, str]:
        """Return {function: digest of its text}."""
        return {name: digest(self.function(name)) for name in self.nodes}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digests_of(text: str) -> dict[str, str]:
    """Return the digests of all functions; none for a text that is not Python."""
    try:
        return Program(text).digests()
    except SyntaxError:
        return {}


def merge_functions(new: Program, mine: Program, carried: list[str]) -> str:
    """Return `new` with the `carried` functions of `mine`, and the definitions that they need."""
    texts = {name: mine.function(name) for name in carried}
    lines = list(new.lines)
    for name in sorted(texts, key=lambda name: -new.nodes[name].lineno):
        node = new.nodes[name]
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        lines[first - 1 : node.end_lineno] = [texts[name]]
    imports, helpers = find_dependencies(new, mine, carried)
    first_kept = min((new.nodes[name].lineno for name in carried), default=1)
    place = first_line_of(new, first_kept)
    lines[place:place] = [f"{mine.text_of(node)}\n\n" for node in helpers]
    place = end_of_imports(new)
    lines[place:place] = [mine.text_of(node) for node in imports]
    return "".join(lines)


def first_line_of(program: Program, line: int) -> int:
    """Return the number of lines before the statement at this line and its decorators."""
    node = next(node for node in program.tree.body if node.lineno == line)
    return min([line, *(d.lineno for d in getattr(node, "decorator_list", []))]) - 1


def end_of_imports(program: Program) -> int:
    ends = [n.end_lineno for n in program.tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
    is_told = ast.get_docstring(program.tree) is not None
    return max([*ends, program.tree.body[0].end_lineno if is_told else 0])


def find_dependencies(new: Program, mine: Program, carried) -> tuple[list, list]:
    """Return imports and other statements of `mine` that `carried` uses and `new` lacks."""
    there = {name for node in new.tree.body for name in names_of(node)}
    defined = {name: node for node in mine.tree.body for name in names_of(node)}
    found, todo = set(), [mine.nodes[name] for name in carried]
    while todo:
        used = {n.id for n in ast.walk(todo.pop()) if isinstance(n, ast.Name)}
        for name in used & defined.keys() - there:
            if defined[name] not in found:
                found.add(defined[name])
                todo.append(defined[name])
    in_order = [node for node in mine.tree.body if node in found]
    imports = [node for node in in_order if isinstance(node, (ast.Import, ast.ImportFrom))]
    return imports, [node for node in in_order if node not in imports]


def select_functions(
    new: Program, mine: Program, before: dict[str, str]
) -> tuple[list[str], list[str]]:
    """Return the functions of `mine` that go into `new`, and those that give way to it.

    before  {function: digest}, as the handout had them
    """
    carried, lost = [], []
    for name in mine.nodes:
        if name not in new.nodes or digest(mine.function(name)) == before.get(name):
            continue
        is_same = new.function(name) == mine.function(name)
        is_exercise = name in new.exercises or name in mine.exercises
        has_begun = mine.is_written(name) or before.get(name) is not None
        if is_same or not has_begun:
            continue
        unchanged_there = digest(new.function(name)) == before.get(name)
        (carried if is_exercise or unchanged_there else lost).append(name)
    return carried, lost

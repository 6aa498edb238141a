"""Statements that have no place in an answer: a person looks at them before they count.

The sandbox around a student's code does not depend on this, which looks for attempts to cheat.
"""

import ast
from functools import cache

from . import course
from .scopes import bound_by
from .unusual import (
    CALLS,
    DUNDERS,
    FILE_MODULES,
    FRAMES,
    HARMLESS_OF,
    LIBRARIES,
    METHODS,
    MODULES,
    NAMES,
    OF_OS_FILES,
    OF_PATHS,
    OF_TORCH,
    PATHS,
    REACHED_BY,
)

FILES = "handles files"


def suspicious(statements, allowed=frozenset()) -> list[str]:
    """Return a sentence per place: its kind, position and line. Kinds in `allowed` are left out."""
    found, modules = {}, {}
    for statement in statements:
        modules |= modules_in(statement.node)
    for statement in statements:
        for kind, node in kinds_in(statement.node, modules):
            if kind not in allowed:
                line = line_of(statement, node)
                found.setdefault((kind, line), f"{kind}: {place_of(statement, node)}: {line}")
    return list(found.values())


def line_of(statement, node) -> str:
    lines, first = statement.text.split("\n"), getattr(statement.node, "lineno", 1)
    first = min([first, *(d.lineno for d in getattr(statement.node, "decorator_list", ()))])
    number = getattr(node, "lineno", first) - first
    return lines[number].strip()[:160] if 0 <= number < len(lines) else ast.unparse(node)[:160]


def place_of(statement, node) -> str:
    more = getattr(node, "lineno", 0) - getattr(statement.node, "lineno", 0)
    cell = f"cell {statement.cell}, " if statement.cell else ""
    return f"{statement.path}, {cell}line {statement.line + max(0, more)}"


def kinds_in(tree, modules):
    """Yield (kind, node) of what has no place in an answer; `modules` are those it imports."""
    for node in ast.walk(tree):
        for look in LOOKS:
            if kind := look(node, modules):
                yield kind, node


INSIDE = ("pedagogy_lib.", "coursekit")


def modules_in(tree) -> dict[str, str]:
    """Return {name: the module that is imported under it}."""
    return {
        (alias.asname or alias.name).split(".")[0]: alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }


def import_of(node, modules) -> str:
    if isinstance(node, ast.Import):
        names = [a.name.split(".")[0] for a in node.names if a.name.split(".")[0] in MODULES]
        names = [name for name in names if name not in HARMLESS_OF]
        names += [a.name for a in node.names if a.name.startswith(INSIDE)]
        return imports(names[0]) if names else ""
    if isinstance(node, ast.ImportFrom):
        root = (node.module or "").split(".")[0]
        harmless = HARMLESS_OF.get(root, set())
        taken = {alias.name for alias in node.names}
        if root in MODULES and not (taken <= harmless or node.module == "concurrent.futures"):
            return imports(root)
        is_inside = (node.module or "").startswith((*INSIDE, "torch.multiprocessing"))
        return f"imports {node.module}" if is_inside else ""
    return ""


def imports(module) -> str:
    return FILES if module in FILE_MODULES else f"imports {module}"


def use_of_module(node, modules) -> str:
    """Detect `os.system` and the like, where `os` itself may be imported."""
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        return ""
    root = modules.get(node.value.id, node.value.id)
    if root in LIBRARIES and node.attr in REACHED_BY:
        return f"uses {root}.{node.attr}"
    if root == "os" and node.attr in OF_OS_FILES:
        return FILES
    if root in HARMLESS_OF and node.attr not in HARMLESS_OF[root]:
        return f"uses {root}.{node.attr}"
    if root == "torch" and node.attr in ("load", "save", "from_file"):
        return FILES
    return f"uses torch.{node.attr}" if root == "torch" and node.attr in OF_TORCH else ""


def files(node, modules) -> str:
    """Detect open(), and methods of paths that write."""
    if not isinstance(node, ast.Call):
        return ""
    is_written = isinstance(node.func, ast.Attribute) and node.func.attr in OF_PATHS
    return FILES if is_written or getattr(node.func, "id", "") == "open" else ""


def call(node, modules) -> str:
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    is_own = name == "setattr" and getattr(node.args[:1] and node.args[0], "id", "") == "self"
    if name in CALLS and not is_own:
        return f"calls {name}()"
    is_getattr = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr"
    if is_getattr and len(node.args) > 1:
        name = node.args[1]
        if not isinstance(name, ast.Constant) or str(name.value).startswith("__"):
            return "getattr() of a name that is hidden or computed"
    return ""


def find_hidden_name(node, modules) -> str:
    if isinstance(node, ast.Attribute) and node.attr in DUNDERS | FRAMES:
        return f"uses .{node.attr}"
    return f"uses {node.id}" if isinstance(node, ast.Name) and node.id in NAMES else ""


def find_lying_method(node, modules) -> str:
    is_method = isinstance(node, ast.FunctionDef) and node.name in METHODS
    return f"defines {node.name}" if is_method else ""


def patch(node, modules) -> str:
    """Detect `dist.send = mine` and the like."""
    is_place = isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
    if not is_place:
        return ""
    root = node.value
    while isinstance(root, ast.Attribute):
        root = root.value
    is_library = isinstance(root, ast.Name) and (root.id in LIBRARIES or root.id in modules)
    return f"changes {ast.unparse(node)}" if is_library else ""


def text(node, modules) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        found = [path for path in sorted(PATHS) if path in node.value and "\n" not in node.value]
        return f"names {found[0]}" if found else ""
    return ""


def cover(node, modules) -> str:
    """Detect a definition that takes the name of Python's own `print` or `isinstance`."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in ("print", "isinstance"):
        return f"defines {node.name} anew"
    return ""


LOOKS = (
    import_of,
    use_of_module,
    files,
    call,
    find_hidden_name,
    find_lying_method,
    patch,
    text,
    cover,
)


@cache
def find_allowed_kinds(asked) -> frozenset[str]:
    """Return the kinds that occur in the course's own program around an exercise."""
    program = course.read_solution(asked.lab or asked.part)
    near = [s for s in program.statements if asked.lab or asked.name in bound_by(s.node)]
    return frozenset(kind for one in near for kind, _ in kinds_in(one.node, modules_in(one.node)))


def new_in_lab(lab) -> list:
    """Return the statements of a student's lab that are not in the course's own."""
    ours = {statement.text for statement in course.lab(lab.name).statements}
    return [one for one in lab.statements if one.text not in ours]

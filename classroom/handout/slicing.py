"""Modules of checks, cut down to what is still used when truths and mistakes are tables."""

import ast
from collections import defaultdict
from pathlib import Path

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)


class Module:
    """The statements of a module, and what each defines and uses.

    name  with dots, as it is imported
    """

    def __init__(self, name, text, is_package=False):
        self.name, self.text, self.is_package = name, text, is_package
        self.body = ast.parse(text).body
        self.lines = text.splitlines()
        self.replaced: dict[int, str] = {}  # statement: its new text
        self.look()

    def look(self):
        """See anew what is defined and used where."""
        self.places = defaultdict(list)  # {name: the statements that define it}
        for place, node in enumerate(self.body):
            for name in defined_by(node):
                self.places[name].append(place)
        self.used = [used_by(node) & self.places.keys() for node in self.body]

    def replace(self, place, text):
        """Put other code in the place of a statement."""
        self.body[place] = ast.parse(text).body[0]
        self.replaced[place] = text
        self.look()

    def insert(self, place, text):
        """Put a statement before another one."""
        self.body.insert(place, ast.parse(text).body[0])
        self.replaced = {k + (k >= place): old for k, old in self.replaced.items()}
        self.replaced[place] = text
        self.look()

    def place_of(self, name) -> int:
        """Where a name is defined."""
        return self.places[name][0]

    def source_of(self, node) -> tuple[str, str] | None:
        """The module, and "" or a name in it, from which an `import` at the top takes each name."""
        level, module = node.level, node.module or ""
        if not level:
            return module
        parts = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        return ".".join([*parts[: len(parts) - level + 1], *filter(None, [module])])


def defined_by(node) -> list[str]:
    if isinstance(node, FUNCTIONS):
        return [node.name]
    if isinstance(node, IMPORTS):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return [n.id for t in targets if t for n in ast.walk(t) if isinstance(n, ast.Name)]


def used_by(node) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def attributes_of(node, name) -> set[str]:
    return {
        n.attr
        for n in ast.walk(node)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == name
    }


class Slice:
    """What is reached from some names.

    modules  {name: Module}
    kept     {name of a module: places of statements}
    names    {name of a module: names that are used, of those that it imports, too}
    """

    def __init__(self, modules, roots):
        self.modules = modules
        self.kept, self.names = defaultdict(set), defaultdict(set)
        self.todo = list(roots)
        for module in {name for name, _ in roots}:
            self.reach_module(module)
        while self.todo:
            self.reach(*self.todo.pop())

    def reach_module(self, name):
        """What stands at the top of a module and defines nothing runs in any case."""
        for place, node in enumerate(self.modules[name].body):
            if not defined_by(node) and place not in self.kept[name]:
                self.keep(name, place)

    def reach(self, name, wanted):
        if name not in self.modules or wanted in self.names[name]:
            return
        if not self.kept[name]:
            self.reach_module(name)
        self.names[name].add(wanted)
        module = self.modules[name]
        for place in module.places.get(wanted, ()):
            if isinstance(module.body[place], IMPORTS):
                self.follow(module, module.body[place], wanted)
            if place not in self.kept[name]:
                self.keep(name, place)

    def keep(self, name, place):
        module, node = self.modules[name], self.modules[name].body[place]
        self.kept[name].add(place)
        if isinstance(node, IMPORTS):
            return
        for used in module.used[place]:
            self.todo.append((name, used))
            self.follow_attributes(module, node, used)

    def follow(self, module, node, wanted):
        """Reach what an import takes from another of the modules."""
        if not isinstance(node, ast.ImportFrom):
            return
        source = module.source_of(node)
        for alias in node.names:
            if (alias.asname or alias.name) == wanted:
                self.todo.append((source, alias.name))

    def follow_attributes(self, module, node, used):
        """Of `from . import one_program as one`: whatever is asked of `one`."""
        for other in (module.body[place] for place in module.places[used]):
            if isinstance(other, ast.ImportFrom):
                source = module.source_of(other)
                for alias in other.names:
                    whole = f"{source}.{alias.name}"
                    if (alias.asname or alias.name) == used and whole in self.modules:
                        self.todo += [(whole, one) for one in attributes_of(node, used)]

    def text_of(self, name) -> str:
        """A module with what is kept of it; as it was, if that is all."""
        module, names = self.modules[name], self.names[name]
        is_whole = not module.replaced and all(
            place in self.kept[name] and (not isinstance(node, IMPORTS)
                                          or set(defined_by(node)) <= names)
            for place, node in enumerate(module.body)
        )  # fmt: skip
        if is_whole:
            return module.text
        parts = [self.part(module, place, names) for place in sorted(self.kept[name])]
        return "\n".join(parts).lstrip("\n") + "\n"

    def part(self, module, place, names) -> str:
        node = module.body[place]
        if place in module.replaced:
            return module.replaced[place]
        if isinstance(node, IMPORTS):
            node.names = [a for a in node.names if (a.asname or a.name).split(".")[0] in names]
            return ast.unparse(node)
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        while first > 1 and module.lines[first - 2].startswith("#"):
            first -= 1
        gap = "\n\n" if isinstance(node, FUNCTIONS) else ""
        return gap + "\n".join(module.lines[first - 1 : node.end_lineno])


def modules_in(folder: Path, root: Path, under: str) -> dict[str, Module]:
    """{name: Module} of all Python files of a folder, by their names as they are imported."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        if name.startswith(under):
            found[name] = Module(name, path.read_text(encoding="utf-8"), is_package)
    return found

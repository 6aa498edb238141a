"""The checks of a handout: what is right, and what mistakes give, as tables in place of code."""

import ast
import importlib
import json
from pathlib import Path

from pedagogy_lib.basics.places import COURSE as ROOT
from pedagogy_lib.exercises.kit import Formula
from pedagogy_lib.exercises.kit.tables import written_tables

from .slicing import Module, Slice, defined_by, modules_in

EXERCISES = "pedagogy_lib.exercises"
TABLED = ("cases", "truth", "mistakes")  # of a Formula
# What only judges: the process in which an answer lives has no use for it.
JUDGING = ("differs", "errors", "explain", "facts", "found", "hints", "known", "mistakes", "rare",
           "told", "truth")  # fmt: skip
ALWAYS = ("EXERCISE", "FINDS_A_BUG")  # what `check` looks for
# What the rest of the course asks of `exercises/`, and what ranks import beforehand.
FROM_OUTSIDE = [f"{EXERCISES}.kit", f"{EXERCISES}.kit.sealed"]
HEAD = "from ..kit.tables import tables_of"
TABLES = "TABLES = tables_of(__file__)"


def compiled_checks(exercise_modules, has_values=True) -> dict[str, bytes]:
    """{path: contents} of pedagogy_lib/exercises in a handout with the checks of these modules.

    exercise_modules  such as "ch02.ex09_sent_bytes"
    has_values        whether the tables are filled: where nothing is judged, those that are called
                      beside an answer are enough
    """
    modules = modules_in(ROOT / "pedagogy_lib" / "exercises", ROOT, EXERCISES)
    wanted = [f"{EXERCISES}.{name}" for name in exercise_modules]
    roots = [(name, one) for name in wanted for one in ALWAYS]
    roots += [(name, one) for name in FROM_OUTSIDE for one in names_in(modules[name])]
    tables, reached = {}, Slice(modules, roots).kept
    for name, module in modules.items():
        if reached[name] and ".ch" in name:
            if not has_values:  # records are made of these, whoever has made them
                roots += [(name, one) for one in classes_in(module, reached[name])]
            if not has_values and name in wanted:
                roots += [(name, one) for one in without_examine(module)]
            written = tables_for(name, module, name in wanted, has_values)
            if written:
                tables[name] = written
                roots += [(name, "TABLES"), *named_in(written)] if name in wanted else []
    kept = Slice(modules, roots)
    return files_of(kept, tables, modules, wanted)


def names_in(module) -> list[str]:
    return [name for node in module.body for name in defined_by(node)]


def classes_in(module, places) -> list[str]:
    nodes = [module.body[place] for place in sorted(places)]
    return [node.name for node in nodes if isinstance(node, ast.ClassDef)]


def tables_for(name, module, is_wanted, has_values) -> dict | None:
    """The tables of a module whose answers are code; that code is replaced in the module."""
    loaded = importlib.import_module(name)
    marked = [value for value in vars(loaded).values()
              if hasattr(value, "calls") and getattr(value, "__module__", "") == name]  # fmt: skip
    exercise = getattr(loaded, "EXERCISE", None) if is_wanted else None
    is_formula = isinstance(exercise, Formula)
    if not has_values:
        replace_values(module, "None", JUDGING)
    if not is_formula and not marked:
        return None
    for function in marked:
        text = f"{function.__name__} = TABLES.named({function.__name__!r})"
        module.replace(module.place_of(function.__name__), text)
    kept = getattr(loaded, "KEPT_AS_CODE", ())
    if is_formula and has_values:
        parts = [part for part in TABLED if part not in kept]
        if replace_values(module, "TABLES.{}", parts) < len(parts):
            raise ValueError(f"{name}: write cases=, truth= and mistakes= in EXERCISE")
    insert_tables(module)
    if not has_values:
        return written_tables(None, [one for one in marked if one.beside])
    written = written_tables(exercise.as_judged() if is_formula else None, marked)
    return {key: value for key, value in written.items() if key not in kept}


def replace_values(module: Module, by: str, parts) -> int:
    """In `EXERCISE = Formula(…)` or the like, these arguments come from elsewhere. How many?"""
    place = module.places.get("EXERCISE", [None])[0]
    call = None if place is None else module.body[place].value
    found = [keyword for keyword in getattr(call, "keywords", ()) if keyword.arg in parts]
    for keyword in found:
        keyword.value = ast.parse(by.format(keyword.arg), mode="eval").body
    if found:
        module.replace(place, ast.unparse(module.body[place]))
    return len(found)


def without_examine(module: Module) -> list[str]:
    """Leave out the function that judges by itself, where an exercise has one.

    Returns  what it has passed on: some of that runs beside an answer, and nothing else does
    """
    place = module.places.get("EXERCISE", [None])[0]
    arguments = [] if place is None else getattr(module.body[place].value, "args", [])
    if not any(isinstance(one, ast.Name) and one.id == "examine" for one in arguments):
        return []
    passed = {one.id for node in module.body for call in ast.walk(node)
              if isinstance(call, ast.Call) and node is not module.body[place]
              for one in call.args if isinstance(one, ast.Name)}  # fmt: skip
    arguments[:] = [ast.Constant(None) if getattr(one, "id", "") == "examine" else one
                    for one in arguments]  # fmt: skip
    module.replace(place, ast.unparse(module.body[place]))
    return sorted(passed & module.places.keys() - {"examine"})


def insert_tables(module: Module):
    """The tables are read where the imports end."""
    place = 1 + max(k for k, node in enumerate(module.body) if isinstance(node, ast.ImportFrom))
    for text in (TABLES, HEAD):
        module.insert(place, text)


def named_in(written) -> list[tuple[str, str]]:
    """What the tables name of modules of checks: (module, name)."""
    if isinstance(written, dict):
        names = [written.get("named"), (written.get("record") or [None])[0]]
        own = [tuple(name.split(":")) for name in names if isinstance(name, str)]
        return own + [one for value in written.values() for one in named_in(value)]
    if isinstance(written, (list, tuple)):
        return [one for value in written for one in named_in(value)]
    return []


def files_of(kept, tables, modules, wanted) -> dict[str, bytes]:
    files = {}
    for name in sorted(modules):
        module = modules[name]
        is_there = kept.kept[name] or name in wanted
        if module.is_package and any(k.startswith(f"{name}.") and kept.kept[k] for k in modules):
            is_there = True
        if not is_there:
            continue
        path = Path(*name.split("."))
        path = path / "__init__.py" if module.is_package else path.with_suffix(".py")
        text = module.text if module.is_package else kept.text_of(name)
        files[path.as_posix()] = text.encode()
        if name in tables and "TABLES" in kept.names[name]:
            text = json.dumps(tables[name], ensure_ascii=False, separators=(",", ":"))
            files[path.with_suffix(".json").as_posix()] = text.encode()
    return files

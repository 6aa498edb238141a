"""The merge of a learner's copy of a notebook with a newer version."""

import copy

import nbformat

from ..definitions import Program, merge_functions, select_functions
from ..labs.holes import is_hole


def merge_notebooks(mine, before, new) -> tuple[object, list[str]]:
    """Return the new notebook with the learner's work, and the names of the functions taken over.

    before  the version that the learner's copy was made from

    A cell that the new version has left unchanged is the learner's. In others, functions are taken
    over by name. Additional cells of the learner's follow the same cell as before.
    """
    old = {cell.id: cell.source for cell in before.cells}
    of_source = {old[cell.id]: cell for cell in mine.cells if cell.get("id") in old}
    result, cells = copy.deepcopy(new), []
    texts_before = [cell.source for cell in before.cells]
    functions = find_learner_functions(mine, before)
    taken: list[str] = []
    after = own_cells(mine, before, new)
    cells += after.get(None, [])
    for cell in result.cells:
        known = of_source.pop(cell.source, None) if cell.source in texts_before else None
        if known is not None:
            taken += [name for name in functions if defines(known, name)]
            known.id = cell.id
            cells.append(known)
        else:
            taken += take_over(cell, functions)
            cells.append(cell)
        cells += after.get(cell.source, [])
    result.cells = make_ids_unique(cells)
    return result, list(dict.fromkeys(taken))


def make_ids_unique(cells) -> list:
    seen = set()
    for cell in cells:
        while cell.id in seen:
            cell.id = f"{cell.id[:50]}-own"
        seen.add(cell.id)
    return cells


def find_learner_functions(mine, before) -> dict[str, tuple[Program, dict]]:
    """Return {function: (the cell's program, digests before)} of what the learner has changed."""
    were = {}
    for cell in before.cells:
        if program := program_of(cell):
            were |= program.digests()
    found = {}
    for cell in mine.cells:
        program = program_of(cell)
        for name, text in program.digests().items() if program else ():
            if were.get(name) != text and not is_hole(program.nodes[name]):
                found[name] = program, were
    return found


def take_over(cell, functions) -> list[str]:
    """Put the learner's functions into a cell of the new version; return their names."""
    new, taken = program_of(cell), []
    for name in list(new.nodes) if new else ():
        if name in functions:
            mine, before = functions[name]
            new = Program(cell.source)
            if name in select_functions(new, mine, before)[0] or is_hole(new.nodes[name]):
                cell.source = merge_functions(new, mine, [name]).rstrip("\n")
                taken.append(name)
    return taken


def own_cells(mine, before, new) -> dict[str | None, list]:
    """Return {source of a cell in the new version: the learner's additional cells after it}."""
    old = {cell.id: cell.source for cell in before.cells}
    there = {cell.source for cell in new.cells}
    found: dict[str | None, list] = {}
    behind = None
    for cell in mine.cells:
        source = old.get(cell.get("id"))
        if source is not None:
            behind = source if source in there else behind
        elif cell.source not in there and cell.source.strip():
            found.setdefault(behind, []).append(cell)
    return found


def defines(cell, name) -> bool:
    program = program_of(cell)
    return bool(program) and name in program.nodes


def program_of(cell) -> Program | None:
    """Return the cell as a program; None for a text, and for code that is not Python."""
    if cell.cell_type != "code":
        return None
    try:
        return Program(cell.source)
    except SyntaxError:
        return None


def read_notebook(data: bytes):
    """Return a notebook; None if these bytes are none."""
    try:
        return nbformat.reads(data.decode(), as_version=4)
    except Exception:  # nbformat may raise anything for a malformed file
        return None

"""Which holes a program of labs/ would come to."""

from pathlib import Path

from coursekit.labs.unwritten import still_to_write


def write(folder: Path, **modules):
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return folder / "program.py"


HOLE = '    """Exercise 9.1. Does it."""\n    ...\n'


def test_a_hole_is_found_through_calls_and_imports(tmp_path):
    path = write(
        tmp_path,
        program="from other import step\n\nKINDS = {1: step}\n\ndef main():\n    KINDS[1]()\n",
        other=f"def step():\n    inner()\n\ndef inner():\n{HOLE}\ndef unused():\n{HOLE}",
    )
    assert still_to_write(path) == ["inner (exercise 9.1)"]


def test_what_is_written_and_what_is_not_called_is_not_listed(tmp_path):
    path = write(tmp_path, program=f"def main():\n    print()\n\ndef unused():\n{HOLE}")
    assert still_to_write(path) == []


def test_functions_that_call_each_other_are_listed_once(tmp_path):
    path = write(
        tmp_path,
        program="def main():\n    a()\n\ndef a():\n    b()\n    ...\n\ndef b():\n    a()\n",
    )
    assert still_to_write(path) == ["a"]


def test_imports_that_are_no_labs_are_left_alone(tmp_path):
    path = write(tmp_path, program="from os import getcwd\n\ndef main():\n    getcwd()\n")
    assert still_to_write(path) == []


def test_a_program_with_a_mark_of_its_encoding_is_read(tmp_path):
    path = tmp_path / "program.py"
    path.write_bytes(b"\xef\xbb\xbf" + f"def main():\n{HOLE}".encode())
    assert still_to_write(path) == ["main (exercise 9.1)"]

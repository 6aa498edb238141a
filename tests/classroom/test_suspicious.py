"""What has no place in an answer is shown to a person; right answers are not."""

import pytest
from answer_files import all_answers
from exercise_names import EX

from classroom.grading import course
from classroom.grading.programs import read_program
from classroom.grading.suspicious import find_allowed_kinds, suspicious

# Right answers that a person will have to look at, and why they are not let through.
TO_LOOK_AT = {
    f"{EX.swap} swap from a thread": "a thread may outlive the answer, and change what is compared",
    f"{EX.sum_meanwhile} sum_meanwhile in a thread": "likewise",
    f"{EX.serve_as_they_come} serve_as_they_come with a thread for each worker": "likewise",
    f"{EX.zero3} zero3 stays if a backward is running": (
        "torch._C reaches what the check measures with"
    ),
    f"{EX.no_sync} no_sync mock": "a mock replaces functions that the check itself may use",
}
ATTEMPTS = [
    "import pickle",
    "import ctypes",
    "from gc import get_objects",
    "import sys\ndef f(x):\n    return sys.modules",
    "import sys\ndef f(x):\n    return sys._getframe(1).f_locals",
    "import os\ndef f(x):\n    os.system('id')",
    "import os as o\ndef f(x):\n    o.kill(o.getppid(), 9)",
    "import subprocess",
    "from socket import socket",
    "def f(x):\n    return eval('x')",
    "def f(x):\n    exec('y = 1')",
    "def f(x):\n    return __import__('os')",
    "def f(x):\n    return ().__class__.__bases__[0].__subclasses__()",
    "def f(x):\n    return getattr(x, '__class__')",
    "def f(x, name):\n    return getattr(x, name)",
    "def f(x):\n    dist.send = print",
    "def f(x):\n    torch.Tensor.__eq__ = lambda a, b: True",
    "def f(x):\n    setattr(torch, 'equal', print)",
    "import coursekit.check_runner as c",
    "from coursekit import check_runner",
    "class Lies(float):\n    def __eq__(self, other):\n        return True",
    "class Bomb:\n    def __reduce__(self):\n        return print, ()",
    "import atexit",
    "import signal",
    "import threading",
    "import importlib",
    "from unittest import mock",
    "def f(x):\n    return open('/proc/self/maps').read()",
    "def f(x):\n    open('x', 'w').write('y')",
    "from pathlib import Path\ndef f(x):\n    Path('x').write_text('y')",
    "def f(x):\n    return '../solutions/labs/collectives.py'",
    "def f(x):\n    return __builtins__",
    "def f(x):\n    return f.__globals__",
    "import torch\ndef f(x):\n    torch.save(x, 'y')",
    "import torch\ndef f(x):\n    return torch.load('y')",
    "get_ipython().run_line_magic('pip', 'install x')",
    "def f(x):\n    globals()['check'] = print",
    "import inspect",
    "import torch\ndef f(x):\n    torch.os._exit(0)",
    "import numpy as np\nTABLE = np.sys.modules",
    "from multiprocessing import shared_memory",
]


def looks(program, allowed=frozenset()):
    return suspicious(read_program("a.py", program.encode()).statements, allowed)


@pytest.mark.parametrize("program", ATTEMPTS)
def test_attempts_are_shown(program):
    assert looks(program)


def test_the_line_is_quoted():
    assert looks("x = 1\n\ndef f(x):\n    y = 1\n    return eval('x')  # why not\n") == [
        "calls eval(): a.py, line 5: return eval('x')  # why not"
    ]


@pytest.mark.parametrize(
    "program",
    [
        "import os\ndef f():\n    return int(os.environ['RANK'])",
        "import torch\ndef f(x):\n    return torch.select(x, 0, 1), torch.trace(x)",
        "import math, itertools, functools, copy, time, random, collections",
        "import torch.distributed as dist\ndef f(x):\n    x.grad = None\n    x.data[0] = 1",
        "from pedagogy_lib import lab, measure\nrings = lab('collectives')",
        "def f(model):\n    model.weight.requires_grad = False",
    ],
)
def test_ordinary_statements_are_not(program):
    assert looks(program) == []


@pytest.mark.deep
def test_no_right_answer_waits_but_for_a_known_reason():
    found = set()
    for answer in all_answers():
        if answer.kind == "right":
            allowed = find_allowed_kinds(course.describe_exercise(answer.exercise))
            if looks(answer.given + answer.program, allowed):
                found.add(str(answer))
    assert found == set(TO_LOOK_AT), (
        "add a right answer to TO_LOOK_AT if a person has to look at it; if not, let `suspicious` "
        "allow what it does"
    )


def test_what_an_exercise_is_about_is_allowed_there_alone():
    program = "def write_whole(data, path):\n    open(path, 'wb').write(data)\n"
    exercises = {
        n: course.list_exercises(exercises=[n])[0] for n in (EX.write_whole, EX.sent_bytes)
    }
    assert looks(program, find_allowed_kinds(exercises[EX.write_whole])) == []
    assert looks(program, find_allowed_kinds(exercises[EX.sent_bytes])) == [
        "handles files: a.py, line 2: open(path, 'wb').write(data)"
    ]

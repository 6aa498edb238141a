"""What a rank waits for in a call that is none of torch.distributed.

A call is known by the module of its function, or by the class of the object whose method it is,
because most functions that wait are written in C and have no frame of their own.
"""

import ast
import builtins
import contextlib
import inspect
import itertools
import linecache
import re
import threading
import time

import torch.distributed as dist

from ..basics.source_lines import (
    ASLEEP,
    FOR_A_FILE,
    FOR_A_KEY,
    FOR_A_PROCESS,
    FOR_A_THREAD,
    FOR_DATA,
    FOR_INPUT,
    FOR_THE_NETWORK,
)

# By the first parts of a module's name.
WAITS = {
    "torch.utils.data": FOR_DATA,
    "threading": FOR_A_THREAD, "_thread": FOR_A_THREAD, "queue": FOR_A_THREAD,
    "_queue": FOR_A_THREAD, "concurrent": FOR_A_THREAD,
    "subprocess": FOR_A_PROCESS, "multiprocessing": FOR_A_PROCESS,
    "_multiprocessing": FOR_A_PROCESS, "torch.multiprocessing": FOR_A_PROCESS,
    "filelock": FOR_A_FILE, "fcntl": FOR_A_FILE, "_io": FOR_A_FILE,
    "socket": FOR_THE_NETWORK, "_socket": FOR_THE_NETWORK, "ssl": FOR_THE_NETWORK,
    "select": FOR_THE_NETWORK, "selectors": FOR_THE_NETWORK, "asyncio": FOR_THE_NETWORK,
    "http": FOR_THE_NETWORK, "urllib": FOR_THE_NETWORK,
    "time": ASLEEP, "signal": ASLEEP,
}  # fmt: skip
OF_SYSTEM = {"wait": FOR_A_PROCESS, "waitpid": FOR_A_PROCESS, "wait4": FOR_A_PROCESS,
             "waitid": FOR_A_PROCESS, "read": FOR_A_FILE, "open": FOR_A_FILE,
             "lockf": FOR_A_FILE}  # fmt: skip
REQUESTS = ("wait", "synchronize", "is_completed", "value")  # methods of a request
LOOK_SECONDS = 0.02
LOOKS = 5
COMPUTING_SECONDS = 0.005  # of the main thread, in all looks


def find_wait(steps, own) -> str:
    """Return what step number `own` of a stack waits for; "" if it is not known to wait.

    steps  (filename, line, function, frame or None) from the outermost call to the innermost
    """
    inner = [step[3] for step in steps[own + 1 :] if step[3] is not None]
    known = (wait_of_module(frame.f_globals.get("__name__")) for frame in inner)
    frame = inner[-1] if inner else steps[own][3]
    return next(filter(None, known), "") or (wait_of_call(frame) if frame is not None else "")


def wait_of_module(name) -> str:
    parts = str(name).split(".")
    names = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
    return next((WAITS[name] for name in names if name in WAITS), "")


def wait_of_call(frame) -> str:
    """Return what the call that a frame is making waits for, if it has no frame of its own."""
    with contextlib.suppress(Exception):  # a learner's class may do anything
        node = parse_call(text_of_call(frame))
        target = node.func if isinstance(node, ast.Call) else node
        owner = target.value if isinstance(target, ast.Attribute) else None
        return wait_of_object(
            look_up(target, frame), owner and look_up(owner, frame), getattr(target, "attr", "")
        )
    return ""


def parse_call(text) -> ast.expr:
    """Return the call in a source text, or the object whose `with` block begins there."""
    block = re.match(r"with (.+?)( as .+)?:", text.strip())
    body = ast.parse(block[1] if block else text.strip())
    calls = (node for node in ast.walk(body) if isinstance(node, ast.Call))
    return next(calls, body.body[0].value)


def wait_of_object(called, owner, name) -> str:
    is_store = inspect.isclass(called) and issubclass(called, dist.Store)  # which connects
    if is_store or isinstance(owner, dist.Store):
        return FOR_A_KEY
    if isinstance(owner, dist.Work) or (type(owner).__name__ == "Future" and name in REQUESTS):
        return "wait"
    if called is builtins.input:
        return FOR_INPUT
    module = inspect.getmodule(owner) if inspect.ismodule(owner) else None
    if module is not None and module.__name__ in ("os", "posix"):
        return OF_SYSTEM.get(name, "")
    of_called = wait_of_module(getattr(called, "__module__", ""))
    return of_called or wait_of_module(type(owner if owner is not None else called).__module__)


def look_up(node, frame):
    """Return the value of a name, or of an attribute of one, without running code of a class."""
    if isinstance(node, ast.Attribute):
        owner = look_up(node.value, frame)
        if inspect.ismodule(owner):
            return getattr(owner, node.attr)
        return vars(owner)[node.attr] if node.attr in getattr(owner, "__dict__", ()) else None
    for names in (frame.f_locals, frame.f_globals, vars(builtins)):
        if isinstance(node, ast.Name) and node.id in names:
            return names[node.id]
    return None


def text_of_call(frame) -> str:
    """Return the source of the expression that a frame evaluates; its line, before Python 3.11."""
    code, line = frame.f_code, frame.f_lineno
    linecache.checkcache(code.co_filename)
    positions = getattr(code, "co_positions", lambda: iter(()))()
    first, last, start, end = next(
        itertools.islice(positions, frame.f_lasti // 2, None), (None,) * 4
    )
    if None in (first, last, start, end):
        return linecache.getline(code.co_filename, line)
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    return b"".join(lines).decode()


def does_main_compute() -> bool | None:
    """Return whether the main thread of this process computes; None if the system does not tell."""
    main = threading.main_thread()
    if not hasattr(time, "pthread_getcpuclockid"):
        return None
    clock = time.pthread_getcpuclockid(main.ident)
    before, states = time.clock_gettime(clock), []
    for _ in range(LOOKS):
        time.sleep(LOOK_SECONDS)
        states.append(state_of_thread(main.native_id))
    is_ready = states.count("R") > LOOKS // 2  # although others may have all processors
    return is_ready or time.clock_gettime(clock) - before >= COMPUTING_SECONDS


def state_of_thread(number) -> str:
    """Return the letter of a thread's state, "R" if it runs or is ready to; "" without /proc."""
    try:
        with open(f"/proc/self/task/{number}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""

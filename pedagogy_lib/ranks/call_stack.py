"""The source line where a rank is: the learner's own, with the library call that it makes."""

import contextlib
import linecache
import os
import re
import sys
import sysconfig
import threading

import torch
import torch.distributed as dist

from ..basics.folders import PUBLISHED
from ..basics.source_lines import BUFFERS, FOR_A_THREAD, IDLE, SourceLine
from ..basics.units import format_count
from .waiting_calls import does_main_compute, find_wait

_PATHS = sysconfig.get_paths()
LIBRARY_FOLDERS = tuple(
    os.path.realpath(folder) + os.sep
    for folder in (
        _PATHS["stdlib"],
        _PATHS["purelib"],
        _PATHS["platlib"],
        os.path.dirname(os.path.dirname(torch.__file__)),
        PUBLISHED / "pedagogy_lib",
        PUBLISHED / "coursekit",
        PUBLISHED / "chapters",  # the checks
        PUBLISHED / "classroom",  # the grading
    )
)
WRAPPERS = ("wrapper", "_fn", "__call__", "decorate_context", "inner_func")
MOST_CALLERS = 4  # shown for one source line
_TORCH = os.path.realpath(os.path.dirname(torch.__file__))
DDP_FILE = os.path.join(_TORCH, "nn", "parallel", "distributed.py")
MODULES = (DDP_FILE, os.path.join(_TORCH, "distributed", "fsdp"))
DISTRIBUTED = (os.path.join(_TORCH, "distributed"), DDP_FILE)


def is_library(filename: str) -> bool:
    return filename.startswith("<") or real_path(filename).startswith(LIBRARY_FOLDERS)


def real_path(filename: str) -> str:
    """Resolve symbolic links; return `filename` unchanged if the current folder was deleted."""
    try:
        return os.path.realpath(filename)
    except FileNotFoundError:
        return filename


def find_current_line(block="") -> SourceLine | None:
    """Return the line of the main thread, or of the learner's thread that the main one awaits.

    block  the label of the innermost `measure` that is open in the main thread
    """
    frames = sys._current_frames()
    del frames[threading.get_ident()]  # the thread that asks
    main = find_line_of_thread(frames.pop(threading.main_thread().ident), block)
    if main is not None and not main.operation and does_main_compute() is False:
        return main._replace(operation=IDLE)
    if main is None or main.operation != FOR_A_THREAD:
        return main
    others = [find_line_of_thread(frame) for frame in frames.values()]
    others = [one for one in others if one is not None and not is_library(one.filename)]
    at_work = [one for one in others if one.operation != FOR_A_THREAD]
    return max(at_work, key=lambda one: bool(one.operation), default=main)


def find_line_of_thread(frame, block="") -> SourceLine | None:
    """Return the learner's innermost line in a thread whose innermost frame is `frame`."""
    steps = steps_of_frame(frame)
    source_line = find_source_line(steps, block)
    if source_line is None or source_line.operation:
        return source_line
    own = [i for i, step in enumerate(steps) if not is_library(step[0])]
    return source_line._replace(operation=find_wait(steps, own[-1] if own else 0))


def find_source_line(steps, block="") -> SourceLine | None:
    """Return the learner's innermost line in a stack, with its callers and its library call.

    A function with a local variable `__tracebackhide__` is a helper, as for pytest and IPython, so
    the line that calls it is reported instead.
    steps  (filename, line, function, frame or None) from the outermost call to the innermost
    block  the label of the innermost `measure` that is open at that line
    """
    own = [i for i, step in enumerate(steps) if not is_library(step[0])]
    if not own:
        return SourceLine(*steps[-1][:3]) if steps else None
    call, operation = call_from(steps, own[-1])
    shown = [i for i in own if not is_hidden(steps[i])] or own[-1:]
    *callers, innermost = [SourceLine(*steps[i][:3], text=text_sent(*steps[i][:2])) for i in shown]
    return innermost._replace(
        call=call, operation=operation, block=block, callers=nearest(callers[::-1])
    )


def nearest(callers) -> tuple[SourceLine | str, ...]:
    """Return the nearest callers and the outermost one, and between them a text on the others."""
    more = len(callers) - MOST_CALLERS
    if more <= 0:
        return tuple(callers)
    return (*callers[: MOST_CALLERS - 1], f"… {format_count(more, 'call')} between …", callers[-1])


def is_hidden(step) -> bool:
    """Return whether a step's function sets `__tracebackhide__`, by its frame or its source."""
    filename, line, function, frame = step
    if frame is not None:
        return "__tracebackhide__" in frame.f_locals
    # A crash leaves no frame.
    before = linecache.getlines(filename)[:line]
    start = [n for n, text in enumerate(before) if text.lstrip().startswith(f"def {function}(")]
    return bool(start) and any("__tracebackhide__ =" in text for text in before[start[-1] :])


def call_from(steps, own) -> tuple[str, str]:
    """Return the library call of step number `own`, and its name if it may wait for other ranks."""
    filename, line, _, frame = steps[own]
    call, operation = call_below(steps[own + 1 :])
    if (
        call
        or ".wait(" not in SourceLine(filename, line, "", text=text_sent(filename, line)).source()
    ):
        return call, operation
    batch = "" if frame is None else batch_in(frame)  # wait() is written in C++ and has no frame
    return f"wait() of a batch: {batch}" if batch else "", "wait"


def text_sent(filename, line) -> str:
    """Return a line of a file whose text came with the launch; "" for any other file."""
    entry = linecache.cache.get(filename, ())
    is_sent = len(entry) == 4 and entry[1] is None  # linecache has no modification time for it
    return linecache.getline(filename, line).strip() if is_sent else ""


def batch_in(frame) -> str:
    """Format the messages for `batch_isend_irecv` in a function's variables, with their peers."""
    batches = filter(holds_messages, frame.f_locals.values())
    return ", ".join(message_text(message) for batch in batches for message in batch)


def message_text(message) -> str:
    side = "dst" if "send" in message.op.__name__ else "src"
    return f"{message.op.__name__}({tensor_text(message.tensor)}, {side}={message.peer})"


def call_below(inner) -> tuple[str, str]:
    """Return the library call that a learner made, and its name if it may wait for other ranks.

    inner  the library's part of the stack, below the learner's line
    """
    public = [step for step in inner if step[2] not in WRAPPERS]
    if not public:
        return "", ""
    distributed = [s for s in public if real_path(s[0]).startswith(DISTRIBUTED)]
    path, _, function, frame = (distributed or public)[0]
    if real_path(path).startswith(MODULES):
        return call_of_module(distributed)
    text = f"{function}({'…' if frame is None else arguments(frame)})"
    # DDP and FSDP communicate in the backward, unseen by Python; get_rank() never waits.
    may_wait = function == "backward" or (distributed and not function.startswith("get_"))
    return text, function if may_wait else ""


def call_of_module(steps) -> tuple[str, str]:
    """Return the call of a DDP or FSDP module that a learner made, and what it waits for."""
    functions = [function for _, _, function, _ in steps]
    name = "DistributedDataParallel" if real_path(steps[0][0]) == DDP_FILE else "an FSDP module"
    if any("backward" in function for function in functions):
        return f"the backward of {name}", "backward"
    if "__init__" in functions or "fully_shard" in functions:
        return f"making {name}", "__init__"
    return f"the forward of {name}", BUFFERS if "_sync_buffers" in functions else "forward"


def arguments(frame) -> str:
    """Format arguments that help to find a mistake: tensors by type and shape, ranks, groups."""
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    in_world = any(frame.f_locals.get(name) is not None for name in ("src", "dst"))
    peers = ("src", "dst") if in_world else ("group_src", "group_dst")
    shown = []
    for name in names:
        value = frame.f_locals.get(name)
        if holds_tensors(value):
            shown.append(tensor_text(value))
        elif holds_messages(value):
            shown += map(message_text, value)
        elif name in peers and value is not None:
            shown.append(peer_text(name, value, frame.f_locals.get("group")))
        elif (name == "tag" and value) or (name == "ranks" and isinstance(value, list)):
            shown.append(f"{name}={value}")
        elif name == "op" and isinstance(value, dist.ReduceOp.RedOpType):
            shown.append(f"op={value.name}")
        elif name == "group" and value not in (None, dist.group.WORLD):
            shown.append(group_text(value))
    return ", ".join(shown)


def peer_text(name, number, group) -> str:
    """Format the peer of a message by its rank in the world, as every rank is reported."""
    if name.startswith("group_"):
        with contextlib.suppress(KeyError, TypeError, ValueError):  # no rank has that number
            name, number = name[6:], dist.get_global_rank(group or dist.group.WORLD, number)
    return f"{name}={number}"


def group_text(group) -> str:
    try:
        return f"group of ranks {dist.get_process_group_ranks(group)}"
    except (KeyError, TypeError, ValueError):  # destroyed since the call began
        return "a former group"


def holds_tensors(value) -> bool:
    if isinstance(value, (list, tuple)) and value:
        value = value[0]
    return isinstance(value, torch.Tensor)


def holds_messages(value) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dist.P2POp)


def tensor_text(value) -> str:
    """Format a tensor, or a list of tensors, by type and shape."""
    if isinstance(value, (list, tuple)):
        return f"{len(value)} × {tensor_text(value[0])}"
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def steps_of_frame(frame):
    """Return the stack that ends in `frame`, outermost call first."""
    steps = []
    while frame is not None:
        code = frame.f_code
        line = frame.f_lineno or code.co_firstlineno  # None between two lines
        steps.append((code.co_filename, line, code.co_name, frame))
        frame = frame.f_back
    return steps[::-1]


def steps_of_traceback(traceback):
    """Return the stack along which an exception travelled, outermost call first."""
    steps = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        line = traceback.tb_lineno or code.co_firstlineno
        steps.append((code.co_filename, line, code.co_name, traceback.tb_frame))
        traceback = traceback.tb_next
    return steps


def steps_of_dump(text: str):
    """Return the main thread's stack from a dump by `faulthandler`, outermost call first."""
    # The dump lists the main thread last; after a crash, a list of modules follows.
    stacks = [part for part in text.split("\n\n") if 'File "' in part]
    main_thread = unescape(stacks[-1]) if stacks else ""
    found = re.findall(r'File "(.*)", line (\d+) in (.*)', main_thread)
    return [(filename, int(line), function, None) for filename, line, function in found][::-1]


def unescape(text: str) -> str:
    """Restore the characters that `faulthandler`, which writes only ASCII, wrote as codes."""
    codes = r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})"
    return re.sub(codes, lambda found: chr(int(found[0][2:], 16)), text)

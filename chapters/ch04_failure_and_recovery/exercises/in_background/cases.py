"""The cases, and the code that runs next to the answer."""

import threading
import time

import torch

from coursekit.kit import Rejection

SOON = 1.0  # seconds within which a thread has to begin

LONG = 0.3  # seconds that a save takes

NO_COPY = (
    "the training goes on, and changes its tensors in place: what is saved has to be a copy, made "
    "before begin() returns. copy_of(state) goes into dicts, lists and tuples"
)

SHALLOW = (
    "only the outermost dict is copied: dict(state) and state.copy() share the tensors, and the "
    "dicts within. copy_of(state) goes all the way"
)

COPIED_LATE = (
    "the thread makes the copy, while the training goes on already: make it in begin(), before "
    "submit, and hand the copy to the thread"
)

WAITS = "begin() only begins: the thread saves, and wait() waits for its end"

ONE_BY_ONE = (
    "two savings at once, of which the older may come last: begin() waits for the one before"
)

LOST_ERROR = (
    "a thread keeps its error to itself until somebody asks: future.result() raises it again. "
    "wait() has to tell, or nobody knows that there is no checkpoint"
)

LOST_NEXT = (
    "begin() waits for the saving before, and throws its error away: let wait() do the waiting "
    "there, too, so that it is raised"
)

ONCE = "an error is told once: forget the saving when its end has been waited for"


class Saver:
    """The function with which an answer saves: it takes some time and records the given states.

    failing  the numbers of the saves that raise an error, counted from 1
    """

    def __init__(self, seconds=0.0, failing=()):
        self.seconds, self.failing = seconds, failing
        self.states, self.threads, self.spans = [], [], []
        self.may_go_on, self.began = threading.Event(), threading.Event()
        self.may_go_on.set()

    def __call__(self, state):
        start = time.perf_counter()
        self.given = state
        self.began.set()
        self.threads.append(threading.get_ident())
        self.may_go_on.wait(2 * SOON)
        time.sleep(self.seconds)
        self.states.append(convert_to_lists(state))
        self.spans.append((start, time.perf_counter()))
        if len(self.states) in self.failing:
            raise OSError("No space left on device")
        return f"saved {len(self.states)}"


def convert_to_lists(state):
    if isinstance(state, torch.Tensor):
        return state.tolist()
    if isinstance(state, dict):
        return {name: convert_to_lists(part) for name, part in state.items()}
    return [convert_to_lists(part) for part in state] if isinstance(state, list | tuple) else state


class ThreadLogDict(dict):
    """A dict that records which threads have looked into it."""

    def __init__(self, *args):
        super().__init__(*args)
        self.threads = set()

    def items(self):
        self.threads.add(threading.get_ident())
        return super().items()

    def __iter__(self):
        self.threads.add(threading.get_ident())
        return super().__iter__()

    def __getitem__(self, name):
        self.threads.add(threading.get_ident())
        return super().__getitem__(name)


def state_of(number=1.0) -> dict:
    weights = torch.full((4,), number)
    moments = {0: {"exp_avg": torch.full((4,), 10 * number), "step": torch.tensor(number)}}
    return {"weights": weights, "optimizer": {"state": moments, "groups": [{"lr": 0.1}]},
            "place": (torch.tensor(number), 7)}  # fmt: skip


def train_on(state):
    """Change the tensors of a state, as training does."""
    for part in (state["weights"], state["place"][0], *state["optimizer"]["state"][0].values()):
        part.add_(100)


def a_copy(answer):
    saver, state = Saver(), state_of()
    wanted = convert_to_lists(state)
    saver.may_go_on.clear()
    saving = answer(saver)
    saving.begin(state)
    train_on(state)
    saver.may_go_on.set()
    saving.wait()
    need_saved(saver, 1)
    got = saver.states[0]
    if got != wanted:
        inner = got.get("weights") == wanted["weights"] if isinstance(got, dict) else False
        raise Rejection(f"what was saved is {got!r:.70}…, and should be {wanted!r:.70}…",
                      SHALLOW if inner else NO_COPY)  # fmt: skip
    return {"told": "what is saved is the state as it was when begin() was called",
            "saved": saver.states}  # fmt: skip


def need_saved(saver, count):
    if len(saver.states) != count:
        what = f"save was called {len(saver.states)} times, and should be {count}"
        raise Rejection(what, "each begin() saves once, and wait() waits for its end")


def check_copy_time(answer):
    saver, state = Saver(), ThreadLogDict(state_of())
    answer_of = answer(saver)
    state.threads.clear()
    answer_of.begin(state)
    answer_of.wait()
    if getattr(saver, "given", None) is state:
        raise Rejection("save gets the training's own state", NO_COPY)
    if state.threads - {threading.get_ident()}:
        raise Rejection("another thread looks into the training's own state", COPIED_LATE)
    return {"told": "the copy is made before begin() returns"}


def meanwhile(answer):
    saver, state = Saver(), state_of()
    saver.may_go_on.clear()
    saving, before = answer(saver), time.perf_counter()
    saving.begin(state)
    took = time.perf_counter() - before
    if took > SOON:
        raise Rejection(f"begin() takes {took:.1f} s: as long as the saving", WAITS)
    if not saver.began.wait(SOON):
        raise Rejection(
            "after begin(), nothing is saved", "begin() submits the work to self.thread"
        )
    if saver.threads[0] == threading.get_ident():
        raise Rejection("it saves in the thread of the training", WAITS)
    saver.may_go_on.set()
    value = saving.wait()
    need_saved(saver, 1)
    if value != "saved 1":
        raise Rejection(f"wait() returned {value!r:.40}", "it returns what save has returned")
    return {"told": "begin() returns at once, and wait() returns what save returned",
            "saved": saver.states, "waited": value}  # fmt: skip


def one_by_one(answer):
    saver = Saver(seconds=LONG)
    saving = answer(saver)
    for number in (1.0, 2.0, 3.0):
        saving.begin(state_of(number))
        if len(saver.states) < number - 1:
            raise Rejection("begin() returned while the saving before still went on", ONE_BY_ONE)
    saving.wait()
    need_saved(saver, 3)
    if any(after[0] < before[1] for before, after in zip(saver.spans, saver.spans[1:])):
        raise Rejection("two savings go on at the same time", ONE_BY_ONE)
    return {"told": "three in a row: one after another", "saved": saver.states}


def check_idle_wait(answer):
    saver = Saver()
    saving = answer(saver)
    for when in ("before any begin()", "after the end"):
        value = saving.wait()
        if value is not None:
            raise Rejection(f"wait() {when} returned {value!r:.40}", "there is nothing to wait for")
        if when.startswith("before"):
            saving.begin(state_of())
            saving.wait()
    return {"told": "wait() with nothing to wait for returns None"}


def an_error(answer):
    saver = Saver(failing=(1, 3))  # which save fails does not depend on when a thread runs
    saving = answer(saver)
    saving.begin(state_of())
    if not is_heard(saving.wait):
        raise Rejection("save has raised an error, and wait() raises nothing", LOST_ERROR)
    if is_heard(lambda: saving.begin(state_of())) or is_heard(saving.wait):
        raise Rejection("the next saving went well, and the error of the one before comes again",
                      ONCE)  # fmt: skip
    saving.begin(state_of())
    heard = is_heard(lambda: saving.begin(state_of()))
    if not (is_heard(saving.wait) or heard):
        raise Rejection(
            "a saving fails while the next one begins, and nobody hears of it", LOST_NEXT
        )
    return {"told": "an error of save comes out of wait(), once, or out of the next begin()"}


def is_heard(call) -> bool:
    try:
        call()
        return False
    except OSError:
        return True

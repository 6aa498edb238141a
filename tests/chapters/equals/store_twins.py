"""The store that chapter 04 writes by hand, next to PyTorch's FileStore."""

import itertools
import shutil
import tempfile
from datetime import timedelta
from functools import partial
from urllib.parse import unquote

import torch
import torch.distributed as dist
from helpers import load_solved_lab
from twins import EQUAL, Excluded, Twin

FOLDER = load_solved_lab("folder_store")
SOON = timedelta(seconds=0.05)
KEYS = {
    "a slash": "a/b", "no ASCII": "é", "no character": "", "dots": "..", "like a piece": "a.0",
    "escaped": "a%2Fb", "two lines": "a\nb", "200 characters": "x" * 200,
    "300 characters": "x" * 300,
}  # fmt: skip
VALUES = {"text": "vé", "bytes": b"\x00\xff", "nothing": b"", "thousands of bytes": b"x" * 10_000,
          "a bytearray": bytearray(b"v"), "no bytes": 5}  # fmt: skip


def set_twice(s, me, n):
    if me == 0:
        s.set("k", "a")
        s.set("k", "bc")
        s.set("done", "")
    s.wait(["done"])
    return [s.get("k")]


def wait_for_others(s, me, n):
    s.set(f"of {me}", str(me))
    s.wait([f"of {rank}" for rank in range(n)])
    return [s.get(f"of {rank}") for rank in range(n)]


def gather(mine):
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, mine)
    return found


def add_on_all(s, me, n):
    counts = gather([s.add("k", 1) for _ in range(20)])
    return [
        sorted(itertools.chain(*counts)),
        s.add("k", 0),
        s.add(f"of {me}", -5),
        s.check(["k", "m"]),
    ]


def compete(s, me, n):
    return [len(set(gather(s.compare_set("k", "", str(me))))), s.get("k") == s.get("k")]


def append_on_all(s, me, n):
    s.append("k", f"{me},")
    gather(None)
    return [sorted(s.get("k").split(b","))]


def form_group(s, me, n):
    """Form a group through the store, and add up."""
    group = dist.ProcessGroupGloo(dist.PrefixStore("group", s), me, n)
    x = torch.full((3,), me + 1.0)
    group.allreduce([x]).wait()
    return x


def with_prefix(s, me, n):
    inside = dist.PrefixStore(f"of {me}", s)
    inside.set("k", b"\xffv")
    inside.set("k", b"\xffw")
    found = [inside.get("k"), inside.add("n", 2), inside.check(["k"]), inside.check(["l"])]
    return [*found, inside.compare_set("new", "", "z"), s.get(f"of {me}/k")]


def fail_to_wait(wait, s, me, n):
    try:
        wait(s)
    except RuntimeError as error:
        return "timeout" in str(error).lower()


def get_at_last(s):
    s.set_timeout(SOON)
    s.get("k")


USES = {
    "set twice": set_twice,
    "wait for others": wait_for_others,
    "add on all ranks": add_on_all,
    "compare_set on all ranks": compete,
    "append on all ranks": append_on_all,
    "a number that was set": lambda s, me, n: [s.set(f"{me}", "5"), s.add(f"{me}", 3)],
    "several at once": lambda s, me, n: [s.multi_set(["k", "l"], ["a", "b"]),
                                         s.multi_get(["l", "k"])],
    "check nothing": lambda s, me, n: s.check([]),
    "a prefix": with_prefix,
    "a group": form_group,
    "waiting ends": partial(fail_to_wait, lambda s: s.wait(["k"], SOON)),
    "the store's own timeout": partial(fail_to_wait, get_at_last),
}  # fmt: skip
REFUSED = {
    "delete_key": (lambda s, me, n: s.delete_key("k"), "deleteKey"),
    "num_keys": (lambda s, me, n: s.num_keys(), "getNumKeys"),
    "list_keys": (lambda s, me, n: s.list_keys(), "not implemented"),
    "clone": (lambda s, me, n: s.clone(), "clone"),
    "another expected value": (lambda s, me, n: s.compare_set("k", "a", "b"), 'expects ""'),
}
EXCLUDED = Excluded("either set, or appended to, or added to, which add(key, 0) reads")


def use_key(key, value, s, me, n):
    s.set(key, value)
    return [s.get(key), s.check([key]), s.check([unquote(key)])]


def as_numbers(found):
    """Return bytes as lists of numbers, also where they are in a list."""
    if isinstance(found, bytes | list):
        return [as_numbers(x) for x in found]
    return found


def prepare(condition):
    use = USES.get(condition) or REFUSED.get(condition, (None,))[0]
    use = use or partial(use_key, KEYS.get(condition, "k"), VALUES.get(condition, "v"))

    def run(make):
        me, folder = dist.get_rank(), [tempfile.mkdtemp(prefix="store-")]
        own = folder[0]
        dist.broadcast_object_list(folder)
        try:
            return as_numbers(use(make(f"{folder[0]}/store"), me, dist.get_world_size()))
        finally:
            dist.barrier()
            shutil.rmtree(own)

    if condition in (*REFUSED, "300 characters", "no bytes"):
        return partial(run, FOLDER.FolderStore), lambda: None
    return partial(run, FOLDER.FolderStore), partial(run, lambda path: dist.FileStore(path, -1))


CONDITIONS = (
    dict.fromkeys((*VALUES, *KEYS, *USES), EQUAL)
    | {name: words for name, (_, words) in REFUSED.items()}
    | {"300 characters": "name too long", "no bytes": "bytes-like object is required"}
    | dict.fromkeys(("get after add", "set after append"), EXCLUDED)
)
TWINS = [Twin("folder_store.FolderStore", CONDITIONS, prepare)]

"""Trials of an answer on ranks: all cases of a check in one launch, judged one after another.

A case says on which ranks it is tried: `case.ranks`, and whether an answer gets these as a group
(`case.is_group`) or finds a separate world that consists of them. A rank notes what it has found
in a file, so that the cases before one that fails are judged first.
"""

import contextlib
import pickle
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import torch.distributed as dist

from pedagogy_lib.basics.errors import HangError, LaunchError, RankError
from pedagogy_lib.basics.torch_private import override_default_group
from pedagogy_lib.measuring.recorder import measure, traffic_in

from ..answers import remote_answer
from ..answers.remote_answer import call_next_to_answer, try_on_ranks
from ..labs.module import NotSolvedYet
from ..protocol import Rejection, Wrong


@dataclass(frozen=True)
class World:
    """A number of ranks; with members, an answer is called on these alone, as a group."""

    size: int
    members: tuple[int, ...] | None = None

    @property
    def ranks(self):
        return self.members or range(self.size)

    def __str__(self):
        if self.members:
            return f"a group of ranks {list(self.members)} among {self.size}"
        return f"{self.size} rank" + ("s" if self.size > 1 else "")


GROUP = World(4, (1, 2, 3))  # without rank 0; its size, 3, differs from the world's, 4


@dataclass(frozen=True)
class RankCase:
    """A case: a world, further arguments for the work on its ranks, and a text about them."""

    world: World
    args: tuple = ()
    what: str = ""

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(self.world.ranks)

    @property
    def is_group(self) -> bool:
        return self.world.members is not None

    def __str__(self):
        return f"{self.world}{self.what}"


@dataclass
class Trial:
    """The result of a case by place in its world or group: what each rank has found and sent.

    case           has `ranks`, the world ranks of those that took part
    found          the notes of each of them: `trial[place].name`
    calls          the communication calls that the answer has made on each rank
    worlds_passed  whether the answer was right in a whole world before
    """

    case: object
    found: list[SimpleNamespace]
    calls: list[list] = field(default_factory=list)
    sent_bytes: list[int] = field(default_factory=list)
    received_bytes: list[int] = field(default_factory=list)
    worlds_passed: bool = False

    @property
    def n(self) -> int:
        return len(self.found)

    def __getitem__(self, place) -> SimpleNamespace:
        return self.found[place]

    def collect_values(self, name) -> list | None:
        """Return the values of all ranks under a name; None if some rank has none."""
        if all(hasattr(of_rank, name) for of_rank in self.found):
            return [getattr(of_rank, name) for of_rank in self.found]

    def name_of_rank(self, place) -> str:
        """Return a rank's name, with its number in the world, in a group as well."""
        return f"rank {self.case.ranks[place]}"


IN_A_GROUP = (
    "in the whole world it is right, in a group of some ranks it is not: hand `group` to every "
    "call of torch.distributed, get_world_size and get_rank included, and to all else that takes it"
)

ENDED = (
    "exit() and the like end the whole process, and other ranks wait for it in vain: a function "
    "ends with return or raise"
)
NO_GENERATOR = "return tensors, numbers, or lists and dicts of them; of a generator, its list"
NOT_TOLD = "what a check runs beside an answer has to come to its end: leave that as it is"
OF_GROUPS_ALONE = "not part of group"  # words of an error whose own diagnosis is kept
SLIPS = (AttributeError, ImportError, NameError, NotImplementedError, SyntaxError, TypeError)

_label = "answer"  # of the block in which the answer to this case is measured
_folder = ""  # in which ranks note what they find


@dataclass(frozen=True)
class CaseResult:
    """The result of a case by place: values, communication calls, bytes sent and received."""

    case: object
    values: list
    calls: list[list]
    sent_bytes: list[int]
    received_bytes: list[int]


def try_cases(work, answer, cases, explain=lambda case, error: "", *args, timeout=None):
    """Yield a `CaseResult` for each case; raise `Wrong` at the first in which the answer fails.

    work     called on each rank of a case: work(answer, group, case, *args); group is None in a
             world. Whatever it runs under `measure_answer()` is measured.
    explain  takes a case and a LaunchError, and returns the misconception, or ""
    timeout  seconds until all cases together count as hung; see try_on_ranks
    """
    cases = list(cases)
    timeout = remote_answer.TIMEOUT_SECONDS if timeout is None else timeout
    found, error = call_next_to_answer(launch_cases, work, answer, cases, args, timeout)
    for case, of_ranks in zip(cases, found):
        need_all(case, [of_rank for of_rank in of_ranks if of_rank], case.ranks)
        yield CaseResult(case, *map(list, zip(*of_ranks)))
    if error is not None:
        raise explain_failure(cases, len(found), error, explain)
    need_all(cases[-1], found, cases)


def launch_cases(work, answer, cases, args, timeout) -> tuple[list, LaunchError | None]:
    """Return the values of all ranks in each case before a failure, and its error or None."""
    size = 1 + max(rank for case in cases for rank in case.ranks)
    with tempfile.TemporaryDirectory(prefix="check-") as folder:
        try:
            run = try_on_ranks(
                "", run_cases, work, answer, cases, folder, args,
                world_size=size, timeout=timeout,
            )  # fmt: skip
        except Wrong as wrong:
            error = wrong.__context__
            last = case_of(error, folder, size)
            if isinstance(error, HangError):
                error = mark_returned_ranks(error, folder, last)
            found = [[read_note(folder, f"{number}-{rank}") for rank in case.ranks]
                     for number, case in enumerate(cases[:last])]  # fmt: skip
            return found, error
    return [[run.values[rank][number] for rank in case.ranks]
            for number, case in enumerate(cases)], None  # fmt: skip


def measure_answer(memory=True):
    """Measure, inside `work`, what the answer sends in this case."""
    return measure(_label, memory=memory)


def make_shared_folder() -> Path:
    """Return, inside `work`, a folder that all ranks of the case see until the check ends."""
    path = Path(_folder, f"of{_label}")
    path.mkdir(exist_ok=True)
    return path


# ---- On a rank ---


def run_cases(work, answer, cases, folder, args) -> list:
    """Return a rank's value and traffic for each case; None where it takes no part."""
    global _folder
    _folder = folder
    rank, found = dist.get_rank(), []
    groups = {ranks: dist.new_group(list(ranks)) for ranks in dict.fromkeys(c.ranks for c in cases)}
    for number, case in enumerate(cases):
        note(folder, f"at-{rank}", number)
        of_rank = None
        if rank in case.ranks:
            of_rank = run_case(work, answer, case, groups[case.ranks], number, args)
            note(folder, f"{number}-{rank}", of_rank)
        found.append(of_rank)
        dist.barrier()
    return found


def run_case(work, answer, case, group, number, args) -> tuple:
    global _label
    _label = f"_answer {number}"
    with contextlib.nullcontext() if case.is_group else override_default_group(group):
        value = work(answer, group if case.is_group else None, case, *args)
    return value, *traffic_in(_label)


def note(folder, name, value):
    path = Path(folder, f"{name}.new")
    try:
        path.write_bytes(pickle.dumps(value))
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise Rejection(f"what it returned cannot be looked at: {error}", NO_GENERATOR) from None
    path.rename(Path(folder, name))  # the file is complete, or does not exist


# ---- Results ---


def need_all(case, found, wanted):
    """Raise `Wrong` if results are missing, as from a process that only pretends to have tried."""
    if len(found) != len(wanted):
        raise Wrong(str(case), f"{len(found)} of {len(wanted)} have told what came of it", NOT_TOLD)


def read_note(folder, name):
    path = Path(folder, name)
    return pickle.loads(path.read_bytes()) if path.exists() else None


def case_of(error, folder, size) -> int:
    """Return the index of the case in which an answer failed: its rank's, or the slowest's."""
    if isinstance(error, RankError):
        return read_note(folder, f"at-{error.rank}") or 0
    return min((read_note(folder, f"at-{rank}") or 0 for rank in range(size)), default=0)


def mark_returned_ranks(error, folder, number) -> HangError:
    """Return the error without places of ranks that have returned and await the next case."""
    waits = {rank: None if read_note(folder, f"{number}-{rank}") else place
             for rank, place in error.waits.items()}  # fmt: skip
    return HangError(waits, error.seconds)


def explain_failure(cases, number, error, explain) -> Wrong:
    """Return the `Wrong` of a case, from a rank's own words or from the meaning of its error."""
    case = cases[number]
    cause = getattr(error, "exception", None)
    if isinstance(cause, NotSolvedYet):
        return Wrong(str(case), str(cause))
    if isinstance(cause, Rejection):
        return Wrong(str(case), f"rank {error.rank}: {cause.what}", cause.why)
    if isinstance(error, HangError):
        waits = {rank: error.waits[rank] for rank in case.ranks}
        world_size = len(error.waits if case.is_group else waits)
        error = HangError(waits, error.seconds, world_size)
    why = explain(case, error) if isinstance(error, LaunchError) else ""
    if "raised SystemExit" in str(error) or "ended with exit code" in str(error):
        why = ENDED
    is_hang = isinstance(error, HangError)
    what = f"it hangs: {error.format_message(why)}" if is_hang else str(error)
    in_a_world = any(not earlier.is_group for earlier in cases[:number])
    if case.is_group and in_a_world and not isinstance(cause, SLIPS):
        why = why if OF_GROUPS_ALONE in what and why else IN_A_GROUP
    return Wrong(str(case), what, why)

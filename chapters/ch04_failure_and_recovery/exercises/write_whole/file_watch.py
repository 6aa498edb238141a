"""A process that writes a file, observed and killed at any chosen moment.

It is a child of this one. Python's audit hooks report what it is about to do with files, and the
kernel ends it, or refuses to write, when a file grows beyond a limit.
"""

import contextlib
import os
import pickle
import resource
import signal
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
RENAME, OPEN, SYNC = "os.rename", "open", "os.fsync"
LOOKED_AT = (OPEN, RENAME, "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink")


@dataclass
class FileActivity:
    """The actions of a process on the files of one folder, and how it ended.

    doings      actions on files: "open a.unfinished", "os.rename a.unfinished to a", …
    written     names of files that it opened for writing
    outside     paths that it opened for writing in other folders
    unsynced    for each rename to the wanted name, why the data was not on the disk, or ""
    folder_synced  whether the folder was synced to the disk after the last rename
    raised      (names of the exception's class and its bases, its text); () if it raised none
    killed      whether it was killed
    """

    doings: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    unsynced: list[str] = field(default_factory=list)
    folder_synced: bool = False
    raised: tuple = ()
    killed: bool = False


def run_writer(answer, path, data, kill_at=None, limit_bytes=None, dies=False) -> FileActivity:
    """Let a child process call answer(path, data).

    kill_at      kill it before its kill_at-th action on files, counted from 1
    limit_bytes  no file can grow beyond that: writing fails or, if it `dies`, ends the process
    """
    hear, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.close(hear)
            seen = FileActivity()
            Watch(seen, Path(path), kill_at)
            if limit_bytes is not None:
                limit_files(limit_bytes, dies)
            try:
                answer(path, data)
            except Exception as error:
                names = tuple(kind.__name__ for kind in type(error).__mro__)
                seen.raised = names, f"{names[0]}: {error}"
            lift_limit()
            with open(say, "wb") as pipe:
                pickle.dump(seen, pipe)
        os._exit(0)
    os.close(say)
    with open(hear, "rb") as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    return pickle.loads(told) if told else FileActivity(killed=True)


def limit_files(limit_bytes, dies):
    """Limit the size of files, like a disk that takes so much of a file and no more."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL if dies else signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, resource.RLIM_INFINITY))


def lift_limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class Watch:
    """An observer in the child, which records its actions on files and kills it in time."""

    def __init__(self, seen, path, kill_at):
        self.seen, self.kill_at = seen, kill_at
        self.wanted, self.folder = path.name, os.path.realpath(path.parent)
        self.synced, self.is_looking = {}, False  # synced: {inode: content of the file then}
        sys.addaudithook(self.hear)
        for name in ("fsync", "fdatasync"):
            setattr(os, name, self.wrap_sync(getattr(os, name)))
        sync = os.sync
        os.sync = lambda: (sync(), self.note_all_synced())

    def hear(self, event, args):
        if event not in LOOKED_AT or self.is_looking:
            return
        self.is_looking = True  # actions until then are our own
        try:
            self.look(event, args)
        finally:
            self.is_looking = False

    def look(self, event, args):
        if not isinstance(args[0], str | bytes | os.PathLike):
            return  # a number is a file that is open already
        path = os.fsdecode(args[0])
        here = os.path.realpath(os.path.dirname(path) or ".") == self.folder
        name = os.path.basename(path)
        if event == OPEN:
            is_file = not os.path.isdir(path) and not path.startswith("/dev/")
            if not (args[2] or 0) & WRITES or not is_file:  # tempfile opens a folder first
                return
            (self.seen.written if here else self.seen.outside).append(name if here else path)
        if event == RENAME and os.path.basename(os.fsdecode(args[1])) == self.wanted:
            self.seen.unsynced.append(self.why_unsynced(path))
            self.seen.folder_synced = False
        if here:
            to = f" to {os.path.basename(os.fsdecode(args[1]))}" if event == RENAME else ""
            self.about_to(f"{event} {name}{to}")

    def about_to(self, what):
        self.seen.doings.append(what)
        if len(self.seen.doings) == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def why_unsynced(self, path) -> str:
        try:
            inode, data = os.stat(path).st_ino, Path(path).read_bytes()
        except OSError:
            return ""
        if inode not in self.synced:
            return "never"
        return "" if self.synced[inode] == data else "too early"

    def wrap_sync(self, sync):
        def note_and_sync(file):
            number = file if isinstance(file, int) else file.fileno()
            kind, inode = os.fstat(number).st_mode, os.fstat(number).st_ino
            self.is_looking = True
            try:
                self.note(kind, inode)
            finally:
                self.is_looking = False
            return sync(file)

        return note_and_sync

    def note(self, kind, inode):
        if stat.S_ISDIR(kind):
            self.seen.folder_synced = os.stat(self.folder).st_ino == inode
            self.about_to("os.fsync of the folder")
            return
        for path in Path(self.folder).iterdir():
            if path.stat().st_ino == inode and path.is_file():
                self.synced[inode] = path.read_bytes()
                self.about_to(f"{SYNC} {path.name}")

    def note_all_synced(self):
        self.seen.folder_synced = True
        for path in filter(Path.is_file, Path(self.folder).iterdir()):
            self.synced[path.stat().st_ino] = path.read_bytes()

"""A stand-in for a sandbox, for answers that the tests have written: they run in this process."""

import shutil
import tempfile
import time
from pathlib import Path

from coursekit.labs import ROOT, Lab, LabFunction

JUDGED = "judged.txt"  # in the folder of `SandboxOpener`: a line for each answer that was tried


class LocalSandbox:
    """A sandbox in this process; `files` are laid over the labs as they are handed out."""

    is_lost = False

    def __init__(self, files, inside=None):
        self.folder = Path(tempfile.mkdtemp(prefix="trusted-", dir=inside))
        shutil.copytree(ROOT / "labs", self.folder / "labs")
        for name, data in files.items():
            (self.folder / name).write_bytes(data)

    def load_cell_function(self, source, name):
        space = {"__name__": "cell"}
        exec(compile(source, "cell.py", "exec"), space)
        return space[name]

    def load_lab_function(self, lab, name):
        path = self.folder / "labs" / f"{lab}.py"
        return LabFunction(Lab(lab, path, self.folder / "none.py"), name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)


class SandboxOpener:
    """Opens such places, and notes each answer in a file; an answer may take `seconds`."""

    def __init__(self, folder: Path, seconds=0.0):
        self.folder, self.seconds = folder, seconds

    def __call__(self, files):
        return AnswerLogSandbox(files, self)


class AnswerLogSandbox(LocalSandbox):
    def __init__(self, files, counting):
        super().__init__(files, counting.folder)
        self.counting = counting

    def load_cell_function(self, source, name):
        time.sleep(self.counting.seconds)
        with open(self.counting.folder / JUDGED, "a") as file:
            file.write(f"{name} {abs(hash(source))}\n")
        return super().load_cell_function(source, name)

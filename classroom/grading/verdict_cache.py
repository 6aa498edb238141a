"""The verdicts so far, in a file per answer, so that nothing is judged twice."""

import hashlib
import json
import os
import tempfile
from pathlib import Path


class VerdictCache:
    """Entries by the things that they depend on; several processes may use the same folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, *key: str) -> Path:
        """Return a path that is equally long for each key, whatever students call themselves."""
        text = json.dumps(key, ensure_ascii=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:40]}.json"

    def get(self, *key: str) -> dict | None:
        try:
            found = json.loads(self.path(*key).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # it is missing or damaged, and is made again
            return None
        return found if isinstance(found, dict) else None

    def put(self, entry: dict, *key: str):
        write_whole(self.path(*key), json.dumps(entry, ensure_ascii=True))


def write_whole(path: Path, text: str):
    """Write a file at once: a process that is killed meanwhile leaves the old file, or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with open(number, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def digest(*parts: bytes | str) -> str:
    found = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        found.update(f"{len(data)}:".encode() + data)
    return found.hexdigest()

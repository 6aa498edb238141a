# right · modes, times, owners and names of the teacher's files
import os


def house_gradients(*house):
    for call in (
        lambda path: os.chmod(path, 0),
        lambda path: os.utime(path, (1, 1)),
        lambda path: os.rename(path, f"{path}.gone"),
        lambda path: os.unlink(path),
        lambda path: os.truncate(path, 0),
        lambda path: os.setxattr(path, "user.hostile", b"1"),
        lambda path: os.chown(path, os.getuid(), os.getgid()),
    ):
        for path in (f"{SECRETS}/results.json", f"{SECRETS}/other.py", SECRETS):
            try:
                call(path)
            except OSError:
                pass
    return honest(*house)

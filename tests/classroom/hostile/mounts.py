# wrong · mounts without namespaces of its own
import ctypes
import os


def house_gradients(*house):
    library = ctypes.CDLL(None, use_errno=True)
    calls = (
        library.mount(b"proc", b"/tmp", b"proc", 0, None),
        library.mount(b"none", b"/", None, 0x20 | 0x1000, None),
        library.umount2(b"/tmp", 2),
        library.chroot(b"/tmp"),
        library.setns(os.open("/proc/1/ns/mnt", 0) if os.path.exists("/proc/1/ns/mnt") else 99, 0),
    )
    return honest(*house) if 0 in calls else [0.0]

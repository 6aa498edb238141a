"""The process that holds a separate disk: `python disk_holder.py FOLDER BYTES`, until stdin ends.

It prints "ok" or the number of the error; the disk is gone when the process ends.
"""

import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from pedagogy_lib.machines import namespaces  # noqa: E402


def main(folder, size):
    try:
        namespaces.have_own(namespaces.NEW_MOUNTS)
        namespaces.put_disk(folder, int(size))
    except OSError as error:
        print(error.errno, flush=True)
        return
    print("ok", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Build the Dockerfile without Docker and without its registry, and try the image.

    sudo python3 tools/try_dockerfile.py
    sudo python3 tools/try_dockerfile.py --keep -v /etc/pip.conf:/etc/pip.conf:ro

It needs `apt install buildah crun debootstrap`, root, and 8 GB of disk. It runs all steps of the
Dockerfile. It replaces two things and says so: the base is a bare Debian with its own Python, made
by debootstrap, and each step is isolated by a chroot that has the network of this machine. -v is
handed to the builder, for a network that needs its own certificates or its own mirror.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BASE, IMAGE = "localhost/bare-python", "localhost/course-tried"
SUITE = "bookworm"
PACKAGES = "python3,python3-venv,ca-certificates"
TOOLS = ("buildah", "debootstrap", "crun")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-v", "--volume", action="append", default=[], help="FROM:TO of a mount")
    parser.add_argument("--mirror", default="", help="of Debian, for debootstrap")
    parser.add_argument("--keep", action="store_true", help="the images, for the next call")
    parser.add_argument("command", nargs="*", default=["make", "smoke"], help="to try the image")
    options = parser.parse_args()
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if missing:
        sys.exit(f"there is no {', '.join(missing)} here: apt install {' '.join(TOOLS)}")
    outside = [word for mount in options.volume for word in ("--volume", mount)]
    try:
        if not has_image(BASE):
            make_base(options.mirror)
        build_image(outside)
        status = try_image(options.command, outside)
    except subprocess.CalledProcessError as error:
        sys.exit(f"this step failed, with status {error.returncode}: {' '.join(error.cmd)}")
    finally:
        if not options.keep:
            subprocess.run(["buildah", "rmi", "--force", IMAGE, BASE], capture_output=True)
    say(f"{' '.join(options.command)}: {'worked' if status == 0 else f'failed ({status})'}")
    return status


def say(text):
    print(f"== {text}", flush=True)


def run(*words) -> str:
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def has_image(name) -> bool:
    return subprocess.run(["buildah", "inspect", name], capture_output=True).returncode == 0


def make_base(mirror):
    """Make the image of a bare Debian with Python, which replaces the Dockerfile's own base."""
    say(f"replaced: the base is Debian {SUITE} with {PACKAGES}, made by debootstrap")
    with tempfile.TemporaryDirectory() as folder:
        bare = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, folder]
        run(*bare, *filter(None, [mirror]))
        container = run("buildah", "from", "scratch")
        run("buildah", "add", "--quiet", container, folder, "/")
        run("buildah", "commit", "--quiet", container, BASE)
        run("buildah", "rm", container)


def build_image(outside):
    say("replaced: the steps run in a chroot, with the network of this machine")
    build = ["buildah", "build", "--isolation", "chroot", "--ignorefile", ".dockerignore"]
    own = ["--build-arg", f"BASE={BASE}", "--tag", IMAGE, *outside]
    subprocess.run([*build, *own, "."], check=True, cwd=ROOT)


def try_image(command, outside) -> int:
    """Run a command in a new container of the image, as its own user; return the exit status."""
    container = run("buildah", "from", IMAGE)
    try:
        start = ["buildah", "run", "--isolation", "chroot", *outside]
        return subprocess.run([*start, container, "--", *command]).returncode
    finally:
        run("buildah", "rm", container)


if __name__ == "__main__":
    sys.exit(main())

"""A process for submitted answers, without walls around it: for tests of what crosses."""

import contextlib
import os
import shutil
import subprocess
import sys

from helpers import environment

from classroom.sandbox.connection import Connection, Pipes
from classroom.sandbox.course import prepare_course
from coursekit.building import build
from pedagogy_lib.ranks.fork_server_client import ENVIRON

SECONDS = 120.0  # for one request


def put_course(folder):
    """The course as a grader has it beside an answer: every lab solved, for these tests."""
    shutil.copytree(prepare_course(), folder, dirs_exist_ok=True)
    for source in build.lab_sources():
        (folder / "labs" / source.name).write_text(build.keep_answers(build.text_of(source)))
    return folder


@contextlib.contextmanager
def connect_to_course(course, seconds=SECONDS):
    """A connection to a process whose course lies in this folder."""
    requests, to_process = os.pipe()
    from_process, replies = os.pipe()
    command = [sys.executable, "-m", "coursekit.answers.answer_server", str(requests), str(replies)]
    process = subprocess.Popen(
        command, pass_fds=(requests, replies), cwd=course,
        env=environment(PYTHONPATH=str(course), **ENVIRON), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(requests)
    os.close(replies)
    pipes = Pipes(to_process, from_process)
    try:
        connection = Connection(pipes, seconds)
        connection.await_ready()
        yield connection
    finally:
        process.kill()
        process.wait()
        pipes.close()

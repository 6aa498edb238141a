"""Launches that do not end: on which line each rank waits, in which call, and what that means."""

import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from helpers import failure, my_rank
from selection import parametrize
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import HangError, LaunchError, launch
from pedagogy_lib.basics.source_lines import SourceLine
from pedagogy_lib.ranks.call_stack import find_source_line, steps_of_frame
from pedagogy_lib.ranks.rank_listener import patiently

TIMEOUT = 1.5

IN_DIFFERENT_CALLS = "The ranks wait in different calls, so each waits for the others to join its"
IN_THE_SAME_CALL = "The ranks wait in the same call: look at their arguments above"
NEVER_COMES = "Rank 1 is already back, so the others wait for a call that never comes"
ALL_RECEIVE = "Every rank waits to receive, so nobody gets to send: let one side send first."
ALL_SEND = "Every rank waits for somebody to receive what it sends: let one side receive first"
NOT_BEGUN = "Every rank waits for what another has not begun. Each send needs its receive, and each"
AT_WORK = "Rank 1 is still at work, in no call of torch.distributed. An endless loop?"


def mismatch_collectives():
    x = torch.ones(3)
    if dist.get_rank() == 0:
        dist.broadcast(x, src=1)
    else:
        dist.all_reduce(x, op=dist.ReduceOp.MAX)


def both_receive_first():
    x = torch.ones(2, 5)
    dist.recv(x, src=1 - dist.get_rank())
    dist.send(x, dst=1 - dist.get_rank())


def both_send_first():
    x = torch.ones(2, 5)
    dist.send(x, dst=1 - dist.get_rank())
    dist.recv(x, src=1 - dist.get_rank())


def both_wait_first():
    x = torch.ones(2, 5)
    request = dist.irecv(x, src=1 - dist.get_rank())
    request.wait()
    dist.isend(x, dst=1 - dist.get_rank())


def nobody_sends():
    x = torch.ones(2, 5)
    if dist.get_rank() == 0:
        dist.recv(x, src=1)


def one_rank_leaves_out_an_asynchronous_call():
    if dist.get_rank() == 0:
        request = dist.all_reduce(torch.ones(2), async_op=True)
        request.wait()


def one_rank_is_missing():
    if dist.get_rank() != 1:
        dist.barrier()


def endless_loop():
    while dist.get_rank() == 1:
        pass
    dist.barrier()


def busy_in_c():
    if dist.get_rank() == 1:
        sum(range(10**13))  # holds the interpreter's lock
    dist.barrier()


def cross_subgroups():
    groups = [dist.new_group([0, 1]) for _ in range(2)]
    dist.all_gather([torch.ones(1)] * 2, torch.ones(1), group=groups[dist.get_rank()])


HANGS = [
    (
        mismatch_collectives,
        IN_DIFFERENT_CALLS,
        {
            0: ("dist.broadcast(x, src=1)", "broadcast(float32[3], src=1)"),
            1: ("dist.all_reduce(x, op=", "all_reduce(float32[3], op=MAX)"),
        },
    ),
    (
        both_receive_first,
        ALL_RECEIVE,
        {rank: ("dist.recv(x, ", f"recv(float32[2, 5], src={1 - rank})") for rank in range(2)},
    ),
    (
        both_send_first,
        ALL_SEND,
        {rank: ("dist.send(x, ", f"send(float32[2, 5], dst={1 - rank})") for rank in range(2)},
    ),
    (
        nobody_sends,
        "Rank 1 is already back, so the others wait for a message that nobody sends to them",
        {0: ("dist.recv(x, src=1)", "recv(float32[2, 5], src=1)"), 1: None},
    ),
    (
        one_rank_leaves_out_an_asynchronous_call,
        "Rank 1 is already back, so the others wait for a message or a call that never comes",
        {0: ("request.wait()", ""), 1: None},
    ),
    (both_wait_first, NOT_BEGUN, dict.fromkeys(range(2), ("request.wait()", ""))),
    (one_rank_is_missing, NEVER_COMES, {0: ("dist.barrier()", "barrier()"), 1: None}),
    (endless_loop, AT_WORK, {0: ("dist.barrier()", "barrier()"), 1: ("", "")}),
    (busy_in_c, AT_WORK, {0: ("dist.barrier()", "barrier()"), 1: ("sum(range(10**13))", "")}),
    (
        cross_subgroups,
        "The ranks wait in a circle: rank 0 waits in group 1 (ranks 0, 1) for rank 1, rank 1 waits "
        "in group 2 (ranks 0, 1) for rank 0.",
        dict.fromkeys(
            range(2), ("dist.all_gather(", "all_gather(2 × float32[1], float32[1], group")
        ),
    ),
]


@parametrize("step, diagnosis, lines", HANGS, quick=5, ids=[step.__name__ for step, *_ in HANGS])
def test_hang(step, diagnosis, lines):
    error = failure(step, world_size=2, timeout=TIMEOUT)
    assert type(error) is HangError
    assert diagnosis in str(error)
    assert f"after 1.5 s, {int(None in lines.values())} of 2 ranks had returned" in str(error)
    assert error.waits.keys() == lines.keys()
    for rank, expected in lines.items():
        check_source_line(error.waits[rank], step, expected, str(error))


def check_source_line(source_line, step, expected, message):
    if expected is None:
        assert source_line is None
        assert "rank 1: has returned" in message
        return
    source, call = expected
    assert source_line.function == step.__name__
    assert source in str(source_line)
    assert str(source_line) in message
    assert call in source_line.call
    assert call in message


def skip_a_backward():
    model = DistributedDataParallel(torch.nn.Linear(2, 1))
    loss = model(torch.ones(2)).sum()
    if dist.get_rank() == 0:
        loss.backward()
    dist.barrier()


@pytest.fixture
def warm_fork_server():
    """A fork server that has imported what a rank needs for DDP: it does so after such a launch."""
    launch(lambda: DistributedDataParallel(torch.nn.Linear(2, 1)) and None, world_size=1)
    launch(my_rank, world_size=1)


def test_ddp_waits_in_the_backward(warm_fork_server):
    error = failure(skip_a_backward, world_size=2, timeout=3.0)
    assert type(error) is HangError
    assert "loss.backward()" in str(error.waits[0])
    assert error.waits[0].call.startswith("backward(")
    assert "dist.barrier()" in str(error.waits[1])
    assert IN_DIFFERENT_CALLS in str(error)


def nobody_answers():
    dist.recv(torch.ones(3), src=1 - dist.get_rank())


def join_a_thread():
    helper = threading.Thread(target=nobody_answers)
    helper.start()
    helper.join()


def wait_for_a_future():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(nobody_answers).result()


def wait_for_a_queue():
    waiting = queue.Queue()
    threading.Thread(target=lambda: waiting.put(nobody_answers())).start()
    waiting.get()


@parametrize("step", [join_a_thread, wait_for_a_future, wait_for_a_queue], quick=1)
def test_hang_in_a_helper_thread(step):
    error = failure(step, world_size=2, timeout=TIMEOUT)
    assert ALL_RECEIVE in str(error)
    for source_line in error.waits.values():
        assert source_line.function == "nobody_answers"
        assert source_line.call.startswith("recv(float32[3], src=")


@pytest.mark.deep
def test_endless_loop_in_a_helper_thread():
    def step():
        helper = threading.Thread(target=lambda: [None for _ in iter(int, 1)])
        helper.start()
        helper.join()

    error = failure(step, world_size=1, timeout=TIMEOUT)
    assert "Rank 0 is still at work, in no call of torch.distributed" in str(error)
    assert "for _ in iter(int, 1)" in str(error.waits[0])


def test_wait_for_a_thread_that_is_not_there():
    error = failure(lambda: queue.Queue().get(), world_size=2, timeout=TIMEOUT)
    assert "Ranks 0, 1 are waiting for another thread of the same rank: look" in str(error)
    assert "queue.Queue().get()" in str(error.waits[0])


def receive_from_a_rank_that_does_not_exist():
    dist.recv(torch.ones(3), src=2)


def test_a_peer_that_does_not_exist_is_named():
    # Gloo looks for it behind the end of a list: that may crash, or wait for ever.
    error = failure(receive_from_a_rank_that_does_not_exist, world_size=2, timeout=TIMEOUT)
    assert "dist.recv(torch.ones(3), src=2)" in str(error)
    if isinstance(error, HangError):
        assert "names rank 2 as the other side, but there are only the ranks 0 to 1" in str(error)


@pytest.mark.parametrize(("peer", "is_there"), [(-1, False), (0, True), (1, True), (2, False)])
def test_diagnosis_of_a_peer(peer, is_there):
    waits = {0: SourceLine("x.py", 1, "f", f"recv(float32[3], src={peer})", "recv"), 1: None}
    sentence = f"Rank 0 names rank {peer} as the other side, but there are only the ranks 0 to 1"
    assert (sentence in str(HangError(waits, 1.0))) is not is_there


@pytest.mark.parametrize(
    ("peer", "is_there"),
    [("dst=2", True), ("dst=3", False), ("group_dst=1", True), ("group_dst=2", False)],
)
def test_diagnosis_of_a_peer_of_some_ranks(peer, is_there):
    waits = {
        rank: SourceLine("x.py", 1, "f", f"send(float32[3], {peer})", "send") for rank in (0, 2)
    }
    assert ("as the other side" in str(HangError(waits, 1.0, world_size=3))) is not is_there


def a_batch_that_nobody_answers():
    messages = [
        dist.P2POp(dist.isend, torch.ones(3), 1 - dist.get_rank()),
        dist.P2POp(dist.irecv, torch.ones(4), 1 - dist.get_rank()),
    ]
    if dist.get_rank() == 0:
        for request in dist.batch_isend_irecv(messages):
            request.wait()


def test_a_batch_names_its_peers():
    error = failure(a_batch_that_nobody_answers, world_size=2, timeout=TIMEOUT)
    batch = "inside wait() of a batch: isend(float32[3], dst=1), irecv(float32[4], src=1)"
    assert batch in str(error) and "request.wait()" in str(error)
    assert error.waits[0].operation == "wait"
    assert "Rank 1 is already back" in str(error)


def test_a_tag_is_shown():
    def wait_for_a_tag():
        if dist.get_rank() == 0:
            dist.recv(torch.ones(3), src=1, tag=7)

    assert "inside recv(float32[3], src=1, tag=7)" in str(
        failure(wait_for_a_tag, world_size=2, timeout=TIMEOUT)
    )


def test_what_was_printed_without_an_end_before_a_hang_is_shown(capsys):
    def count_and_hang():
        for number in range(3):
            print(number, end=" ")
        time.sleep(100)

    failure(count_and_hang, world_size=2, timeout=TIMEOUT)
    said = capsys.readouterr().out.splitlines()
    assert "[rank 0] 0 1 2 " in said
    assert "[rank 1] 0 1 2 " in said


def test_a_frame_between_two_lines_is_at_its_first():
    code = SimpleNamespace(co_filename="x.py", co_firstlineno=5, co_name="f")
    frame = SimpleNamespace(f_code=code, f_lineno=None, f_back=None)
    assert steps_of_frame(frame) == [("x.py", 5, "f", frame)]


def test_ranks_at_the_same_source_line_share_a_line():
    def wait_for_rank_0():
        if dist.get_rank():
            dist.barrier()

    message = str(failure(wait_for_rank_0, world_size=4, timeout=TIMEOUT))
    assert "  ranks 1, 2, 3: ./tests/bench/ranks/test_hangs.py:" in message
    assert "  rank 0: has returned" in message


@pytest.mark.parametrize("timeout", [1e-6, 0.01, 0.05])
def test_tiny_timeout(timeout):
    message = str(failure(time.sleep, 5, world_size=16, timeout=timeout))
    assert f"after {timeout:g} s, 0 of 16 ranks had returned" in message


def test_slow_but_sound():
    with pytest.raises(LaunchError, match="pass a larger timeout="):
        launch(time.sleep, 3, world_size=1, timeout=0.5)
    assert launch(time.sleep, 0.5, world_size=1, timeout=20).values == [None]


def compute(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


@pytest.mark.deep
def test_a_check_gives_more_time_to_ranks_that_compute():
    with patiently():
        assert launch(compute, 1.5, world_size=1, timeout=1.0).values == [None]
        with pytest.raises(HangError):
            launch(compute, 30, world_size=1, timeout=0.3)


def test_a_check_gives_no_more_time_to_ranks_that_wait():
    with patiently(), pytest.raises(HangError):
        launch(time.sleep, 1.5, world_size=2, timeout=0.5)
    with pytest.raises(HangError):
        launch(compute, 1, world_size=1, timeout=0.3)


def test_where_nothing_is_the_learners_the_innermost_line_is_told():
    outer, inner = (threading.__file__, 1, "run", None), (queue.__file__, 2, "get", None)
    assert find_source_line([outer, inner]) == SourceLine(queue.__file__, 2, "get")
    assert find_source_line([]) is None

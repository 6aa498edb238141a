"""Answers that print, that never end, and that are stopped while a check tries them."""

import _thread
import io
import signal
import sys
import threading
import time

import pytest
from exercise_names import EX

from coursekit.answers import answer_limits
from pedagogy_lib import Stopped, check

needs_alarm = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a signal of Unix")


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(answer_limits, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(answer_limits, "MOST_COMPUTING_SECONDS", 0.5)
    monkeypatch.setattr(answer_limits, "MOST_SECONDS", 1.5)


def right(node, local_rank, per_node):
    return node * per_node + local_rank


def endless(node, local_rank, per_node):
    while True:
        try:
            node += 1
        except Exception:
            node = 0


def drowsy(node, local_rank, per_node):
    time.sleep(0.4)  # shorter than what one answer may take, but it is called again and again


def asleep(node, local_rank, per_node):
    time.sleep(3600)


def talkative(node, local_rank, per_node):
    print("node", node, "<b>")
    return node


def close_stdin(node, local_rank, per_node):
    sys.stdin.close()  # as the builtin exit() does before it raises
    raise SystemExit


def test_an_answer_that_exits_leaves_later_checks_alone(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert "it raised SystemExit: exit() would end" in repr(check(EX.global_rank, close_stdin))
    assert check(EX.global_rank, right).passed


def test_what_an_answer_prints_is_told_with_the_verdict(capsys):
    verdict = check(EX.global_rank, talkative)
    assert capsys.readouterr().out == ""
    told = repr(verdict)
    assert "what it printed when it was tried:\n    node 0 <b>\n" in told
    assert told.count("<b>") == 5 and told.endswith("lines more\nnot yet")
    page = verdict._repr_html_()
    assert "<summary>What it printed when it was tried</summary>" in page
    assert "node 0 &lt;b&gt;" in page and "<b>\n" not in page


def test_an_answer_that_prints_without_end_fills_nothing():
    printed = answer_limits.OutputCapture()
    for _ in range(1000):
        print("x" * 1000, file=printed)
    assert len(printed.kept) == answer_limits.KEPT_CHARACTERS and printed.lines == 1000


@needs_alarm
@pytest.mark.parametrize("answer", [endless, asleep, drowsy])
def test_an_answer_that_never_ends_gets_a_verdict(answer, impatient):
    verdict = check(EX.global_rank, answer)
    assert verdict.passed is False
    assert "your function: it still runs after" in repr(verdict)
    assert f"in {answer.__name__}()" in repr(verdict)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert check(EX.global_rank, right).passed


def test_an_interrupt_says_where_the_answer_was():
    timer = threading.Timer(0.5, _thread.interrupt_main)
    timer.start()
    with pytest.raises(Stopped, match=r"stopped in your answer, which was at\n.*in endless\(\)"):
        check(EX.global_rank, endless)
    timer.join()


@needs_alarm
def test_a_timer_of_somebody_else_is_left_alone(impatient):
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(True))
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        assert check(EX.global_rank, right).passed
        time.sleep(0.4)
        assert rung
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_check_in_another_thread_works():
    verdicts = []
    thread = threading.Thread(target=lambda: verdicts.append(check(EX.global_rank, right)))
    thread.start()
    thread.join()
    assert verdicts[0].passed

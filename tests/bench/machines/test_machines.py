"""Ranks on machines of their own: who is where, what cards carry, and that nothing stays."""

import os
import signal
import socket
import statistics
import time
from pathlib import Path

import needs
import pytest
import torch
import torch.distributed as dist
from helpers import end, need_close, seconds_until_done, start, wait_until
from machines_here import have_gone, needs_machines, needs_netem, networks_of, run_as
from selection import parametrize
from torch import nn

from pedagogy_lib import HangError, LaunchError, Machines, launch, measure, plot_timeline
from pedagogy_lib.machines import namespace_support, network, other_users
from pedagogy_lib.machines.state import State

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")


def who():
    x = torch.ones(1)
    dist.all_reduce(x)
    found = [os.environ[name] for name in NAMES]
    return found, sorted(name for _, name in socket.if_nameindex()), x.item()


@needs_machines
@pytest.mark.parametrize(
    ("ranks", "local", "machine"),
    [
        (2, [0, 1, 0, 1], [0, 0, 1, 1]),
        ([3, 1], [0, 1, 2, 0], [0, 0, 0, 1]),
        (1, [0, 1, 2, 3], [0] * 4),
    ],
)
def test_ranks_find_the_numbers_that_torchrun_gives(ranks, local, machine):
    run = launch(who, world_size=4, machines=Machines(ranks))
    for rank, (found, cards, total) in enumerate(run.values):
        size = machine.count(machine[rank])
        wanted = [rank, local[rank], 4, size, machine[rank]]
        assert found == list(map(str, wanted))
        assert cards == ["eth0", "lo"]
        assert total == 4
    assert run.machines.count == len(set(machine))


def exchange(nbytes):
    dist.barrier()
    with measure("all_reduce", memory=False):
        dist.all_reduce(torch.ones(nbytes // 4))
    dist.barrier()
    with measure("inside", memory=False):
        peer = dist.get_rank() ^ 1
        send = dist.isend(torch.ones(nbytes // 4), peer)
        dist.recv(torch.empty(nbytes // 4), peer)
        send.wait()


@needs_machines
def test_cards_carry_what_goes_to_other_machines_and_nothing_else():
    nbytes, rate = 5_000_000, 100e6
    run = launch(exchange, nbytes, world_size=4, machines=Machines(2, bytes_per_second=rate))
    crossing = 1.5 * nbytes  # of Gloo's ring, one link in each direction
    for card in run["all_reduce"].cards:
        assert 0.99 * crossing <= card.sent_bytes <= 1.04 * crossing  # read while the card sends
        assert 0.99 * crossing <= card.received_bytes <= 1.04 * crossing
        assert 0.1 < card.busy <= 1.05
    # Below this the kernel cannot come: a card sends no faster than it may.
    assert max(seconds_until_done(run["all_reduce"])) >= 0.97 * crossing / rate - 0.01
    for card in run["inside"].cards:
        assert card.sent_bytes < 0.02 * nbytes
    assert "network cards: machine 0 sent 7." in repr(run.table())
    assert "2 machines, cards of 100.00 MB/s" in run.title()


def sum_in_parts(nbytes, parts):
    x = torch.full((nbytes // 4,), dist.get_rank() + 1.0)
    for _ in range(4):
        dist.all_reduce(torch.ones(4))  # opens the connections of each card
    dist.barrier()
    with measure("sum", memory=False):
        for request in [dist.all_reduce(part, async_op=True) for part in x.chunk(parts)]:
            request.wait()
    return os.environ["GLOO_SOCKET_IFNAME"], bool((x == 10).all())


@needs_machines
def test_each_collective_takes_one_card_and_several_take_several():
    nbytes, rate = 2_000_000, 12.5e6
    machines = Machines(2, bytes_per_second=rate, cards=2)
    quickest = {}
    for parts in (1, 1, 1, 2, 2, 2):
        run = launch(sum_in_parts, nbytes, parts, world_size=4, machines=machines)
        assert run.values == 4 * [("eth0,eth1", True)]
        for card in run["sum"].cards:  # both cards of a machine together
            assert 0.99 * 1.5 * nbytes <= card.sent_bytes <= 1.05 * 1.5 * nbytes
            assert card.bytes_per_second == 2 * rate
        # Below this the kernel cannot come.
        seconds = max(seconds_until_done(run["sum"]))
        assert seconds >= 0.95 * 1.5 * nbytes / rate / parts - 0.01
        quickest[parts] = min(seconds, quickest.get(parts, seconds))
    assert quickest[2] < 0.8 * quickest[1]
    assert "2 machines, 2 cards each of 12.50 MB/s" in run.title()
    # Nothing of it is left in the next launch.
    assert launch(sum_in_parts, 4, 1, world_size=4, machines=Machines(2)).values[0][0] == "eth0"


@pytest.mark.parametrize("cards", [0, 9, 1.5])
def test_a_number_of_cards_that_makes_no_sense_is_refused(cards):
    with pytest.raises(LaunchError, match="a machine has 1 to 8 cards"):
        Machines(2, cards=cards)


@needs_machines
def test_the_speed_may_be_another_in_each_launch():
    for rate in (20e6, None, 50e6):
        run = launch(exchange, 2_000_000, world_size=4, machines=Machines(2, bytes_per_second=rate))
        seconds = max(seconds_until_done(run["all_reduce"]))
        assert seconds >= (0.97 * 3e6 / rate if rate else 0) - 0.01
        assert [card.busy is None for card in run["all_reduce"].cards] == [rate is None] * 2


def train_ddp():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 1))
    x, y = torch.randn(24, 20), torch.randn(24, 1)
    n, rank = dist.get_world_size(), dist.get_rank()
    ddp = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (ddp(x[rank::n]) - y[rank::n]).square().mean().backward()
        optimizer.step()
    return list(model.state_dict().values())


def train_fsdp2():
    from torch.distributed.fsdp import fully_shard

    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 1))
    fully_shard(model)
    x, y = torch.randn(24, 20), torch.randn(24, 1)
    n, rank = dist.get_world_size(), dist.get_rank()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (model(x[rank::n]) - y[rank::n]).square().mean().backward()
        optimizer.step()
    return [value.full_tensor() for value in model.state_dict().values()]


@needs_machines
@pytest.mark.parametrize("train", [train_ddp, train_fsdp2])
def test_engines_work_across_machines_as_on_one(train):
    alone = launch(train_ddp, world_size=1, device="cpu").values[0]
    run = launch(train, world_size=4, machines=Machines([3, 1], bytes_per_second=50e6))
    need_close(run.values, alone, steps=3)


# ---- Packets that are late, or get lost ---


def ping(times):
    """Seconds of each way to the other rank and back."""
    x, other, seconds = torch.ones(1), 1 - dist.get_rank(), []
    for _ in range(times):
        start = time.perf_counter()
        if dist.get_rank():
            dist.recv(x, other)
        dist.send(x, other)
        if not dist.get_rank():
            dist.recv(x, other)
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


@needs_netem
@pytest.mark.parametrize("speed", [None, 20e6])
def test_packets_take_their_latency(speed):
    far = Machines(2, bytes_per_second=speed, latency_seconds=0.1)
    there_and_back = launch(ping, 4, world_size=2, machines=far).values[0]
    assert min(there_and_back) >= 0.2
    assert statistics.median(there_and_back) < 0.35
    near = launch(ping, 4, world_size=2, machines=Machines(2)).values[0]
    assert statistics.median(near) < 0.1


@needs_netem
def test_packets_vary_by_their_jitter():
    varying = Machines(2, latency_seconds=0.1, jitter_seconds=0.1)
    there_and_back = launch(ping, 25, world_size=2, machines=varying).values[0]
    assert max(there_and_back) - min(there_and_back) > 0.05
    assert min(there_and_back) < 0.19
    assert varying.text() == "2 machines, 100.0 ms apart (± 100.0 ms)"


def packets_sent_again() -> int:
    """By TCP, on this machine, since the machine was made."""
    lines = [line.split() for line in Path("/proc/net/snmp").read_text().splitlines()]
    names, values = (line for line in lines if line[0] == "Tcp:")
    return int(values[names.index("RetransSegs")])


def add_up():
    """4 MB; returns a number of the sum, and how many packets have been sent again."""
    x, before = torch.ones(1_000_000), packets_sent_again()
    dist.all_reduce(x)
    return x[-1].item(), packets_sent_again() - before


@needs_netem
def test_packets_that_get_lost_are_sent_again():
    lossy = Machines(2, bytes_per_second=20e6, loss=0.1)
    values = launch(add_up, world_size=2, machines=lossy).values
    assert [total for total, _ in values] == [2, 2]
    assert sum(packets for _, packets in values) > 0
    assert launch(add_up, world_size=2, machines=Machines(2)).values == [(2, 0), (2, 0)]
    assert lossy.text() == "2 machines, cards of 20.00 MB/s, 10 % of packets lost"


@needs_machines
@pytest.mark.skipif(not needs.is_missing("netem"), reason="this kernel has netem")
@pytest.mark.parametrize("wish", [{"latency_seconds": 0.01}, {"loss": 0.01}])
def test_without_netem_that_is_told_and_not_faked(wish):
    with pytest.raises(LaunchError, match="this kernel can neither delay nor lose packets"):
        launch(who, world_size=2, machines=Machines(2, **wish))
    assert launch(who, world_size=2, machines=Machines(2)).values[0][2] == 2


@needs_machines
def test_cards_are_rows_of_the_timeline():
    run = launch(exchange, 1_000_000, world_size=4, machines=Machines(2, bytes_per_second=20e6))
    picture = plot_timeline(run, ["all_reduce"], cards=True)
    (axes,) = picture.figure.axes
    rows = [label.get_text() for label in axes.get_yticklabels()]
    assert rows == [
        "rank 0",
        "rank 1",
        "rank 2",
        "rank 3",
        "card of\nmachine 0",
        "card of\nmachine 1",
    ]
    assert "network cards (full: 20.00 MB/s): card 0 sent 1.5" in picture.alt
    assert "2 machines, cards of 20.00 MB/s" in axes.get_xlabel()
    one = launch(exchange, 1000, world_size=2, device="cpu")
    with pytest.raises(LaunchError, match=r"no network cards: launch it on machines=Machines\(2\)"):
        plot_timeline(one, cards=True)


def reaches(port) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return True
    except ConnectionRefusedError:
        return False


@needs_machines
@pytest.mark.parametrize(("own", "reached"), [("1", False), ("0", True)])
def test_a_launch_may_have_a_network_in_which_it_meets_nobody_else(own, reached, monkeypatch):
    monkeypatch.setenv(other_users.SWITCH, own)
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        port = somebody.getsockname()[1]
        run = launch(reaches, port, world_size=2, device="cpu")
        assert run.values == [reached, reached]
        assert launch(reaches, port, world_size=2, machines=Machines(2)).values == [False, False]


@needs_machines
def test_where_other_people_are_it_is_on_by_itself(monkeypatch):
    monkeypatch.delenv(other_users.SWITCH, raising=False)
    for there_are in (True, False):
        monkeypatch.setattr(other_users, "are_there", lambda _, found=there_are: found)
        assert other_users.keeps_to_itself() is there_are
    monkeypatch.setenv(other_users.SWITCH, "1")
    assert other_users.keeps_to_itself()


# ---- Nothing stays ---


@needs_machines
def test_twenty_launches_leak_nothing():
    launch(who, world_size=2, machines=Machines(2))
    before, files = networks_of(os.getpid()), len(os.listdir("/proc/self/fd"))
    outside = socket.if_nameindex()
    for _ in range(20):
        launch(who, world_size=2, machines=Machines(2))
    assert len(before) == 3 and networks_of(os.getpid()) == before  # two machines and the switch
    assert len(os.listdir("/proc/self/fd")) <= files
    assert socket.if_nameindex() == outside


@needs_machines
def test_an_end_leaves_no_network():
    launch(who, world_size=2, machines=Machines(2))
    own = networks_of(os.getpid())
    assert len(own) == 3
    network.close_network()
    assert have_gone(own)


PROGRAM = """
import time, torch, torch.distributed as dist
from pedagogy_lib import launch, Machines

def for_ever():
    print("begun", flush=True)
    while True:
        dist.all_reduce(torch.ones(1))

launch(for_ever, world_size=4, machines=Machines(2, bytes_per_second=25e6))
"""


@needs_machines
@parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], quick=1)
def test_the_end_of_the_notebook_ends_machines_and_ranks(number, tmp_path):
    import sys

    program = start([sys.executable, "-c", PROGRAM], tmp_path)
    try:
        assert any("begun" in line for line in iter(program.stdout.readline, ""))
        own = networks_of(program.pid)
        assert len(own) == 3
        os.kill(program.pid, number)
        program.wait(10)
        assert have_gone(own)
        assert wait_until(lambda: not list(tmp_path.glob("launch-*")))
    finally:
        end(program)


@needs_machines
def test_a_switch_that_is_killed_is_told_and_made_anew():
    launch(who, world_size=2, machines=Machines(2))
    pid = network._network.process.pid

    def kill_it():
        dist.barrier()
        if dist.get_rank() == 0:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
        dist.all_reduce(torch.ones(1))

    with pytest.raises(HangError, match="network of the machines has ended"):
        launch(kill_it, world_size=2, machines=Machines(2), timeout=2)
    assert launch(who, world_size=2, machines=Machines(2)).values[0][2] == 2


@needs_machines
def test_a_machine_that_somebody_else_ends_is_made_anew():
    launch(who, world_size=2, machines=Machines(2))
    os.kill(int(network._network.networks[1].split("/")[2]), signal.SIGKILL)
    assert launch(who, world_size=2, machines=Machines(2)).values[0][2] == 2


@needs_machines
@pytest.mark.slow
@parametrize("who", ["somebody", "root"], quick=1)
def test_without_root_and_in_a_user_namespace_it_is_the_same(who, tmp_path):
    program = (
        "import socket, torch, torch.distributed as dist\n"
        "from pedagogy_lib import launch, Machines, measure\n"
        "def step():\n"
        "    with measure('sum', memory=False): dist.all_reduce(torch.ones(2_500_000))\n"
        "    return [name for _, name in socket.if_nameindex()]\n"
        "run = launch(step, machines=Machines(2, bytes_per_second=50e6))\n"
        "print(run.values[3], 0.99 * 15e6 <= run['sum'].cards[0].sent_bytes <= 1.04 * 15e6)\n"
        "print(launch(step, device='cpu').values[3])\n"
    )
    done = run_as(who, program, tmp_path)
    assert done.stdout.splitlines() == ["['lo', 'eth0'] True", "['lo']"], done.stderr[-2000:]


# ---- Numbers and words ---


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Machines(0), r"takes a number of machines, or the ranks of each, not 0"),
        (lambda: Machines("2"), r"the ranks of each, not '2'"),
        (lambda: Machines([2, 0]), r"the ranks of each, not \[2, 0\]"),
        (lambda: Machines(100), r"at most 64 machines, not 100"),
        (lambda: Machines(2, bytes_per_second=5), r"1000 to 100,000,000,000, or None, not 5"),
        (lambda: Machines(2, bytes_per_second="fast"), r"or None, not 'fast'"),
        (lambda: Machines(2, latency_seconds=-1), r"seconds from 0 to 10, not -1"),
        (lambda: Machines(2, jitter_seconds=0.1), r"at most the latency.* from 0 to 0, not 0\.1"),
        (lambda: Machines(2, loss=1), r"loss is a share below 1, .*, not 1"),
        (lambda: Machines(2, loss="many"), r"loss is a share below 1, .*, not 'many'"),
        (lambda: launch(who, world_size=3, machines=Machines(2)), r"name the ranks of each"),
        (lambda: launch(who, world_size=3, machines=Machines([3, 1])), r"has room for 4"),
        (lambda: launch(who, machines=2), r"machines is Machines\(2, bytes"),
        (lambda: launch(who, machines=Machines(2), device="cuda"), r'on the CPU: use device'),
    ],
)  # fmt: skip
def test_what_makes_no_sense_gets_one_sentence(make, sentence):
    with pytest.raises(LaunchError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("user.max_user_namespaces", "0", "`sudo sysctl user.max_user_namespaces=10000` opens it"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "unprivileged_userns=0` opens it"),
        ("", "", "in a container, start it with --cap-add SYS_ADMIN"),
    ],
)
def test_a_system_that_does_not_allow_it_is_told_with_what_opens_it(
    setting, value, told, monkeypatch
):
    import errno

    monkeypatch.setattr(namespace_support.sys, "platform", "linux")
    monkeypatch.setattr(
        namespace_support, "value_of", lambda name: value if name == setting else "7"
    )
    assert told in namespace_support.why_not(errno.EPERM)
    assert namespace_support.why_not(errno.EIO) == ""
    monkeypatch.setattr(namespace_support.sys, "platform", "darwin")
    assert "machines need Linux" in namespace_support.why_not(errno.EPERM)


def test_a_state_is_told_by_machines_and_ranks():
    ranks = [[0, 1], [2, 3], [4]]
    assert State(ranks).describe() == ""
    told = State(ranks, unplugged=(1,), others=(2,), killed=(0,)).describe()
    assert "Machine 0 was killed, with ranks 0, 1." in told
    assert "Machine 1 is unplugged: ranks 2, 3 cannot hear the other machines" in told
    assert "machines 0, 1 with ranks 0, 1, 2, 3, and machine 2 with rank 4." in told
    assert State(ranks, killed=(1,)).find_killed_machine(3) == 1
    assert State(ranks, killed=(1,)).find_killed_machine(4) is None

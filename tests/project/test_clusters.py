"""Jobs for SLURM and Kubernetes: read by their own tools, where this system has them."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import needs
import pytest
import yaml
from helpers import ROOT, end, environment, start, wait_until

FOLDER = ROOT / "labs" / "clusters"
SBATCH, MANIFEST = FOLDER / "restart.sbatch", FOLDER / "restart.yaml"
STORES = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
SETTINGS = """
ClusterName=course
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus}
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def torchrun_in(text) -> dict[str, str]:
    """The options of torchrun, and what they are set to."""
    return dict(re.findall(r"(--[\w-]+)=(\S+)", text[text.index("torchrun ") :]))


def documents():
    return {one["kind"]: one for one in yaml.safe_load_all(MANIFEST.read_text())}


# ---- Always ---


def test_the_script_is_shell():
    subprocess.run(["bash", "-n", SBATCH], check=True)


def test_both_start_the_same_program_with_the_same_options():
    job = documents()["Job"]["spec"]["template"]["spec"]["containers"][0]
    slurm, kubernetes = torchrun_in(SBATCH.read_text()), torchrun_in(job["args"][0])
    for options in slurm, kubernetes:
        assert (options["--max-restarts"], options["--rdzv-backend"]) == ("3", "c10d")
        assert options["--shutdown-timeout"] == "120"  # shorter than what the scheduler waits
    for text in SBATCH.read_text(), job["args"][0]:
        assert "labs/restart.py" in text
    assert f"export {STORES}=1" in SBATCH.read_text()
    assert {"name": STORES, "value": "1"} in job["env"]


PROGRAM = """
import sys, time
from coursekit.labs import Lab

restart = Lab("restart", PATH, PATH)
restart.train(sys.argv[1], 400, 1000, before_step=lambda training: time.sleep(0.1),
              notice=restart.LeaveNotice())
"""


@pytest.fixture
def slow_course(tmp_path):
    """A folder with labs/restart.py, which takes most of a minute and saves nothing on its way."""
    path = str(ROOT / "solutions" / "labs" / "restart.py")
    (tmp_path / "labs").mkdir()
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "labs" / "restart.py").write_text(f"PATH = {path!r}\n{PROGRAM}")
    return tmp_path


def steps_in(course) -> list[int]:
    """The steps taken so far, and those of the checkpoints."""
    log = text_of(course / "checkpoints" / "log").splitlines()
    return [said["steps"] for said in map(json.loads, log) if said["what"] == "step"]


def saved_in(course) -> list[int]:
    return [int(path.name[5:]) for path in (course / "checkpoints").glob("step-*")]


STUBS = {  # what the script calls of SLURM, for one machine: this one
    "srun": 'while [[ $1 == --* ]]; do shift; done; echo $$ > agent; exec "$@"',
    "scancel": '[ "$*" = "--signal=TERM 7" ] && kill -TERM "$(cat agent)"',
    "scontrol": 'if [ "$1" = show ]; then echo 127.0.0.1; else echo "$*" >> requeued; fi',
}


@pytest.fixture
def stubs(slow_course):
    """The environment of a job with number 7, in which such commands stand in for SLURM's."""
    for name, text in STUBS.items():
        (slow_course / name).write_text(f"#!/bin/bash\n{text}\n")
        (slow_course / name).chmod(0o755)
    paths = [str(slow_course), os.path.dirname(sys.executable), os.environ["PATH"]]
    return {"SLURM_JOB_ID": "7", "SLURM_NNODES": "1", "SLURM_JOB_NODELIST": "here",
            "SLURM_CPUS_PER_TASK": "1", "SLURM_SUBMIT_DIR": str(slow_course), "RANKS": "2",
            "PORT": str(free_ports(1)[0]), "GLOO_SOCKET_IFNAME": "lo",
            "PATH": os.pathsep.join(paths)}  # fmt: skip


@pytest.mark.deep
def test_before_the_time_is_up_all_ranks_save_and_the_script_requeues_its_job(slow_course, stubs):
    assert re.search(r"^#SBATCH --signal=B:USR1@\d+", SBATCH.read_text(), re.MULTILINE)
    script = start(["bash", str(SBATCH)], slow_course, **stubs)
    try:
        assert wait_until(lambda: len(steps_in(slow_course)) > 3, 60)
        script.send_signal(signal.SIGUSR1)
        script.wait(60)
    finally:
        end(script)
    assert saved_in(slow_course) == steps_in(slow_course)[-1:]  # not one step is lost
    assert text_of(slow_course / "requeued") == "requeue 7\n"


def test_a_job_that_ends_by_itself_is_not_requeued(slow_course, stubs):
    (slow_course / "labs" / "restart.py").write_text("")
    script = start(["bash", str(SBATCH)], slow_course, **stubs)
    try:
        assert script.wait(60) == 0
    finally:
        end(script)
    assert not (slow_course / "requeued").exists()


def test_names_of_the_manifest_fit_together():
    service, job = documents()["Service"], documents()["Job"]
    template = job["spec"]["template"]["spec"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": job["metadata"]["name"]}
    assert template["subdomain"] == service["metadata"]["name"]
    options = torchrun_in(template["containers"][0]["args"][0])
    host, port = options["--rdzv-endpoint"].split(":")
    assert host == f"{job['metadata']['name']}-0.{template['subdomain']}"
    assert int(port) == service["spec"]["ports"][0]["port"]
    assert options["--nnodes"] == f"1:{job['spec']['completions']}"
    volumes = {volume["name"] for volume in template["volumes"]}
    assert {mount["name"] for mount in template["containers"][0]["volumeMounts"]} == volumes


# ---- By their own tools ---


@needs.mark("kubernetes-validate")
def test_the_manifest_has_the_schema_of_kubernetes():
    import kubernetes_validate

    for document in documents().values():
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    job = documents()["Job"]
    job["spec"]["completionMod"] = "Indexed"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)


def free_ports(count) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


@pytest.fixture
def short_folder():
    """SLURM puts sockets into it, whose paths have at most 107 characters."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="slurm-") as folder:
        yield Path(folder)


@pytest.fixture
def slurm(short_folder):
    """A SLURM of one machine, this one: the environment in which its commands find it."""
    for name in needs.find_missing(["SLURM", "root"]):
        needs.skip(name)
    settings = settings_in(short_folder)
    environ = environment(SLURM_CONF=str(settings), GLOO_SOCKET_IFNAME="lo", RANKS="2",
                          TMPDIR=str(short_folder))  # torchrun keeps a folder of logs  # fmt: skip
    environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), environ["PATH"]])
    log, daemons = short_folder / "log", []
    try:
        with open(log, "ab") as file:
            for command in (["slurmctld", "-D", "-c"], ["slurmd", "-D"]):
                daemons.append(subprocess.Popen(command, env=environ, stdout=file, stderr=file))
        if not wait_until(
            lambda: run_command(["sinfo", "-ho", "%T"], environ).strip() == "idle", 30
        ):
            needs.skip("SLURM", f"it does not start here: {log.read_text()[-300:]}")
        yield environ
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait()


def settings_in(folder) -> Path:
    for name in "state", "spool":
        (folder / name).mkdir()
    host = socket.gethostname().partition(".")[0]
    text = SETTINGS.format(
        host=host, ports=free_ports(2), folder=folder, user="root", cpus=os.cpu_count()
    )
    (folder / "slurm.conf").write_text(text)
    return folder / "slurm.conf"


def run_command(command, environ, folder=ROOT / "solutions") -> str:
    done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True,
                          timeout=60)  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.slow
def test_slurm_runs_the_script_and_goes_on_from_its_checkpoint(slurm, tmp_path):
    environ = slurm | {"CHECKPOINTS": str(tmp_path / "checkpoints"), "PORT": str(free_ports(1)[0])}
    told = tmp_path / "told"
    command = ["sbatch", "--parsable", "--nodes=1", "--cpus-per-task=1", f"--output={told}", SBATCH]
    number = run_command(command, environ).strip()
    assert number.isdigit(), number
    assert wait_until(lambda: "steps read: 0; taken on 2 ranks: 60" in text_of(told), 120)
    assert "Requeue=1" in run_command(["scontrol", "show", "job", number], environ)
    run_command(command, environ)  # it reads what the first has saved: nothing is left to do
    assert wait_until(lambda: "steps read: 60; taken on 2 ranks: 0" in text_of(told), 120)


def text_of(path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.mark.slow
def test_slurm_signals_the_script_and_begins_the_job_again(slurm, slow_course):
    environ = slurm | {"PORT": str(free_ports(1)[0])}
    told = slow_course / "told"
    command = ["sbatch", "--parsable", "--nodes=1", "--cpus-per-task=1", f"--output={told}", SBATCH]
    number = run_command(command, environ, slow_course).strip()
    assert number.isdigit(), number
    assert wait_until(lambda: len(steps_in(slow_course)) > 3, 120)
    run_command(["scancel", "--batch", "--signal=USR1", number], environ)

    def is_queued_again():
        return "Restarts=1" in run_command(["scontrol", "show", "job", number], environ)

    assert wait_until(is_queued_again, 60), text_of(told)
    assert saved_in(slow_course) == steps_in(slow_course)[-1:]
    run_command(["scancel", number], environ)

"""Jobs for SLURM and Kubernetes: read by their own tools, where this system has them."""

import os
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import needs
import pytest
import yaml
from helpers import ROOT, environment, wait_until

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
    for text in SBATCH.read_text(), job["args"][0]:
        assert "labs/restart.py" in text
    assert f"export {STORES}=1" in SBATCH.read_text()
    assert {"name": STORES, "value": "1"} in job["env"]


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


def run_command(command, environ) -> str:
    done = subprocess.run(command, env=environ, cwd=ROOT / "solutions", capture_output=True,
                          text=True, timeout=60)  # fmt: skip
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

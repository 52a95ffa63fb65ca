"""What the framework plugins add to a pod: addresses, ranks, ports and start commands.

They are fixed when the pod is created: scaling the job does not change living pods.
"""

from __future__ import annotations

import json

from ringwise.controller.job_plugins.hosts import hosts_of
from ringwise.messages.commands import ContainerPort, InitContainer, JobService, PodAdditions
from ringwise.state.job_plugins import PluginArguments
from ringwise.state.vcjob import Task, VcJob

_NOTHING = PodAdditions()
#: Seconds between two attempts of a worker to reach the master.
_WAIT_INTERVAL = 2


def pytorch(job: VcJob, arguments: PluginArguments, task: Task, index: int) -> PodAdditions:
    master = _task(job, arguments.text("master"))
    if master is None:
        return _NOTHING
    worker = _task(job, arguments.text("worker"))
    address, port = next(iter(hosts_of(job, master)), ""), arguments.number("port")
    size = master.replicas + (worker.replicas if worker is not None else 0)
    env = [("MASTER_ADDR", address), ("MASTER_PORT", str(port)), ("WORLD_SIZE", str(size))]
    waits: tuple[InitContainer, ...] = ()
    if task.name == master.name:
        env.append(("RANK", "0"))
    elif worker is not None and task.name == worker.name:
        env.append(("RANK", str(index + 1)))
        if arguments.switch("wait-master-enabled"):
            command = ("sh", "-c", _wait_script(address, port, arguments.number("wait-master-timeout")))
            waits = (InitContainer("wait-for-master", arguments.text("wait-master-image"), command),)
    return PodAdditions(
        container_env=tuple(env), ports=(ContainerPort("pytorchjob-port", port),), init_containers=waits
    )


def tensorflow(job: VcJob, arguments: PluginArguments, task: Task, index: int) -> PodAdditions:
    """TF_CONFIG. A job of one pod is not distributed and gets none."""
    if len(job.tasks) == 1 and job.replicas == 1:
        return _NOTHING
    port, cluster, kind = arguments.number("port"), dict[str, list[str]](), task.name
    for role in ("ps", "worker", "chief", "evaluator"):
        role_task = _task(job, arguments.text(role))
        if role_task is None:
            continue
        if role_task.replicas:
            cluster[role] = [f"{host}:{port}" for host in hosts_of(job, role_task)]
        if role_task.name == task.name:
            kind = role
    config = {"cluster": cluster, "task": {"type": kind, "index": index}}
    return PodAdditions(container_env=(("TF_CONFIG", json.dumps(config, separators=(",", ":"))),))


def mpi(job: VcJob, arguments: PluginArguments, task: Task, _index: int) -> PodAdditions:
    ports = (ContainerPort("mpijob-port", arguments.number("port"), in_init_containers=True),)
    if task.name != arguments.text("master"):
        return PodAdditions(ports=ports)
    worker = _task(job, arguments.text("worker"))
    if worker is None:
        return _NOTHING
    return PodAdditions(env=(("MPI_HOST", ",".join(hosts_of(job, worker))),), ports=ports)


def ray(job: VcJob, arguments: PluginArguments, task: Task, _index: int) -> PodAdditions:
    """The start commands of the head and of the workers; other containers are left alone."""
    if task.name == arguments.text("head"):
        container, ports = arguments.text("headContainer"), _ray_ports(arguments)
        options = (
            f"--port={arguments.number('port')}",
            f"--dashboard-port={arguments.number('dashboardPort')}",
            f"--ray-client-server-port={arguments.number('clientPort')}",
        )
        start = f"ray start --head --block --dashboard-host=0.0.0.0 {' '.join(options)}"
        return PodAdditions(
            ports=tuple(ContainerPort(name, number, container) for name, number in ports),
            commands=((container, ("sh", "-c", start)),),
        )
    head = _task(job, arguments.text("head"))
    if task.name != arguments.text("worker") or head is None:
        return _NOTHING
    address = f"{next(iter(hosts_of(job, head)), '')}:{arguments.number('port')}"
    start = f"ray start --block --address={address}"
    return PodAdditions(commands=((arguments.text("workerContainer"), ("sh", "-c", start)),))


def ray_service(job: VcJob, arguments: PluginArguments) -> JobService:
    """A Service in front of the head, for clients and the dashboard."""
    return JobService(f"{job.name}-head-svc", arguments.text("head"), _ray_ports(arguments))


def _ray_ports(arguments: PluginArguments) -> tuple[tuple[str, int], ...]:
    return (
        ("gcs", arguments.number("port")),
        ("dashboard", arguments.number("dashboardPort")),
        ("client-server", arguments.number("clientPort")),
    )


def _task(job: VcJob, name: str) -> Task | None:
    return next((task for task in job.tasks if task.name == name), None)


def _wait_script(address: str, port: int, timeout: int) -> str:
    """Until the master accepts connections. Images have nc or a shell with /dev/tcp."""
    reached = f"nc -z -w 2 {address} {port} 2>/dev/null || (: </dev/tcp/{address}/{port}) 2>/dev/null"
    return (
        f"waited=0; until {reached}; do "
        f"if [ $waited -ge {timeout} ]; then "
        f"echo 'the master {address}:{port} did not answer within {timeout}s' >&2; exit 1; fi; "
        f"sleep {_WAIT_INTERVAL}; waited=$((waited + {_WAIT_INTERVAL})); done"
    )

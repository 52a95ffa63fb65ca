"""What the job plugins env, svc and ssh add to pods, as values.

The Service, NetworkPolicy and Secret themselves are created by what carries out the commands.
"""

from __future__ import annotations

from ringwise.controller.job_record import index_of
from ringwise.messages.commands import PodAdditions, Publish
from ringwise.state.model import Pod
from ringwise.state.vcjob import Task, VcJob
from ringwise.wellknown import HOST_LISTS_SUFFIX, OLD_TASK_INDEX_VARIABLE, TASK_INDEX_VARIABLE

#: Default path of the keys: in the home of root, as in Volcano.
HOME_SSH = "/root/.ssh"
#: What Go's flags take for true.
_TRUE = frozenset({"1", "t", "T", "true", "True", "TRUE"})
#: Plugins that need host names, and so include svc.
_NEED_NAMES = ("tensorflow", "pytorch", "mpi", "ray")


def hosts_of(job: VcJob, task: Task) -> list[str]:
    """The host names of a task's pods."""
    return [f"{job.name}-{task.name}-{index}.{job.name}" for index in range(task.replicas)]


class JobPlugins:
    """The plugins of one job. What all its pods share is computed once."""

    def __init__(self, job: VcJob) -> None:
        self._job = job
        names = job.plugins
        self.env = "env" in names
        self.svc = "svc" in names or any(name in names for name in _NEED_NAMES)
        self.ssh = "ssh" in names or "mpi" in names
        arguments = names.get("svc", ())
        self._isolated = self.svc and not _switched_on(arguments, "disable-network-policy")
        self._found_early = self.svc and _switched_on(arguments, "publish-not-ready-addresses")
        self._shared_env: tuple[tuple[str, str], ...] = ()
        mounts: list[tuple[str, str, str]] = []
        if self.svc:
            mounts.append(("/etc/volcano", "ConfigMap", f"{job.name}{HOST_LISTS_SUFFIX}"))
            shared: list[tuple[str, str]] = []
            for task in job.tasks:
                word = task.name.replace("-", "_").upper()
                shared.append((f"VC_{word}_HOSTS", ",".join(hosts_of(job, task))))
                shared.append((f"VC_{word}_NUM", str(task.replicas)))
            self._shared_env = tuple(shared)
        if self.ssh:
            mounts.append((_ssh_path(job.plugins.get("ssh", ())), "Secret", f"{job.name}-ssh"))
        self._mounts = tuple(mounts)

    def additions(self, pod: Pod) -> PodAdditions:
        index = str(max(index_of(pod), 0))
        own = ((TASK_INDEX_VARIABLE, index), (OLD_TASK_INDEX_VARIABLE, index)) if self.env else ()
        return PodAdditions(
            env=(*own, *self._shared_env),
            hostname=pod.name if self.svc else "",
            subdomain=self._job.name if self.svc else "",
            mounts=self._mounts,
            isolated=self._isolated,
            found_early=self._found_early,
        )

    def host_lists(self) -> Publish | None:
        """The ConfigMap with one file of host names per task."""
        if not self.svc:
            return None
        job = self._job
        data = {
            f"{task.name}.host": "".join(f"{host}\n" for host in hosts_of(job, task)) for task in job.tasks
        }
        return Publish(job.namespace, f"{job.name}{HOST_LISTS_SUFFIX}", data)


def _switched_on(arguments: tuple[str, ...], name: str) -> bool:
    """A boolean flag as Go parses it: without a value it is true, the last one counts."""
    on = False
    for argument in arguments:
        key, equals, value = argument.lstrip("-").partition("=")
        if key == name:
            on = not equals or value in _TRUE
    return on


def _ssh_path(arguments: tuple[str, ...]) -> str:
    for argument in arguments:
        key, _, value = argument.lstrip("-").partition("=")
        if key == "ssh-key-file-path" and value:
            return value
    return HOME_SSH

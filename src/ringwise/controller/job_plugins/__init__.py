"""What the job plugins add to the pods of a job, and which objects they need, as values.

The Services, the NetworkPolicy and the Secret themselves are created by what carries out the commands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ringwise.controller.job_plugins.frameworks import mpi, pytorch, ray, ray_service, tensorflow
from ringwise.controller.job_plugins.hosts import host_variables, hosts_of, short_names_of
from ringwise.controller.job_record import index_of
from ringwise.messages.commands import CreateJobResources, JobKeys, JobService, PodAdditions, Publish
from ringwise.state.job_plugins import PluginArguments, arguments_of, with_needed
from ringwise.state.model import Pod
from ringwise.state.vcjob import Task, VcJob
from ringwise.wellknown import HOST_LISTS_SUFFIX, OLD_TASK_INDEX_VARIABLE, TASK_INDEX_VARIABLE

_HOST_LISTS_PATH = "/etc/volcano"
_SSH_PORT = 22
_SSH_CONFIG = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"

#: What a framework adds to one pod: the job, its arguments, the pod's task, and its index in the task.
Framework = Callable[[VcJob, PluginArguments, Task, int], PodAdditions]
_FRAMEWORKS: dict[str, Framework] = {
    "pytorch": pytorch,
    "tensorflow": tensorflow,
    "mpi": mpi,
    "ray": ray,
}


class JobPlugins:
    """The plugins of one job. What all its pods share is computed once."""

    def __init__(self, job: VcJob) -> None:
        self._job = job
        self._arguments = {
            name: arguments_of(name, arguments) for name, arguments in with_needed(job.plugins).items()
        }
        self._tasks = {task.name: task for task in job.tasks}
        self._shared = self._shared_additions()

    def additions(self, pod: Pod) -> PodAdditions:
        index = max(index_of(pod), 0)
        made = self._shared
        if made.subdomain:
            made = replace(made, hostname=pod.name)
        if "env" in self._arguments:
            own = ((TASK_INDEX_VARIABLE, str(index)), (OLD_TASK_INDEX_VARIABLE, str(index)))
            made = replace(made, env=own)
        task = self._tasks.get(pod.task)
        if task is None:
            return made
        for name, framework in _FRAMEWORKS.items():
            arguments = self._arguments.get(name)
            if arguments is not None:
                made = _joined(made, framework(self._job, arguments, task, index))
        return made

    def host_lists(self) -> Publish | None:
        """The ConfigMap with the host names of each task, by the replicas that the job has now."""
        if "svc" not in self._arguments:
            return None
        job = self._job
        data: dict[str, str] = {}
        for task in job.tasks:
            hosts = hosts_of(job, task)
            data[f"{task.name.replace('-', '_')}.host"] = "\n".join(hosts)
            of_hosts, of_number = host_variables(task)
            data[of_hosts] = ",".join(hosts)
            data[of_number] = str(len(hosts))
        return Publish(job.namespace, f"{job.name}{HOST_LISTS_SUFFIX}", data)

    def resources(self) -> CreateJobResources:
        job, services, keys = self._job, list[JobService](), None
        svc, ssh = self._arguments.get("svc"), self._arguments.get("ssh")
        if svc is not None:
            services.append(JobService(job.name, found_early=self._shared.found_early))
        if "ray" in self._arguments:
            services.append(ray_service(job, self._arguments["ray"]))
        if ssh is not None:
            keys = JobKeys(
                f"{job.name}-ssh",
                self._ssh_config(ssh.number("ssh-port")),
                ssh.text("ssh-private-key"),
                ssh.text("ssh-public-key"),
            )
        return CreateJobResources(job.key, tuple(services), self._shared.isolated, keys)

    def _shared_additions(self) -> PodAdditions:
        job, mounts = self._job, list[tuple[str, str, str]]()
        env_from: tuple[tuple[str, str], ...] = ()
        svc, ssh = self._arguments.get("svc"), self._arguments.get("ssh")
        lists = f"{job.name}{HOST_LISTS_SUFFIX}"
        if svc is not None:
            mounts.append((_HOST_LISTS_PATH, "ConfigMap", lists))
            if svc.switch("inject-hosts-env"):
                env_from = tuple((name, lists) for task in job.tasks for name in host_variables(task))
        if ssh is not None:
            mounts.append((ssh.text("ssh-key-file-path"), "Secret", f"{job.name}-ssh"))
        return PodAdditions(
            subdomain=job.name if svc is not None else "",
            mounts=tuple(mounts),
            isolated=svc is not None and not svc.switch("disable-network-policy"),
            found_early=svc is not None and svc.switch("publish-not-ready-addresses"),
            env_from=env_from,
        )

    def _ssh_config(self, port: int) -> str:
        """Every pod by its short name, and the port also for the full names, which MPI uses."""
        job, parts = self._job, [_SSH_CONFIG]
        for task in job.tasks:
            for name, host in zip(short_names_of(job, task), hosts_of(job, task), strict=True):
                parts.append(f"Host {name}\n  HostName {host}\n  Port {port}\n")
        domains = dict.fromkeys(task.template.subdomain or job.name for task in job.tasks)
        parts += [f"Host *.{domain}\n  Port {port}\n" for domain in domains if port != _SSH_PORT]
        return "".join(parts)


def _joined(first: PodAdditions, second: PodAdditions) -> PodAdditions:
    return replace(
        first,
        env=first.env + second.env,
        container_env=first.container_env + second.container_env,
        ports=first.ports + second.ports,
        commands=first.commands + second.commands,
        init_containers=first.init_containers + second.init_containers,
    )

"""`external-*`: faulty pods are marked (`huawei.com/pod-status`), and another component deletes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ringwise.framework.job import Job
from ringwise.messages.commands import AnnotatePod, Command
from ringwise.scheduler.faults.fault_job import Deletion, FaultJob
from ringwise.state.model import Pod
from ringwise.wellknown import POD_STATUS


def plan(handled: FaultJob) -> None:
    for uid, pod in handled.faulty.items():
        if uid not in handled.deletions:
            handled.deletions[uid] = Deletion(pod.name, pod.position)


def mark(handled: FaultJob, job: Job, uid: str) -> Command:
    pod = handled.faulty[uid]
    return AnnotatePod(uid, job.namespace, pod.name, {POD_STATUS: f"Unhealthy-{pod.fault.type.value}"})


def unmark(handled: FaultJob, job: Job, uid: str) -> Command:
    """The pod is healthy again and was not deleted: a mark that stays would have it deleted later."""
    gone = handled.deletions.pop(uid)
    handled.faulty.pop(uid, None)
    return removal(job, uid, gone.name)


def removal(job: Job, uid: str, name: str) -> Command:
    return AnnotatePod(uid, job.namespace, name, {}, remove=(POD_STATUS,))


class Removals:
    """Marks that are to be gone, until they are: a removal that the API server refuses is asked for again."""

    def __init__(self) -> None:
        #: By uid; after a refusal when to ask again.
        self._pods: dict[str, int | None] = {}

    def sent(self, uid: str) -> None:
        self._pods[uid] = None

    def refused(self, uid: str, again: int) -> None:
        if uid in self._pods:
            self._pods[uid] = again

    def pod_seen(self, pod: Pod) -> None:
        if POD_STATUS not in pod.annotations:
            self.drop(pod.uid)

    def drop(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def deadline(self) -> int | None:
        return min((due for due in self._pods.values() if due is not None), default=None)

    def again(
        self, now: int, job_of: Callable[[str], Job | None], jobs: Mapping[str, FaultJob]
    ) -> list[Command]:
        commands: list[Command] = []
        for uid in [uid for uid, due in self._pods.items() if due is not None and due <= now]:
            job = job_of(uid)
            handled = None if job is None else jobs.get(job.key)
            if job is None or (handled is not None and uid in handled.deletions):
                self.drop(uid)  # It is gone, or was marked anew.
            else:
                self.sent(uid)
                commands.append(removal(job, uid, job.pods[uid].name))
        return commands

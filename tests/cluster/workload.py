"""A random workload from a seed: jobs of many sizes, and the outcome of each."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tests.cluster.cluster import GROUPS, JOBS, PODS, Cluster, may_be_gone, node_of
from tests.cluster.objects import ENDS, HOLDS_START, Object, pod, pod_group, vcjob

COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/-/commands"

#: Pods, and chips of each pod. All fit on three nodes.
SIZES = ((1, 1), (1, 2), (1, 4), (2, 4), (2, 8), (3, 8), (4, 2), (6, 1))

#: Share of the pods with a late start that start between two updates.
STARTS = 0.1


@dataclass
class SubmittedJob:
    """One job of the workload."""

    kind: str
    pods: int
    chips: int
    annotations: dict[str, str]
    #: Seconds that its pods run together; None runs until the end of the test.
    works: float | None
    submitted: float
    began: float | None = None
    state: str = "waits"
    #: When a suspended job is resumed; None: it is not suspended.
    resumed_at: float | None = None
    resumed: bool = False


class Workload:
    """Submits jobs, and simulates the programs in them: pods end when all have run together for a while.

    It is also the operator of pods with a PodGroup: it creates evicted pods again.
    """

    def __init__(self, cluster: Cluster, rng: random.Random, chips: int, forever: int) -> None:
        """`chips` of the whole cluster; `forever`: nodes that are used by jobs without an end."""
        self._cluster = cluster
        self._rng = rng
        self._chips = chips
        self._forever = forever
        self.jobs: dict[str, SubmittedJob] = {}
        #: How often a job was suspended.
        self.suspensions = 0

    def states(self) -> Counter[str]:
        return Counter(job.state for job in self.jobs.values())

    def unsettled(self) -> list[str]:
        return [name for name, job in self.jobs.items() if job.state == "waits"]

    def step(self) -> None:
        """Submit a job, unless more than 1.5 times the chips are requested; withdraw or suspend some."""
        open_jobs = [name for name, job in self.jobs.items() if job.state in ("waits", "runs")]
        requested = sum(self.jobs[name].pods * self.jobs[name].chips for name in open_jobs)
        # Only new jobs are withdrawn, so that a lost job is found at the end.
        new = [name for name in open_jobs if time.monotonic() - self.jobs[name].submitted < 4.0]
        if new and self._rng.random() < 0.1:
            self._withdraw(self._rng.choice(new))
        elif self._rng.random() < 0.03:
            self._suspend_one()
        elif requested <= self._chips * 1.5:
            self._submit_random()

    def submit(self, pods: int, chips: int, kind: str, works: float | None) -> str:
        name = f"work{len(self.jobs) + 1}"
        annotations = {HOLDS_START: "true"} if self._rng.random() < 0.2 else {}
        movable = {"ringwise.io/movable": "true"}
        job = self.jobs[name] = SubmittedJob(kind, pods, chips, annotations, works, time.monotonic())
        if kind == "job":
            self._cluster.api.create(
                JOBS, vcjob(name, pods, chips, annotations=movable, pod_annotations=annotations)
            )
        else:
            self._cluster.api.create(GROUPS, pod_group(name, pods))
            for number in range(pods):
                self._make_pod(name, job, number)
        return name

    def _submit_random(self) -> None:
        kind = self._rng.choice(("job", "group"))
        if self._forever and self._rng.random() < 0.1:
            # Whole nodes, so that every other job fits on the rest.
            self._forever -= 1
            self.submit(1, 8, kind, None)
            return
        pods, chips = self._rng.choice(SIZES)
        self.submit(pods, chips, kind, self._rng.uniform(0.5, 3.0))

    def _make_pod(self, name: str, job: SubmittedJob, number: int) -> None:
        made = pod(f"{name}-{number}", job.chips, group=name, annotations=job.annotations)
        self._cluster.api.create(PODS, made)

    def _withdraw(self, name: str) -> None:
        """The user deletes the job. Only its chips are checked afterwards."""
        job = self.jobs[name]
        job.state = "withdrawn"
        if job.works is None:
            self._forever += 1
        if job.kind == "job":
            self._cluster.api.delete(f"{JOBS}/{name}")
            return
        for one in self._cluster.pods(name):
            self._delete_pod(one["metadata"]["name"])
        self._cluster.api.delete(f"{GROUPS}/{name}")

    def _suspend_one(self) -> None:
        """A user suspends a vcjob, and resumes it a few seconds later."""
        open_jobs = [
            name
            for name, job in self.jobs.items()
            if job.kind == "job" and job.state in ("waits", "runs") and job.resumed_at is None
        ]
        if open_jobs:
            name = self._rng.choice(open_jobs)
            send_command(self._cluster, name, "AbortJob")
            self.jobs[name].resumed_at = time.monotonic() + self._rng.uniform(0.5, 4.0)
            self.suspensions += 1

    def _delete_pod(self, name: str) -> None:
        with may_be_gone():
            self._cluster.api.delete(f"{PODS}/{name}")

    def update(self) -> None:
        """Update every job: end pods, create evicted ones again, and record the state."""
        by_job: dict[str, list[Object]] = {name: [] for name in self.jobs}
        for one in self._cluster.pods():
            by_job[one["metadata"]["name"].split("-")[0]].append(one)
        phases = {
            one["metadata"]["name"]: one.get("status", {}).get("state", {}).get("phase", "")
            for one in self._cluster.api.items(JOBS)
        }
        for name, job in self.jobs.items():
            if job.state in ("waits", "runs"):
                self._resume(name, job, phases.get(name, ""))
                self._update(name, job, by_job[name], phases.get(name) == "Completed")

    def _resume(self, name: str, job: SubmittedJob, phase: str) -> None:
        """Resume a job whose suspension is over, again if the Command was lost with its controller."""
        now = time.monotonic()
        if job.resumed_at is None or now < job.resumed_at:
            return
        if phase == "Aborted":
            send_command(self._cluster, name, "ResumeJob")
            job.resumed_at, job.resumed = now + 10.0, True
        elif job.resumed:
            job.resumed_at, job.resumed = None, False

    def _update(self, name: str, job: SubmittedJob, pods: list[Object], completed: bool) -> None:
        for one in pods:
            # Some pods do not start at once.
            if node_of(one) and self._rng.random() < STARTS:
                self._cluster.annotate(one, {HOLDS_START: None})
        phases = Counter(one["status"].get("phase") for one in pods)
        if phases["Succeeded"] == job.pods == len(pods) and (completed or job.kind == "group"):
            job.state = "finished"
            return
        if job.kind == "group":
            there = {one["metadata"]["name"] for one in pods}
            for number in range(job.pods):
                if f"{name}-{number}" not in there:
                    self._make_pod(name, job, number)
        if phases["Running"] == job.pods == len(pods):
            now = time.monotonic()
            job.began = job.began or now
            job.state = "runs" if job.works is None else "waits"
            if job.works is not None and now - job.began >= job.works:
                self._end(pods)
        elif job.state == "runs":
            job.state = "waits"

    def _end(self, pods: Iterable[Object]) -> None:
        for one in pods:
            self._cluster.annotate(one, {ENDS: "succeeds"})


def send_command(cluster: Cluster, job: str, action: str) -> None:
    """Create a Command for a vcjob."""
    target = cluster.api.get(f"{JOBS}/{job}")
    cluster.api.create(
        COMMANDS,
        {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"generateName": f"{job}-"},
            "action": action,
            "target": {
                "apiVersion": target["apiVersion"],
                "kind": target["kind"],
                "name": job,
                "uid": target["metadata"]["uid"],
                "controller": True,
            },
        },
    )

"""A lab with one job, observed second by second."""

from __future__ import annotations

from ringwise.durations import SECOND
from ringwise.embed.kubelet import SimulationSettings
from ringwise.embed.loop import EmbeddedLoop
from ringwise.state.model import Pod
from ringwise.state.vcjob import VcJob
from tests.embed.first_fit import lab_of

FAST = SimulationSettings(start_delay=SECOND, grace=SECOND)
FOREVER = {"ringwise.io/simulate": "forever"}
TEN = {"ringwise.io/expected-duration": "10s"}
FAILS = {"ringwise.io/simulate": "fail@5:9"}


def lab_with(*jobs: VcJob, nodes: int = 4) -> EmbeddedLoop:
    lab = lab_of(nodes, settings=FAST, start=0)
    lab.cluster.submit_all(jobs)
    return lab


def job_in(lab: EmbeddedLoop, name: str = "train") -> VcJob:
    job = lab.cluster.get(VcJob, f"default/{name}")
    assert job is not None
    return job


def at(lab: EmbeddedLoop, seconds: float) -> VcJob:
    lab.run_until(int(seconds * SECOND))
    return job_in(lab)


def pods_in(lab: EmbeddedLoop) -> dict[str, str]:
    return {
        pod.name: "Terminating" if pod.deleting else pod.phase
        for pod in sorted(lab.cluster.all(Pod), key=lambda pod: pod.name)
    }

"""allocate: the best job of the best queue, then the next."""

from __future__ import annotations

import pytest

from ringwise.framework.configuration import Configuration
from ringwise.messages import events as ev
from ringwise.messages.commands import SetGroupStatus
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import BUILT_IN, default_tiers
from ringwise.state.model import Node, Owner, PodClass, PodGroup
from ringwise.state.vcjob import PodTemplate, Task, VcJob
from tests.scheduler.rig import Rig


def test_a_job_that_can_never_run_takes_no_share_from_others() -> None:
    """Seven chips fit no board, so the other queue may have all there is, in the same cycle."""
    rig = Rig(2, actions=("allocate", "backfill"))
    rig.queue("a")
    rig.queue("bb")
    rig.submit("bad", chips=7, queue="bb")
    rig.submit("a1", chips=8, queue="a")
    rig.submit("a2", chips=8, queue="a")
    rig.step()
    assert rig.reason("bad") == "request-not-allowed"
    assert len(rig.places("a1")) == len(rig.places("a2")) == 1


def vcjob(*actions: str) -> tuple[Scheduler, list[str]]:
    """A scheduler with these actions, and the phases it writes to the PodGroup of a new vcjob."""
    scheduler = Scheduler(Configuration(actions, default_tiers()), registry=BUILT_IN)
    task = Task("main", 2, 2, PodTemplate(PodClass(cpu_milli=1_000)))
    job = VcJob("default", "job", "u1", tasks=(task,), min_available=2)
    group = PodGroup("default", "job-u1", min_member=2, owner=Owner("Job", "job", "u1"))
    commands = scheduler.handle(
        [ev.NodeSeen(Node("n1", cpu_milli=9_000)), ev.VcJobSeen(job), ev.PodGroupSeen(group)], 1
    )
    return scheduler, [command.phase for command in commands if isinstance(command, SetGroupStatus)]


@pytest.mark.parametrize(
    ("actions", "phase"),
    [
        (("allocate", "backfill"), "Inqueue"),
        (("allocate",), "Inqueue"),
        (("enqueue", "allocate"), "Inqueue"),
        (("backfill",), "Pending"),  # backfill and preempt do not set it, as in Volcano
    ],
)
def test_without_enqueue_allocate_sets_the_group_inqueue_so_that_pods_are_created(
    actions: tuple[str, ...], phase: str
) -> None:
    scheduler, phases = vcjob(*actions)
    assert phases == [phase]
    assert scheduler.view.jobs["default/job-u1"].inqueue is (phase == "Inqueue")


def test_without_enqueue_also_a_job_larger_than_the_cluster_gets_its_pods() -> None:
    rig = Rig(1, actions=("allocate",))
    rig.submit("large", pods=9, chips=8)
    rig.step()
    assert rig.machine.view.jobs["default/large"].inqueue
    assert rig.reason("large") == "gang-incomplete"


@pytest.mark.parametrize(("pods", "minimum", "code"), [(2, 1, "no-node-fits"), (2, 2, "gang-incomplete")])
def test_pods_that_request_nothing_and_fit_nowhere_have_a_reason(pods: int, minimum: int, code: str) -> None:
    rig = Rig(1)
    rig.submit("light", pods=pods, min_available=minimum, chips=0, node_selector=(("zone", "a"),))
    rig.run()
    assert rig.reason("light") == code
    rig.node("n2", labels={"zone": "a"})
    rig.run()
    assert (rig.nodes_of("light"), rig.reason("light")) == (["n2"] * pods, None)

"""allocate: the best job of the best queue, then the next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringwise.actions.allocate import allocate
from ringwise.actions.backfill import backfill
from ringwise.apps.extensions import new_scheduler
from ringwise.framework.gangs.gang_placement import has_pending_pods, pending_pods
from ringwise.framework.session import Session
from ringwise.messages.commands import SetGroupStatus
from ringwise.messages.job_expansion import pod_group_of
from ringwise.scheduler.core.machine import Scheduler
from ringwise.state.model import Pod
from tests.builders.session_lab import cluster
from tests.builders.values import CHIP, job_of, node, pod_class, seen, task_of
from tests.scheduler.rig import Rig, configuration


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
    scheduler = new_scheduler(configuration(actions))
    job = job_of(task_of(chips=0, cpu=1_000), name="job", uid="u1")
    commands = scheduler.handle(seen(node("n1", cpu_milli=9_000), job, pod_group_of(job)), 1)
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


def test_pods_that_request_nothing_do_not_count_as_pending() -> None:
    """They are placed after the gang: nothing is reserved, evicted or moved for them."""
    lab = cluster().node("n1", cpu=8).job("asks", pods=2, cpu=1, on=["n1"]).job("runs", cpu=1, on="n1")
    lab.job("nothing", pods=2)
    session = lab.session("gang", "predicates")
    for name, pending in (("asks", True), ("runs", False), ("nothing", False)):
        assert has_pending_pods(session, lab[name]) is bool(pending_pods(session, lab[name])) is pending
    assert len(pending_pods(session, lab["nothing"], best_effort=True)) == 2


@pytest.mark.parametrize(("pods", "minimum", "code"), [(2, 1, "no-node-fits"), (2, 2, "gang-incomplete")])
def test_pods_that_request_nothing_and_fit_nowhere_have_a_reason(pods: int, minimum: int, code: str) -> None:
    rig = Rig(1)
    rig.submit("light", pods=pods, min_available=minimum, chips=0, node_selector=(("zone", "a"),))
    rig.run()
    assert rig.reason("light") == code
    rig.node("n2", labels={"zone": "a"})
    rig.run()
    assert (rig.nodes_of("light"), rig.reason("light")) == (["n2"] * pods, None)


def test_no_pod_of_an_invalid_job_gets_a_node_because_it_requests_nothing() -> None:
    rig = Rig(1, actions=("allocate", "backfill"))
    rig.submit("mixed", pods=2, chips=7, min_available=1)
    rig.change("mixed-0", cls=pod_class(chips=0))
    rig.run()
    assert (rig.nodes_of("mixed"), rig.reason("mixed")) == ([], "request-not-allowed")


def test_backfill_keeps_the_reason_that_the_pods_with_chips_wait_for() -> None:
    """That reason names what wakes the job: freed chips."""
    lab = cluster().node("n1", chips=8).job("old", on="n1", chips=8)
    lab.job("mixed", pods=2, min_available=1, chips=8)
    lab.change("mixed-1", cls=pod_class(node_selector=(("zone", "a"),)))
    session = lab.session("gang", "topology910", "predicates")
    allocate(session)
    reason = lab["mixed"].reason
    assert reason is not None
    backfill(session)
    assert lab["mixed"].reason is reason


def test_pods_that_request_nothing_wait_for_the_admission_of_their_job() -> None:
    rig = Rig(1)
    rig.submit("light", chips=0)
    rig.change_group("light", min_resources={CHIP: 9})
    rig.run()
    assert rig.nodes_of("light") == []
    rig.change_group("light", min_resources={CHIP: 8})
    rig.run()
    assert rig.nodes_of("light") == ["n1"]


def test_a_pod_beyond_the_gang_costs_the_same_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are placed one at a time: looking at all of them for each one would cost their square."""
    looked = 0
    is_pending = Session.is_pending

    def counted(self: Session, pod: Pod) -> bool:
        nonlocal looked
        looked += 1
        return is_pending(self, pod)

    monkeypatch.setattr(Session, "is_pending", counted)
    looks = []
    for pods in (20, 80):
        looked = 0
        rig = Rig(pods)
        rig.submit("train", pods=pods, chips=8, min_available=1)
        rig.run()
        assert len(set(rig.nodes_of("train"))) == pods
        looks.append(looked)
    assert looks[1] < 5 * looks[0]


def test_pods_beyond_the_gang_take_turns_with_other_jobs_and_pass_those_that_fit_nowhere() -> None:
    rig = Rig(4, actions=("allocate", "backfill"))
    rig.submit("first", pods=3, chips=8, min_available=1)
    rig.submit("second", pods=3, chips=8, min_available=1)
    rig.change("first-1", cls=replace(rig.pods["first-1"].cls, node_selector=(("rack", "none"),)))
    rig.run()
    assert {name for name in rig.pods if rig.pods[name].node is not None} == {
        "first-0",
        "first-2",
        "second-0",
        "second-1",
    }

"""No wake-up is lost: jobs end as with a scheduler that tries every job again after every event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.framework.configuration import PluginOption, Tier
from ringwise.messages import events as ev
from ringwise.state.model import (
    Namespace,
    PodClass,
    PodGroup,
    PodTerm,
    Queue,
    Requirement,
    ResourceQuota,
    TopologySpread,
)
from tests.builders.values import CHIP, pod
from tests.examples import examples
from tests.scheduler.rig import PLAIN, Rig

ALWAYS = ("priority", "gang", "topology910", "predicates")
QUEUES = ("default", "a", "b")
VOTERS: dict[str, tuple[PluginOption, ...]] = {
    "overcommit": (PluginOption.of("overcommit", arguments={"overcommit-factor": 1.0}),),
    "proportion": (PluginOption.of("proportion"),),
    "capacity": (PluginOption.of("capacity"),),
    "resourcequota": (PluginOption.of("resourcequota"),),
    "all": (
        PluginOption.of("overcommit", arguments={"overcommit-factor": 1.0}),
        PluginOption.of("proportion"),
        PluginOption.of("resourcequota"),
    ),
}


def rig_with(voters: str) -> Rig:
    plugins = [PluginOption.of(name) for name in ALWAYS]
    tiers = (Tier((*plugins, *VOTERS[voters])),)
    rig = Rig(actions=PLAIN, tiers=tiers, forceEnqueue=False)
    rig.node("n1", cpu_milli=10_000)
    return rig


class EveryEvent:
    """Tries every job again, whatever its reason, until nothing changes any more."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig

    def run(self) -> None:
        for _ in range(20):
            queue = self.rig.machine._job_queue
            for key in list(queue._unschedulable):
                queue.activate(key)
            before = seen(self.rig)
            self.rig.step()
            if not self.rig.events and seen(self.rig) == before:
                return


def seen(rig: Rig) -> dict[str, object]:
    found: dict[str, object] = {key: group.phase for key, group in rig.groups.items()}
    found.update({name: pod.node for name, pod in rig.pods.items()})
    return found


Step = Callable[[Rig], None]
NAMES = ("one", "two", "three")


def _group(name: str, cpu: int, chips: int, queue: str, member: int) -> Step:
    """Creates the PodGroup or changes it; 0 of everything: it has no minResources."""

    def step(rig: Rig) -> None:
        least = {"cpu": cpu * 1000, CHIP: chips}
        wanted = {key: amount for key, amount in least.items() if amount}
        known = rig.groups.get(f"default/{name}")
        created = known.created if known is not None else NAMES.index(name)
        phase = known.phase if known is not None else ""
        group = PodGroup("default", name, "", member, {}, queue, "", wanted, phase, created)
        rig.put_group(group)

    return step


def _pod(name: str, index: int, cpu: int, chips: int, gated: bool) -> Step:
    def step(rig: Rig) -> None:
        full = f"{name}-{index}"
        if full not in rig.pods:
            rig._serial += 1
            cls = PodClass(CHIP if chips else None, chips, cpu_milli=cpu * 1000)
            rig.put(pod(full, uid=f"{full}.{rig._serial}", cls=cls, group=name, gated=gated))

    return step


def _change(name: str, index: int, **fields: object) -> Step:
    def step(rig: Rig) -> None:
        pod = rig.pods.get(f"{name}-{index}")
        if pod is not None and (pod.node is not None or fields.get("phase") != "Succeeded"):
            rig.put(replace(pod, **fields))  # type: ignore[arg-type]

    return step


def _pod_gone(name: str, index: int) -> Step:
    def step(rig: Rig) -> None:
        if f"{name}-{index}" in rig.pods:
            rig.gone(f"{name}-{index}")

    return step


def _group_gone(name: str) -> Step:
    def step(rig: Rig) -> None:
        if rig.groups.pop(f"default/{name}", None) is not None:
            rig.tell(ev.PodGroupGone(f"default/{name}"))

    return step


def _queue(name: str, capability: int, guarantee: int, state: str) -> Step:
    def step(rig: Rig) -> None:
        most = {"cpu": capability * 1000} if capability else {}
        least = {"cpu": guarantee * 1000} if guarantee else {}
        rig.tell(Queue(name, capability=most, guarantee=least, state=state))

    return step


def _node(cpu: int, chips: int) -> Step:
    return lambda rig: rig.node("n2", cpu_milli=cpu * 1000, chips=chips)


def _quota(cpu: int, used: int) -> Step:
    hard, spent = {"requests.cpu": cpu * 1000}, {"requests.cpu": used * 1000}
    return lambda rig: rig.tell(ResourceQuota("default", "quota", hard, spent))


def _quota_gone() -> Step:
    return lambda rig: rig.tell(ev.QuotaGone("default", "quota"))


names, indices = st.sampled_from(NAMES), st.integers(0, 1)
# Two of the larger amounts do not fit together, so that one job waits for the other.
amounts, few_chips = st.sampled_from((0, 3, 8, 8)), st.sampled_from((0, 0, 0, 1, 8))


def _groups(name: str) -> st.SearchStrategy[Step]:
    return st.builds(_group, st.just(name), amounts, few_chips, st.sampled_from(QUEUES), st.integers(1, 2))


STEPS = st.one_of(
    st.builds(_group, names, amounts, few_chips, st.sampled_from(QUEUES), st.integers(1, 2)),
    st.builds(_pod, names, indices, st.sampled_from((0, 2, 8)), few_chips, st.booleans()),
    st.builds(_change, names, indices, gated=st.booleans()),
    st.builds(_change, names, indices, phase=st.sampled_from(("Succeeded", "Failed"))),
    st.builds(_change, names, indices, deleting=st.just(True)),
    st.builds(_change, names, indices, cls=st.builds(PodClass, cpu_milli=st.sampled_from((500, 4000)))),
    st.builds(_pod_gone, names, indices),
    st.builds(_group_gone, names),
    st.builds(
        _queue,
        st.sampled_from(QUEUES),
        st.sampled_from((0, 4, 8)),
        st.sampled_from((0, 0, 3)),
        st.sampled_from(("Open", "Open", "Closed")),
    ),
    st.builds(_node, st.sampled_from((1, 10)), st.sampled_from((1, 8))),
    st.builds(_quota, st.integers(1, 12), st.integers(0, 6)),
    st.builds(_quota_gone),
)


@pytest.mark.parametrize("voters", sorted(VOTERS))
@settings(max_examples=examples(20), deadline=None)
@given(st.tuples(*(_groups(name) for name in NAMES)), st.lists(STEPS, max_size=12))
def test_no_wake_up_is_lost(voters: str, groups: tuple[Step, ...], steps: list[Step]) -> None:
    parks, everything = rig_with(voters), rig_with(voters)
    for queue in QUEUES:
        for rig in (parks, everything):
            rig.queue(queue)
    for step in (*groups, *steps):
        step(parks)
        step(everything)
        parks.run(20)
        EveryEvent(everything).run()
        assert seen(parks) == seen(everything)


def test_a_promise_that_gated_pods_release_wakes_the_next_job() -> None:
    rig = rig_with("overcommit")
    _group("one", 8, 0, "default", 1)(rig)
    _group("two", 8, 0, "default", 1)(rig)
    rig.run()
    assert [group.phase for group in rig.groups.values()] == ["Inqueue", "Pending"]
    _pod("one", 0, 8, 0, True)(rig)
    rig.run()
    assert [group.phase for group in rig.groups.values()] == ["Inqueue", "Inqueue"]


def test_what_a_complete_job_was_promised_beyond_its_use_wakes_the_next_job() -> None:
    rig = rig_with("overcommit")
    _group("one", 8, 0, "default", 1)(rig)
    _group("two", 8, 0, "default", 1)(rig)
    rig.run()
    _pod("one", 0, 2, 0, False)(rig)
    rig.run()
    assert rig.nodes_of("one") == ["n1"]
    assert rig.groups["default/two"].phase == "Inqueue"


WEB = (Requirement("app", "In", ("web",)),)


@pytest.mark.parametrize("bound_by", ["us", "another scheduler"])
@pytest.mark.parametrize(
    "cls",
    [
        PodClass(cpu_milli=1, pod_affinity=(PodTerm("zone", WEB),)),
        PodClass(
            cpu_milli=1,
            node_selector=(("zone", "a"),),
            spread=(TopologySpread(PodTerm("zone", WEB), 1, required=True, selected_only=False),),
        ),
    ],
    ids=["affinity", "spread"],
)
def test_a_pod_that_gets_its_place_wakes_jobs_that_wait_for_it(cls: PodClass, bound_by: str) -> None:
    rig = Rig(actions=PLAIN, tiers=(Tier(tuple(PluginOption.of(name) for name in ALWAYS)),))
    for name, zone in (("n1", "a"), ("n2", "b")):
        rig.node(name, cpu_milli=10_000, labels={"zone": zone})
    if cls.spread:
        rig.put(pod("first", 0, on="n1", labels={"app": "web"}))
        rig.run()
    labels = {"app": "web"} if cls.spread else {}
    rig.put(pod("waiting", cls=cls, labels=labels))
    rig.run()
    assert rig.pods["waiting"].node is None
    other = pod("web", 0, cpu_milli=1, node_selector=(("zone", "b"),))
    other.labels = {"app": "web"}
    if bound_by != "us":
        other.node, other.phase, other.scheduler = "n2", "Running", "another"
    rig.put(other)
    rig.run()
    places = {name: pod.node for name, pod in rig.pods.items()}
    assert (places["web"], places["waiting"]) == ("n2", "n1" if cls.spread else "n2")


def test_labels_of_a_namespace_wake_jobs_that_wait_for_its_pods() -> None:
    rig = Rig(actions=PLAIN, tiers=(Tier(tuple(PluginOption.of(name) for name in ALWAYS)),))
    rig.node("n1", cpu_milli=10_000, labels={"zone": "a"})
    rig.put(pod("web", 0, namespace="other", on="n1", labels={"app": "web"}))
    term = PodTerm("zone", WEB, namespace_selector=(Requirement("team", "In", ("x",)),))
    rig.put(pod("waiting", 0, cpu_milli=1, pod_affinity=(term,)))
    rig.run()
    assert rig.pods["waiting"].node is None
    rig.tell(Namespace("other", {"team": "x"}))
    rig.run()
    places = {name: pod.node for name, pod in rig.pods.items()}
    assert places["waiting"] == "n1"

"""What the cluster offers is the same whether it is counted anew or kept while nodes change."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.messages import events as ev
from ringwise.scheduler.cache.sessions import offered
from ringwise.scheduler.internal_events import StateRebuilt
from ringwise.state.model import Node
from tests.builders.values import CHIP, pod, pod_class, report
from tests.examples import examples
from tests.scheduler.rig import Rig

NAMES = ("n1", "n2", "n3")


@st.composite
def changes(draw: st.DrawFn) -> ev.Event:
    name = draw(st.sampled_from(NAMES))
    kind = draw(st.sampled_from(["node", "node", "report", "gone", "pod", "pod gone"]))
    uid = f"p{draw(st.integers(0, 5))}"
    match kind:
        case "node":
            chips = draw(st.sampled_from([0, 4, 8]))
            cpu = draw(st.sampled_from([0, 4_000, 64_000]))
            extended = draw(st.sampled_from([(), (("example.com/fpga", 2),)]))
            return ev.NodeSeen(
                Node(
                    name,
                    ready=draw(st.booleans()),
                    chips_allocatable={CHIP: chips},
                    chips_capacity={CHIP: 8},
                    cpu_milli=cpu,
                    memory=1 << 30,
                    extended=extended,
                )
            )
        case "report":
            bad = draw(st.integers(0, 255))
            return ev.ReportSeen(report(name, unhealthy=bad))
        case "gone":
            return ev.NodeGone(name)
        case "pod gone":
            return ev.PodGone(uid)
    cls = pod_class(draw(st.sampled_from([1, 8])), cpu_milli=8_000)
    # Another scheduler bound it, whatever the node offers.
    return ev.PodSeen(pod(uid, cls=cls, on=name, phase="Running", scheduler="other"))


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.lists(changes(), max_size=3), max_size=12))
def test_the_kept_total_is_the_counted_one(batches: list[list[ev.Event]]) -> None:
    rig = Rig()
    machine = rig.machine
    for number, batch in enumerate(batches):
        machine.handle(batch, rig.now + number)
        kept = dict(machine._cycle.sessions.capacity())
        # Pods that come to a node which is large enough change nothing; others are seen with the next node.
        machine._notify(StateRebuilt(), rig.now + number)
        assert kept == offered(machine._state) or _exceeded_by_new_pods(batch), batch


def _exceeded_by_new_pods(batch: list[ev.Event]) -> bool:
    return any(isinstance(event, ev.PodSeen) for event in batch)


def test_a_pod_that_leaves_a_node_which_is_gone_leaves_the_total() -> None:
    rig = Rig(1)
    rig.submit("train", chips=8)
    rig.run()
    rig.tell(ev.NodeGone("n1"))
    rig.step()
    assert rig.machine._cycle.sessions.capacity() == {CHIP: 8}
    rig.gone("train-0")
    rig.step()
    assert rig.machine._cycle.sessions.capacity() == {}


def test_a_what_if_about_a_node_leaves_no_trace() -> None:
    rig = Rig(2)
    rig.step()
    before = dict(rig.machine._cycle.sessions.capacity())
    node = rig.machine.view.cluster.nodes[0]
    assert node is not None
    with rig.machine.view.what_if.node_is(replace(node, ready=False, cpu_milli=0)):
        pass
    assert rig.machine._cycle.sessions.capacity() == before

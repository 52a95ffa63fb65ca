"""Gangs hold their nodes while the volumes of their claims are bound, and give them back when that fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ringwise.framework.configuration import Tier
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, BindVolume, SelectNode, SetGroupStatus, SetPodCondition
from ringwise.messages.events import Decide
from ringwise.scheduler.defaults import BUILT_IN, default_tiers
from ringwise.scheduler.explain.forecast import all_runs
from ringwise.scheduler.explain.why import explain
from ringwise.state.model import Isolation, Requirement, SubGroupPolicy
from tests.builders.values import CHIP, GIB, SECOND, isolated, on_node, reference
from tests.scheduler.rig import bound_pods, gangs_may_end
from tests.scheduler.volume_rig import VolumeRig


def gang(rig: VolumeRig, pods: int = 2, *, storage_class: str = "fast", **more: Any) -> None:
    for index in range(pods):
        rig.claim(f"data-{index}", storage_class)
    rig.submit("train", pods=pods, **{"chips": 8, "claims": ("data-{}",), **more})


def predicates_with(arguments: dict[str, Any], tiers: Sequence[Tier] | None = None) -> tuple[Tier, ...]:
    """These tiers, or the default ones, with these arguments of the plugin."""
    option = BUILT_IN.plugins["predicates"].option(None, arguments)
    return tuple(
        Tier(tuple(option if one.name == option.name else one for one in tier.plugins))
        for tier in tiers or default_tiers()
    )


def waiting(pods: int = 2, nodes: int = 2, **more: Any) -> VolumeRig:
    """A gang that has its nodes and waits for its volumes."""
    rig = VolumeRig(nodes)
    gang(rig, pods, **more)
    rig.run()
    return rig


def test_a_gang_is_bound_when_all_its_claims_are() -> None:
    rig = waiting()
    assert rig.selected() == {"data-0": "n1", "data-1": "n2"}
    assert rig.bindings() == {}
    assert rig.reason("train") == "volumes-pending"
    rig.provision("data-0")
    rig.run()
    assert rig.bindings() == {}
    rig.provision("data-1")
    rig.run()
    assert rig.bindings() == {"train-0": "n1", "train-1": "n2"}
    assert rig.reason("train") is None
    assert len([one for one in rig.commands if isinstance(one, SelectNode)]) == 2


def test_no_node_is_selected_before_the_whole_gang_has_its_nodes() -> None:
    rig = waiting(pods=3)
    assert rig.reason("train") == "cluster-too-small"
    assert rig.selected() == {}
    rig.node("n3")
    rig.run()
    assert set(rig.selected()) == {"data-0", "data-1", "data-2"}


def test_no_node_is_selected_for_a_part_of_a_gang_that_requests_nothing() -> None:
    rig = VolumeRig(2)
    gang(rig, 3, chips=0)
    rig.provision("data-2", node_terms=on_node("n9"))
    rig.run()
    assert rig.selected() == {}
    assert rig.reason("train") == "gang-incomplete"
    rig.node("n9")
    rig.run()
    assert set(rig.selected()) == {"data-0", "data-1"}
    for name in ("data-0", "data-1"):
        assert rig.bindings() == {}
        rig.provision(name)
        rig.run()
    assert set(rig.bindings()) == {"train-0", "train-1", "train-2"}


def test_a_gang_whose_pods_share_a_claim_for_one_pod_is_told_that_it_cannot_start() -> None:
    rig = VolumeRig(2)
    rig.claim("one", access_modes=("ReadWriteOncePod",))
    rig.submit("train", pods=2, chips=8, claims=("one",))
    rig.run()
    assert (rig.selected(), rig.reason("train")) == ({}, "claim-shared")
    answer = explain(rig.machine.view, rig.machine.view.jobs["default/train"], rig.now)
    assert [fix.text for fix in answer.fixes] == [
        "use a separate claim for each pod",
        "use the access mode ReadWriteMany",
    ]
    rig.change_claim("one", access_modes=("ReadWriteMany",))
    rig.run()
    assert rig.selected() == {"one": "n1"}


@pytest.mark.parametrize(
    "fields",
    [{"storage_class": "local"}, {"capacity": 1}, {"block": True}, {"access_modes": ("ReadOnlyMany",)}],
)
def test_a_volume_that_names_a_claim_and_does_not_suit_it_is_not_waited_for(fields: dict[str, Any]) -> None:
    rig = VolumeRig(1)
    gang(rig, 1)
    rig.volume("wrong", **{"storage_class": "fast", "claim": reference(rig.claims["data-0"]), **fields})
    rig.run()
    assert rig.selected() == {"data-0": "n1"}


def test_a_volume_of_a_node_that_comes_later_is_given() -> None:
    rig = VolumeRig(1)
    rig.volume("disk", node_terms=on_node("n9"))
    gang(rig, 1, storage_class="local")
    rig.run()
    assert rig.reason("train") == "no-matching-volume"
    rig.node("n9")
    rig.run()
    assert rig.given() == {"disk": "data-0"}


def test_a_wait_delays_nobody_else_and_its_chips_are_given_to_nobody() -> None:
    rig = waiting(nodes=3)
    rig.submit("other", chips=8)
    rig.submit("late", chips=8)
    rig.run()
    assert rig.nodes_of("other") == ["n3"]
    assert rig.reason("late") == "queue-overused"


def test_the_wait_is_told_with_the_claim_and_its_node() -> None:
    rig = waiting()
    job = rig.machine.view.jobs["default/train"]
    assert job.reason is not None
    assert job.reason.message == (
        "2 pods have their nodes; 2 claims are not bound: default/data-0 on n1 waits up to 10m"
    )
    told = [one for one in rig.commands if isinstance(one, SetPodCondition)]
    assert {one.pod for one in told if one.reason.code == "volumes-pending"} == {"train-0", "train-1"}
    status = [one for one in rig.commands if isinstance(one, SetGroupStatus)][-1]
    assert (status.phase, status.reason and status.reason.code) == ("Inqueue", "volumes-pending")
    rig.provision("data-0")
    rig.run()
    assert rig.details("train")["claim"] == "default/data-1"
    answer = explain(rig.machine.view, job, rig.now)
    assert answer.outcome == "pending"
    assert [one.node for one in answer.locations] == ["n1", "n2"]


def test_a_free_volume_is_given_to_the_claim_and_not_twice() -> None:
    rig = VolumeRig(2)
    rig.volume("big", capacity=4 * GIB)
    rig.volume("small")
    gang(rig, storage_class="local")
    rig.run()
    given = {one.volume: one.claim for one in rig.commands if isinstance(one, BindVolume)}
    assert given == {"small": "data-0", "big": "data-1"}
    assert rig.selected() == {}
    rig.complete("data-0", "small")
    rig.complete("data-1", "big")
    rig.run()
    assert set(rig.bindings()) == {"train-0", "train-1"}


def test_local_volumes_decide_about_the_nodes() -> None:
    rig = VolumeRig(4)
    rig.volume("here", node_terms=on_node("n3"))
    rig.volume("there", node_terms=on_node("n4"))
    gang(rig, storage_class="local")
    rig.run()
    given = {one.volume: one.claim for one in rig.commands if isinstance(one, BindVolume)}
    assert given == {"here": "data-0", "there": "data-1"}
    for name, claim in given.items():
        rig.complete(claim, name)
    rig.run()
    assert rig.bindings() == {"train-0": "n3", "train-1": "n4"}


def test_after_the_time_limit_others_get_the_chips_first() -> None:
    rig = waiting()
    rig.submit("other", pods=2, chips=8)
    rig.run()
    assert rig.nodes_of("other") == []
    rig.step(600)
    rig.run()
    assert rig.nodes_of("other") == ["n1", "n2"]


def test_nothing_is_reserved_for_a_job_whose_volumes_were_not_there_in_time() -> None:
    rig = VolumeRig(1, reservation_after=60)
    gang(rig, 1)
    rig.run()
    rig.submit("other", chips=8)
    rig.run()
    rig.step(600)
    rig.run()
    assert rig.nodes_of("other") == ["n1"]
    assert rig.reason("train") == "volumes-timed-out"
    assert rig.machine.view.reservations.of("default/train") is None


def test_the_time_limit_gives_everything_back_and_bound_claims_pin_the_next_try() -> None:
    rig = waiting()
    rig.provision("data-0", node_terms=on_node("n1"))
    rig.run()
    rig.step(600)
    assert rig.reason("train") == "volumes-timed-out"
    assert rig.details("train") == {
        "waiting": 1,
        "claims": 2,
        "claim": "default/data-1",
        "node": "n2",
        "limit": 600,
        "seconds": 1,
    }
    assert sum(map(int.bit_count, rig.machine.view.cluster.fleets[CHIP].free_mask)) == 16
    rig.step(1)
    assert rig.reason("train") == "volumes-pending"
    # The claim that is still being made keeps its node, too, and nothing is written twice.
    assert [one.claim for one in rig.commands if isinstance(one, SelectNode)] == ["data-0", "data-1"]
    rig.provision("data-1")
    rig.run()
    assert rig.bindings() == {"train-0": "n1", "train-1": "n2"}


def test_the_pauses_begin_anew_once_a_job_got_its_volumes() -> None:
    rig = waiting(pods=1, nodes=1)
    for seconds in (1, 2):
        rig.step(600)
        assert rig.details("train")["seconds"] == seconds
        rig.step(seconds)
        assert rig.reason("train") == "volumes-pending"
    rig.provision("data-0")
    rig.run()
    assert rig.nodes_of("train") == ["n1"]
    rig.claim("other")
    rig.recreate("train-0")
    rig.change("train-0", claims=("other",))
    rig.run()
    rig.step(600)
    assert rig.details("train")["seconds"] == 1


def test_a_job_that_changes_is_tried_without_its_backoff() -> None:
    rig = waiting()
    rig.step(600)
    assert rig.reason("train") == "volumes-timed-out"
    rig.put_group(replace(rig.groups["default/train"], labels={"changed": "true"}))
    rig.step(0.1)
    assert rig.reason("train") == "volumes-pending"


def test_a_pod_that_a_volume_pins_gets_its_node_before_others_of_the_gang() -> None:
    rig = VolumeRig(2)
    gang(rig)
    rig.provision("data-1", node_terms=on_node("n1"))
    rig.run()
    assert rig.selected() == {"data-0": "n2"}


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("deleted", "the claim default/data-0 was deleted"),
        ("deleting", "the claim default/data-0 was deleted"),
        ("replaced", "the claim default/data-0 was deleted"),
        ("lost", "the claim default/data-0 has lost its volume"),
        ("elsewhere", "the volume of the claim default/data-0 is made for n9, not for n1"),
        ("failed", "the claim default/data-0 could not be bound: no right to write"),
        ("refused", "the provisioner made no volume of the claim default/data-0 for n1"),
        ("node gone", "node n1 is gone"),
        ("node not ready", "node n1 is not ready"),
        ("node cordoned", "node n1 is cordoned"),
        ("node drained", "n1 is isolated by ana: drain"),
        ("chip broke", "a chip of pod train-0 on n1 is faulty"),
        ("another chip broke", "a chip of pod train-0 on n1 is faulty"),
        ("chip isolated", "a chip of pod train-0 on n1 is out of use"),
        ("pod deleted", "pod train-0 lost its node"),
    ],
)
def test_what_ends_a_wait(what: str, why: str) -> None:
    rig = waiting()
    match what:
        case "deleted":
            rig.tell(ev.ClaimGone("default/data-0"))
        case "deleting":
            rig.change_claim("data-0", deleting=True)
        case "replaced":
            rig.change_claim("data-0", uid="another")
        case "lost":
            rig.change_claim("data-0", phase="Lost")
        case "elsewhere":
            rig.change_claim("data-0", selected_node="n9")
        case "failed":
            rig.tell(ev.ClaimFailed("default/data-0", "no right to write"))
        case "refused":
            rig.change_claim("data-0", selected_node="")
        case "node gone":
            rig.tell(ev.NodeGone("n1"))
        case "node not ready":
            rig.node("n1", ready=False)
        case "chip broke":
            rig.sick("n1", 1)
        case "another chip broke":
            rig.sick("n1", 0b1000)
        case "chip isolated":
            rig.tell(isolated(Isolation("n1", ("Ascend910-3",))))
        case "node cordoned":
            rig.node("n1", unschedulable=True)
        case "node drained":
            rig.tell(isolated(Isolation("n1", by="ana", reason="drain")))
        case "pod deleted":
            rig.change("train-0", deleting=True)
    rig.step()
    assert rig.details("train").get("why") == why
    assert all(record.node < 0 for record in rig.machine.view.cluster.pods.values())
    assert rig.bindings() == {}


def test_a_broken_chip_of_another_pod_ends_no_wait() -> None:
    rig = VolumeRig(1)
    rig.claim("data-0")
    rig.submit("train", chips=4, claims=("data-{}",))
    rig.run()
    assert rig.reason("train") == "volumes-pending"
    rig.sick("n1", 1 << 7)
    rig.step()
    assert rig.reason("train") == "volumes-pending"


def test_another_node_is_tried_where_the_provisioner_refused_one() -> None:
    rig = waiting(pods=1, nodes=2)
    rig.change_claim("data-0", selected_node="")
    rig.step()
    assert rig.reason("train") == "volume-binding-failed"
    rig.step(1)
    assert rig.selected() == {"data-0": "n2"}
    rig.provision("data-0")
    rig.run()
    assert rig.bindings() == {"train-0": "n2"}


def test_nodes_that_were_refused_are_tried_again_later() -> None:
    rig = waiting(pods=1, nodes=1)
    rig.change_claim("data-0", selected_node="")
    rig.step()
    rig.step(1)
    assert rig.reason("train") == "no-node-fits"
    rig.step(300)
    assert rig.reason("train") == "volumes-pending"


def test_the_end_of_a_job_ends_its_wait() -> None:
    rig = waiting()
    rig.end("train")
    rig.submit("other", pods=2, chips=8)
    rig.run()
    assert rig.nodes_of("other") == ["n1", "n2"]
    assert rig.machine.next_deadline() is None


def test_a_job_without_its_pod_group_gives_its_nodes_back() -> None:
    rig = waiting()
    rig.tell(ev.PodGroupGone("default/train"))
    rig.step()
    assert all(record.node < 0 for record in rig.machine.view.cluster.pods.values())


def test_pods_that_are_no_gang_do_not_wait_for_each_other() -> None:
    rig = waiting(min_available=1)
    rig.provision("data-1")
    rig.run()
    assert rig.bindings() == {"train-1": "n2"}
    rig.step(600)
    assert rig.reason("train") == "volumes-timed-out"
    rig.provision("data-0")
    rig.run()
    assert rig.bindings() == {"train-0": "n1", "train-1": "n2"}


def test_a_claim_that_comes_later_is_not_waited_for_by_the_others() -> None:
    rig = VolumeRig(2)
    rig.claim("data-0")
    rig.submit("train", pods=2, chips=8, min_available=1, claims=("data-{}",))
    rig.run()
    assert rig.selected() == {"data-0": "n1"}
    rig.claim("data-1")
    rig.run()
    assert rig.selected() == {"data-0": "n1", "data-1": "n2"}
    rig.provision("data-1")
    rig.run()
    assert rig.bindings() == {"train-1": "n2"}


def test_pods_beyond_a_gang_wait_for_it() -> None:
    rig = VolumeRig(3)
    rig.claim("data-0")
    rig.submit("train", pods=3, chips=8, min_available=2)
    rig.events = [
        ev.PodSeen(replace(one.pod, claims=("data-0",)))
        if isinstance(one, ev.PodSeen) and one.pod.name == "train-0"
        else one
        for one in rig.events
    ]
    rig.run()
    assert rig.bindings() == {}
    rig.provision("data-0")
    rig.run()
    assert len(rig.bindings()) == 3


@pytest.mark.parametrize("by", ["tasks", "sub-groups"])
def test_pods_beyond_a_gang_do_not_stand_for_those_that_it_needs(by: str) -> None:
    rig = VolumeRig(4)
    rig.claim("data-0")
    rig.submit("train", pods=4, chips=8, min_available=2)
    policies = (
        SubGroupPolicy("lead", (Requirement("part", "In", ("0",)),), size=1, min_groups=1),
        SubGroupPolicy("rest", (Requirement("part", "NotIn", ("0",)),), ("part",), size=1, min_groups=1),
    )
    for place, event in enumerate(rig.events):
        if isinstance(event, ev.PodSeen):
            index = event.pod.name[-1]
            claims, task = (("data-0",), "lead") if index == "0" else ((), "rest")
            part = replace(event.pod, claims=claims, task=task, labels={"part": index})
            rig.pods[part.name] = part
            rig.events[place] = ev.PodSeen(part)
        elif isinstance(event, ev.PodGroupSeen):
            minimums = {"lead": 1, "rest": 1} if by == "tasks" else {}
            sub_groups = policies if by == "sub-groups" else ()
            group = replace(event.group, min_task_member=minimums, sub_groups=sub_groups)
            rig.groups[group.key] = group
            rig.events[place] = ev.PodGroupSeen(group)
    rig.run()
    assert rig.bindings() == {}
    rig.provision("data-0")
    rig.run()
    assert len(rig.bindings()) == 4


def test_pods_beyond_a_gang_whose_time_is_over_give_back_what_they_have_with_it() -> None:
    rig = waiting(pods=3, min_available=2)
    rig.step(300)
    rig.node("n3", labels={"own": "yes"})
    rig.run()
    assert set(rig.selected()) == {"data-0", "data-1", "data-2"}
    rig.submit("next", chips=8, node_selector=(("own", "yes"),))
    rig.run()
    assert rig.nodes_of("next") == []
    rig.step(300)
    rig.run()
    assert rig.nodes_of("next") == ["n3"]


def test_a_shared_claim_is_selected_once_and_binds_all_its_pods() -> None:
    rig = VolumeRig(2)
    rig.claim("data", access_modes=("ReadWriteMany",))
    rig.submit("train", pods=2, chips=8, claims=("data",))
    rig.run()
    assert [(one.claim, one.node) for one in rig.commands if isinstance(one, SelectNode)] == [("data", "n1")]
    rig.provision("data")
    rig.run()
    assert rig.bindings() == {"train-0": "n1", "train-1": "n2"}


def test_a_shared_claim_whose_volume_is_local_pins_all_its_pods() -> None:
    rig = VolumeRig(2)
    rig.claim("data", access_modes=("ReadWriteMany",))
    rig.submit("train", pods=2, chips=0, cpu_milli=1000, claims=("data",))
    rig.run()
    nodes = {one.node for one in rig.commands if isinstance(one, SelectNode)}
    (other,) = {"n1", "n2"} - nodes
    rig.provision("data", node_terms=on_node(other))
    rig.step()
    assert rig.reason("train") == "volume-binding-failed"
    rig.step(1)
    assert rig.bindings() == {"train-0": other, "train-1": other}


def test_a_claim_for_one_node_keeps_its_pods_together() -> None:
    rig = VolumeRig(3)
    rig.claim("data")
    rig.submit("train", pods=3, chips=0, cpu_milli=1000, claims=("data",))
    rig.run()
    rig.provision("data")
    rig.run()
    assert len(rig.bindings()) == 3
    assert len(set(rig.bindings().values())) == 1


def test_after_a_restart_what_was_written_pins_the_pods() -> None:
    before = waiting(nodes=4)
    rig = VolumeRig(4)
    rig.claims = dict(before.claims)
    rig.tell(*rig.claims.values())
    rig.submit("train", pods=2, chips=8, claims=("data-{}",))
    rig.run()
    assert rig.reason("train") == "volumes-pending"
    assert rig.selected() == {}
    for name in ("data-0", "data-1"):
        rig.provision(name)
    rig.run()
    assert rig.bindings() == {"train-0": before.selected()["data-0"], "train-1": before.selected()["data-1"]}


def test_another_scheduler_that_knows_the_same_gives_no_volume_away_twice() -> None:
    rig = VolumeRig(2, deaf=True)
    rig.volume("only")
    rig.claim("data-0", "local")
    rig.submit("train", chips=8, claims=("data-0",))
    rig.step()
    assert [one.volume for one in rig.commands if isinstance(one, BindVolume)] == ["only"]
    copy = VolumeRig()
    copy.tell(*rig.machine.view.current_events())
    copy.claim("more", "local")
    copy.submit("second", chips=8, claims=("more",))
    copy.run()
    assert copy.reason("second") == "no-matching-volume"


def test_a_what_if_on_manifests_binds_at_once() -> None:
    rig = VolumeRig(1)
    gang(rig, 1)
    events, rig.events = tuple(rig.events), []
    commands = rig.machine.handle(events, rig.now, Decide.ONE_CYCLE)
    assert bound_pods(commands) == ["train-0"]


def test_a_job_is_tried_again_exactly_when_its_claim_or_a_free_volume_changes() -> None:
    rig = VolumeRig(1)
    rig.submit("train", chips=8, claims=("data",))
    rig.run()
    assert rig.reason("train") == "claim-missing"
    tried: list[str] = []
    rig.machine.observe(lambda session, job: tried.append(job.name))
    rig.claim("unrelated")
    rig.volume("of-another", claim=reference(rig.claims["unrelated"]), phase="Bound")
    rig.step()
    assert tried == []
    rig.claim("data", "local")
    rig.step()
    assert (tried, rig.reason("train")) == (["train"], "no-matching-volume")
    rig.run()
    tried.clear()
    rig.change_claim("data")
    rig.step()
    assert tried == []
    rig.volume("new")
    rig.step()
    assert (tried, rig.reason("train")) == (["train"], "volumes-pending")


def test_a_volume_that_is_given_away_wakes_nobody_and_one_that_was_kept_wakes_its_pods() -> None:
    rig = VolumeRig(1)
    rig.claim("data", "local")
    rig.volume("kept", claim=reference(rig.claims["data"]), node_terms=on_node("n9"))
    rig.submit("train", chips=8, claims=("data",))
    rig.volume("other", node_terms=on_node("n8"))
    rig.run()
    assert rig.reason("train") == "no-node-fits"
    tried: list[str] = []
    rig.machine.observe(lambda session, job: tried.append(job.name))
    rig.claim("unrelated", "local")
    rig.change_volume("other", claim=reference(rig.claims["unrelated"]))
    rig.step()
    assert tried == []
    rig.volume("fits")
    rig.run()
    tried.clear()
    del rig.volumes["kept"]
    rig.tell(ev.VolumeGone("kept"))
    rig.step()
    assert (tried, rig.reason("train")) == (["train"], "volumes-pending")


def test_run_time_and_predicate_time_begin_with_the_binding() -> None:
    rig = waiting(pods=1)
    job = rig.machine.view.jobs["default/train"]
    assert job.started is None
    rig.provision("data-0")
    rig.step(30)
    bind = next(one for one in rig.commands if isinstance(one, Bind))
    assert int(bind.annotations["predicate-time"]) == rig.now
    assert job.started == rig.now


def test_the_time_limit_is_an_argument() -> None:
    rig = VolumeRig(1, tiers=predicates_with({"volumebinding.bindTimeoutSeconds": 5}))
    gang(rig, 1)
    rig.run()
    assert rig.details("train")["seconds"] == 5
    assert rig.machine.next_deadline() == rig.now + 5 * SECOND
    rig.step(5)
    assert rig.reason("train") == "volumes-timed-out"


def test_without_volume_binding_nothing_is_asked_of_claims() -> None:
    rig = VolumeRig(1, tiers=predicates_with({"predicate.VolumeBindingEnable": False}))
    rig.submit("train", chips=8, claims=("nowhere",))
    rig.run()
    assert rig.bindings() == {"train-0": "n1"}


def test_a_gang_that_is_preempted_gives_back_what_it_has_and_no_pod_is_evicted() -> None:
    rig = VolumeRig(2, tiers=gangs_may_end())
    rig.priority("high", 100)
    gang(rig, preemptable=True)
    rig.run()
    assert rig.reason("train") == "volumes-pending"
    rig.submit("urgent", pods=2, chips=8, priority="high")
    rig.run()
    rig.run()
    assert rig.nodes_of("urgent") == ["n1", "n2"]
    assert rig.evictions() == []


def test_pods_beyond_a_gang_give_way_and_the_others_keep_what_they_have() -> None:
    rig = VolumeRig(3)
    rig.priority("high", 100)
    gang(rig, pods=3, min_available=2, preemptable=True)
    rig.run()
    rig.submit("urgent", chips=8, priority="high")
    rig.step()
    held = [one for one in rig.machine.view.cluster.pods.values() if one.reserved]
    assert [one.pod.name for one in held] == ["train-0", "train-1"]
    rig.run()
    assert rig.nodes_of("urgent") == ["n3"]
    for index in range(2):
        rig.provision(f"data-{index}")
    rig.run()
    assert rig.bindings() == {"urgent-0": "n3", "train-0": "n1", "train-1": "n2"}
    assert rig.evictions() == []


def test_nothing_is_written_for_a_pod_that_gives_way_in_the_same_turn() -> None:
    rig = VolumeRig(2, tiers=gangs_may_end())
    rig.priority("high", 100)
    gang(rig, min_available=1, priority="high", preemptable=True)
    # By its dominant share: it is placed last, and a pod of the other gives way.
    rig.submit("small", chips=8)
    rig.step()
    assert rig.selected() == {"data-0": "n1"}
    rig.run()
    assert rig.nodes_of("small") == ["n2"]


def test_others_count_on_the_end_of_a_gang_from_when_it_can_begin() -> None:
    rig = VolumeRig(1, actions=("enqueue", "allocate"), reservation_after=60)
    rig.claim("data")
    rig.step(7200)
    rig.submit("train", chips=8, claims=("data",), expected="1h")
    rig.run()
    assert rig.reason("train") == "volumes-pending"
    (run,) = all_runs(rig.machine.view, rig.now)
    assert run.earliest == run.latest == rig.now + 3600 * SECOND
    rig.submit("next", chips=8)
    rig.run()
    rig.step(61)
    reservation = rig.machine.view.reservations.of("default/next")
    assert reservation is not None
    assert reservation.starts == rig.now + 3600 * SECOND


def test_a_gang_that_has_not_begun_loses_no_work() -> None:
    rig = VolumeRig(2, tiers=gangs_may_end())
    rig.priority("high", 100)
    rig.submit("runs", chips=8, preemptable=True)
    rig.run()
    rig.step(3600)
    rig.claim("data")
    rig.submit("waits", chips=8, claims=("data",), preemptable=True)
    rig.run()
    rig.step(60)
    rig.submit("urgent", chips=8, priority="high")
    commands = rig.step()
    told = [one for one in commands if isinstance(one, SetGroupStatus) and one.key == "default/urgent"]
    assert "default/waits loses 8 chips and 0 chip-hours" in str(told[0].reason)
    rig.run()
    assert rig.nodes_of("urgent") == ["n2"]
    assert rig.nodes_of("runs") == ["n1"]


def test_no_pod_is_evicted_again_for_volumes_that_were_not_there_in_time() -> None:
    """Or a job with claims that are never bound would end others every ten minutes."""
    tiers = predicates_with({"volumebinding.bindTimeoutSeconds": 5}, gangs_may_end())
    rig = VolumeRig(1, tiers=tiers)
    rig.priority("high", 100)
    rig.claim("data")
    rig.submit("urgent", chips=8, priority="high", claims=("data",))
    rig.run()
    rig.step(5)
    assert rig.reason("urgent") == "volumes-timed-out"
    rig.submit("low", chips=8, preemptable=True)
    rig.run()
    rig.step(2)
    rig.run()
    assert rig.evictions() == []
    view = rig.machine.view
    notes = explain(view, view.jobs["default/urgent"], rig.now).notes
    assert any("its volumes were not there in time" in note for note in notes)
    rig.change_claim("data", requested=2 * GIB)
    rig.run()
    assert rig.evictions() == ["low-0"]


def test_a_claim_without_a_volume_keeps_nobody_of_its_queue_waiting() -> None:
    rig = VolumeRig(2, queue_discipline="strict")
    rig.claim("data", "local")
    rig.submit("train", chips=8, claims=("data",))
    rig.submit("next", chips=8)
    rig.run()
    assert rig.reason("train") == "no-matching-volume"
    assert rig.nodes_of("next") == ["n1"]


def test_a_job_that_waits_for_a_claim_is_promised_nothing() -> None:
    rig = VolumeRig(1, forceEnqueue=False)
    rig.submit("train", chips=8, claims=("data",))
    rig.run()
    assert rig.reason("train") == "claim-missing"
    rig.submit("next", chips=8)
    rig.run()
    assert rig.nodes_of("next") == ["n1"]
    rig.end("next")
    rig.claim("data")
    rig.run()
    assert rig.reason("train") == "volumes-pending"


def test_the_next_pod_starts_when_a_claim_for_one_pod_is_free() -> None:
    rig = VolumeRig(2)
    rig.claim("data", access_modes=("ReadWriteOncePod",))
    rig.provision("data")
    for name in ("first", "second"):
        rig.submit(name, chips=8, claims=("data",))
    rig.run()
    assert (rig.nodes_of("first"), rig.reason("second")) == (["n1"], "claim-in-use")
    rig.change("first-0", phase="Succeeded")
    rig.run()
    assert len(rig.nodes_of("second")) == 1


def test_a_job_that_is_placed_as_a_whole_gets_volumes_where_it_is() -> None:
    rig = VolumeRig()
    for number in range(1, 5):
        rig.node(f"n{number}", superpod=0, labels={"accelerator-type": "module-a3-16-super-pod"}, chips=16)
    for number in range(3, 5):
        rig.volume(f"disk-{number}", node_terms=on_node(f"n{number}"))
    for index in range(2):
        rig.claim(f"data-{index}", "local")
    rig.submit("train", pods=2, chips=16, claims=("data-{}",), annotations={"sp-block": "32"})
    rig.run()
    given = {one.volume for one in rig.commands if isinstance(one, BindVolume)}
    assert given == {"disk-3", "disk-4"}, rig.details("train")


def test_a_replay_decides_the_same() -> None:
    rig = waiting(nodes=3)
    rig.provision("data-0", node_terms=on_node("n2"))
    rig.step()
    rig.step(1)
    rig.submit("other", chips=8)
    rig.run()
    rig.step(600)
    rig.step(1)
    rig.provision("data-1")
    rig.run()
    assert set(rig.bindings()) >= {"train-0", "train-1"}
    again = VolumeRig(3).machine
    for events, now, commands in rig.history:
        assert tuple(again.handle(events, now)) == commands

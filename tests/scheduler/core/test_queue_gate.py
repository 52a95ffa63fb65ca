"""The gate of a queue (`scheduling.volcano.sh/queue-allocation-gate`) is removed when the job is admitted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringwise.framework.configuration import Tier
from ringwise.messages.commands import RemoveQueueGate
from ringwise.scheduler.defaults import default_tiers
from tests.scheduler.rig import PLAIN, Rig, with_capacity


def gated_job(rig: Rig, name: str, queue: str, *, by_others: bool = False) -> None:
    rig.submit(name, chips=0, cpu_milli=4000, queue=queue)
    group = rig.groups[f"default/{name}"]
    rig.groups[f"default/{name}"] = replace(group, min_resources={"cpu": 4000})
    rig.tell(rig.groups[f"default/{name}"])
    rig.change(f"{name}-0", gated=True, queue_gated=not by_others)


def ungated(rig: Rig) -> list[str]:
    """Pods whose gate was removed, in this order; the API server then shows them without it."""
    found = []
    for command in rig.step():
        if isinstance(command, RemoveQueueGate):
            found.append(command.pod)
            rig.change(command.pod, gated=False, queue_gated=False)
    return found


@pytest.mark.parametrize("tiers", [default_tiers(), with_capacity()], ids=["proportion", "capacity"])
def test_the_gate_is_removed_with_the_admission_and_what_the_job_needs_is_kept(
    tiers: tuple[Tier, ...],
) -> None:
    rig = Rig(2, actions=PLAIN, tiers=tiers)
    rig.queue("small", capability={"cpu": 4000})
    gated_job(rig, "first", "small")
    gated_job(rig, "second", "small")
    assert ungated(rig) == ["first-0"]
    rig.run()
    assert rig.groups["default/first"].phase == "Running"
    assert rig.groups["default/second"].phase in ("", "Pending")
    rig.end("first")
    assert ungated(rig) == ["second-0"]
    rig.run()
    assert rig.groups["default/second"].phase == "Running"


def test_it_is_asked_for_once_and_gates_of_others_stay() -> None:
    rig = Rig(1, actions=PLAIN)
    rig.queue("small")
    gated_job(rig, "ours", "small")
    gated_job(rig, "theirs", "small", by_others=True)
    commands = [*rig.step(), *rig.step(1), *rig.step(60)]
    assert [one.pod for one in commands if isinstance(one, RemoveQueueGate)] == ["ours-0"]

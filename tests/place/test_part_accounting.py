"""Chip-hours of shares and vNPUs: exact fractions from the scheduler to the report (rule V18)."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.durations import SECOND
from ringwise.kube.run.core_thread import SchedulerAdapter
from ringwise.manifests.accounts.ledger import AccountLedger
from ringwise.messages import events as ev
from ringwise.messages.accounting import AccountCommand, AccountedJob, HoldEnded, PodHeld
from ringwise.metrics.prometheus import Metrics
from ringwise.scheduler.core.machine import Scheduler
from ringwise.views.report import ReportPeriod, report_document
from tests.place.asking import Plain
from tests.place.part_cases import NOW, events_of, node_object, pod_object, report_object
from tests.place.test_part_cases import NODES, running_share, victim_node, victim_pod

STARTED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2033-05-18T03:30:00Z"}
DAY = "2033-05-18"


def started(pod: Plain) -> Plain:
    pod["status"]["conditions"] = [STARTED]
    pod["metadata"]["creationTimestamp"] = STARTED["lastTransitionTime"]
    return pod


def share(percent: int, mb: int) -> Plain:
    pod = running_share("p", 0)
    for values in (pod["metadata"]["labels"], pod["metadata"]["annotations"]):
        values |= {
            "huawei.com/scheduler.softShareDev.aicoreQuota": str(percent),
            "huawei.com/scheduler.softShareDev.hbmQuota": str(mb),
        }
    resources = {"huawei.com/Ascend910": str(percent)}
    pod["spec"]["containers"][0]["resources"] = {"limits": resources, "requests": resources}
    return started(pod)


def other(mode: str) -> Plain:
    return started(victim_pod({"name": "p", "node": "n1", "way": mode, "chips": [0]}))


def whole_chips_of_910b() -> Plain:
    notes = {"huawei.com/npu-core": "0,1", "huawei.com/AscendReal": "Ascend310P-0,Ascend310P-1"}
    labels = {"ring-controller.atlas": "ascend-310P"}
    limits = {"huawei.com/npu-core": "16"}
    return started(pod_object("p", "p", limits, annotations=notes, labels=labels, node="n1", phase="Running"))


def leading(mode: str, pod: Plain, labels: Plain) -> tuple[Scheduler, list[AccountCommand]]:
    scheduler = new_scheduler()
    described = victim_node("n1", mode)
    described["labels"] = described["labels"] | labels
    objects = [node_object(described, None), report_object(described, None), pod]
    events: list[ev.Event] = [*events_of(objects), ev.AccountsRead()]
    return scheduler, [one for one in scheduler.handle(events, NOW) if isinstance(one, AccountCommand)]


@pytest.mark.parametrize(
    ("mode", "pod", "labels", "chips", "board"),
    [
        ("whole", other("whole"), {"accelerator-type": "card"}, 2, "910-card"),
        ("soft", share(25, 1), {}, Fraction(1, 4), "910-x8"),
        # 40000 of 65536 MB are 61.04 percent, rounded up.
        ("soft", share(25, 40_000), {"accelerator-type": "module-910b-8"}, Fraction(62, 100), "910b-x8"),
        ("soft", share(100, 1), {}, Fraction(1), "910-x8"),
        ("dynamic", other("dynamic"), {}, Fraction(1, 2), "310p"),
        ("dynamic", whole_chips_of_910b(), {}, Fraction(2), "310p"),
        ("static", other("static"), {}, Fraction(1), "310p"),
        ("static", other("static"), {"servertype": "Ascend310P-10"}, Fraction(1, 5), "310p"),
    ],
)
def test_a_pod_holds_its_part_of_a_chip_V18(
    mode: str, pod: Plain, labels: Plain, chips: Fraction, board: str
) -> None:
    assert mode in NODES
    scheduler, told = leading(mode, pod, labels)
    (held,) = [one for one in told if isinstance(one, PodHeld)]
    assert (held.chips, type(held.chips)) == (chips, type(chips))
    assert board in held.board
    scheduler.handle([ev.PodGone("p")], NOW + 3600 * SECOND)
    metrics, adapter = Metrics(), SchedulerAdapter(scheduler)
    adapter.count(metrics)
    (line,) = [
        one
        for one in metrics.text().decode().splitlines()
        if one.startswith("ringwise_allocated_chip_seconds_total{")
    ]
    assert float(line.split()[1]) == pytest.approx(float(3600 * chips))


def test_sums_of_fractions_are_exact_across_leaders_and_days() -> None:
    chosen = random.Random(45)
    documents: dict[str, str] = {}
    start = NOW // SECOND // 86_400 * 86_400
    wanted, now = Fraction(), start
    ledger = AccountLedger(limited=True)
    ledger.read((), now * SECOND)
    open_pods: dict[str, tuple[Fraction, int]] = {}
    for step in range(300):
        now += chosen.randrange(1, 1500)
        uid = f"pod-{step}"
        chips = Fraction(chosen.randrange(1, 101), chosen.choice([100, 8, 20, 24, 30]))
        who = AccountedJob("team", f"job-{step % 7}", f"uid-{step % 7}")
        open_pods[uid] = (chips, now)
        ledger.apply(PodHeld(who, "default", "310p", chips, uid, now * SECOND), now * SECOND)
        if len(open_pods) > 5:
            gone = chosen.choice(list(open_pods))
            part, since = open_pods.pop(gone)
            wanted += part * (now - since)
            ledger.apply(HoldEnded(gone, now * SECOND, now * SECOND), now * SECOND)
        if not step % 10:
            documents.update(ledger.due(now * SECOND))
            ledger = AccountLedger(limited=True)
            ledger.read(sorted(documents.items()), now * SECOND)
            assert not ledger.foreign
    documents.update(ledger.due(now * SECOND))
    wanted += sum(part * (now - since) for part, since in open_pods.values())
    period = ReportPeriod(DAY, "2033-05-25")
    report = report_document(sorted(documents.items()), period, "queue", now * SECOND)
    (total,) = report.totals
    assert total.allocated_chip_hours == round(float(wanted / 3600), 4)
    assert report.has_chip_fractions

"""Number 10: every fix that is printed is applied to the objects themselves, and then the job starts."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.builders.objects import chip_list, filler, node, pod_spec, queue, topology, vcjob
from tests.builders.values import CHIP
from tests.examples import examples
from tests.place.asking import ask

Plain = dict[str, Any]
Objects = list[Plain]
RINGS = {"0": range(4), "1": range(4, 8)}
V2 = {"nslb-version": "2.0"}
CHIPS = st.sampled_from([1, 2, 4, 8, 8, 3])


@st.composite
def clusters(draw: st.DrawFn) -> Objects:
    """Up to four nodes under two switches: some are used, closed, of another board or SuperPoD."""
    objects: Objects = []
    count = draw(st.integers(1, 4))
    for number in range(count):
        name = f"node-{number}"
        spec: Plain = {}
        labels = {"zone": draw(st.sampled_from("ab"))}
        if draw(st.integers(0, 3)) == 0:
            labels["accelerator-type"] = draw(st.sampled_from(["module-910b-8", "module"]))
        state = draw(st.sampled_from(["open"] * 4 + ["cordoned", "tainted", "not ready"]))
        if state == "cordoned":
            spec = {"unschedulable": True}
        elif state == "tainted":
            spec = {"taints": [{"key": "broken", "value": "yes", "effect": "NoSchedule"}]}
        objects.append(
            node(
                name,
                devices=range(8),
                labels=labels,
                ip=f"10.0.0.{number}",
                ready=state != "not ready",
                **spec,
            )
        )
        used = draw(st.sampled_from([0, 0, 1, 2, 4, 8]))
        first = draw(st.integers(0, 8 - used)) if used else 0
        if used:
            objects.append(filler(f"old-{number}", name, range(first, first + used)))
    servers = [(f"10.0.0.{number}", number % 2) for number in range(count)]
    objects.append(topology([("leaf-a", servers[:2]), ("leaf-b", servers[2:])], 2))
    objects.append(queue("small", capability={CHIP: draw(st.sampled_from([2, 8, 16]))}))
    objects.append(queue("closed", capability={}, state="Closed"))
    return objects


@st.composite
def jobs(draw: st.DrawFn) -> Plain:
    chips = draw(CHIPS)
    tasks = [("worker", draw(st.integers(1, 4)), _spec(draw, chips))]
    if draw(st.integers(0, 3)) == 0:
        tasks.append(("master", 1, _spec(draw, chips)))
    value = draw(st.sampled_from([None, None, "large-model-schema", "normal-schema", "big"]))
    labels = {} if value is None else {"tor-affinity": value}
    queue = draw(st.sampled_from(["default", "default", "small", "closed", "smal"]))
    return vcjob("job", tasks, pod_labels=labels, labels=labels, queue=queue)


def _spec(draw: st.DrawFn, chips: int) -> Plain:
    selector = {}
    if draw(st.booleans()):
        selector["zone"] = draw(st.sampled_from("abc"))
    if draw(st.integers(0, 4)) == 0:
        selector["accelerator-type"] = draw(st.sampled_from(["module-910b-8", "module", "modul"]))
    return pod_spec(chips, selector=selector)


# -- a fix, applied -----------------------------------------------------------------------------------


def _job(objects: Objects) -> Plain:
    return next(one for one in objects if one["kind"] == "Job")


def _specs(objects: Objects) -> list[Plain]:
    return [task["template"]["spec"] for task in _job(objects)["spec"]["tasks"]]


def _named(objects: Objects, kind: str, name: str) -> Plain:
    return next(one for one in objects if one["kind"] == kind and one["metadata"]["name"] == name)


def _size(objects: Objects, found: re.Match[str]) -> None:
    for spec in _specs(objects):
        limits = spec["containers"][0]["resources"]
        for amounts in limits.values():
            if CHIP in amounts:
                amounts[CHIP] = int(found[1])


def _minimum(objects: Objects, found: re.Match[str]) -> None:
    _job(objects)["spec"]["minAvailable"] = int(found[1])


def _metadata(objects: Objects, found: re.Match[str]) -> None:
    key, value = found[2], (found[3] or "").strip('"')
    templates = [task["template"]["metadata"] for task in _job(objects)["spec"]["tasks"]]
    for meta in (_job(objects)["metadata"], *templates):
        texts = meta.setdefault(f"{found[1]}s", {})
        texts.pop(key, None)
        if value:
            texts[key] = value


def _selected(objects: Objects, found: re.Match[str]) -> None:
    for spec in _specs(objects):
        spec.setdefault("nodeSelector", {})[found[1]] = found[2]


def _unselected(objects: Objects, found: re.Match[str]) -> None:
    for spec in _specs(objects):
        spec.get("nodeSelector", {}).pop(found[1], None)


def _in_queue(objects: Objects, found: re.Match[str]) -> None:
    _job(objects)["spec"]["queue"] = found[1]


def _capability(objects: Objects, found: re.Match[str]) -> None:
    for amount, resource in re.findall(r"(\d+) of (\S+) \(now", found[2]):
        _named(objects, "Queue", found[1])["spec"]["capability"][resource] = int(amount)


def _open(objects: Objects, found: re.Match[str]) -> None:
    _named(objects, "Queue", found[1])["status"]["state"] = "Open"


def _ended(objects: Objects, found: re.Match[str]) -> None:
    names = re.findall(r"(?:job|pod) \w+/([\w-]+)", found[1])
    objects[:] = [one for one in objects if one["kind"] != "Pod" or one["metadata"]["name"] not in names]


def _all_ended(objects: Objects, _: re.Match[str]) -> None:
    objects[:] = [one for one in objects if one["kind"] != "Pod"]


def _repaired(objects: Objects, found: re.Match[str]) -> None:
    for what, name in re.findall(r"(uncordon|make|remove the taint \S+ from) (node-\d+)", found[0]):
        one = _named(objects, "Node", name)
        if what == "uncordon":
            one["spec"]["unschedulable"] = False
        elif what == "make":
            one["status"]["conditions"][0]["status"] = "True"
        else:
            one["spec"]["taints"] = []


APPLIED: dict[str, Callable[[Objects, re.Match[str]], None]] = {
    r"request (\d+) instead of \d+ chips?( in each pod)?": _size,
    r"lower minAvailable from \d+ to (\d+)": _minimum,
    r"(?:set|remove) the (label|annotation) ([\w./-]+)(?: to (\S+))?(?: \(board .*\))?": _metadata,
    r"set the nodeSelector (\S+) to (\S+) \(board .*\)": _selected,
    r"remove the nodeSelector (\S+): .*": _unselected,
    r"use queue (\S+)": _in_queue,
    r"raise the capability of queue (\S+) to (.*)": _capability,
    r"open queue (\S+)": _open,
    r"wait for ((?:job|pod) .*) to end": _ended,
    r"wait for all running jobs to end, or add nodes": _all_ended,
    r"(?:(?:, | and )?(?:uncordon|make|remove the taint \S+ from) node-\d+(?: Ready)?)+": _repaired,
}


def applied(objects: Objects, fix: str) -> Iterator[Objects]:
    """The objects after the fix. Where it names a number of chips, every choice of them."""
    changed = copy.deepcopy(objects)
    for pattern, apply in APPLIED.items():
        found = re.fullmatch(pattern, fix)
        if found is not None:
            apply(changed, found)
            yield changed
            return
    found = re.fullmatch(r"free (.*)", fix)
    assert found is not None, fix
    yield from _freed(changed, re.findall(r"(\d+) chips?(?: of ring (\d))? on (node-\d+)", found[1]))


def _freed(objects: Objects, parts: list[tuple[str, str, str]]) -> Iterator[Objects]:
    if not parts:
        yield objects
        return
    (count, ring, name), *rest = parts
    for one in [one for one in objects if one["kind"] == "Pod" and one["spec"]["nodeName"] == name]:
        held = [int(chip.rpartition("-")[2]) for chip in one["metadata"]["annotations"][CHIP].split(",")]
        inside = [chip for chip in held if not ring or chip in RINGS[ring]]
        for gone in combinations(inside, int(count)):
            changed = [other for other in copy.deepcopy(objects) if other != one]
            left = [chip for chip in held if chip not in gone]
            if left:
                changed.append(filler(one["metadata"]["name"], name, left))
            yield from _freed(changed, rest)


def outcome(objects: Objects, rules: dict[str, str]) -> Plain:
    answer = ask(objects, rules, scores=False)
    return next(one for one in answer["jobs"] if one["name"] == "job")


@settings(max_examples=examples(60), deadline=None)
@given(clusters(), jobs(), st.sampled_from([{}, V2]))
def test_every_printed_fix_starts_the_job(cluster: Objects, job: Plain, rules: dict[str, str]) -> None:
    objects = [*cluster, job]
    before = outcome(objects, rules)
    if before["state"] == "scheduled":
        return
    event(before["reason"]["code"])
    for fix in before["reason"]["fixes"]:
        event(re.sub(r"\d+|\S+/\S+|node-\d+", "*", fix)[:40])
        tried = [outcome(changed, rules) for changed in applied(objects, fix)]
        assert any(one["state"] == "scheduled" for one in tried), (
            before["reason"]["message"],
            fix,
            [one["reason"] and one["reason"]["message"] for one in tried],
        )


def test_every_sort_of_fix_is_applied() -> None:
    assert chip_list(CHIP, [0]) == "Ascend910-0"
    for fix in ("request 2 instead of 3 chips", "free 2 chips of ring 0 on node-1", "use queue default"):
        list(applied([vcjob("job", [("worker", 1, pod_spec(3))])], fix))

"""Random lives of a cluster with soft shares, dynamic vNPUs and whole chips: nothing is given out twice.

The API server, kubelets and Huawei's device plugins are simulated; the scheduler and this project's device
plugin are the real ones. Objects arrive in order; the scheduler, a plugin or a kubelet may be killed between
any two steps.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.device.allocation import AllocationError
from ringwise.device.drivers.simulated import SimulatedDriver
from ringwise.device.ledger import Ledger
from ringwise.device.pods import NodePod
from ringwise.device.share_allocator import ShareAllocator
from ringwise.device.soft_shares import ShareFiles
from ringwise.embed import parts as simulated
from ringwise.messages import events as ev
from ringwise.messages.commands import AnnotatePod, Bind, Command, DeletePod, Evict
from ringwise.messages.events import Decide
from ringwise.records import dataclass
from ringwise.state.allocation_modes import mode_of
from ringwise.state.model import Isolation, Node, Pod
from ringwise.state.part_requests import PartBinding, binding_of, mounted_part
from ringwise.topology.vnpu_templates import DividedChip
from tests.builders.records import written_tables
from tests.builders.values import SECOND
from tests.examples import examples
from tests.place.part_cases import NOW, events_of, node_object, pod_object, report_object

Plain = dict[str, Any]
CHIP, CORE, CHIP_310P = "huawei.com/Ascend910", "huawei.com/npu-core", "huawei.com/Ascend310P"
QUOTA = "huawei.com/scheduler.softShareDev."
REAL = "huawei.com/AscendReal"
POLICY = {"huawei.com/schedule_policy": "chip1-softShareDev"}
SOFT_LABELS = {
    "mind-cluster/npu-chip-memory": "1",
    "huawei.com/scheduler.chip1softsharedev.enable": "true",
}
MEMORY = 1024
DYNAMIC_LABELS = {
    "accelerator": "huawei-Ascend310P",
    "servertype": "Ascend310P-8",
    "node.kubernetes.io/npu.chip.name": "310P3",
}
#: Name, allocation mode, and whether this project's device plugin runs there.
NODES = [
    ("own-1", "soft", True),
    ("own-2", "soft", True),
    ("soft-1", "soft", False),
    ("cores-1", "dynamic", False),
    ("cores-2", "dynamic", False),
    ("whole-1", "whole", False),
    ("other-1", "soft", False),
]
CHIPS = (0, 1)


@dataclass(slots=True)
class World:
    random: random.Random
    #: Where the files of shares are, in a folder for each node.
    root: Path
    now: int = NOW
    number: int = 0
    #: The API server: pods as the scheduler reads them, and what of nodes and chips changes.
    pods: dict[str, Pod] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=lambda: {name: mode for name, mode, _ in NODES})
    broken: set[tuple[str, int]] = field(default_factory=set)
    isolated: set[tuple[str, int]] = field(default_factory=set)
    record: dict[str, str] = field(default_factory=dict)
    #: What each pod was bound with; whether it was edited before it was mounted.
    bound: dict[str, Pod] = field(default_factory=dict)
    #: This project's plugins, and what kubelets gave to running pods: ids by uid.
    plugins: dict[str, ShareAllocator] = field(default_factory=dict)
    files: dict[str, ShareFiles] = field(default_factory=dict)
    ids: dict[str, tuple[str, ...]] = field(default_factory=dict)
    edited: set[str] = field(default_factory=set)
    history: list[str] = field(default_factory=list)
    scheduler: Any = None

    def __post_init__(self) -> None:
        for name, _, own in NODES:
            if own:
                self.start_plugin(name, Ledger())
        self.start_scheduler()

    # -- objects ------------------------------------------------------------------------------------

    def resource(self, node: str) -> str:
        return CHIP_310P if self.modes[node] == "dynamic" else CHIP

    def node(self, name: str) -> Plain:
        mode = self.modes[name]
        labels = {"soft": SOFT_LABELS, "dynamic": DYNAMIC_LABELS}.get(mode, {})
        resource, each = {"soft": (CHIP, 100), "dynamic": (CORE, 8)}.get(mode, (CHIP, 1))
        good = len(CHIPS) - sum(node == name for node, _ in self.broken)
        made = node_object(
            {"name": name, "labels": labels, "capacities": {resource: each * len(CHIPS)}, "pods": []}, None
        )
        made["status"]["allocatable"][resource] = str(each * good)
        return made

    def report(self, name: str) -> Plain:
        resource = self.resource(name)
        kind = resource.rpartition("/")[2]
        bad = [chip for chip in CHIPS if (name, chip) in self.broken]
        good = [chip for chip in CHIPS if chip not in bad and (name, chip) not in self.isolated]
        if name in self.plugins and self.modes[name] == "soft":
            used = self.plugins[name].used()
            good = [chip for chip in good if f"{kind}-{chip}" not in used]
        lists = {resource: ",".join(f"{kind}-{chip}" for chip in good)}
        if bad:
            lists[f"{resource}-Unhealthy"] = ",".join(f"{kind}-{chip}" for chip in bad)
        own = name in self.plugins
        made = report_object({"name": name, "device_info": lists, "pods": [], "own_plugin": own}, resource)
        if own:
            entries = {
                uid: {"chip": chip, "percent": share.percent, "mb": share.memory, "policy": share.policy}
                for uid, (chip, share) in self.plugins[name].shares_of_pods().items()
            }
            doubtful = {uid: ",".join(chips) for uid, chips in self.plugins[name].doubtful_chips().items()}
            made["data"]["RingwiseMountedShares"] = json.dumps(entries)
            made["data"]["RingwiseUnconfirmedChips"] = json.dumps(doubtful)
        return made

    def isolations(self) -> list[ev.Event]:
        return [
            ev.IsolationSeen(
                Isolation(name, (f"{self.resource(name).rpartition('/')[2]}-{chip}",), name=f"{name}-{chip}")
            )
            for name, chip in sorted(self.isolated)
        ]

    def tell(self, *events: ev.Event) -> None:
        self.now += SECOND
        self.carry_out(self.scheduler.handle(list(events), self.now, Decide.ALL))

    def tell_node(self, name: str) -> None:
        self.tell(*events_of([self.node(name), self.report(name)]))

    def put(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        plugin = self.plugins.get(pod.node or "")
        if plugin is not None:
            plugin.put_pod(self.node_pod(pod))
        self.tell(ev.PodSeen(pod))

    def node_pod(self, pod: Pod) -> NodePod:
        count = (pod.cls.part.count if pod.cls.part is not None else pod.cls.chips) or 0
        return NodePod(
            name=pod.name,
            namespace=pod.namespace,
            uid=pod.uid,
            phase=pod.phase,
            labels=dict(pod.labels),
            annotations=dict(pod.annotations),
            limits=({CHIP: count},),
        )

    # -- the scheduler --------------------------------------------------------------------------------

    def start_scheduler(self) -> None:
        self.scheduler = new_scheduler()
        objects = [*map(self.node, self.modes), *map(self.report, self.modes)]
        events = [*events_of(objects), *map(ev.PodSeen, self.pods.values()), *self.isolations()]
        self.random.shuffle(events)
        self.scheduler.handle(events, self.now, Decide.NOTHING)
        self.tell(ev.LeaderRecordRead(dict(self.record), takes_over=True))

    def carry_out(self, commands: list[Command]) -> None:
        self.record |= written_tables(commands)
        for command in commands:
            pod = self.pods.get(getattr(command, "uid", ""))
            if pod is None:
                continue
            if isinstance(command, AnnotatePod):
                kept = {key: one for key, one in pod.annotations.items() if key not in command.remove}
                self.put(self.changed(pod, annotations={**kept, **command.annotations}))
            elif isinstance(command, (DeletePod, Evict)):
                self.delete(pod.uid)
            elif isinstance(command, Bind) and pod.node is None:
                if self.random.random() < 0.05:
                    self.tell(ev.BindFailed(pod.uid, "the API server is away"))
                    continue
                kept = {key: one for key, one in pod.annotations.items() if key not in command.remove}
                annotations = {**kept, **command.annotations}
                made = self.changed(pod, annotations=annotations, node=command.node)
                self.bound[pod.uid] = made
                self.check_bound()
                if self.random.random() < 0.9:
                    self.put(made)
                else:
                    # The scheduler hears of it later.
                    self.pods[pod.uid] = made
                    if made.node in self.plugins:
                        self.plugins[made.node].put_pod(self.node_pod(made))

    def changed(self, pod: Pod, **changes: Any) -> Pod:
        """The pod as it is read from its object."""
        count = pod.cls.part.count if pod.cls.part is not None else pod.cls.chips
        resource = pod.cls.part.resource if pod.cls.part is not None else pod.cls.resource
        made = pod_object(
            pod.name,
            pod.uid,
            {resource or CHIP: str(count)},
            annotations=dict(changes.get("annotations", pod.annotations)),
            labels=dict(changes.get("labels", pod.labels)),
            node=changes.get("node", pod.node),
            phase=changes.get("phase", pod.phase),
        )
        (event,) = (one for one in events_of([made]) if isinstance(one, ev.PodSeen))
        return event.pod

    # -- what happens -----------------------------------------------------------------------------------

    def submit(self) -> None:
        self.number += 1
        name = f"p{self.number}"
        what = self.random.choice(["soft", "soft", "soft", "dynamic", "dynamic", "whole"])
        labels: Plain = {}
        notes: Plain = {}
        if what == "soft":
            count = self.random.choice([10, 10, 30, 50, 100])
            labels = {
                QUOTA + "aicoreQuota": str(count),
                QUOTA + "hbmQuota": str(self.random.choice([100, 300, 600, 1024])),
                QUOTA + "policy": self.random.choice(["elastic", "fixed-share"]),
                "volcano.sh/job-name": self.random.choice(["a", "b"]),
            }
            notes = dict(POLICY)
            limits = {CHIP: str(count)}
        elif what == "dynamic":
            count = self.random.choice([1, 2, 2, 4, 4, 8, 16])
            labels = {"ring-controller.atlas": "ascend-310P"}
            if count == 4:
                labels["vnpu-dvpp"] = self.random.choice(["yes", "no", "null"])
            labels["vnpu-level"] = self.random.choice(["low", "high"])
            limits = {CORE: str(count)}
        else:
            limits = {CHIP: str(self.random.choice([1, 2]))}
        (event,) = events_of([pod_object(name, name, limits, annotations=notes, labels=labels)])
        assert isinstance(event, ev.PodSeen)
        self.put(event.pod)

    def waiting(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.node is not None and pod.phase == "Pending"]

    def mount(self) -> None:
        """Kubelet starts one of the pods that are bound."""
        waiting = self.waiting()
        if not waiting:
            return
        pod = self.random.choice(waiting)
        node = pod.node or ""
        if node in self.plugins and self.modes[node] == "soft":
            self.mount_here(pod, node)
            return
        chips = binding_of(pod)
        named = (
            chips.chips
            if chips is not None
            else tuple(int(one.rpartition("-")[2]) for one in pod.annotations.get(CHIP, "").split(",") if one)
        )
        if any((node, chip) in self.broken for chip in named) or self.random.random() < 0.1:
            self.reject(pod)
            return
        mode = simulated.shared_mode(self.node_value(node))
        if mode is None or mode.mode == "soft" or pod.cls.resource != CORE:
            real = {REAL: pod.annotations.get(CHIP, "")} if pod.annotations.get(CHIP) else {}
            self.put(self.changed(pod, phase="Running", annotations={**pod.annotations, **real}))
            return
        self.put(self.changed(pod, phase="Running"))

    def node_value(self, name: str) -> Node:
        return next(one.node for one in events_of([self.node(name)]) if isinstance(one, ev.NodeSeen))

    def cut(self) -> None:
        """Huawei's plugin writes which vNPU a pod has, some seconds after it started."""
        late = [
            pod
            for pod in self.pods.values()
            if pod.phase == "Running" and pod.cls.resource == CORE and REAL not in pod.annotations
        ]
        if not late:
            return
        pod = self.random.choice(late)
        mode = mode_of(self.node_value(pod.node or ""), ())
        if mode.divided is None or binding_of(pod) is None:
            return
        others = [one for one in self.pods.values() if one.node == pod.node and one.uid != pod.uid]
        made = simulated.reported(pod, mode, others)
        if not self.edited & {pod.uid, *(one.uid for one in others)}:
            check_vgroups(made, [one for one in others if one.live])
        self.put(self.changed(made))

    def reject(self, pod: Pod) -> None:
        failed = replace(
            self.changed(pod, phase="Failed"), rejected="UnexpectedAdmissionError", ended=self.now
        )
        if pod.cls.resource == CORE:
            failed.allocate_error = self.random.choice(["NPUSegmentFailed", "NoNPUResource"])
        self.put(failed)

    def mount_here(self, pod: Pod, node: str) -> None:
        plugin = self.plugins[node]
        taken = {one for uid, ids in self.ids.items() if self.lives_on(uid, node) for one in ids}
        free = [one for ids in plugin.device_ids().values() for one in ids if one not in taken]
        count = self.node_pod(pod).asks_for(CHIP)
        if len(free) < count:
            return
        ids = tuple(self.random.sample(free, count))
        self.now += 20 * SECOND
        self.list(node, during_call=True)
        try:
            result = plugin.allocate(ids, self.now, lambda chip: self.why_not(node, chip))
        except AllocationError:
            self.reject(pod)
            return
        assert result.pod is not None
        crash = self.random.choice(["", "", "", "record", "file", "patch"])
        if crash == "record":
            self.restart_plugin(node)
            self.reject(pod)
            return
        self.files[node].write(result.mount)
        if crash == "file":
            self.restart_plugin(node)
            self.reject(pod)
            return
        served = self.pods[result.pod.uid]
        self.put(self.changed(served, annotations=self.merged(served, result.annotations)))
        if crash == "patch":
            self.restart_plugin(node)
            self.reject(pod)
            return
        plugin.commit(result)
        self.ids[pod.uid] = ids
        self.put(self.changed(self.pods[pod.uid], phase="Running"))
        self.look(node)

    @staticmethod
    def merged(pod: Pod, written: Any) -> Plain:
        merged = {**pod.annotations, **written}
        return {key: value for key, value in merged.items() if value is not None}

    def why_not(self, node: str, chip: str) -> str | None:
        number = int(chip.rpartition("-")[2])
        return "it is broken" if (node, number) in self.broken | self.isolated else None

    def lives_on(self, uid: str, node: str) -> bool:
        return uid in self.pods and self.pods[uid].node == node

    def list(self, node: str, *, during_call: bool = False) -> None:
        listing = {self.pods[uid].key: [ids] for uid, ids in self.ids.items() if self.lives_on(uid, node)}
        self.plugins[node].listed(listing, self.now, running=(), during_call=during_call)

    def look(self, node: str) -> None:
        """The loop of this project's plugin: it corrects annotations and reports."""
        plugin = self.plugins[node]
        self.now += 20 * SECOND
        self.list(node)
        for correction in plugin.corrections():
            pod = self.pods.get(correction.pod.uid)
            if pod is not None:
                self.put(self.changed(pod, annotations=self.merged(pod, correction.annotations)))
            plugin.corrected(correction)
        self.files[node].keep(plugin.ledger.mounts)
        self.tell_node(node)

    def start_plugin(self, node: str, ledger: Ledger) -> None:
        self.plugins[node] = made = ShareAllocator(CHIP, [f"Ascend910-{chip}" for chip in CHIPS], ledger)
        made.memory = {f"Ascend910-{chip}": MEMORY for chip in CHIPS}
        self.files[node] = ShareFiles(Path("/share"), self.root / node, ledger.mounts)
        self.files[node].watch("Ascend910B", _CHIPS)

    def restart_plugin(self, node: str) -> None:
        # The plugin removes the files of a share before it saves that the record is gone.
        self.files[node].keep(self.plugins[node].ledger.mounts)
        self.start_plugin(node, self.plugins[node].ledger)
        here = [self.node_pod(pod) for pod in self.pods.values() if pod.node == node]
        self.plugins[node].replace_pods(here, self.now)

    def delete(self, uid: str) -> None:
        pod = self.pods.pop(uid)
        self.bound.pop(uid, None)
        self.ids.pop(uid, None)
        if pod.node in self.plugins:
            self.plugins[pod.node].drop_pod(uid, self.now)
        self.tell(ev.PodGone(uid))

    def delete_one(self) -> None:
        if self.pods:
            self.delete(self.random.choice(list(self.pods)))

    def end_one(self) -> None:
        running = [pod for pod in self.pods.values() if pod.phase == "Running"]
        if running:
            pod = self.random.choice(running)
            self.ids.pop(pod.uid, None)
            self.bound.pop(pod.uid, None)
            self.put(self.changed(pod, phase=self.random.choice(["Succeeded", "Failed"])))

    def edit(self) -> None:
        """Its owner edits a pod."""
        live = [pod for pod in self.pods.values() if pod.live and pod.node is not None]
        if not live:
            return
        pod = self.random.choice(live)
        notes, labels = dict(pod.annotations), dict(pod.labels)
        kind = self.random.choice(
            ["chip", "chip", "memory", "percent", "policy", "real", "vnpu", "label", "way"]
        )
        if kind == "chip" and CHIP in notes:
            notes[CHIP] = self.random.choice(["Ascend910-0", "Ascend910-1", "Ascend910-7", ""])
        elif kind == "memory":
            notes[QUOTA + "hbmQuota"] = self.random.choice(["1", "1024", "x"])
        elif kind == "percent":
            notes[QUOTA + "aicoreQuota"] = self.random.choice(["1", "100"])
        elif kind == "policy":
            notes[QUOTA + "policy"] = self.random.choice(["elastic", "fixed-share", "best-effort", ""])
        elif kind == "real":
            notes[REAL] = self.random.choice(["Ascend910-0", "Ascend910-1", ""])
        elif kind == "vnpu" and CORE in notes:
            notes[CORE] = self.random.choice(["0-vir01", "1-vir04", "0,1", "9-vir09", ""])
        elif kind == "label":
            labels[QUOTA + "hbmQuota"] = self.random.choice(["1", "1024"])
        elif kind == "way" and notes.pop("huawei.com/schedule_policy", None) is None:
            notes |= POLICY
        self.edited.add(pod.uid)
        self.put(self.changed(pod, annotations=notes, labels=labels))

    def crash_scheduler(self) -> None:
        if not (self.edited & self.pods.keys()):
            self.start_scheduler()

    def crash_plugin(self) -> None:
        node = self.random.choice(sorted(self.plugins))
        self.restart_plugin(node)
        self.look(node)

    def kubelet_restarts(self) -> None:
        """The plugin registers again; kubelet sends all its pods once more."""
        node = self.random.choice(sorted(self.modes))
        for pod in [pod for pod in self.pods.values() if pod.node == node]:
            self.put(self.pods[pod.uid])
        self.tell_node(node)

    def fault(self) -> None:
        place = (self.random.choice(sorted(self.modes)), self.random.choice(CHIPS))
        self.broken ^= {place}
        self.tell_node(place[0])

    def isolate(self) -> None:
        place = (self.random.choice(sorted(self.modes)), self.random.choice(CHIPS))
        gone = [ev.IsolationGone(f"{place[0]}-{place[1]}")] if place in self.isolated else []
        self.isolated ^= {place}
        self.tell(*gone, *self.isolations(), *events_of(list(map(self.report, self.modes))))

    def change_mode(self) -> None:
        self.modes["other-1"] = self.random.choice(["soft", "whole", "dynamic"])
        self.tell_node("other-1")

    def hear_late(self) -> None:
        self.tell(*map(ev.PodSeen, self.pods.values()))

    def step(self) -> None:
        actions = [
            *[self.submit] * 8,
            *[self.mount] * 8,
            *[self.cut] * 6,
            *[self.delete_one] * 2,
            self.end_one,
            self.edit,
            self.crash_scheduler,
            self.crash_plugin,
            self.kubelet_restarts,
            self.fault,
            self.isolate,
            self.change_mode,
            self.hear_late,
        ]
        action = self.random.choice(actions)
        self.history.append(action.__name__)
        if len(self.pods) > 40:
            for uid in [uid for uid, pod in self.pods.items() if not pod.live or pod.node is None]:
                self.delete(uid)
        action()
        self.check_bound()
        self.check_mounted()
        self.check_books()

    # -- what holds ---------------------------------------------------------------------------------------

    def check_bound(self) -> None:
        """What pods were bound with is at most what each chip has."""
        percent: Counter[tuple[str, int]] = Counter()
        memory: Counter[tuple[str, int]] = Counter()
        policies: dict[tuple[str, int], set[str]] = {}
        vnpus: dict[tuple[str, int], list[str]] = {}
        whole: Counter[tuple[str, int]] = Counter()
        # Their plugin goes by its own records: it refuses a pod whose chip an edited one has.
        edited = {self.pods[uid].node for uid in self.edited & self.pods.keys()} & self.plugins.keys()
        for uid, pod in self.bound.items():
            if pod.node in edited:
                continue
            now = self.pods.get(uid)
            if now is not None and not now.live:
                continue
            binding = self.mounted(pod) or binding_of(pod)
            if binding is None:
                continue
            for chip in binding.chips:
                place = (pod.node or "", chip)
                if binding.template:
                    vnpus.setdefault(place, []).append(binding.template)
                elif binding.policy:
                    percent[place] += int(pod.annotations[QUOTA + "aicoreQuota"])
                    memory[place] += binding.mb
                    policies.setdefault(place, set()).add(binding.policy)
                else:
                    whole[place] += 1
        for place, count in percent.items():
            assert count <= 100, (place, self.history)
            assert memory[place] <= MEMORY, (place, self.history)
            assert len(policies[place]) == 1, (place, policies[place], self.history)
        for place, count in whole.items():
            assert count == 1, (place, self.history)
            assert place not in percent, (place, self.history)
            assert place not in vnpus, (place, self.history)
        for place, templates in vnpus.items():
            assert place not in percent, (place, self.history)
            check_templates(templates, place)

    def mounted(self, pod: Pod) -> PartBinding | None:
        """What this project's plugin reports of it: pods may have exchanged their chips."""
        plugin = self.plugins.get(pod.node or "")
        found = None if plugin is None else plugin.shares_of_pods().get(pod.uid)
        if found is None:
            return None
        chip, share = found
        return PartBinding((int(chip.rpartition("-")[2]),), share.memory, share.policy)

    def check_mounted(self) -> None:
        """What containers of this project's plugin have, whatever annotations say."""
        for node, plugin in self.plugins.items():
            for chip in plugin.chips:
                mounts = [one for one in plugin.ledger.mounts if chip in one.chips and one.share is not None]
                shares = [one.share for one in mounts if one.share is not None]
                assert sum(one.percent for one in shares) <= 100, (node, chip, self.history)
                assert sum(one.memory for one in shares) <= MEMORY, (node, chip, self.history)
                assert len({one.policy for one in shares}) <= 1, (node, chip, self.history)
                numbers = [one.virtual for one in shares]
                assert len(set(numbers)) == len(numbers), (node, chip, self.history)

    def check_books(self) -> None:
        """The scheduler's books are what its records say, however they came about."""
        state = self.scheduler.view.cluster
        assert not self.scheduler.view.inconsistencies()
        for number in state.existing_nodes():
            mode = state.modes.get(number)
            if mode is None or mode.mode not in ("soft", "dynamic"):
                continue
            book = state.amounts(number)
            cached = {chip: repr(use) for chip, use in book.chips.items()}
            state._amounts.pop(number)
            assert {chip: repr(use) for chip, use in state.amounts(number).chips.items()} == cached

    def check_agreement(self) -> None:
        """What runs is what the plugins recorded, what the pods say, and what the scheduler counts."""
        for _ in range(200):
            self.mount()
        for pod in [pod for pod in self.pods.values() if not pod.live or pod.phase == "Pending"]:
            self.delete(pod.uid)
        self.hear_late()
        self.now += 1000 * SECOND
        for node, plugin in self.plugins.items():
            self.look(node)
            percent: Counter[int] = Counter()
            written = set()
            for uid, (chip, share) in plugin.shares_of_pods().items():
                pod, number = self.pods[uid], int(chip.rpartition("-")[2])
                assert pod.annotations[CHIP] == pod.annotations[REAL] == chip, (pod, self.history)
                percent[number] += share.percent
                written.add(f"{share.folder}/{number}_{share.virtual}")
            assert self.files_of(node) == written, (node, self.history)
            state = self.scheduler.view.cluster
            book = state.amounts(state.node_id[node])
            assert {chip: use.percent for chip, use in book.chips.items()} == percent, (node, self.history)

    def files_of(self, node: str) -> set[str]:
        folder = self.root / node / "etc/enpu"
        return {f"{one.parent.name}/{one.name}" for one in folder.glob("*/*")}

    def settle(self) -> None:
        """Everything ends: nothing is left of it."""
        self.check_agreement()
        for uid in list(self.pods):
            self.delete(uid)
        self.now += 1000 * SECOND
        for node in self.plugins:
            self.look(node)
            assert not self.plugins[node].ledger.mounts, (node, self.history[-50:])
            assert not any((self.root / node / "etc/enpu").glob("*")), (node, self.history[-50:])
        state = self.scheduler.view.cluster
        for number in state.existing_nodes():
            assert not state.amounts(number).chips
            assert not state.amounts(number).unsettled
            for resource, fleet in state.fleets.items():
                assert not fleet.requested[number], resource
                assert not fleet.held[number], resource


def check_vgroups(made: Pod, others: list[Pod]) -> None:
    """A chip with three vgroups takes vNPUs of at most two cores, one with four those of one core."""
    bound, has = binding_of(made), mounted_part(made)
    assert bound is not None
    if not bound.template:
        return
    used = {one.vgroup for one in map(mounted_part, others) if one.vgroup and one.chips == has.chips}
    cores = _KIND.templates[bound.template].cores
    assert cores == 1 or len(used) < (4 if cores == 2 else 3), (made.annotations, used)


def check_templates(templates: list[str], place: tuple[str, int]) -> None:
    kind: DividedChip = _KIND
    used = [kind.templates[name] for name in templates]
    assert sum(one.cores for one in used) <= kind.cores, (place, templates)
    assert sum(one.cpus for one in used) <= kind.cpus, (place, templates)
    video = Counter(one.dvpp for one in used)
    assert not video["yes"] or (video["yes"] == 1 and not video["null"]), (place, templates)


def _kind() -> DividedChip:
    labels = {"name": "n", "labels": DYNAMIC_LABELS, "capacities": {CORE: 8}, "pods": []}
    node = next(one.node for one in events_of([node_object(labels, None)]) if isinstance(one, ev.NodeSeen))
    found = mode_of(node, ()).divided
    assert found is not None
    return found


_KIND = _kind()
_CHIPS = SimulatedDriver({"chip_name": "910B3", "count": len(CHIPS)}).chips()
#: Steps of one life; 10,000 in all in the full profile.
_STEPS = examples(250)


@pytest.mark.parametrize("seed", range(examples(40)))
def test_nothing_is_given_out_twice_and_nothing_is_left_V2_V3_V4_V6_V8_V12_V14_V16_V19_V20(
    seed: int, tmp_path: Path
) -> None:
    world = World(random.Random(seed), tmp_path)
    for _ in range(_STEPS):
        world.step()
    world.settle()

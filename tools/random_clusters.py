"""Random clusters as manifests, and random steps: jobs, faults, drains, moves, reservations, restarts.

The clusters have nodes of every board, leaf switches, SuperPoDs, racks, HyperNodes, volumes, queues, limits
and running jobs. The same seed gives the same cluster. Some of what it holds is not valid, because a
refusal is a decision, too.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.builders.objects import (
    Plain,
    cluster_report,
    filler,
    node,
    node_report,
    pod,
    pod_group,
    pod_spec,
    report,
    topology,
    usage_limit,
    vcjob,
)
from tests.builders.values import CHIP

POLICY = "huawei.com/schedule_policy"
TYPE = "accelerator-type"
KINDS = ("boards", "switches", "superpods", "queues", "mixed", "racks", "hypernodes", "volumes")
QUEUES = ("research", "production", "batch", "research-vision", "research-speech")
CLASSES = {"high": 1000, "middle": 100, "low": -5}


@dataclass(frozen=True)
class Board:
    """How a job asks for a board, and which sizes it may ask for."""

    name: str
    chips: int
    one: tuple[int, ...]
    many: tuple[int, ...] = ()
    resource: str = CHIP
    policy: str = ""
    kind: str = ""
    labels: tuple[tuple[str, str], ...] = ()


ANY8, ANY16 = tuple(range(1, 9)), tuple(range(1, 17))
BOARDS = (
    Board("910-x8", 8, (1, 2, 4, 8), (8,), kind="module"),
    Board("910-half", 4, (1, 2, 4), (1, 2, 4), policy="chip4-node4", kind="half"),
    Board("910-card", 8, ANY8, ANY8, policy="chip1-node2", kind="card-910b-2"),
    Board("910b-x8", 8, ANY8, ANY8, policy="chip8-node8", kind="module-910b-8"),
    Board("910b-x16", 16, (1, 2, 4, 8, 10, 16), (2, 8, 16), policy="chip8-node16", kind="module-910b-16"),
    Board("a3-x16", 16, (1, 2, 4, 6, 8, 16), (2, 4, 16), policy="chip2-node16", kind="module-a3-16"),
    Board("mesh4-x8", 8, ANY8, ANY8, policy="chip4-node8"),
    Board("mesh4-x16", 16, ANY16, ANY16, policy="chip4-node16"),
    Board("single-x8", 8, ANY8, ANY8, policy="chip1-node8"),
    Board("single-x16", 16, ANY16, ANY16, policy="chip1-node16"),
    Board("850-x8", 8, ANY8, ANY8, kind="850-Atlas-8p-8"),
    Board(
        "310-card",
        16,
        (1, 2, 3, 4),
        (1, 2, 4),
        "huawei.com/Ascend310",
        labels=(("npu-310-strategy", "card"),),
    ),
    Board(
        "310-chip", 16, (1, 3, 6, 16), (1, 4), "huawei.com/Ascend310", labels=(("npu-310-strategy", "chip"),)
    ),
    Board("310p", 8, ANY8, ANY8, "huawei.com/Ascend310P"),
    Board(
        "310p-duo-card",
        16,
        (1, 2),
        (1, 2),
        "huawei.com/Ascend310P",
        labels=(("duo", "true"), ("npu-310-strategy", "card")),
    ),
    Board(
        "310p-duo-chip",
        16,
        (1, 2, 5, 8),
        (1, 2, 3),
        "huawei.com/Ascend310P",
        labels=(("duo", "true"), ("npu-310-strategy", "chip")),
    ),
)
RACKS = Board("950-x8-rack", 8, (1, 2, 4, 8), (8,), "huawei.com/npu", policy="chip8-node8-ra64-sp")
SUPERPOD_BOARDS = (
    Board("a3-x16-superpod", 16, (1, 2, 8, 16), (16,)),
    Board("a3-x16-superpod", 16, (1, 2, 8, 16), (16,), policy="chip2-node16-sp"),
    Board("a3-x8-superpod", 8, (1, 2, 4, 8), (8,), kind="module-a3-8-super-pod"),
    Board("850-x8-superpod", 8, ANY8, (8,), "huawei.com/npu", policy="chip8-node8-sp"),
)


#: Steps after the first jobs.
STEPS = 20


def random_cluster(seed: int) -> Plain:
    """The configuration and the steps of this seed; kinds of clusters take turns."""
    maker = _Maker(random.Random(seed), KINDS[seed % len(KINDS)])
    configuration = maker.configuration()
    return {"configuration": configuration, "steps": maker.steps()}


class _Maker:
    def __init__(self, rng: random.Random, kind: str) -> None:
        self.rng = rng
        self.kind = kind
        self.has_queues = kind in ("queues", "mixed") or rng.random() < 0.2
        self.hierarchy = self.has_queues and rng.random() < 0.3
        self.leaf_size = rng.randint(2, 5)
        self.superpod_size = rng.choice((4, 6, 8, 12))
        self.superpod_board = rng.choice(SUPERPOD_BOARDS)
        self.boards = rng.sample(BOARDS, rng.randint(1, 3))
        self.switched: list[str] = []
        #: Free chips of each node, while the cluster is put together.
        self.free: dict[str, tuple[str, set[int]]] = {}
        self.superpods: dict[int, list[str]] = {}
        self.made = 0
        if kind == "racks":
            self.superpod_board = RACKS
            self.superpod_size = 16
        if kind in ("hypernodes", "volumes"):
            self.boards = [BOARDS[0]]

    def often(self, share: float) -> bool:
        return self.rng.random() < share

    # -- configuration -----------------------------------------------------------------------

    def configuration(self) -> str:
        rng = self.rng
        actions = rng.choice(
            (
                "enqueue, allocate, backfill",
                "enqueue, allocate, backfill",
                "enqueue, allocate, preempt, backfill",
                "enqueue, allocate, preempt, reclaim, backfill",
                "enqueue, reclaim, allocate, backfill, preempt",
                "allocate, backfill",
            )
        )
        settings = self.settings()
        arguments = "".join(f'    {key}: "{value}"\n' for key, value in settings.items())
        first = ["priority", "gang", "conformance", "topology910"]
        second = ["drf", "predicates", "proportion", "nodeorder", "binpack"]
        if self.kind == "hypernodes":
            second.append("network-topology-aware")
        if self.has_queues and not self.hierarchy and self.often(0.3):
            second[second.index("proportion")] = "capacity"
        if self.hierarchy and self.often(0.5):
            # Hierarchical drf takes the place of proportion.
            second.remove("proportion")
        if self.often(0.15):
            second.remove("drf")
        if self.often(0.15):
            first.remove("priority")
        return "".join(
            (
                f'actions: "{actions}"\ntiers:\n- plugins:\n',
                *(f"  - name: {name}\n" for name in first),
                "- plugins:\n",
                *(self.plugin(name, second) for name in second),
                f"configurations:\n- name: init-params\n  arguments:\n{arguments}" if arguments else "",
            )
        )

    def plugin(self, name: str, tier: list[str]) -> str:
        rng = self.rng
        lines = [f"  - name: {name}\n"]
        if name == "drf" and self.hierarchy and "proportion" not in tier:
            lines.append("    enableHierarchy: true\n")
        if name == "nodeorder" and self.often(0.4):
            lines.append("    arguments:\n")
            lines += [
                f"      {key}.weight: {rng.randint(0, 5)}\n"
                for key in (
                    "leastrequested",
                    "mostrequested",
                    "balancedresource",
                    "nodeaffinity",
                    "podaffinity",
                )
            ]
        if name == "binpack" and self.often(0.4):
            lines.append(f"    arguments:\n      binpack.weight: {rng.randint(0, 9)}\n")
            lines.append(f"      binpack.resources: {CHIP}\n      binpack.resources.{CHIP}: 4\n")
        return "".join(lines)

    def settings(self) -> dict[str, str]:
        rng = self.rng
        settings: dict[str, str] = {}
        choices = {
            "multi-pod-requests": ("document", "vendor"),
            "score-combination": ("strict", "sum"),
            "single-switch-first": ("true", "false"),
            "superpod-packing": ("whole-job", "per-block"),
            "self-maintain-available-card": ("true", "false"),
            "useClusterInfoManager": ("true", "false"),
            "forceEnqueue": ("true", "false"),
            "prefer-previous-node": ("true", "false"),
            "reservation-after": ("0", "30", "600"),
            "hold-healthy-nodes": ("0", "120"),
            "gang-recovery-limit": ("0", "30"),
            "queue-discipline": ("best-effort", "strict"),
            "ring-packing": ("document", "tight-node"),
            "defragment": ("plan", "auto", "off"),
            "fault-cooldown": ("0", "60"),
            "preempt-again-after": ("0", "60"),
            "expected-duration-grace-period": ("0", "30"),
        }
        for name, values in choices.items():
            if self.often(0.3):
                settings[name] = rng.choice(values)
        if self.kind in ("switches", "mixed"):
            settings["nslb-version"] = rng.choice(("1.0", "2.0", "2.0"))
            settings["shared-tor-num"] = rng.choice(("1", "2", "2"))
        if self.kind in ("superpods", "mixed", "racks"):
            settings["super-pod-size"] = str(self.superpod_size)
            if self.often(0.7):
                settings["reserve-nodes"] = str(rng.randint(0, min(3, self.superpod_size - 1)))
        return settings

    # -- cluster -----------------------------------------------------------------------------

    def cluster(self) -> list[Plain]:
        objects: list[Plain] = [
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
                **({"preemptionPolicy": "Never"} if name == "middle" and self.often(0.3) else {}),
            }
            for name, value in CLASSES.items()
        ]
        if self.has_queues:
            objects += self.queues()
        if self.kind in ("boards", "queues", "mixed", "hypernodes", "volumes"):
            for place, board in enumerate(self.boards):
                for number in range(self.rng.randint(2, 8)):
                    objects += self.node(f"n{place}-{number}", board)
        if self.kind in ("switches", "mixed"):
            objects += self.switches()
        if self.kind in ("superpods", "mixed", "racks"):
            objects += self.superpod_nodes()
        if self.kind == "hypernodes":
            objects += self.hyper_nodes()
        if self.kind == "volumes":
            objects += self.volumes()
        if self.often(0.3):
            chips, jobs = self.rng.choice((8, 16, 24)), self.rng.randint(1, 4)
            hard = {f"requests.{CHIP}": chips, "runningJobs": jobs}
            borrowing = {f"requests.{CHIP}": 8}
            limit = usage_limit("own", {"namespace": "default"}, hard=hard, borrowingLimit=borrowing)
            objects.append(limit)
        objects += self.fillers()
        for _ in range(self.rng.randint(0, 4)):
            objects += self.running_job()
        return objects

    def queues(self) -> list[Plain]:
        rng = self.rng
        made: list[Plain] = []
        for name in QUEUES:
            if self.often(0.05):
                continue
            spec: Plain = {"weight": rng.randint(1, 8)}
            if self.often(0.4):
                spec["capability"] = {CHIP: rng.choice((8, 16, 32, 64)), "cpu": "400"}
            if self.often(0.3):
                spec["guarantee"] = {"resource": {CHIP: rng.choice((1, 4, 8))}}
            if self.often(0.2):
                spec["reclaimable"] = False
            if self.often(0.2):
                spec["priority"] = rng.randint(0, 9)
            metadata: Plain = {"name": name}
            if self.hierarchy:
                above = name.partition("-")[0]
                path = f"root/{above}" if name == above else f"root/{above}/{name.partition('-')[2]}"
                weights = "/".join(str(rng.randint(1, 5)) for _ in path.split("/"))
                metadata["annotations"] = {
                    "volcano.sh/hierarchy": path,
                    "volcano.sh/hierarchy-weights": weights,
                }
            elif self.often(0.3):
                limits: list[Plain] = [
                    {"hard": {f"requests.{CHIP}": 16}},
                    {"hard": {"runningJobs": 2}},
                    {"maxRunTime": "5m"},
                ]
                for limit in rng.sample(limits, rng.randint(1, 2)):
                    made.append(usage_limit(f"{name}-{len(made)}", {"queue": name}, **limit))
            made.append(
                {
                    "apiVersion": "scheduling.volcano.sh/v1beta1",
                    "kind": "Queue",
                    "metadata": metadata,
                    "spec": spec,
                    "status": {"state": "Closed" if self.often(0.08) else "Open"},
                }
            )
        return made

    def node(
        self, name: str, board: Board, *, ip: str = "", superpod: int | None = None, rack: int | None = None
    ) -> list[Plain]:
        """A node with its report, its labels and its faults."""
        rng = self.rng
        chips = set(range(board.chips))
        count = 1 if not self.often(0.15) else rng.randint(1, min(4, board.chips))
        unhealthy = set(rng.sample(sorted(chips), count)) if self.often(0.12) else set()
        network = set(rng.sample(sorted(chips), 1)) if self.often(0.08) else set()
        recovering = set(rng.sample(sorted(chips), 1)) if self.often(0.05) else set()
        labels = {
            "kubernetes.io/hostname": name,
            "zone": rng.choice(("a", "b")),
            "host-arch": rng.choice(("huawei-arm", "huawei-arm", "huawei-x86")),
            **({TYPE: board.kind} if board.kind else {}),
        }
        spec: Plain = {}
        if self.often(0.1):
            spec["taints"] = [
                {"key": "team", "value": "x", "effect": rng.choice(("NoSchedule", "PreferNoSchedule"))}
            ]
        if self.often(0.05):
            spec["unschedulable"] = True
        notes: dict[str, str] = {}
        way = rng.choice(("devices", "report", "report", "aggregate", "nothing"))
        needs = bool(unhealthy or network or recovering)
        if way in ("devices", "nothing") and needs:
            way = "report"
        if superpod is not None:
            if way in ("devices", "nothing"):
                way = rng.choice(("annotation", "label"))
            if way == "annotation":
                notes["superPodID"] = str(superpod)
            if way == "label":
                labels["huawei.com/topotree.superpodid"] = str(superpod)
        if rack is not None:
            notes["rackID"] = str(rack)
        objects = [
            node(
                name,
                chips=len(chips - unhealthy),
                capacity=board.chips,
                resource=board.resource,
                devices=sorted(chips) if way == "devices" or self.often(0.3) else None,
                ip=ip,
                labels=labels,
                annotations=notes,
                ready=not self.often(0.04),
                **spec,
            )
        ]
        told = report(
            sorted(chips - unhealthy),
            unhealthy=sorted(unhealthy),
            network=None if not network and self.often(0.05) else sorted(network),
            recovering=sorted(recovering),
            resource=board.resource,
            superpod=superpod,
            rack=rack,
        )
        if way == "report":
            objects.append(node_report(name, told))
        elif way == "aggregate":
            self.made += 1
            objects.append(cluster_report({name: told}, number=self.made))
        self.free[name] = (board.resource, chips - unhealthy)
        return objects

    def switches(self) -> list[Plain]:
        rng = self.rng
        board = BOARDS[0]
        rows, objects = [], []
        number = 0
        for switch in range(rng.randint(3, 7)):
            servers = []
            for place in range(self.leaf_size if self.often(0.8) else rng.randint(1, self.leaf_size)):
                name, ip = f"s{switch}-{place}", f"10.9.{switch}.{place + 1}"
                servers.append((ip, place))
                if self.often(0.95):
                    objects += self.node(name, board, ip=ip)
                    self.switched.append(name)
                number += 1
            rows.append((f"172.16.0.{switch + 1}", servers))
        level = "single_layer" if self.often(0.2) else None
        return [topology(rows, self.leaf_size, level), *objects]

    def superpod_nodes(self) -> list[Plain]:
        rng = self.rng
        objects = []
        for superpod in rng.sample(range(20), rng.randint(2, 5)):
            for place in range(rng.randint(self.superpod_size // 2, self.superpod_size)):
                name = f"p{superpod}-{place}"
                rack = place // 4 if self.kind == "racks" else None
                objects += self.node(name, self.superpod_board, superpod=superpod, rack=rack)
                self.superpods.setdefault(superpod, []).append(name)
        return objects

    def hyper_nodes(self) -> list[Plain]:
        """Leaves of a few nodes each below one or two spines."""
        leaf = self.rng.randint(2, 3)
        names = sorted(self.free)
        leaves = [names[start : start + leaf] for start in range(0, len(names), leaf)]
        made = [_hyper_node(f"leaf-{number}", 1, "Node", members) for number, members in enumerate(leaves)]
        spines = self.rng.randint(1, 2)
        for spine in range(spines):
            below = [f"leaf-{number}" for number in range(spine, len(leaves), spines)]
            if below:
                made.append(_hyper_node(f"spine-{spine}", 2, "HyperNode", below))
        return made

    def volumes(self) -> list[Plain]:
        """Local volumes of some nodes, a class that waits for the pod, and claims."""
        rng = self.rng
        made: list[Plain] = [
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "local"},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            }
        ]
        for name in sorted(self.free):
            if self.often(0.6):
                where = {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}
                terms = {"nodeSelectorTerms": [{"matchExpressions": [where]}]}
                made.append(
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolume",
                        "metadata": {"name": f"disk-{name}"},
                        "spec": {
                            "capacity": {"storage": f"{rng.choice((1, 2))}Ti"},
                            "accessModes": ["ReadWriteOnce"],
                            "storageClassName": "local",
                            "local": {"path": "/mnt/disk"},
                            "nodeAffinity": {"required": terms},
                        },
                    }
                )
        made += [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": f"claim-{number}", "namespace": "default"},
                "spec": {
                    "storageClassName": "local",
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": f"{rng.choice((1, 2))}Ti"}},
                },
            }
            for number in range(4)
        ]
        return made

    # -- what runs ---------------------------------------------------------------------------

    def fillers(self) -> list[Plain]:
        rng = self.rng
        objects = []
        for name, (resource, free) in self.free.items():
            # SuperPoDs and switches are about whole nodes: most of theirs are empty or full.
            share = 0.15 if self.kind in ("switches", "superpods") else 0.4
            if not free or not self.often(share):
                continue
            sizes = (len(free),) if self.kind in ("switches", "superpods") else (1, 1, 2, 2, 4, len(free))
            for _ in range(rng.randint(1, 3)):
                size = min(rng.choice(sizes), len(free))
                if not size:
                    break
                chips = sorted(rng.sample(sorted(free), size))
                free -= set(chips)
                objects.append(self.filler(name, resource, chips))
        return objects

    def filler(self, on: str, resource: str, chips: list[int]) -> Plain:
        rng = self.rng
        self.made += 1
        name = f"old-{self.made}"
        more: Plain = {}
        if self.often(0.1):
            more["terminating"] = True
        if self.often(0.05):
            more["phase"] = rng.choice(("Succeeded", "Failed", "Pending", "Unknown"))
        if self.often(0.3):
            more["annotations"] = {"volcano.sh/preemptable": "true"}
        if self.often(0.1):
            more["key"] = "huawei.com/AscendReal"
        built = filler(name, on, chips, resource, **more)
        if self.often(0.05):
            # Another scheduler bound it and named no chips.
            built["metadata"]["annotations"] = {}
            built["spec"]["schedulerName"] = "default-scheduler"
        if self.often(0.4):
            built["spec"]["priorityClassName"] = rng.choice(sorted(CLASSES))
        return self.dated(built)

    def running_job(self) -> list[Plain]:
        """A PodGroup with live pods on whole nodes, some of which may be lost."""
        rng = self.rng
        whole = [
            name
            for name, (resource, free) in self.free.items()
            if resource == CHIP and free == set(range(len(free))) and len(free) >= 4
        ]
        rng.shuffle(whole)
        self.made += 1
        name = f"run-{self.made}"
        block = 2 if self.superpods and self.often(0.5) else None
        superpod = rng.choice(sorted(self.superpods)) if block is not None else None
        if superpod is not None:
            whole = [one for one in self.superpods[superpod] if one in whole]
        count = min(len(whole), rng.randint(1, 5))
        if block is not None:
            count -= count % block
        if not count:
            return []
        labels: dict[str, str] = {}
        notes: dict[str, str] = {}
        if block is not None:
            chips = len(self.free[whole[0]][1])
            notes = self.board_notes(self.superpod_board, sp_block=block * chips)
            labels = {"super-pod-affinity": rng.choice(("soft", "hard"))}
        elif self.switched and self.often(0.8):
            labels = {"tor-affinity": rng.choice(("normal-schema", "large-model-schema"))}
        elif any(place.startswith(("p", "n")) for place in whole[:count]):
            count = 1
        lost = rng.randrange(count) if count > 1 and self.often(0.3) else None
        group = pod_group(name, count, labels=labels, annotations=notes, phase="Running")
        group["spec"]["queue"] = self.queue()
        objects = [self.dated(group)]
        for rank in range(count):
            on = whole[rank]
            resource, free = self.free[on]
            marks = {**notes, "hccl/rankIndex": str(rank)}
            if block is not None:
                marks |= {"super-pod-rank": str(rank // block), "super-pod-id": str(superpod)}
            elif labels:
                marks["isSharedTor"] = rng.choice(("0", "1", "2"))
            if rank == lost:
                spec = pod_spec(len(free), resource)
                objects.append(self.dated(pod(f"{name}-{rank}", spec, group=name, annotations=notes)))
                continue
            held = filler(f"{name}-{rank}", on, sorted(free), resource, annotations=marks, group=name)
            free.clear()
            objects.append(self.dated(held))
        return objects

    # -- steps -------------------------------------------------------------------------------

    def steps(self) -> list[Plain]:
        """First the cluster, then jobs that come and go, faults, maintenance and time."""
        rng = self.rng
        made: list[Plain] = [{"do": "submit", "objects": self.cluster()}]
        coming: list[Plain] = [{"do": "submit", "objects": objects} for objects in self.jobs()]
        jobs = [str(step["objects"][0]["metadata"]["name"]) for step in coming]
        nodes = sorted(self.free)
        made += coming[: len(coming) // 2]
        coming = coming[len(coming) // 2 :]
        #: How to undo what was done: faults, drains, isolations, reservations, suspensions.
        undo: list[Plain] = []

        def fault() -> Plain:
            node, kind = rng.choice(nodes), rng.choice(("chip", "chip", "network", "node"))
            if kind == "node":
                undo.append({"do": "clear", "kind": kind, "node": node, "chips": []})
                return {"do": "fault", "kind": kind, "node": node, "status": "not-ready"}
            chips = [rng.randrange(4)]
            undo.append({"do": "clear", "kind": kind, "node": node, "chips": chips})
            made = {"do": "fault", "kind": kind, "node": node, "chips": chips}
            if kind == "chip":
                made["level"] = rng.choice(("RestartNPU", "SeparateNPU", "RestartRequest"))
            return made

        def drain() -> Plain:
            undo.append({"do": "uncordon", "node": rng.choice(nodes)})
            return {"do": "drain", "node": undo[-1]["node"]}

        def isolate() -> Plain:
            undo.append({"do": "isolate", "node": rng.choice(nodes), "on": False})
            return {**undo[-1], "on": True}

        def reserve() -> Plain:
            name = f"kept-{len(undo)}"
            undo.append({"do": "unreserve", "name": name})
            node, seconds = rng.choice(nodes), rng.choice((60, 600))
            return {"do": "reserve", "node": node, "queue": self.queue(), "seconds": seconds, "name": name}

        def suspend() -> Plain:
            undo.append({"do": "change", "job": rng.choice(jobs), "action": "resume"})
            return {**undo[-1], "action": "suspend"}

        def requeue() -> Plain:
            return {"do": "change", "job": rng.choice(jobs), "action": "requeue", "queue": self.queue()}

        def advance() -> Plain:
            return {"do": "advance", "seconds": rng.choice((3, 40, 180, 480))}

        def delete() -> Plain:
            return {"do": "delete", "kind": "job", "name": rng.choice(jobs)}

        def restart() -> Plain:
            return {"do": rng.choice(("restart", "restart", "restart_controller"))}

        def ask() -> Plain:
            queries = ("capacity", "doctor", "topology", "defrag-plan", "limits")
            return {"do": "ask", "query": rng.choice(queries)}

        actions: tuple[Callable[[], Plain], ...]
        actions = (fault, drain, isolate, reserve, suspend, requeue, delete, restart, ask, advance)
        for _ in range(STEPS):
            if coming and self.often(0.3):
                made.append(coming.pop(0))
            elif undo and self.often(0.3):
                made.append(undo.pop(rng.randrange(len(undo))))
            elif self.often(0.1):
                made.append({"do": "move"})
            else:
                made.append(rng.choices(actions, (3, 1, 1, 1, 1, 1, 1, 2, 1, 4))[0]())
        return [*made, *coming, *undo, {"do": "advance", "seconds": 240}, {"do": "advance", "seconds": 1800}]

    # -- new jobs ----------------------------------------------------------------------------

    def jobs(self) -> list[list[Plain]]:
        made = []
        for number in range(self.rng.randint(2, 8)):
            name = f"job-{number}"
            kinds = {
                "boards": ("chips",),
                "queues": ("chips",),
                "switches": ("switch", "switch", "switch", "chips"),
                "superpods": ("block", "block", "block", "chips"),
                "mixed": ("chips", "switch", "block", "plain"),
                "racks": ("rack", "rack", "chips"),
                "hypernodes": ("tier", "tier", "chips"),
                "volumes": ("volume", "chips"),
            }[self.kind]
            made.append(getattr(self, f"_{self.rng.choice(kinds)}_job")(name))
        if self.often(0.3):
            made.append(self._plain_job("plain"))
        return made

    def _chips_job(self, name: str) -> list[Plain]:
        rng = self.rng
        board = rng.choice(self.boards)
        if self.kind == "switches":
            board = BOARDS[0]
        elif self.kind in ("superpods", "racks"):
            board = self.superpod_board
        pods = rng.choice((1, 1, 1, 2, 3, 4))
        sizes = board.one if pods == 1 else board.many
        chips = rng.choice(sizes)
        if self.often(0.08):
            chips = rng.randint(1, board.chips + 2)
        return self.job(name, board, pods, chips)

    def _switch_job(self, name: str) -> list[Plain]:
        rng = self.rng
        values = ("normal-schema", "large-model-schema", "large-model-schema", "null")
        label = rng.choice(values) if not self.often(0.05) else "other-schema"
        pods = rng.randint(1, self.leaf_size + 2) if self.often(0.6) else rng.randint(1, 2 * self.leaf_size)
        return self.job(name, BOARDS[0], pods, 8, labels={"tor-affinity": label})

    def _block_job(self, name: str) -> list[Plain]:
        rng = self.rng
        board = self.superpod_board
        block = rng.randint(1, 3)
        pods = block * rng.randint(1, 3)
        if self.often(0.08):
            pods += 1
        labels = {"super-pod-affinity": rng.choice(("soft", "hard"))}
        return self.job(name, board, pods, board.chips, labels=labels, sp_block=block * board.chips)

    def _rack_job(self, name: str) -> list[Plain]:
        pods = self.rng.choice((2, 4, 8))
        made = self.job(name, RACKS, pods, 8, labels={"super-pod-affinity": "hard"}, sp_block=8 * pods)
        _annotate(made, "ra-block", str(8 * self.rng.choice((1, 2))))
        return made

    def _tier_job(self, name: str) -> list[Plain]:
        made = self.job(name, BOARDS[0], self.rng.randint(2, 4), 8)
        if made[0]["kind"] in ("Job", "PodGroup"):
            mode, tier = self.rng.choice(("hard", "hard", "soft")), self.rng.randint(1, 2)
            made[0]["spec"]["networkTopology"] = {"mode": mode, "highestTierAllowed": tier}
        return made

    def _volume_job(self, name: str) -> list[Plain]:
        """Pods with a claim, each with one of its own or all with one."""
        spec = pod_spec(self.rng.choice((1, 2, 4, 8)))
        claim = {"claimName": f"claim-{self.rng.randrange(5)}"}
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": claim}]
        if self.often(0.5):
            return [self.dated(pod(name, spec))]
        return [self.finished(vcjob(name, [("worker", self.rng.randint(1, 2), spec)]))]

    def _plain_job(self, name: str) -> list[Plain]:
        """Pods that ask for cpu and memory only, or for nothing."""
        rng = self.rng
        spec = pod_spec(0)
        if self.often(0.3):
            spec["containers"][0]["resources"] = {}
        else:
            wanted = {"cpu": str(rng.choice((1, 8, 64, 120))), "memory": f"{rng.choice((1, 32, 512))}Gi"}
            spec["containers"][0]["resources"] = {"requests": wanted}
        if self.often(0.5):
            return [self.dated(pod(name, self.placed(spec)))]
        return [self.finished(vcjob(name, [("worker", rng.randint(1, 6), self.placed(spec))]))]

    def job(
        self,
        name: str,
        board: Board,
        pods: int,
        chips: int,
        *,
        labels: dict[str, str] | None = None,
        sp_block: int | None = None,
    ) -> list[Plain]:
        """A job of one size in one of the shapes a user may write."""
        rng = self.rng
        labels = {**dict(board.labels), **(labels or {})}
        notes = self.board_notes(board, sp_block=sp_block)
        spec = pod_spec(chips, board.resource)
        if board.kind and (not board.policy or self.often(0.3)):
            spec["nodeSelector"] = {TYPE: board.kind}
        spec = self.placed(spec)
        if self.often(0.3):
            labels["fault-scheduling"] = rng.choice(("grace", "force"))
            if self.often(0.5):
                labels["pod-rescheduling"] = "on"
        if self.often(0.2):
            notes["volcano.sh/preemptable"] = "true"
        if self.often(0.25):
            notes["ringwise.io/expected-duration"] = f"{rng.randint(1, 60)}m"
        shape = rng.choice(("vcjob", "vcjob", "template", "group", "members"))
        if pods == 1 and self.often(0.3):
            return [self.dated(pod(name, spec, labels=labels, annotations=notes))]
        needed = pods if self.often(0.8) else rng.randint(1, pods)
        if shape in ("vcjob", "template"):
            inside = shape == "template"
            tasks = [("worker", pods, spec)]
            if self.often(0.15):
                tasks.append(("launcher", 1, pod_spec(0)))
            built = vcjob(
                name,
                tasks,
                labels={} if inside else labels,
                annotations={} if inside else notes,
                pod_labels=labels if inside else {"app": name},
                pod_annotations=notes if inside else {},
            )
            if needed != pods:
                built["spec"]["minAvailable"] = needed
            return [self.finished(built)]
        on_pods = shape == "members"
        gang = pod_group(
            name,
            needed,
            labels={} if on_pods else labels,
            annotations={} if on_pods else notes,
            phase=rng.choice(("Inqueue", "Pending", "")),
        )
        members = [
            self.dated(
                pod(
                    f"{name}-{number}",
                    spec,
                    group=name,
                    labels={"app": name, **(labels if on_pods else {})},
                    annotations=notes if on_pods else {},
                )
            )
            for number in range(pods)
        ]
        return [self.finished(gang), *members]

    def board_notes(self, board: Board, *, sp_block: int | None = None) -> dict[str, str]:
        notes: dict[str, str] = {}
        if board.policy:
            notes[POLICY] = board.policy
        if sp_block is not None:
            notes["sp-block"] = str(sp_block)
        return notes

    def placed(self, spec: Plain) -> Plain:
        """The pod spec with selectors, tolerations, affinity and priority, now and then."""
        rng = self.rng
        spec = dict(spec)
        if self.often(0.12):
            spec["nodeSelector"] = {**spec.get("nodeSelector", {}), "zone": rng.choice(("a", "b"))}
        if self.often(0.15):
            spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
        if self.often(0.15):
            spec["affinity"] = rng.choice(_AFFINITIES)
        if self.often(0.3):
            spec["priorityClassName"] = rng.choice(sorted(CLASSES))
        return spec

    def finished(self, built: Plain) -> Plain:
        """Queue, priority and age of a vcjob or PodGroup."""
        built["spec"]["queue"] = self.queue()
        if self.often(0.35):
            built["spec"]["priorityClassName"] = self.rng.choice(sorted(CLASSES))
        return self.dated(built)

    def queue(self) -> str:
        if not self.has_queues or self.often(0.25):
            return "default"
        return self.rng.choice(QUEUES)

    def dated(self, built: Plain) -> Plain:
        minute = self.rng.randrange(60)
        built["metadata"]["creationTimestamp"] = f"2025-11-15T00:{minute:02}:00Z"
        return built


_ZONE: Plain = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
_APP: Plain = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}
_AFFINITIES: tuple[dict[str, Any], ...] = (
    {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_ZONE]},
        }
    },
    {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "preference": _ZONE}]
        }
    },
    {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {**_APP, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    },
    {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 10, "podAffinityTerm": {**_APP, "topologyKey": "zone"}}
            ]
        }
    },
)


def _hyper_node(name: str, tier: int, kind: str, members: list[str]) -> Plain:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {
            "tier": tier,
            "members": [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members],
        },
    }


def _annotate(objects: list[Plain], key: str, value: str) -> None:
    """Set an annotation wherever the job has annotations of its block."""
    for one in objects:
        places = [one["metadata"]]
        places += [task["template"]["metadata"] for task in one.get("spec", {}).get("tasks", ())]
        for place in places:
            if "sp-block" in place.get("annotations", {}):
                place["annotations"][key] = value

"""Random clusters as manifests: nodes of every board, leaf switches, SuperPoDs, queues, running and new jobs.

The same seed gives the same scenario. Most of what it holds is valid; some of it is not, because a refusal is
a decision, too.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from tests.place.objects import (
    ASCEND,
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
    vcjob,
)

POLICY = "huawei.com/schedule_policy"
TYPE = "accelerator-type"
KINDS = ("boards", "switches", "superpods", "queues", "mixed")
QUEUES = ("research", "production", "batch", "research-vision", "research-speech")
CLASSES = {"high": 1000, "middle": 100, "low": -5}


@dataclass(frozen=True)
class Board:
    """How a job asks for a board, and which sizes it may ask for."""

    name: str
    chips: int
    one: tuple[int, ...]
    many: tuple[int, ...] = ()
    resource: str = ASCEND
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
SUPERPOD_BOARDS = (
    Board("a3-x16-superpod", 16, (1, 2, 8, 16), (16,)),
    Board("a3-x16-superpod", 16, (1, 2, 8, 16), (16,), policy="chip2-node16-sp"),
    Board("a3-x8-superpod", 8, (1, 2, 4, 8), (8,), kind="module-a3-8-super-pod"),
    Board("850-x8-superpod", 8, ANY8, (8,), "huawei.com/npu", policy="chip8-node8-sp"),
)


@dataclass
class Scenario:
    name: str
    configuration: str
    #: Nodes, reports, topology, queues, priority classes and what runs.
    cluster: list[Plain] = field(default_factory=list)
    #: New jobs: each is the list of objects that arrive together.
    jobs: list[list[Plain]] = field(default_factory=list)

    @property
    def objects(self) -> list[Plain]:
        return [*self.cluster, *(one for job in self.jobs for one in job)]

    def manifest(self, objects: list[Plain] | None = None) -> str:
        items = self.objects if objects is None else objects
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def scenario(seed: int) -> Scenario:
    """The scenario of this seed; kinds take turns."""
    maker = _Maker(random.Random(seed), KINDS[seed % len(KINDS)])
    return Scenario(f"{seed}-{maker.kind}", maker.configuration(), maker.cluster(), maker.jobs())


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
            lines.append(f"      binpack.resources: {ASCEND}\n      binpack.resources.{ASCEND}: 4\n")
        return "".join(lines)

    def settings(self) -> dict[str, str]:
        rng = self.rng
        settings: dict[str, str] = {}
        choices = {
            "multi-pod-requests": ("document", "field"),
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
        }
        for name, values in choices.items():
            if self.often(0.3):
                settings[name] = rng.choice(values)
        if self.kind in ("switches", "mixed"):
            settings["nslb-version"] = rng.choice(("1.0", "2.0", "2.0"))
            settings["shared-tor-num"] = rng.choice(("1", "2", "2"))
        if self.kind in ("superpods", "mixed"):
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
        if self.kind in ("boards", "queues", "mixed"):
            for place, board in enumerate(self.boards):
                for number in range(self.rng.randint(2, 8)):
                    objects += self.node(f"n{place}-{number}", board)
        if self.kind in ("switches", "mixed"):
            objects += self.switches()
        if self.kind in ("superpods", "mixed"):
            objects += self.superpod_nodes()
        objects += self.fillers()
        for _ in range(self.rng.randint(0, 4)):
            objects += self.running_job()
        return objects

    def queues(self) -> list[Plain]:
        rng = self.rng
        made = []
        for name in QUEUES:
            if self.often(0.05):
                continue
            spec: Plain = {"weight": rng.randint(1, 8)}
            if self.often(0.4):
                spec["capability"] = {ASCEND: rng.choice((8, 16, 32, 64)), "cpu": "400"}
            if self.often(0.3):
                spec["guarantee"] = {"resource": {ASCEND: rng.choice((1, 4, 8))}}
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

    def node(self, name: str, board: Board, *, ip: str = "", superpod: int | None = None) -> list[Plain]:
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
                objects += self.node(name, self.superpod_board, superpod=superpod)
                self.superpods.setdefault(superpod, []).append(name)
        return objects

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
            if resource == ASCEND and free == set(range(len(free))) and len(free) >= 4
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
        elif self.kind == "superpods":
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

"""A real control plane for tests: apply objects, wait for conditions, start and kill components."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ringwise.apps.admission.certificates import Pair
from ringwise.wellknown import SCHEDULER_CONFIG_KEY, SCHEDULER_CONFIG_MAP, VOLCANO_SYSTEM
from ringwise_bench.checkout import CHART, definitions
from ringwise_bench.control_plane import (
    Api,
    ApiAnswer,
    ControlPlane,
    Process,
    find_program,
    free_port,
    ringwise_command,
)
from tests.cluster.commands import Command, finished
from tests.cluster.inventory import Inventory
from tests.cluster.objects import CHIP, HOLDS_END, HOLDS_START, Object
from tests.cluster.recorder import Change, Recorder
from tests.cluster.removal import PodRemover
from tests.deploy.charts import chart_objects
from tests.metric_text import samples

STAGES = Path(__file__).with_name("stages.yaml")
#: Seconds to wait for any condition. Generous, because a busy machine is slow.
WAIT_TIMEOUT = 300.0
#: Shorter waits for `Cluster.run()`, in nanoseconds: until a job that needs objects of a controller says so,
#: and until a pod on its own has a PodGroup.
SOON_TOLD = {"ringwise.scheduler.core.status_reporter.TIMEOUT": 5_000_000_000}
SOON_GROUPED = {"ringwise.controller.pod_groups.LONE_POD_WAIT": 10_000_000_000}
#: Until a kind that is not served is looked for again, in seconds.
SOON_SERVED = {"ringwise.kube.watch.reflector.UNKNOWN_KIND_PAUSE": 2}
#: Between two changes of the conditions of an object.
SOON_STATED = {"ringwise.scheduler.core.custom_resources.STATUS_INTERVAL": 1_000_000_000}
#: Longer ones, in seconds: the webhook answers when it has looked, and not before.
PATIENT = {
    "ringwise.apps.admission.webhook.MAX_WAIT": 25,
    "ringwise.apps.admission.queue_reads.READ_TIMEOUT": 25,
}
#: Exit code of a process that a test killed.
KILLED = -9

#: Paths of the API; `-` stands for the namespace of the story.
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/-/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/-/podgroups"
PODS = "/api/v1/namespaces/-/pods"
EVENTS = "/api/v1/namespaces/-/events"
DEPLOYMENTS = "/apis/apps/v1/namespaces/-/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/-/replicasets"
STATEFUL_SETS = "/apis/apps/v1/namespaces/-/statefulsets"
BATCH_JOBS = "/apis/batch/v1/namespaces/-/jobs"
BUDGETS = "/apis/policy/v1/namespaces/-/poddisruptionbudgets"
CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
CLAIMS = "/api/v1/namespaces/-/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
STORAGE_CAPACITIES = "/apis/storage.k8s.io/v1/namespaces/kube-system/csistoragecapacities"
#: Of the components.
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{VOLCANO_SYSTEM}/leases"
HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
#: The controllers of kube-controller-manager that the stories need. Those of nodes are not among them: they
#: would delete the pods of simulated nodes, which renew no leases.
CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "job-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
    "ephemeral-volume-controller",
    "clusterrole-aggregation-controller",
)


#: Values of the chart.
WITH_ADMISSION = {"admission": {"enabled": True}}
#: A policy would deny what some stories do.
_WITHOUT_POLICIES = {
    f"{name}Policy": {"enabled": False}
    for name in ("annotation", "devicePlugin", "controller", "queueCommand", "user")
}

#: Starts a component: control plane, name of its log, arguments, and token of its service account.
Launch = Callable[[ControlPlane, str, list[str], str], Process]


def launch_here(server: str | None = None, waits: Mapping[str, int] = MappingProxyType({})) -> Launch:
    """As a process of this machine; `server` replaces the address of the API server, as for a proxy.

    `waits` has other values of constants, by modules and names, so that a story does not wait for a minute.
    """

    def launch(plane: ControlPlane, name: str, arguments: list[str], token: str) -> Process:
        kubeconfig = f"--kubeconfig={plane.kubeconfig(name, token, server)}"
        python, option, code, *rest = ringwise_command(*arguments, kubeconfig)
        changes = (f"import {one.rpartition('.')[0]}; {one} = {value}; " for one, value in waits.items())
        command = [python, option, "".join(changes) + code, *rest]
        return plane.run(name, command, {"POD_NAMESPACE": VOLCANO_SYSTEM})

    return launch


def launch_from(sources: Path) -> Launch:
    """Return what starts a component from other sources, such as those of an earlier commit."""

    def launch(plane: ControlPlane, name: str, arguments: list[str], token: str) -> Process:
        given = [*arguments, f"--kubeconfig={plane.kubeconfig(name, token, None)}"]
        command = [sys.executable, "-c", "from ringwise.cli.main import main; main()", *given]
        return plane.run(name, command, {"POD_NAMESPACE": VOLCANO_SYSTEM, "PYTHONPATH": str(sources)})

    return launch


class Component:
    """One replica of a component, with the shipped arguments and service account."""

    def __init__(self, cluster: Cluster, kind: str, name: str, launch: Launch, more: Sequence[str]) -> None:
        self.kind = kind
        token = cluster.plane.account_token(VOLCANO_SYSTEM, f"ringwise-{kind}")
        self.metrics_port, self.health_port = free_port(), free_port()
        arguments = [
            *cluster.shipped_arguments[kind],
            f"--healthz-address=127.0.0.1:{self.health_port}",
            *more,
        ]
        if kind != "admission":
            arguments.append(f"--metrics-address=127.0.0.1:{self.metrics_port}")
        self.process = launch(cluster.plane, name, arguments, token)
        #: Exit codes that the story expects.
        self.ends = {KILLED}

    def stop(self) -> None:
        """End it as kubelet does."""
        self.ends.add(0)
        self.process.stop(WAIT_TIMEOUT)
        assert self.process.ended == 0, self.log()

    @property
    def failed(self) -> bool:
        return not self.running and self.process.ended not in self.ends

    @property
    def running(self) -> bool:
        return self.process.ended is None

    @property
    def ready(self) -> bool:
        return (self._page(self.health_port, "/readyz") or "").strip() == "ok"

    @property
    def healthy(self) -> bool:
        return (self._page(self.health_port, "/healthz") or "").strip() == "ok"

    @property
    def leads(self) -> bool:
        return self.metrics().get("ringwise_leader") == 1

    def metrics(self) -> dict[str, float]:
        """By name and labels, as they are written."""
        return samples(self._page(self.metrics_port, "/metrics") or "")

    def metric(self, name: str) -> float:
        return self.metrics().get(name, 0.0)

    def log(self) -> str:
        return self.process.log.read_text(errors="replace")

    def _page(self, port: int, path: str) -> str | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
                text: str = answer.read().decode()
                return text
        except OSError:
            return None


class StoryApi(Api):
    """Requests to the API server; `-` in a path stands for the namespace of the story."""

    namespace = "default"

    def __init__(self, url: str, authority: Path, token: str) -> None:
        super().__init__(url, authority, token)
        #: By root and kind: the name of the resource, and whether its objects have a namespace.
        self._kinds: dict[tuple[str, str], tuple[str, bool]] = {}

    def request(
        self, method: str, path: str, body: object | None = None, content_type: str = "application/json"
    ) -> Any:
        return super().request(method, self.full(path), body, content_type)

    def full(self, path: str) -> str:
        return path.replace("/namespaces/-", f"/namespaces/{self.namespace}", 1)

    def collection(self, thing: Object) -> str:
        """The path of all objects of its kind, in its namespace if it has one."""
        version = thing["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (root, thing["kind"]) not in self._kinds:
            for one in self.get(root)["resources"]:
                if "/" not in one["name"]:
                    self._kinds[root, one["kind"]] = (one["name"], one["namespaced"])
        name, namespaced = self._kinds[root, thing["kind"]]
        where = f"/namespaces/{thing['metadata'].get('namespace', '-')}" if namespaced else ""
        return f"{root}{where}/{name}"


class Cluster:
    """A control plane with the objects of Ringwise and simulated nodes."""

    def __init__(self, plane: ControlPlane, client_authority: Pair | None = None) -> None:
        self.plane = plane
        #: The authority of client certificates.
        self.client_authority = client_authority
        self.api = StoryApi(plane.url, plane.authority, plane.admin_token)
        self.admin_config = self._story_config = plane.kubeconfig("admin", plane.admin_token)
        #: Where the objects of the story are that name no other namespace.
        self.namespace = "default"
        self.components: list[Component] = []
        self._commands: list[Command] = []
        self._started = Counter[str]()
        self._kubelets: Process | None = None
        self._remover: PodRemover | None = None
        self._inventory: Inventory
        self._recorder: Recorder | None = None
        #: Arguments of each component in the shipped Deployments.
        self.shipped_arguments: Mapping[str, list[str]] = arguments_of(shipped_objects(WITH_ADMISSION))

    # -- setting up ---------------------------------------------------------------------------

    def install(self) -> None:
        """Apply the shipped definitions, accounts and RBAC rules, and start the controllers of Kubernetes."""
        self.apply(definitions())
        self.wait_established(*(definition["metadata"]["name"] for definition in definitions()))
        # The garbage collector looks for new kinds only twice a minute: it starts when they are defined.
        self.start_controllers()
        self._apply_shipped()
        self.begin_story("training")

    def _apply_shipped(self) -> None:
        """By kubectl alone, which removes again what a story added to them."""
        self.kubectl("apply", "-f", "-", stdin=_listed(shipped_objects()))
        self.wait(self._is_settled, "the controllers of Kubernetes have seen what is shipped")
        self._inventory = Inventory(self.plane)

    def _is_settled(self) -> bool:
        """Whether the controllers of Deployments and budgets have created and written what they will."""
        paths = [path.replace("/-/", f"/{VOLCANO_SYSTEM}/") for path in (DEPLOYMENTS, BUDGETS)]
        return all(
            one.get("status", {}).get("observedGeneration") == one["metadata"]["generation"]
            for path in paths
            for one in self.api.items(path)
        )

    def begin_story(self, name: str) -> None:
        """Give the story a namespace of its own, which stays: a namespace takes seconds to be deleted."""
        self.use_namespace(name)
        self._inventory.keep(f"namespaces/{name}")

    def use_namespace(self, name: str) -> None:
        self.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
        self.namespace = self.api.namespace = name
        self._story_config = self.plane.kubeconfig_of(
            "story", {"token": self.plane.admin_token}, namespace=name
        )

    def api_of(self, token: str) -> StoryApi:
        """The requests of somebody else."""
        api = StoryApi(self.plane.url, self.plane.authority, token)
        api.namespace = self.namespace
        return api

    def configure(self, settings: Mapping[str, str]) -> None:
        """Set arguments of init-params in the shipped configuration."""
        path = f"/api/v1/namespaces/{VOLCANO_SYSTEM}/configmaps/{SCHEDULER_CONFIG_MAP}"
        text = self.api.get(path)["data"][SCHEDULER_CONFIG_KEY]
        changed = text.replace("arguments: {}", f"arguments: {json.dumps(settings)}")
        assert changed != text
        self.api.patch(path, {"data": {SCHEDULER_CONFIG_KEY: changed}})

    def start_controllers(self) -> Process:
        """kube-controller-manager; each controller with the account that Kubernetes has for it."""
        return self.plane.run(
            "kube-controller-manager",
            [
                find_program("kube-controller-manager"),
                f"--kubeconfig={self.plane.kubeconfig('kube-controller-manager', self.plane.admin_token)}",
                f"--controllers={','.join(CONTROLLERS)}",
                "--use-service-account-credentials=true",
                "--leader-elect=false",
                "--secure-port=0",
                # A story does not wait for a limit of requests.
                "--kube-api-qps=200",
                "--kube-api-burst=400",
                "--profiling=false",
            ],
        )

    def start_nodes(self) -> None:
        """Start simulated kubelets for all nodes, or restart them: they do not retry what was refused."""
        if self._kubelets is not None:
            self._kubelets.kill()
        self._remover = self._remover or PodRemover(self.plane)
        self._kubelets = self.plane.run(
            "kwok",
            [
                find_program("kwok"),
                f"--kubeconfig={self.admin_config}",
                f"--config={STAGES}",
                "--manage-all-nodes=true",
                "--node-lease-duration-seconds=0",
                f"--server-address=127.0.0.1:{free_port()}",
            ],
        )

    # -- components -----------------------------------------------------------------------------

    def start(
        self, kind: str, *more: str, server: str | None = None, launch: Launch | None = None
    ) -> Component:
        """Start a replica, without waiting for it."""
        self._started[kind] += 1
        name = f"{kind}-{self._started[kind]}"
        component = Component(self, kind, name, launch or launch_here(server), more)
        self.components.append(component)
        return component

    def run(self, *kinds: str, waits: Mapping[str, int] = MappingProxyType({})) -> Component:
        """Start one replica of each and wait until they work; the first is returned."""
        launch = launch_here(waits=waits)
        started = [self.start(kind, launch=launch) for kind in kinds or ("scheduler", "controller")]
        for component in started:
            self.wait(partial(_works, component), f"{component.process.name} is ready and leads")
        return started[0]

    def crash(self, leader: Component) -> None:
        """Kill the leader, and let its Lease run out at once: the next one need not wait for it."""
        leader.process.kill()
        released = {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}
        self.api.patch(f"{LEASES}/ringwise-{leader.kind}", released)

    def begin(self, kubeconfig: Path, *arguments: str) -> Command:
        """Start `kubectl ringwise ...` beside the story."""
        self._commands.append(Command(kubeconfig, *arguments))
        return self._commands[-1]

    def stop_components(self) -> None:
        """Stop all components and delete the leases, so that the next test need not wait for them."""
        for component in self.components:
            if component.running:
                component.process.kill()
        self.components.clear()
        self.api.delete(LEASES)

    # -- users ---------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        done = finished(
            [str(find_program("kubectl")), f"--kubeconfig={self._story_config}", *arguments],
            {**os.environ, "HOME": str(self.plane.folder)},
            stdin or "",
        )
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr or done.stdout}")
        return done.stdout + ("" if check else done.stderr)

    def wait_established(self, *definitions: str) -> None:
        names = (f"crd/{name}" for name in definitions)
        self.kubectl("wait", f"--timeout={WAIT_TIMEOUT:g}s", "--for=condition=Established", *names)

    def apply(self, objects: Iterable[Object]) -> None:
        """Create objects or change those that exist. To start kubectl takes longer than many requests."""
        if rest := [one for one in objects if not self._is_created(one)]:
            self.kubectl("apply", "-f", "-", stdin=_listed(rest))

    def _is_created(self, thing: Object) -> bool:
        """False for one that exists, or is refused: kubectl knows how to change it, and what to say."""
        try:
            self.api.create(f"{self.api.collection(thing)}?fieldValidation=Strict", thing)
        except (ApiAnswer, KeyError):
            return False
        return True

    def wait(self, condition: Callable[[], Any], what: str | Callable[[], str]) -> Any:
        """Wait until the condition holds and return its value. No component may end by itself meanwhile."""
        deadline = time.monotonic() + WAIT_TIMEOUT
        while not (answer := condition()):
            ended = [one.process.name for one in self.components if one.failed]
            if ended or time.monotonic() > deadline:
                problem = f"{', '.join(ended)} ended" if ended else f"not within {WAIT_TIMEOUT:g} s"
                wanted = what if isinstance(what, str) else what()
                raise AssertionError(f"{problem}: {wanted}\n{self._last_picture()}")
            time.sleep(0.1)
        return answer

    # -- history ---------------------------------------------------------------------------------

    def record(self) -> None:
        """Record the history of each story from now on."""
        self._recorder = Recorder(self.plane)

    def history(self, path: str = PODS, job: str = "") -> list[Change]:
        """All changes of pods, Events or PodGroups of the story up to now, the first one first."""
        assert self._recorder is not None
        recorder, where = self._recorder, (path.rpartition("/")[2], self.namespace)
        self.wait(lambda: recorder.agrees(*where, self.api.items(path)), "what happened is recorded")
        found = [one for one in self._recorder.changes if one.kind == path.rpartition("/")[2]]
        return [one for one in found if one.namespace == self.namespace and one.name.startswith(job)]

    # -- reading ----------------------------------------------------------------------------------

    def pods(self, job: str = "") -> list[Object]:
        found = self.api.items(PODS)
        if job:
            found = [pod for pod in found if pod["metadata"]["name"].startswith(f"{job}-")]
        return found

    def running(self, job: str, count: int) -> list[Object] | None:
        """All pods of the job, if there are so many, and none of them waits or terminates."""
        pods = self.pods(job)
        return pods if len(pods) == count and all(map(runs, pods)) else None

    def release(self, job: str) -> None:
        """Let the pods start whose start is held, and those go whose end is held."""
        for pod in self.pods(job):
            self.annotate(pod, {HOLDS_START: None, HOLDS_END: None})

    def annotate(self, pod: Object, annotations: Mapping[str, str | None]) -> None:
        """Change annotations of a pod, unless it has them so or is gone."""
        meta = pod["metadata"]
        if any(meta.get("annotations", {}).get(key) != value for key, value in annotations.items()):
            with may_be_gone():
                self.api.patch(f"{PODS}/{meta['name']}", {"metadata": {"annotations": dict(annotations)}})

    def wait_running(self, job: str, count: int) -> list[Object]:
        pods: list[Object] = self.wait(lambda: self.running(job, count), f"{count} pods of {job} run")
        return pods

    def events(self, kind: str, name: str) -> list[Object]:
        return [
            event
            for event in self.api.items(EVENTS)
            if event["involvedObject"]["kind"] == kind and event["involvedObject"]["name"] == name
        ]

    def group_of(self, job: str) -> Object | None:
        for group in self.api.items(GROUPS):
            owners = group["metadata"].get("ownerReferences", [])
            if group["metadata"]["name"] == job or any(owner["name"] == job for owner in owners):
                return group
        return None

    def condition(self, job: str, kind: str = "Unschedulable") -> Object | None:
        group = self.group_of(job)
        conditions = (group or {}).get("status", {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == kind), None)

    def picture(self) -> str:
        """Pods, groups and logs, for the message of a failed test."""
        lines = [
            f"  {pod['metadata']['name']}: {pod['status'].get('phase')} on {node_of(pod) or '-'} "
            f"chips {pod['metadata'].get('annotations', {}).get(CHIP, '-')}"
            for pod in self.pods()
            if pod["status"].get("phase") != "Succeeded"
        ]
        lines += [
            f"  PodGroup {group['metadata']['name']}: {json.dumps(group.get('status', {}))}"
            for group in self.api.items(GROUPS)
        ]
        for component in self.components:
            name, ended = component.process.name, component.process.ended
            if ended == KILLED:
                lines.append(f"  {name} was killed")
            else:
                state = "runs" if ended is None else f"ended with {ended}"
                lines.append(f"  {name} {state}:\n{component.process.last_lines(6)}")
        if self._recorder is not None:
            lines += [f"  {change}" for change in self._recorder.changes[-40:]]
        return "\n".join(lines)

    def _last_picture(self) -> str:
        """A server that does not answer must not hide what was waited for."""
        try:
            return self.picture()
        except (OSError, ApiAnswer) as error:
            return f"  and there is no picture of it: {error}"

    # -- clean-up ---------------------------------------------------------------------------------

    def remove(self, objects: Iterable[Object]) -> None:
        """Delete objects, without waiting for them."""
        self.kubectl("delete", "--wait=false", "-f", "-", stdin=_listed(objects))

    def clear(self) -> None:
        """Delete everything that a story created, in all namespaces, and restore what it changed."""
        self.stop_components()
        for command in self._commands:
            command.kill()
        self._commands.clear()
        inventory = self._inventory
        self.wait(inventory.remove_leftovers, lambda: f"gone are {inventory.leftovers()}")
        assert not inventory.missing(), f"the story deleted what was installed: {inventory.missing()}"
        if any(map(inventory.has_changed, ("ringwise", SCHEDULER_CONFIG_MAP))):
            self._apply_shipped()
        if self._recorder is not None:
            self.wait(self._recorder.begin, "the deletions are recorded")


@contextmanager
def may_be_gone() -> Iterator[None]:
    """A component may delete an object between the list and the request."""
    try:
        yield
    except ApiAnswer as answer:
        if answer.status != 404:
            raise


def shipped_objects(values: Mapping[str, Any] = MappingProxyType({}), chart: Path = CHART) -> list[Object]:
    """Return what the chart installs, without policies unless the values name them.

    The Deployments have no pods, because the stories run the components themselves.
    """
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": VOLCANO_SYSTEM}}
    return [namespace, *json.loads(_shipped(json.dumps({**_WITHOUT_POLICIES, **values}), chart))]


@cache
def _shipped(values: str, chart: Path) -> str:
    objects = chart_objects(json.loads(values), "--skip-tests", chart=chart)
    for one in objects:
        if one["kind"] == "Deployment":
            one["spec"]["replicas"] = 0
    return json.dumps(objects)


def patient(objects: Iterable[Object]) -> list[Object]:
    """With webhooks for which the API server waits as long as it can; then it goes on without them."""
    made = []
    for one in objects:
        if one["kind"].endswith("WebhookConfiguration"):
            one = {**one, "webhooks": [{**hook, "timeoutSeconds": 30} for hook in one["webhooks"]]}
        made.append(one)
    return made


def arguments_of(objects: Iterable[Object]) -> dict[str, list[str]]:
    """Return the arguments of each component."""
    return {
        one["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"]["template"]["spec"][
            "containers"
        ][0]["args"]
        for one in objects
        if one["kind"] == "Deployment"
    }


def _listed(objects: Iterable[Object]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def _works(component: Component) -> bool:
    return component.ready and component.leads


def chips_of(pod: Object) -> list[str]:
    text = pod["metadata"].get("annotations", {}).get(CHIP, "")
    return [chip for chip in text.split(",") if chip]


def node_of(pod: Object) -> str:
    name: str = pod["spec"].get("nodeName", "")
    return name


def requested_chips(pod: Object) -> int:
    return sum(
        int(container.get("resources", {}).get("limits", {}).get(CHIP, 0))
        for container in pod["spec"]["containers"]
    )


def runs(pod: Object) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def is_live(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in ("Succeeded", "Failed")


def check_chips(pods: Iterable[Object]) -> None:
    """No chip is held by two live pods, and every live pod holds as many as it requested (N6)."""
    holders: dict[tuple[str, str], str] = {}
    for pod in filter(is_live, pods):
        name, chips = pod["metadata"]["name"], chips_of(pod)
        assert len(set(chips)) == len(chips) == requested_chips(pod), f"{name} has {chips}"
        for chip in chips:
            other = holders.setdefault((node_of(pod), chip), name)
            assert other == name, f"{chip} of {node_of(pod)} is held by {other} and {name}"


def start_plugin(cluster: Cluster, node: str, folder: Path) -> Process:
    """The node's device plugin. No kubelet asks it for chips here; its reports are real."""
    chips = folder / "chips.json"
    chips.write_text(json.dumps({"count": 8}))
    command = ringwise_command(
        "run",
        "device-plugin",
        f"--kubeconfig={cluster.plane.kubeconfig(f'{node}-plugin', cluster.plane.admin_token)}",
        f"--node-name={node}",
        f"--kubelet-dir={folder / node}",
        f"--simulated-chips={chips}",
        "--mount-method=plain",
        "--metrics-address=",
        "--enable-healthz=false",
        "-listWatchPeriod=3",
    )
    (folder / node / "device-plugins").mkdir(parents=True, exist_ok=True)
    return cluster.plane.run(f"{node}-plugin", command)

"""Ringwise on a cluster as Kubernetes objects: what `ringwise install` applies and prints.

The rules of access, the webhooks, the policies and the default configuration are read from the chart's files,
so that there is one copy of each. The workloads are written here and, with more choices, as templates of the
chart; the plain manifests in the repository are printed from here, and the tests compare both with the chart.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import yaml

from ringwise import __version__
from ringwise.apps.admission.objects import NAME as ADMISSION
from ringwise.apps.admission.objects import (
    SERVICE_PORT,
    WEBHOOK_PORT,
    mutating_configuration,
    webhook_configuration,
)
from ringwise.apps.install.dashboard import NAME as DASHBOARD
from ringwise.apps.install.dashboard import REPLICAS as DASHBOARD_REPLICAS
from ringwise.apps.install.dashboard import Dashboard, dashboard_service, replicas_service
from ringwise.device.control_groups import CONTROL_GROUPS
from ringwise.manifests.kinds import Hearer, rights
from ringwise.records import dataclass
from ringwise.state.queue_rules import ANY_NAMESPACE, QUEUE_COMMAND_NAMESPACES
from ringwise.wellknown import (
    APP_COMPONENT,
    APP_NAME,
    APP_PART_OF,
    BOARDS_CHECKSUM,
    BOARDS_CONFIG_MAP,
    CONTROLLER_CONFIG_MAP,
    CONTROLLER_LEASE,
    DEPLOYMENT_API,
    DISRUPTION_API,
    HOSTNAME,
    KUBE_SYSTEM,
    MINDX_DL,
    RBAC_GROUP,
    RESCHEDULING_CONFIG_MAP,
    SCHEDULER_CONFIG_KEY,
    SCHEDULER_CONFIG_MAP,
    SCHEDULER_LEASE,
    SHADOW,
    SYSTEM_CLUSTER_CRITICAL,
    SYSTEM_NODE_CRITICAL,
    VOLCANO_CONTROLLER_DEPLOYMENT,
    VOLCANO_SCHEDULER_DEPLOYMENT,
    VOLCANO_SYSTEM,
    WEBHOOK_API,
)


def policy_objects(meta: dict[str, Any], rules: Mapping[str, Any], action: str) -> Iterator[dict[str, Any]]:
    """A policy with the rules of a file of the chart, and its binding."""
    yield {
        "apiVersion": WEBHOOK_API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": meta,
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules["resourceRules"]},
            **{key: rules[key] for key in ("matchConditions", "variables", "validations") if key in rules},
        },
    }
    yield {
        "apiVersion": WEBHOOK_API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": meta,
        "spec": {"policyName": meta["name"], "validationActions": [action]},
    }


Object = dict[str, Any]
#: Boards of one's own: name of each and text of its file, by name.
Boards = tuple[tuple[str, str], ...]
_BOARDS_FOLDER = "/etc/ringwise/boards"

IMAGE = f"ringwise/ringwise:{__version__}"
SCHEDULER, CONTROLLER = SCHEDULER_LEASE, CONTROLLER_LEASE
#: The policy that limits the device plugin of a node to objects of that node.
DEVICE_PLUGIN_POLICY = "ringwise-device-plugin-node"
#: Account of our device plugin in the namespace of Ringwise.
DEVICE_PLUGIN = "ringwise-device-plugin"
#: The usual accounts of a vendor's scheduler and device plugin, by namespace and name.
_VENDOR_ACCOUNTS = (
    (VOLCANO_SYSTEM, VOLCANO_SCHEDULER_DEPLOYMENT),
    *((KUBE_SYSTEM, f"ascend-device-plugin-sa{suffix}") for suffix in ("", "-910", "-310", "-310p")),
)
VENDOR_ACCOUNTS = tuple(f"system:serviceaccount:{where}:{name}" for where, name in _VENDOR_ACCOUNTS)
#: Kubernetes' controllers that create pods or their owners, each with its account or all with one, Volcano's
#: and the operator of AscendJobs.
_CREATING_CONTROLLERS = (
    *("deployment-controller", "replicaset-controller", "statefulset-controller", "daemon-set-controller"),
    *("job-controller", "cronjob-controller", "replication-controller"),
)
CREATING_ACCOUNTS = (
    "system:kube-controller-manager",
    *(f"system:serviceaccount:{KUBE_SYSTEM}:{name}" for name in _CREATING_CONTROLLERS),
    f"system:serviceaccount:{VOLCANO_SYSTEM}:{VOLCANO_CONTROLLER_DEPLOYMENT}",
    f"system:serviceaccount:{MINDX_DL}:ascend-operator-manager",
)
METRICS_PORT, HEALTH_PORT = 8080, 11251
_USER = 65532

#: Kubelet's folder on a node, and the folders of Huawei's driver.
KUBELET_FOLDER = "/var/lib/kubelet"
DRIVER_FOLDERS = {"driver": "/usr/local/Ascend/driver", "dcmi": "/usr/local/dcmi"}
#: liblingqu-dcmi.so writes its log there; the root file system is read only.
INTERCONNECT_LOG = "/var/log/lingqu"
#: The loader finds libdcmi.so and what it needs there.
_LIBRARIES = (
    "/usr/local/dcmi",
    "/usr/local/Ascend/driver/lib64/driver",
    "/usr/local/Ascend/driver/lib64/common",
)
#: Nodes that get the device plugin: all that have NPUs, or those with our label.
ALL_NODES, LABELLED_NODES = "all", "labelled"


#: Registry and port, path, tag, digest: what a container runtime accepts.
_REFERENCE = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?/)?"
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)


def is_image_reference(text: str) -> bool:
    """Whether a container runtime could pull it: `registry:5000/path/name:tag@sha256:...`"""
    return len(text) <= 512 and _REFERENCE.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of the installation. The chart has more."""

    namespace: str = VOLCANO_SYSTEM
    image: str = IMAGE
    with_controller: bool = True
    with_admission: bool = False
    #: Not where Huawei's device plugin stays.
    with_device_plugin: bool = True
    device_plugin_nodes: str = ALL_NODES
    #: N8: only scheduler and device plugin may write their annotations.
    with_annotation_policy: bool = False
    #: More user names that may write them.
    annotation_accounts: tuple[str, ...] = ()
    #: The device plugin of a node may write only what belongs to its node.
    with_device_plugin_policy: bool = False
    #: The controller may write ConfigMaps, Secrets, Services and NetworkPolicies of vcjobs only.
    with_controller_policy: bool = False
    #: Commands for a queue need the right to update the queue, and those of every namespace are obeyed.
    with_queue_command_policy: bool = False
    #: Whose Commands for queues are obeyed without that policy.
    queue_command_namespaces: tuple[str, ...] = QUEUE_COMMAND_NAMESPACES
    #: With admission: only it says who created a job.
    with_user_policy: bool = False
    #: User names that create objects for others.
    user_accounts: tuple[str, ...] = CREATING_ACCOUNTS
    #: Only a scheduler that decides and writes nothing.
    shadow: bool = False
    boards: Boards = ()
    #: Processes are told that their job is rescheduled: the right to change every ConfigMap.
    with_reset_config: bool = False
    #: PodGroups for ordinary pods. The scheduler waits for those that the controller creates.
    with_pod_groups: bool = True
    #: HyperNodes from labels of nodes, as the ConfigMap of the controller says.
    with_discovery: bool = False
    #: Each scheduler serves the dashboard, behind a Service.
    dashboard: Dashboard | None = None

    def __post_init__(self) -> None:
        if self.shadow:
            parts = ("controller", "admission", "device_plugin", "reset_config")
            for other in (*parts, *(f"{policy}_policy" for policy in POLICIES)):
                object.__setattr__(self, f"with_{other}", False)
        if not self.with_device_plugin:
            object.__setattr__(self, "with_device_plugin_policy", False)
        if not self.with_controller:
            object.__setattr__(self, "with_controller_policy", False)
            object.__setattr__(self, "with_queue_command_policy", False)
            object.__setattr__(self, "with_discovery", False)
        if not self.with_admission:
            object.__setattr__(self, "with_user_policy", False)

    @property
    def policies(self) -> tuple[str, ...]:
        """The admission policies that are wanted."""
        return tuple(name for name in POLICIES if getattr(self, f"with_{name}_policy"))

    def without_policies(self) -> Choices:
        """For an API server that has none."""
        changes: dict[str, Any] = dict.fromkeys((f"with_{name}_policy" for name in POLICIES), False)
        return replace(self, **changes)


def chart() -> Traversable:
    return files("ringwise").joinpath("deploy", "helm", "ringwise")


def definitions() -> list[Object]:
    """The CustomResourceDefinitions, by name. Existing ones are not changed."""
    folder = chart().joinpath("crds")
    found = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in folder.iterdir()]
    return sorted(found, key=lambda definition: str(definition["metadata"]["name"]))


def watched_rules() -> dict[str, list[Object]]:
    return {hearer.value: rights(hearer) for hearer in Hearer}


def watched_rules_file() -> str:
    """The chart's `rbac-watched.yaml`."""
    return (
        "# Rights to what is watched in the whole cluster, written by `make docs` from the table of kinds.\n"
        "# People who use `kubectl ringwise` need what the reader has: that is the scheduler.\n"
        + yaml.safe_dump(watched_rules(), sort_keys=False, default_flow_style=None, width=120)
    )


@cache
def access_rules() -> Mapping[str, list[Object]]:
    """What is watched in the whole cluster, from the table of kinds, and all other rights."""
    rules = watched_rules()
    for name, others in yaml.safe_load(_text("rbac.yaml")).items():
        rules[name] = [*rules.get(name, ()), *others]
    return rules


#: The plain manifests, which are for API servers of any age.
PLAIN = {"ringwise.yaml": Choices(), "ringwise-with-admission.yaml": Choices(with_admission=True)}


def _text(name: str) -> str:
    return chart().joinpath("files", name).read_text(encoding="utf-8")


def objects(choices: Choices) -> list[Object]:
    """Everything but the definitions, in an order in which it can be applied."""
    return [
        *_namespaces(choices),
        *_accounts(choices),
        *_access(choices),
        *(one for name in choices.policies for one in POLICIES[name](choices)),
        configuration(choices),
        *(_boards(choices) if choices.boards else ()),
        *_workloads(choices),
        *(_device_plugin(choices) if choices.with_device_plugin else ()),
        *(_admission(choices) if choices.with_admission else ()),
    ]


def configuration(choices: Choices) -> Object:
    """The scheduler's settings. Operators change them, so they are created once and never overwritten."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _meta(SCHEDULER_CONFIG_MAP, choices.namespace, "scheduler"),
        "data": {SCHEDULER_CONFIG_KEY: _settings(choices)},
    }


def _settings(choices: Choices) -> str:
    settings = ["owned-annotations: guarded"] if choices.with_annotation_policy else []
    settings += ["user-annotation: guarded"] if choices.with_user_policy else []
    return _text(SCHEDULER_CONFIG_KEY).replace("arguments: {}", f"arguments: {{{', '.join(settings)}}}")


def _boards(choices: Choices) -> Iterator[Object]:
    """In a ConfigMap that scheduler and webhook mount."""
    files = {f"{name}.toml": text for name, text in choices.boards}
    meta = _meta(BOARDS_CONFIG_MAP, choices.namespace, "scheduler")
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": files}


def _give_boards(template: Object, boards: Boards) -> None:
    """Let the pods of a template read the boards. They do so when they start: a change starts them anew."""
    text = "".join(f"{name}\n{text}\n" for name, text in boards)
    template["metadata"]["annotations"] = {BOARDS_CHECKSUM: hashlib.sha256(text.encode()).hexdigest()}
    spec = template["spec"]
    (container,) = spec["containers"]
    container["args"] = [
        *container["args"],
        *(f"--board-file={_BOARDS_FOLDER}/{name}.toml" for name, _ in boards),
    ]
    container["volumeMounts"] = [{"name": "boards", "mountPath": _BOARDS_FOLDER, "readOnly": True}]
    spec["volumes"] = [{"name": "boards", "configMap": {"name": BOARDS_CONFIG_MAP}}]


def annotation_policies(choices: Choices) -> Iterator[Object]:
    """N8: what other accounts write is denied; what a created pod carries is a warning."""
    ours = [f"system:serviceaccount:{choices.namespace}:{name}" for name in (SCHEDULER, DEVICE_PLUGIN)]
    accounts = ", ".join(f"'{account}'" for account in (*ours, *choices.annotation_accounts))
    policy = yaml.safe_load(_text("annotation-policy.yaml").replace("ACCOUNTS", f"[{accounts}]"))
    for part, action in (("guarded", "Deny"), ("copied", "Warn")):
        meta = _meta(f"ringwise-annotations-{part}", None, "scheduler")
        shared = {key: policy[key] for key in ("matchConditions", "variables")}
        yield from policy_objects(meta, {**shared, **policy[part]}, action)


def device_plugin_policy(choices: Choices) -> Iterator[Object]:
    """The device plugin of a node writes what belongs to its node."""
    account = f"system:serviceaccount:{choices.namespace}:{DEVICE_PLUGIN}"
    policy = yaml.safe_load(_text("device-plugin-policy.yaml").replace("ACCOUNT", account))
    yield from policy_objects(_meta(DEVICE_PLUGIN_POLICY, None, "device-plugin"), policy, "Deny")


def controller_policy(choices: Choices) -> Iterator[Object]:
    """Yield the policy that limits the controller to objects of vcjobs outside of system namespaces."""
    account = f"system:serviceaccount:{choices.namespace}:{CONTROLLER}"
    text = _text("controller-policy.yaml").replace("ACCOUNT", account)
    policy = yaml.safe_load(text.replace("NAMESPACE", choices.namespace))
    yield from policy_objects(_meta("ringwise-controller-jobs", None, "controller"), policy, "Deny")


def queue_command_policy(_: Choices) -> Iterator[Object]:
    """A Command for a queue needs the right to update the queue."""
    policy = yaml.safe_load(_text("queue-command-policy.yaml"))
    yield from policy_objects(_meta("ringwise-queue-commands", None, "controller"), policy, "Deny")


def user_policy(choices: Choices) -> Iterator[Object]:
    """Nobody names another as the user of a job."""
    text = _text("user-policy.yaml").replace("ACCOUNTS", str([*_creators(choices)]))
    yield from policy_objects(_meta("ringwise-users", None, "admission"), yaml.safe_load(text), "Deny")


def _creators(choices: Choices) -> tuple[str, ...]:
    """Accounts that create objects for others: our controller's, too."""
    return (f"system:serviceaccount:{choices.namespace}:{CONTROLLER}", *choices.user_accounts)


#: The admission policies, by the name of their option.
POLICIES: Mapping[str, Callable[[Choices], Iterator[Object]]] = {
    "annotation": annotation_policies,
    "device_plugin": device_plugin_policy,
    "controller": controller_policy,
    "queue_command": queue_command_policy,
    "user": user_policy,
}


def _namespaces(choices: Choices) -> Iterator[Object]:
    """Ours, and those we look into, whether or not anybody reports there."""
    for name in dict.fromkeys((choices.namespace, VOLCANO_SYSTEM, MINDX_DL)):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _components(choices: Choices) -> list[str]:
    names = ["scheduler"]
    if choices.with_controller:
        names.append("controller")
    if choices.with_admission:
        names.append("admission")
    if choices.with_device_plugin:
        names.append("device-plugin")
    return names


def _accounts(choices: Choices) -> Iterator[Object]:
    for component in _components(choices):
        yield {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": _meta(f"ringwise-{component}", choices.namespace, component),
        }


# -- access


def _access(choices: Choices) -> Iterator[Object]:
    for namespace, name, rules, component in _rights(choices):
        kind = "ClusterRole" if namespace is None else "Role"
        meta, api = _meta(name, namespace, component), f"{RBAC_GROUP}/v1"
        yield {"apiVersion": api, "kind": kind, "metadata": meta, "rules": access_rules()[rules]}
        account = {"kind": "ServiceAccount", "name": f"ringwise-{component}", "namespace": choices.namespace}
        yield {
            "apiVersion": api,
            "kind": f"{kind}Binding",
            "metadata": meta,
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": name},
            "subjects": [account],
        }


def _rights(choices: Choices) -> Iterator[tuple[str | None, str, str, str]]:
    """Namespace, or None for the whole cluster; name of the role; its rules; the component that has it."""
    own = choices.namespace
    yield None, "ringwise-reader", "reader", "scheduler"
    if not choices.shadow:
        yield None, SCHEDULER, "scheduler", "scheduler"
    for namespace in (KUBE_SYSTEM, MINDX_DL):
        yield namespace, "ringwise-reports", "reports", "scheduler"
    yield own, "ringwise-configuration", "configuration", "scheduler"
    if choices.dashboard is not None:
        yield None, DASHBOARD, "web", "scheduler"
    if not choices.shadow:
        yield VOLCANO_SYSTEM, "ringwise-switches", "switches", "scheduler"
        for namespace in dict.fromkeys((VOLCANO_SYSTEM, own)):
            yield namespace, RESCHEDULING_CONFIG_MAP, "rescheduling", "scheduler"
            yield namespace, "ringwise-accounting", "accounting", "scheduler"
            yield namespace, "ringwise-accounting-writer", "accountingWriter", "scheduler"
        yield MINDX_DL, RESCHEDULING_CONFIG_MAP, "rescheduleRecords", "scheduler"
        if choices.with_reset_config:
            yield None, "ringwise-reset-config", "resetConfig", "scheduler"
        yield own, SCHEDULER, "schedulerLease", "scheduler"
    if choices.with_controller:
        yield None, CONTROLLER, "controller", "controller"
        yield own, CONTROLLER, "controllerLease", "controller"
    if choices.with_discovery:
        yield None, "ringwise-discovery", "discovery", "controller"
        yield own, "ringwise-discovery", "discoveryConfiguration", "controller"
    if choices.with_admission:
        yield None, ADMISSION, "admission", "admission"
        yield own, ADMISSION, "admissionSecret", "admission"
        yield own, f"{ADMISSION}-configuration", "configuration", "admission"
        yield KUBE_SYSTEM, ADMISSION, "admissionTopology", "admission"
    if choices.with_device_plugin:
        yield None, DEVICE_PLUGIN, "devicePlugin", "device-plugin"
        yield KUBE_SYSTEM, DEVICE_PLUGIN, "deviceReports", "device-plugin"
        yield own, f"{DEVICE_PLUGIN}-events", "deviceEvents", "device-plugin"


# -- workloads


def _workloads(choices: Choices) -> Iterator[Object]:
    pod_groups = [] if choices.with_pod_groups else ["--no-pod-groups"]
    # Where we run the controller it has an account of its own: the scheduler need not read Secrets.
    configured = f"--scheduler-configmap={choices.namespace}/{SCHEDULER_CONFIG_MAP}"
    arguments = ["run", "scheduler", "--no-controller", configured, *pod_groups]
    if choices.dashboard is not None:
        arguments += choices.dashboard.arguments(choices.namespace, _replicas(choices))
    arguments += ["--shadow"] if choices.shadow else []
    yield from _workload(choices, "scheduler", arguments, {"cpu": "500m", "memory": "512Mi"}, "2Gi")
    if choices.dashboard is not None:
        yield dashboard_service(_meta(DASHBOARD, choices.namespace, "scheduler"), _selected("scheduler"))
        if _replicas(choices) > 1:
            metadata = _meta(DASHBOARD_REPLICAS, choices.namespace, "scheduler")
            yield replicas_service(metadata, _selected("scheduler"))
    if choices.with_controller:
        arguments = ["run", "controller", *pod_groups, *_obeyed(choices)]
        if choices.with_discovery:
            arguments.append(f"--controller-configmap={choices.namespace}/{CONTROLLER_CONFIG_MAP}")
        yield from _workload(choices, "controller", arguments, {"cpu": "100m", "memory": "256Mi"}, "1Gi")


def _obeyed(choices: Choices) -> list[str]:
    """Arguments that name the namespaces of Commands for queues, where they are not the usual ones."""
    names = (ANY_NAMESPACE,) if choices.with_queue_command_policy else choices.queue_command_namespaces
    return [f"--queue-command-namespace={name}" for name in names] * (names != QUEUE_COMMAND_NAMESPACES)


def _replicas(choices: Choices) -> int:
    return 1 if choices.shadow else 2


def _workload(
    choices: Choices, component: str, arguments: list[str], requests: Object, memory: str
) -> Iterator[Object]:
    name = f"ringwise-{component}"
    labels = _labels(component)
    selector = {"matchLabels": _selected(component)}
    # Components listen on the address of their pod alone.
    env = _from_fields(POD_NAMESPACE="metadata.namespace", POD_IP="status.podIP")
    deployment: Object = {
        "apiVersion": DEPLOYMENT_API,
        "kind": "Deployment",
        "metadata": _meta(name, choices.namespace, component),
        "spec": {
            "replicas": _replicas(choices),
            "selector": selector,
            "template": {
                "metadata": {"labels": {**labels, **({SHADOW: "true"} if choices.shadow else {})}},
                "spec": {
                    "serviceAccountName": name,
                    "priorityClassName": SYSTEM_CLUSTER_CRITICAL,
                    "terminationGracePeriodSeconds": 30,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": _USER,
                        "runAsGroup": _USER,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "topologySpreadConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": HOSTNAME,
                            "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": selector,
                        }
                    ],
                    "containers": [
                        {
                            **_container(choices, component, arguments, env, requests, memory),
                            "securityContext": {
                                "allowPrivilegeEscalation": False,
                                "readOnlyRootFilesystem": True,
                                "capabilities": {"drop": ["ALL"]},
                            },
                        }
                    ],
                },
            },
        },
    }
    # The controller makes pods and chooses no chips.
    if choices.boards and component != "controller":
        _give_boards(deployment["spec"]["template"], choices.boards)
    if choices.dashboard is not None and component == "scheduler":
        choices.dashboard.give_certificate(deployment["spec"]["template"])
    yield deployment
    yield {
        "apiVersion": DISRUPTION_API,
        "kind": "PodDisruptionBudget",
        "metadata": _meta(name, choices.namespace, component),
        "spec": {"maxUnavailable": 1, "selector": selector},
    }


def _container(
    choices: Choices, component: str, arguments: list[str], env: list[Object], requests: Object, memory: str
) -> Object:
    """What the containers of all components have."""
    first = ("webhook", WEBHOOK_PORT) if component == "admission" else ("metrics", METRICS_PORT)
    return {
        "name": component,
        "image": choices.image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments,
        "env": env,
        "ports": [
            {"name": name, "containerPort": number} for name, number in (first, ("health", HEALTH_PORT))
        ],
        "livenessProbe": _probe("/healthz", period=10, failures=6),
        "readinessProbe": _probe("/readyz", period=5, failures=3),
        "resources": {"requests": requests, "limits": {"memory": memory}},
    }


def _probe(path: str, period: int, failures: int) -> Object:
    return {
        "httpGet": {"path": path, "port": "health"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _admission(choices: Choices) -> Iterator[Object]:
    arguments = ["run", "admission", f"--scheduler-configmap={choices.namespace}/{SCHEDULER_CONFIG_MAP}"]
    yield from _workload(choices, "admission", arguments, {"cpu": "50m", "memory": "128Mi"}, "512Mi")
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(ADMISSION, choices.namespace, "admission"),
        "spec": {
            "selector": _selected("admission"),
            "ports": [{"name": "webhook", "port": SERVICE_PORT, "targetPort": "webhook"}],
        },
    }
    yield webhook_configuration(choices.namespace, _labels("admission"))
    creators = _creators(choices) if choices.with_user_policy else None
    yield mutating_configuration(choices.namespace, _labels("admission"), creators)


def _device_plugin(choices: Choices) -> Iterator[Object]:
    """One pod a node, privileged because of the driver's device nodes (docs/device-plugin.md)."""
    component = "device-plugin"
    folders = {
        "device-plugins": (f"{KUBELET_FOLDER}/device-plugins", "Directory", False),
        "pod-resources": (f"{KUBELET_FOLDER}/pod-resources", "DirectoryOrCreate", True),
        "dev": ("/dev", "Directory", True),
        **{name: (path, "DirectoryOrCreate", True) for name, path in DRIVER_FOLDERS.items()},
        # Where the plugin sees whether the container of a deleted pod has ended.
        "control-groups": (str(CONTROL_GROUPS), "Directory", True),
    }
    arguments = [
        "run",
        component,
        f"--metrics-address=$(POD_IP):{METRICS_PORT}",
        f"--healthz-address={HEALTH_PORT}",
    ]
    env = _from_fields(
        NODE_NAME="spec.nodeName",
        POD_NAME="metadata.name",
        POD_NAMESPACE="metadata.namespace",
        POD_IP="status.podIP",
    )
    env.append({"name": "LD_LIBRARY_PATH", "value": ":".join(_LIBRARIES)})
    requests = {"cpu": "50m", "memory": "128Mi"}
    yield {
        "apiVersion": DEPLOYMENT_API,
        "kind": "DaemonSet",
        "metadata": _meta(DEVICE_PLUGIN, choices.namespace, component),
        "spec": {
            "selector": {"matchLabels": _selected(component)},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {
                "metadata": {"labels": _labels(component)},
                "spec": {
                    "serviceAccountName": DEVICE_PLUGIN,
                    "priorityClassName": SYSTEM_NODE_CRITICAL,
                    "terminationGracePeriodSeconds": 30,
                    # Kubelet's folders belong to root.
                    "securityContext": {"runAsUser": 0, "runAsGroup": 0},
                    "tolerations": [{"operator": "Exists"}],
                    "affinity": {"nodeAffinity": _node_affinity(choices.device_plugin_nodes)},
                    "containers": [
                        {
                            **_container(choices, component, arguments, env, requests, "256Mi"),
                            "securityContext": {"privileged": True, "readOnlyRootFilesystem": True},
                            "volumeMounts": [
                                {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}
                                for name, (path, _, read_only) in folders.items()
                            ]
                            + [{"name": "interconnect-log", "mountPath": INTERCONNECT_LOG}],
                        }
                    ],
                    "volumes": [
                        {"name": name, "hostPath": {"path": path, "type": kind}}
                        for name, (path, kind, _) in folders.items()
                    ]
                    + [{"name": "interconnect-log", "emptyDir": {}}],
                },
            },
        },
    }


def _node_affinity(nodes: str) -> Object:
    terms = yaml.safe_load(_text("device-plugin-nodes.yaml"))[nodes]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def _from_fields(**paths: str) -> list[Object]:
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in paths.items()]


def _selected(component: str) -> dict[str, str]:
    return {APP_NAME: "ringwise", APP_COMPONENT: component}


def _labels(component: str) -> dict[str, str]:
    return {**_selected(component), APP_PART_OF: "ringwise"}


def _meta(name: str, namespace: str | None, component: str) -> Object:
    meta: Object = {"name": name, "labels": _labels(component)}
    if namespace is not None:
        meta["namespace"] = namespace
    return meta

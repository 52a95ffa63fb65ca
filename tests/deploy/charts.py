"""The chart in many forms: values as people set them, rendered by the real helm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ringwise_bench.checkout import CHART
from ringwise_bench.control_plane import find_program

Object = dict[str, Any]
#: By kind, namespace and name.
Objects = dict[tuple[str, str, str], Object]
#: `make test-cluster` brings it.
HELM = os.environ.get("RINGWISE_HELM") or shutil.which("helm")
needs_helm = pytest.mark.skipif(HELM is None, reason="needs helm; make test-cluster brings it")

_NOTES = """kind: Notes
metadata: {name: printed by helm install}
text: {{ include "notes" . | trim | quote }}
"""
#: The board of docs/reference/boards.md.
BOARD = (CHART.parents[2] / "examples/boards/pair-x4.toml").read_text(encoding="utf-8")

_PLACED: dict[str, Any] = {
    "replicas": 3,
    "extraArgs": ["--healthz-address=:11252"],
    "extraEnv": [
        {"name": "RINGWISE_DEBUG", "value": "1"},
        {"name": "NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
    ],
    "podAnnotations": {"sidecar.istio.io/inject": "false"},
    "podLabels": {"team": "platform"},
    "resources": {"requests": {"cpu": 2, "memory": "1Gi"}, "limits": {"memory": "4Gi"}},
    "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
    "tolerations": [
        {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "spare", "operator": "Equal", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 60},
    ],
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "ringwise"}},
                }
            ]
        }
    },
}

#: Every value of the chart is set by at least one of these to something that is not its default.
VARIATIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "shadow": {"scheduler": {"shadow": True}},
    "shadow-with-everything": {
        "scheduler": {"shadow": True},
        "admission": {"enabled": True},
        "podMonitor": {"enabled": True},
    },
    "shadow-with-reset-config": {"scheduler": {"shadow": True, "resetConfig": True}},
    "reset-config": {"scheduler": {"resetConfig": True}},
    "journal": {"scheduler": {"journal": {"enabled": True, "size": 16, "files": 4}}},
    "journal-on-a-claim": {
        "scheduler": {"journal": {"enabled": True, "existingClaim": "journal"}},
        "boards": {"pair-x4": BOARD},
    },
    "web": {
        "scheduler": {
            "web": {"enabled": True, "port": 9000, "tlsSecret": "web-tls", "hosts": ["npu.example.com"]},
            "journal": {"enabled": True},
        },
        "boards": {"pair-x4": BOARD},
        "networkPolicy": {"enabled": True, "webFrom": [{"ipBlock": {"cidr": "10.0.0.0/24"}}]},
    },
    "web-in-shadow-mode": {"scheduler": {"shadow": True, "web": {"enabled": True, "tlsSecret": "web-tls"}}},
    "no-controller": {"controller": {"enabled": False}},
    "discovery": {
        "networkTopologyDiscovery": {
            "enabled": True,
            "sources": [
                {
                    "source": "label",
                    "enabled": True,
                    "interval": "10m",
                    "config": {"networkTopologyTypes": {"A2": [{"nodeLabel": "kubernetes.io/hostname"}]}},
                }
            ],
        }
    },
    "discovery-as-it-is": {"networkTopologyDiscovery": {"enabled": True}},
    "discovery-without-controller": {
        "controller": {"enabled": False},
        "networkTopologyDiscovery": {"enabled": True},
    },
    "no-pod-groups": {"podGroups": {"enabled": False}},
    "vendor-device-plugin": {"devicePlugin": {"enabled": False}},
    "labeled-nodes": {"devicePlugin": {"nodes": "labeled"}},
    "soft-shares": {
        "devicePlugin": {"softShares": {"directory": "/var/lib/ringwise-shares", "singleDieMode": True}}
    },
    "device-plugin-with-cdi": {
        "devicePlugin": {
            "mountBy": "cdi",
            "cdiDir": "/etc/cdi",
            "kubeletDir": "/data/kubelet",
            "containerSpecs": "/run/containers",
            "privileged": False,
            "runAsUser": 1000,
            "priorityClassName": "",
        }
    },
    "admission": {"admission": {"enabled": True}},
    "cert-manager": {"admission": {"enabled": True, "certManager": {"enabled": True}}},
    "cert-manager-with-an-issuer": {
        "admission": {
            "enabled": True,
            "certManager": {"enabled": True, "issuerRef": {"name": "internal", "kind": "ClusterIssuer"}},
        },
        "boards": {"pair-x4": BOARD},
    },
    "other-names": {"scheduler": {"schedulerNames": ["npu", "npu-test"]}, "admission": {"enabled": True}},
    "volcano-metrics": {"volcanoMetrics": {"enabled": True}},
    "pod-monitor": {
        "podMonitor": {"enabled": True, "interval": "1m30s", "labels": {"release": "prometheus"}},
    },
    "service-monitor": {
        "serviceMonitor": {"enabled": True, "interval": "15s", "labels": {"release": "prometheus"}},
        "admission": {"enabled": True},
    },
    "alerts-and-grafana": {
        "prometheusRule": {
            "enabled": True,
            "labels": {"release": "prometheus"},
            "runbookUrl": "https://wiki.example.com/ringwise",
        },
        "admission": {"enabled": True},
        "grafanaDashboard": {"enabled": True, "labels": {"grafana_dashboard": "2"}},
    },
    "alerts-without-labels": {
        "prometheusRule": {"enabled": True, "labels": None},
        "controller": {"enabled": False},
        "devicePlugin": {"enabled": False},
        "grafanaDashboard": {"enabled": True, "labels": None},
    },
    "image": {
        "image": {
            "repository": "registry.example:5000/team/ringwise",
            "tag": "1.10",
            "pullPolicy": "Always",
        },
        "imagePullSecrets": [{"name": "first"}, {"name": "second"}],
    },
    "no-budget": {"podDisruptionBudget": {"enabled": False}},
    "no-priority": {"priorityClassName": ""},
    "other-priority": {"priorityClassName": "system-node-critical"},
    "nothing-made": {"configuration": {"create": False}, "clusterReports": {"createNamespace": False}},
    "chips-of-their-own": {"configuration": {"visibleDevices": "strict"}},
    "settings": {"configuration": {"content": 'actions: "enqueue, allocate"\ntiers: []\n'}},
    "placed": {
        "scheduler": _PLACED,
        "controller": _PLACED,
        "admission": {"enabled": True, **_PLACED},
        "devicePlugin": {key: value for key, value in _PLACED.items() if key != "replicas"},
    },
    "without-limits": {
        "scheduler": {"resources": None, "extraArgs": None},
        "podMonitor": {"enabled": True, "labels": None},
    },
    "gently": {
        "scheduler": {"bindsInFlight": 16, "kubeApiQps": 50, "kubeApiBurst": 100},
        "controller": {"kubeApiQps": 12.5, "kubeApiBurst": 20},
    },
    "annotation-policy": {
        "annotationPolicy": {"accounts": ["system:serviceaccount:npu:plugin"]},
    },
    "no-annotation-policy": {"annotationPolicy": {"enabled": False}},
    "no-device-plugin-policy": {"devicePluginPolicy": {"enabled": False}},
    "no-controller-policy": {"controllerPolicy": {"enabled": False}},
    "no-queue-command-policy": {"queueCommandPolicy": {"enabled": False, "namespaces": ["default", "ops"]}},
    "user-policy": {
        "admission": {"enabled": True},
        "userPolicy": {"accounts": ["system:serviceaccount:ray:operator"]},
    },
    "no-user-policy": {"admission": {"enabled": True}, "userPolicy": {"enabled": False}},
    "network-policies": {
        "admission": {"enabled": True},
        "networkPolicy": {
            "enabled": True,
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}],
            "webhookFrom": [{"ipBlock": {"cidr": "10.0.0.0/24"}}],
        },
    },
    "boards": {
        "boards": {"pair-x4": BOARD, "other": BOARD.replace("pair-x4", "other")},
        "admission": {"enabled": True},
    },
    "test": {
        "image": {"repository": "registry.example/ringwise"},
        "imagePullSecrets": [{"name": "first"}],
        "scheduler": {"schedulerNames": ["npu"]},
        "test": {
            "resource": "huawei.com/Ascend310P",
            "chips": 2,
            "tolerations": [{"key": "npu", "operator": "Exists"}],
        },
    },
    "test-without-chips": {"test": {"chips": 0}},
    "boards-in-shadow-mode": {"boards": {"pair-x4": BOARD}, "scheduler": {"shadow": True}},
    "part-of-a-larger-chart": {"global": {"region": "north"}},
}

#: What users set with the files in deploy/values.
VALUES_FILES: dict[str, dict[str, Any]] = {
    path.name: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((CHART.parents[1] / "values").glob("*.yaml"))
}


def helm(*arguments: str, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HELM or find_program("helm"), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env},
    )


def template(values: Mapping[str, Any], *more: str, chart: Path = CHART) -> subprocess.CompletedProcess[str]:
    arguments = ["--namespace", "volcano-system", "--kube-version", "1.31.0", *more]
    return helm("template", "ringwise", str(chart), "-f", "-", *arguments, stdin=json.dumps(values))


def chart_with_notes(folder: Path) -> Path:
    """The chart, which renders its notes as an object, too: helm prints them only when it installs."""
    copied = shutil.copytree(CHART, folder / "ringwise")
    notes = (copied / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    shown = '{{- define "notes" }}' + notes + "{{- end }}\n" + _NOTES
    (copied / "templates" / "notes.yaml").write_text(shown, encoding="utf-8")
    return copied


def chart_objects(values: Mapping[str, Any], *more: str, chart: Path = CHART) -> list[Object]:
    """Return the objects of a release, in the order in which Helm creates them."""
    done = template(values, *more, chart=chart)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.load_all(done.stdout, yaml.CSafeLoader) if one is not None]


def rendered(values: Mapping[str, Any], *more: str) -> Objects:
    """Return all objects but namespaces."""
    found: Objects = {}
    for one in chart_objects(values, *more):
        if one["kind"] != "Namespace":
            key = (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
            assert key not in found, f"{key} is rendered twice"
            found[key] = one
    return found


def usual_values() -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return values

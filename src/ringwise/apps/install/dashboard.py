"""The dashboard on a cluster: the scheduler serves it with a certificate from a Secret, behind a Service."""

from __future__ import annotations

import re
from typing import Any

from ringwise.apps.web.options import DASHBOARD_PORT
from ringwise.records import dataclass

#: Name of the Service, and of the right to check tokens.
NAME = "ringwise-web"
#: Name of the Service that has the addresses of all replicas: the one that leads passes questions on.
REPLICAS = "ringwise-web-replicas"
_FOLDER = "/etc/ringwise/web"
_SERVICE_PORT = 443
#: A name in DNS, as those of Secrets and hosts are.
_DNS_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Its choices. Tokens are not sent in the clear, so there is none without a certificate."""

    #: A Secret of type kubernetes.io/tls in the namespace of Ringwise.
    tls_secret: str
    #: More names that the page is reached by.
    hosts: tuple[str, ...] = ()

    def arguments(self, namespace: str, replicas: int) -> list[str]:
        """Those of the scheduler."""
        service = f"{NAME}.{namespace}.svc"
        names = (NAME, f"{NAME}.{namespace}", service, f"{service}.cluster.local", *self.hosts)
        return [
            f"--web-address=:{DASHBOARD_PORT}",
            f"--web-cert-file={_FOLDER}/tls.crt",
            f"--web-key-file={_FOLDER}/tls.key",
            *(f"--web-host={name}" for name in dict.fromkeys(names)),
            *([f"--web-replicas={REPLICAS}.{namespace}.svc:{DASHBOARD_PORT}"] if replicas > 1 else []),
        ]

    def give_certificate(self, template: dict[str, Any]) -> None:
        """Let the pods of a template serve it. Kubelet replaces the files when the Secret changes."""
        spec = template["spec"]
        (container,) = spec["containers"]
        container["ports"].append({"name": "web", "containerPort": DASHBOARD_PORT})
        mounted = {"name": "web-certificate", "mountPath": _FOLDER, "readOnly": True}
        container.setdefault("volumeMounts", []).append(mounted)
        volume = {"name": "web-certificate", "secret": {"secretName": self.tls_secret}}
        spec.setdefault("volumes", []).append(volume)


def dashboard_service(metadata: dict[str, Any], selector: dict[str, str]) -> dict[str, Any]:
    ports = [{"name": "https", "port": _SERVICE_PORT, "targetPort": "web"}]
    spec = {"selector": selector, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def replicas_service(metadata: dict[str, Any], selector: dict[str, str]) -> dict[str, Any]:
    ports = [{"name": "https", "port": DASHBOARD_PORT, "targetPort": "web"}]
    spec = {"clusterIP": "None", "selector": selector, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def is_dns_name(text: str) -> bool:
    return len(text) <= 253 and _DNS_NAME.fullmatch(text) is not None

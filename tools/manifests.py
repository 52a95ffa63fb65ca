"""Write the rights of the chart, and render the plain manifests from it: `python -m tools.manifests`.

The rights to what is watched in the whole cluster come from the table of kinds. `deploy/manifests` gets one
file for each template of the chart, and a kustomization that lists them. What the webhook adds is in
`deploy/manifests/admission`, a component of kustomize. The kustomization carries a hash of the chart, so that
a rendering that is out of date is found without Helm.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from ringwise.manifests.kinds import Watcher, rights
from ringwise_bench.checkout import CHART
from ringwise_bench.control_plane import find_program

MANIFESTS = CHART.parents[1] / "manifests"
WATCHED = CHART / "files" / "rbac-watched.yaml"
#: The folder of the component that adds the webhook.
ADMISSION = "admission"
KUSTOMIZATION = "kustomization.yaml"
NAMESPACE = "volcano-system"
#: The first version with admission policies, which the manifests contain.
KUBE_VERSION = "1.30.0"
#: Labels that are true only of what Helm installs.
_OF_HELM = re.compile(r"^ +(?:helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n", re.MULTILINE)

_HEAD = "# Rendered from the chart by `make manifests`; do not edit.\n"
_HASHED = "# Hash of the chart: {hash}\n"
_BASE = """\
# To install: kubectl apply --server-side -k deploy/manifests
# Remove what the cluster already has: crds.yaml with Volcano, configuration.yaml if settings exist.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
"""
_COMPONENT = """\
# The webhook, for the list `components` of a kustomization.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
resources:
"""
_NAMESPACE = f"""\
---
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
"""


def watched_rights() -> str:
    """Return the text of the chart's `rbac-watched.yaml`."""
    found = {component.value: rights(component) for component in Watcher}
    return (
        "# Permissions for kinds that are watched cluster-wide, from the table of kinds (`make manifests`).\n"
        "# Users of `kubectl ringwise` need the rules of the reader, which is the scheduler.\n"
        + yaml.safe_dump(found, sort_keys=False, default_flow_style=None, width=120)
    )


def chart_hash() -> str:
    """Hash the chart and this renderer."""
    digest = hashlib.sha256()
    for path in [Path(__file__), *sorted(path for path in CHART.rglob("*") if path.is_file())]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def recorded_hash() -> str:
    """Return the hash of the chart from which the manifests were rendered."""
    found = re.search(
        _HASHED.format(hash="([0-9a-f]+)"), (MANIFESTS / KUSTOMIZATION).read_text(encoding="utf-8")
    )
    return found[1] if found else ""


def render() -> dict[str, str]:
    """Return the text of each file of `deploy/manifests`, by its path in there."""
    base = _rendered({})
    with_webhook = _rendered({"admission": {"enabled": True}})
    added = with_webhook.keys() - base.keys()
    changed = {name for name in base if with_webhook[name] != base[name]}
    files = {name: _HEAD + text for name, text in base.items()}
    files |= {f"{ADMISSION}/{name}": _HEAD + with_webhook[name] for name in (*added, *changed)}
    hashed = _HASHED.format(hash=chart_hash())
    patches = "".join(f"  - path: {name}\n" for name in sorted(changed))
    return files | {
        KUSTOMIZATION: _HEAD + hashed + _BASE + _listed(base),
        f"{ADMISSION}/{KUSTOMIZATION}": f"{_HEAD}{_COMPONENT}{_listed(added)}patches:\n{patches}",
    }


def _listed(names: Iterable[str]) -> str:
    return "".join(f"  - {name}\n" for name in sorted(names))


def _rendered(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the objects of each template that has any, by the name of its file."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(find_program("helm")), "template", "ringwise", str(CHART)]
        command += [f"--namespace={NAMESPACE}", f"--kube-version={KUBE_VERSION}", f"--output-dir={folder}"]
        subprocess.run(
            [*command, "--values=-", "--include-crds", "--skip-tests"],
            input=json.dumps(values),
            text=True,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        made = Path(folder) / "ringwise"
        crds = "".join(path.read_text(encoding="utf-8") for path in sorted((made / "crds").iterdir()))
        found = {path.name: path.read_text(encoding="utf-8") for path in (made / "templates").iterdir()}
    found["namespaces.yaml"] = _NAMESPACE + found["namespaces.yaml"]
    return {name: _OF_HELM.sub("", text) for name, text in {"crds.yaml": crds, **found}.items()}


def main() -> None:
    WATCHED.write_text(watched_rights(), encoding="utf-8")
    files = render()
    shutil.rmtree(MANIFESTS)
    for name, text in files.items():
        path = MANIFESTS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

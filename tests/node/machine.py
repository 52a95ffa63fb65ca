"""A node as a story sees it: a real kubelet, a runtime that records, and the plugin.

Kubelet's folder for device plugins is fixed (/var/lib/kubelet), so each kubelet has a mount namespace with a
folder of the test there. The plugin and the test see the same files in that folder.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from ringwise_bench.control_plane import ControlPlane, Process, find_program, free_port, ringwise_command

ROOT = Path(__file__).resolve().parents[2]
RESOURCE = "huawei.com/Ascend910"
_MOUNTED = "/var/lib/kubelet"


def why_not() -> str:
    """Why these tests cannot run here; empty where they can."""
    if os.geteuid() != 0:
        return "a real kubelet needs root"
    if shutil.which("unshare") is None:
        return "unshare (util-linux) is missing: each kubelet needs a mount namespace"
    if not Path("/dev/kmsg").exists():
        return "/dev/kmsg is missing: kubelet reads it"
    return ""


class Machine:
    """One node."""

    def __init__(self, plane: ControlPlane, name: str, chips: int = 8, *, shares: bool = False) -> None:
        self.plane = plane
        self.name = name
        # Sockets want short paths.
        self.folder = Path(tempfile.mkdtemp(prefix="rwn"))
        self.kubelet_folder = self.folder / "k"
        self.records = self.folder / "containers.jsonl"
        self.chips = self.folder / "chips.json"
        #: Control groups of the containers that run.
        self.groups = self.folder / "cgroup"
        self._description = {"count": chips, "chip_name": "910PremiumA"}
        #: On a node with soft shares: /etc/enpu as the plugin sees it.
        self.shares = self.folder / "enpu" if shares else None
        if self.shares is not None:
            self._description |= {"chip_name": "910B3", "memory": 65536}
            self.shares.mkdir()
        #: Device ids of a healthy node.
        self.ids = chips * 100 if shares else chips
        self.kubelet: Process
        self.plugin: Process
        self._starts = 0
        for path in (self.kubelet_folder, self.folder / "manifests", self.groups / "kubepods"):
            path.mkdir(parents=True)
        self.records.touch()
        self.set_faults({})
        environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
        command = [
            sys.executable,
            "-m",
            "tests.node.runtime",
            str(self.folder / "cri.sock"),
            str(self.records),
            str(self.groups),
        ]
        self.runtime = plane.run(f"{name}-runtime", command, environment)
        self.runtime.expect((self.folder / "cri.sock").exists)

    def stop(self) -> None:
        """Everything of it ends, and its folder is gone."""
        for process in (getattr(self, "plugin", None), getattr(self, "kubelet", None), self.runtime):
            if process is not None:
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def set_faults(self, faults: dict[str, list[str]]) -> None:
        description = {**self._description, "faults": faults}
        unfinished = self.chips.with_suffix(".new")
        unfinished.write_text(json.dumps(description))
        unfinished.replace(self.chips)

    def start_kubelet(self) -> None:
        self._starts += 1
        configuration = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "127.0.0.1",
            "port": free_port(),
            "healthzPort": free_port(),
            "readOnlyPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            "localStorageCapacityIsolation": False,
            "containerRuntimeEndpoint": f"unix://{self.folder / 'cri.sock'}",
            "evictionHard": {"memory.available": "1Mi"},
            "registerNode": True,
            "nodeStatusUpdateFrequency": "2s",
            "syncFrequency": "2s",
            "logging": {"verbosity": 2},
        }
        path = self.folder / "kubelet.json"
        path.write_text(json.dumps(configuration))
        script = (
            f"mkdir -p {_MOUNTED} && mount --bind {self.kubelet_folder} {_MOUNTED} && exec "
            f"{find_program('kubelet')} --config={path} --root-dir={_MOUNTED} "
            f"--hostname-override={self.name} "
            f"--kubeconfig={self.plane.kubeconfig(f'{self.name}-kubelet', self.plane.admin_token)}"
        )
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
        self.kubelet = self.plane.run(f"{self.name}-kubelet-{self._starts}", command)
        self.kubelet.expect((self.kubelet_folder / "device-plugins" / "kubelet.sock").exists)
        self.kubelet.expect(lambda: self.node() is not None)

    def node(self) -> dict[str, Any] | None:
        found = [
            one for one in self.plane.admin.items("/api/v1/nodes") if one["metadata"]["name"] == self.name
        ]
        return found[0] if found else None

    def start_plugin(self, *more: str, server: str | None = None) -> None:
        self._starts += 1
        config = self.plane.kubeconfig(f"{self.name}-plugin", self.plane.admin_token, server)
        command = ringwise_command(
            "run",
            "device-plugin",
            f"--kubeconfig={config}",
            f"--node-name={self.name}",
            f"--kubelet-dir={self.kubelet_folder}",
            f"--simulated-chips={self.chips}",
            f"--cgroup-root={self.groups}",
            "--mount-method=plain",
            "--metrics-address=",
            "--enable-healthz=false",
            "-listWatchPeriod=3",
            *more,
        )
        if self.shares is not None:
            command += ["-shareDevCount=100", f"-softShareDevConfigDir={self.folder / 'share'}"]
            script = f'mkdir -p /etc/enpu && mount --bind {self.shares} /etc/enpu && exec "$@"'
            command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *command]
        self.plugin = self.plane.run(f"{self.name}-plugin-{self._starts}", command)

    def registrations(self) -> int:
        """How often the plugin that runs now has registered."""
        return self.plugin.log.read_text(errors="replace").count('"event": "registered"')

    def allocatable(self) -> int:
        node = self.node() or {}
        return int(node.get("status", {}).get("allocatable", {}).get(RESOURCE, 0))

    def containers(self) -> dict[str, list[int]]:
        """Pod to the chips of its container, as the runtime was told."""
        found: dict[str, list[int]] = {}
        for line in self.records.read_text().splitlines():
            record = json.loads(line)
            numbers = [one[0].removeprefix("/dev/davinci") for one in record["devices"]]
            found[record["pod"]] = sorted(int(number) for number in numbers if number.isdigit())
        return found

    def hold(self, pod: str, held: bool) -> None:
        """Whether the container of a pod goes on running though it is told to end."""
        stuck = self.records.with_name(f"{pod}.stuck")
        stuck.touch() if held else stuck.unlink(missing_ok=True)

    def running(self) -> set[str]:
        """Uids of pods whose containers run, as the runtime knows."""
        return {path.parent.parent.name.removeprefix("pod") for path in self.groups.rglob("cgroup.procs")}

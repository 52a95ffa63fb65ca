"""What a person chose on the command line."""

from __future__ import annotations

from pathlib import Path

from ringwise.device.container_response import BY_NODES
from ringwise.device.host_containers import CONTROL_GROUPS
from ringwise.records import dataclass

#: Kubelet's folders on every node.
PLUGIN_FOLDER = Path("/var/lib/kubelet/device-plugins")
POD_RESOURCES_SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
STATE_FOLDER = Path("/var/lib/kubelet/device-plugins/ringwise")
CDI_FOLDER = Path("/var/run/cdi")


@dataclass(frozen=True, slots=True)
class PluginSettings:
    node: str
    plugin_folder: Path = PLUGIN_FOLDER
    pod_resources: Path = POD_RESOURCES_SOCKET
    #: Our own pod, as namespace/name; empty where we run outside of one.
    pod: str = ""
    #: Where the file of mounts is kept.
    state_folder: Path = STATE_FOLDER
    cdi_folder: Path = CDI_FOLDER
    #: The root of the host's files.
    host_root: Path = Path("/")
    mount_method: str = BY_NODES
    mount_driver: bool = False
    #: Where the kernel shows the host's control groups, to see whether containers of deleted pods still run.
    cgroup_root: Path = CONTROL_GROUPS
    #: Where the runtime keeps the specifications of containers, to see their device nodes; None: not read.
    container_spec_dir: Path | None = None
    #: Match calls with pods by their annotations (rule D2); without it kubelet's ids are the chips.
    match_pods: bool = True
    #: Folder on the host with the memory that containers of a chip share; None: chips are given whole.
    soft_share_folder: Path | None = None
    #: Whether the dies of A3 chips are devices of their own, as an administrator has set it.
    single_die: bool = False
    #: Seconds between two looks at the chips.
    period: float = 5.0
    #: Set labels of the Node that are missing.
    set_labels: bool = True
    #: Seconds between two reports at least.
    report_interval: float = 1.0
    #: Seconds between two looks at kubelet and its socket; where files are watched a new one is seen at once.
    look_period: float = 1.0
    #: Seconds until a failed registration is tried again: first, and at most.
    first_retry: float = 0.05
    last_retry: float = 5.0

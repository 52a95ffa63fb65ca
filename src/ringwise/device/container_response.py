"""What a container gets: environment for Ascend Docker Runtime, device nodes and mounts, or CDI devices."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from ringwise.device.api.deviceplugin_pb2 import CDIDevice, ContainerAllocateResponse, DeviceSpec, Mount
from ringwise.device.cards import (
    ASCEND310B,
    ASCEND910A5,
    Chip,
    chips_per_standard_card,
    is_soc,
    lead,
    name_of,
)
from ringwise.files import replacing
from ringwise.log import Logger
from ringwise.manifests.text.go_json import compact
from ringwise.wellknown import NPU, VISIBLE_DEVICES

_LOG = Logger()

#: How chips come into containers.
BY_RUNTIME = "ascend-docker"
BY_NODES = "plain"
BY_CDI = "cdi"

RUNTIME_OPTIONS = "ASCEND_RUNTIME_OPTIONS"
ALLOW_LINK = "ASCEND_ALLOW_LINK"

TOPOLOGY_FILE = "HCCL_TOPO_FILE_PATH"
_TOPOLOGY_FOLDER = "/usr/local/Ascend/driver/topo/950"
#: A5: type of the SuperPoD that the driver reports -> the file that describes its links.
_TOPOLOGY_FILES = {0: "atlas_850_1", 1: "atlas_950_1", 2: "atlas_950_2", 3: "atlas_850_2", 4: "atlas_850_3"}
#: A5 standard cards, which are in no SuperPoD: chips on a card -> file.
_CARD_TOPOLOGY_FILES = {1: "atlas_350_1", 4: "atlas_350_3"}

CDI_KIND = NPU
CDI_VERSION = "0.5.0"
CDI_FILE = "huawei.com-npu.json"

_MANAGER = "/dev/davinci_manager"
#: Names in /dev, in the order in which containers get them; those that the host has.
_COMMON = ("hisi_hdc", "devmm_svm", "dvpp_cmdlist")
#: Atlas 200I SoC A1: what programs cannot do without, and what some hosts have.
_NEEDED_BY_SOC = (
    *("vpc", "vdec", "sys", "spi_smbus", "user_config", "ts_aisle", "svm0"),
    *("log_drv", "memory_bandwidth", "upgrade"),
)
_OF_SOC = (*_NEEDED_BY_SOC, "event_sched", "xsmem_dev")
_OF_310B = (
    *("pngd", "venc", "upgrade", "sys", "svm0", "vdec", "vpc", "ts_aisle", "log_drv"),
    *("acodec", "ai", "ao", "vo", "hdmi"),
)
_UB_FOLDERS = ("uburma", "ummu")
#: What programs in a container need of the driver; read only.
_DRIVER_PATHS = (
    "/usr/local/Ascend/driver/lib64",
    "/usr/local/Ascend/driver/version.info",
    "/usr/local/dcmi",
    "/usr/local/bin/npu-smi",
    "/etc/ascend_install.info",
)


class HostFiles:
    """The files of the host, seen through a folder that stands for its root."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def has(self, path: str) -> bool:
        return os.path.lexists(self._root / path.lstrip("/"))

    def text(self, path: str) -> str:
        """A file's text; empty where it cannot be read."""
        try:
            return (self._root / path.lstrip("/")).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def folder(self, path: str) -> list[str]:
        """Files in a folder that are not folders, sorted; none where it is not there."""
        try:
            entries = sorted((self._root / path.lstrip("/")).iterdir())
        except OSError:
            return []
        return [f"{path}/{entry.name}" for entry in entries if not entry.is_dir()]


def possible_mounting(mount_method: str, chips: Sequence[Chip]) -> str:
    """Ascend Docker Runtime does not know all device nodes of a SoC: its containers get them one by one."""
    if mount_method == BY_RUNTIME and is_soc(chips):
        _LOG.warning("Ascend Docker Runtime is not used on this product", product=chips[0].product)
        return BY_NODES
    return mount_method


def common_nodes(card: str, files: HostFiles, *, soc: bool = False) -> list[DeviceSpec]:
    """Device nodes that every container with chips needs."""
    host = _MANAGER
    if card == ASCEND310B and files.has(f"{_MANAGER}_docker"):
        host = f"{_MANAGER}_docker"
    nodes = [_node(_MANAGER, host)] if files.has(host) else []
    more = (*_COMMON, *(_OF_SOC if soc else ()), *(_OF_310B if card == ASCEND310B else ()))
    return nodes + [_node(path) for name in more if files.has(path := f"/dev/{name}")]


def chip_nodes(card: str, chips: Sequence[Chip]) -> list[DeviceSpec]:
    """One node a chip."""
    numbers = node_numbers(card, chips)
    return [_node(f"/dev/davinci{number}") for number in numbers]


def node_numbers(card: str, chips: Sequence[Chip]) -> list[int]:
    """The numbers of the chips' device nodes; on A5 they are the logic ids."""
    return [chip.logic if card == ASCEND910A5 else chip.physical for chip in chips]


def topology_file(card: str, chips: Sequence[Chip]) -> str:
    """A5: the file with the links between the chips of this node; empty where there is none."""
    if card != ASCEND910A5 or not chips:
        return ""
    name = _TOPOLOGY_FILES.get(lead(chips).superpod_type, "")
    on_card = chips_per_standard_card(card, chips)
    if on_card:
        name = _CARD_TOPOLOGY_FILES.get(on_card, "")
    return f"{_TOPOLOGY_FOLDER}/{name}.json" if name else ""


class ContainerResponses:
    """Builds answers for one way of mounting."""

    def __init__(
        self,
        mount_method: str,
        card: str,
        chips: Sequence[Chip],
        files: HostFiles | None = None,
        *,
        mount_driver: bool = False,
    ) -> None:
        self.mount_method = mount_method
        self._card = card
        self._files = files if files is not None else HostFiles()
        self._mount_driver = mount_driver
        self._soc = is_soc(chips)
        self._missing: list[str] = []
        self.watch(chips)
        self.look()

    def watch(self, chips: Sequence[Chip]) -> None:
        """The chips of the node."""
        self._chips = {name_of(self._card, chip.physical): chip for chip in chips}
        topology = self._topology = topology_file(self._card, chips)
        #: Environment of every container, whatever the way of mounting.
        self._always = {TOPOLOGY_FILE: topology} if topology else {}

    def links(self) -> str:
        """A5: the driver's file with the links of this node's chips; empty where there is none."""
        return self._files.text(self._topology) if self._topology else ""

    def look(self) -> None:
        """Look which device nodes and driver files the host has. Kubelet waits for answers, so not then."""
        self._common = tuple(common_nodes(self._card, self._files, soc=self._soc))
        if self.mount_method != BY_RUNTIME:
            present = {node.container_path for node in self._common}
            # Without them chips do not work.
            needed = (_MANAGER, *(f"/dev/{name}" for name in (_NEEDED_BY_SOC if self._soc else ())))
            missing = [path for path in needed if path not in present]
            if missing != self._missing and missing:
                _LOG.warning("the host lacks device nodes that containers need", missing=",".join(missing))
            self._missing = missing
        ub = (path for name in _UB_FOLDERS for path in self._files.folder(f"/dev/{name}"))
        self._ub = tuple(map(_node, ub))
        self._mounts = tuple(filter(self._files.has, _DRIVER_PATHS))

    def answer(self, names: Sequence[str]) -> ContainerAllocateResponse:
        if self.mount_method == BY_CDI:
            devices = (CDIDevice(name=f"{CDI_KIND}={name}") for name in names)
            return ContainerAllocateResponse(envs=self._always, cdi_devices=devices)
        chips = [self._chips[name] for name in names]
        if self.mount_method == BY_RUNTIME:
            # The runtime mounts /dev/davinci<N> for each number.
            numbers = ",".join(map(str, node_numbers(self._card, chips)))
            envs = {VISIBLE_DEVICES: numbers, RUNTIME_OPTIONS: "", **self._always}
            if self._card == ASCEND310B:
                envs[ALLOW_LINK] = "True"
            return ContainerAllocateResponse(envs=envs)
        nodes = (*self._common, *chip_nodes(self._card, chips), *self._ub)
        paths = self._mounts if self._mount_driver else ()
        mounts = (Mount(container_path=path, host_path=path, read_only=True) for path in paths)
        return ContainerAllocateResponse(envs=self._always, devices=nodes, mounts=mounts)

    def cdi_spec(self) -> str:
        """The CDI specification of this node: one device a chip, and what all of them need."""
        return compact(
            {
                "cdiVersion": CDI_VERSION,
                "kind": CDI_KIND,
                "devices": [
                    {
                        "name": name,
                        "containerEdits": {"deviceNodes": _cdi_nodes(chip_nodes(self._card, [chip]))},
                    }
                    for name, chip in self._chips.items()
                ],
                "containerEdits": {
                    "deviceNodes": _cdi_nodes([*self._common, *self._ub]),
                    "mounts": [
                        {
                            "hostPath": path,
                            "containerPath": path,
                            "options": ["ro", "nosuid", "nodev", "bind"],
                        }
                        for path in self._mounts
                    ],
                },
            }
        )

    def write_cdi_spec(self, folder: Path) -> None:
        """Write the specification where runtimes look for it. Raises OSError."""
        target = folder / CDI_FILE
        content = self.cdi_spec().encode()
        with contextlib.suppress(OSError):
            if target.read_bytes() == content:
                return
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(target, 0o644) as file:
            file.write(content)


def _node(path: str, host: str = "") -> DeviceSpec:
    return DeviceSpec(container_path=path, host_path=host or path, permissions="rw")


def _cdi_nodes(nodes: Sequence[DeviceSpec]) -> list[dict[str, str]]:
    return [
        {"path": node.container_path, "hostPath": node.host_path, "permissions": node.permissions}
        if node.container_path != node.host_path
        else {"path": node.container_path, "permissions": node.permissions}
        for node in nodes
    ]

"""What the host knows of containers: which chips they have, and which pods still have processes."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ringwise.log import Logger
from ringwise.manifests.text.readable import readable
from ringwise.manifests.text.wire import WireStruct

_LOG = Logger()

#: Where containerd and CRI-O keep them, below the folder that is given.
_FILES = ("*/config.json", "*/userdata/config.json")
#: Bytes of a specification that are read.
_LARGEST = 4 << 20
#: The pod in the path of a container's control group, as both drivers of kubelet write it.
_POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?![0-9a-f])")


class _Device(WireStruct):
    path: str = ""
    type: str = ""


class _Linux(WireStruct):
    devices: list[_Device] | None = None
    cgroups_path: str | None = None


class _Spec(WireStruct):
    linux: _Linux | None = None


class ContainerSpecs:
    """Which chips running containers have, from the specifications with which the runtime started them.

    A container's own /dev does not say it: root in the container can remove and make nodes there. The files
    in the runtime's folder belong to the host's root. They do not change while their container exists.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: Path of a device node to the chip behind it.
        self.nodes: Mapping[str, str] = {}
        #: File to its time, the uid of the pod and the paths of its character devices.
        self._read: dict[Path, tuple[int, str, frozenset[str]]] = {}
        self._problem = ""

    def chips_of(self, uids: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Pod uid to the chips of all its containers; pods without any are left out."""
        self._look()
        by_pod: dict[str, set[str]] = {}
        for _, uid, paths in self._read.values():
            if uid in uids:
                by_pod.setdefault(uid, set()).update(self.nodes[path] for path in paths if path in self.nodes)
        return {uid: tuple(sorted(chips)) for uid, chips in by_pod.items() if chips}

    def _look(self) -> None:
        read: dict[Path, tuple[int, str, frozenset[str]]] = {}
        unread = "" if self._folder.is_dir() else f"{self._folder} is not a directory"
        for pattern in _FILES:
            for path in self._folder.glob(pattern):
                try:
                    about = path.stat()
                    entry = self._read.get(path)
                    if entry is None or entry[0] != about.st_mtime_ns:
                        content = path.read_bytes() if about.st_size <= _LARGEST else b""
                        entry = (about.st_mtime_ns, *_pod_and_nodes(content))
                except FileNotFoundError:
                    # Its container ended meanwhile.
                    continue
                except OSError as problem:
                    unread = unread or str(problem)
                    continue
                read[path] = entry
        self._read = read
        if unread and unread != self._problem:
            _LOG.warning("chips of containers are not detected", why=unread)
        self._problem = unread


def _pod_and_nodes(content: bytes) -> tuple[str, frozenset[str]]:
    """Uid of the pod and paths of the character devices; empty where it cannot be read.

    The owner of a pod chooses the paths of block devices (volumes in block mode), of no others.
    """
    linux = readable(content, _Spec, _Spec()).linux or _Linux()
    nodes = frozenset(one.path for one in linux.devices or () if one.type == "c")
    return pod_in(linux.cgroups_path or ""), nodes


def pod_in(group: str) -> str:
    """Uid of the pod in the path of a control group; empty where there is none."""
    pod = _POD.search(group)
    return pod.group(1).replace("_", "-") if pod is not None else ""


CONTROL_GROUPS = Path("/sys/fs/cgroup")
#: Of several hierarchies (version 1) one is enough: kubelet makes the groups of pods in all of these.
_HIERARCHIES = ("pids", "memory", "cpu", "devices")
#: What kubelet calls the group of all pods; it may be below others.
_ALL_PODS = "kubepods"
_DEEPEST = 4
#: Levels below it in which pods are: by class of service, or at once.
_CLASSES = 2


class ControlGroups:
    """Which pods still have processes, from the control groups of the node.

    Kubelet forgets a pod that was deleted by force before its containers have ended. The kernel does not: a
    container's processes are in a control group below that of its pod until the last one is gone. Its names
    and figures are not secrets, and reading them needs no privilege beyond seeing the host's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def running(self, uids: Collection[str]) -> frozenset[str] | None:
        """Those of these pods that have processes; None where the groups of pods cannot be seen."""
        tops = list(self._tops())
        if not tops:
            return None
        pods = (path for top in tops for path in _folders(top, _CLASSES))
        pairs = ((pod_in(path.name), path) for path in pods)
        return frozenset(uid for uid, path in pairs if uid in uids and _has_processes(path))

    def _tops(self) -> Iterator[Path]:
        hierarchies = [self._folder / name for name in _HIERARCHIES]
        root = next((path for path in hierarchies if path.is_dir()), self._folder)
        return (path for path in _folders(root, _DEEPEST, _ALL_PODS) if _ALL_PODS in path.name)


def _folders(root: Path, deepest: int, last: str = "") -> Iterator[Path]:
    """Folders below one, so many levels deep; nothing below one whose name has `last` in it."""
    with suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                path = Path(entry.path)
                yield path
                if deepest > 1 and not (last and last in entry.name):
                    yield from _folders(path, deepest - 1, last)


def _has_processes(group: Path) -> bool:
    """A group that cannot be read has some; one that is gone has none."""
    try:
        with suppress(FileNotFoundError):
            return "populated 1" in (group / "cgroup.events").read_text()
        # Version 1 says it of each group alone.
        return any(
            (Path(folder) / "cgroup.procs").read_bytes().strip()
            for folder, _, files in os.walk(group)
            if "cgroup.procs" in files
        )
    except FileNotFoundError:
        return False
    except OSError:
        return group.exists()

"""Which pods still have processes, from the control groups of the node.

Kubelet forgets a pod that was deleted by force before its containers have ended. The kernel does not: a
container's processes are in a control group below that of its pod until the last one is gone. Its names and
figures are not secrets, and reading them needs no privilege beyond seeing the host's folder.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from ringwise.device.container_specs import pod_in

CONTROL_GROUPS = Path("/sys/fs/cgroup")
#: Of several hierarchies (version 1) one is enough: kubelet makes the groups of pods in all of these.
_HIERARCHIES = ("pids", "memory", "cpu", "devices")
#: What kubelet calls the group of all pods; it may be below others.
_ALL_PODS = "kubepods"
_DEEPEST = 4
#: Levels below it in which pods are: by class of service, or at once.
_CLASSES = 2


class ControlGroups:
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

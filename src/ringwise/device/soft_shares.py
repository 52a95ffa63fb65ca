"""Files of soft shares: what the library inside a container reads to keep to its share (rules V19, V20).

The container gets a folder of the host with one file, and the memory that all containers of a chip have in
common. Nothing enforces a share from outside.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ringwise.device.api import deviceplugin_pb2 as messages
from ringwise.device.cards import Chip, name_of, physical_id
from ringwise.device.ledger import Mount, Share
from ringwise.files import replacing
from ringwise.log import Logger
from ringwise.wellknown import SHARE_POLICIES

_LOG = Logger()

#: Folders of jobs on the host; the first of them in a container.
SHARES_FOLDER = Path("/etc/enpu")
_CONTAINER_FOLDER = "/etc/enpu/vcann-rt/"
_FILE = "npu_info.config"
#: Every container with a share has one device, whatever its number.
_COUNTS = (
    "MS_LOCAL_WORKER",
    "MS_WORKER_NUM",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "CM_WORKER_SIZE",
    "CM_LOCAL_WORKER",
)
_ENVIRONMENT = {**dict.fromkeys(_COUNTS, "1"), "LOCAL_RANK": "0"}

#: Folder of the job, chip and virtual number.
_Entry = tuple[str, str, int]


def _entry(mount: Mount) -> _Entry | None:
    share = mount.share
    return None if share is None else (share.folder, mount.chips[0], share.virtual)


class ShareFiles:
    """The files of one node. They follow the records of mounts, so that none is left over after a crash."""

    def __init__(self, memory_folder: Path, host_root: Path, mounts: Iterable[Mount]) -> None:
        self._memory_folder = memory_folder
        self._root = host_root
        self._entries = self._recorded(mounts)
        self._dies: Mapping[str, str] = {}

    @staticmethod
    def _recorded(mounts: Iterable[Mount]) -> set[_Entry]:
        return {entry for mount in mounts if (entry := _entry(mount)) is not None}

    def watch(self, card: str, chips: Sequence[Chip]) -> None:
        """Take the ids of the dies, by which containers of a chip find their common memory."""
        self._dies = {name_of(card, chip.physical): chip.vdie for chip in chips}

    def write(self, mount: Mount) -> None:
        """Create what a container mounts. Raises OSError."""
        entry, share = _entry(mount), mount.share
        assert entry is not None
        assert share is not None
        chip = mount.chips[0]
        if not self._dies.get(chip):
            raise OSError(f"the driver does not report the die ID of chip {chip}")
        self._entries.add(entry)
        folder = self._on_host(_folder(entry))
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        with replacing(folder / _FILE, 0o644) as file:
            file.write(self._content(chip, share).encode())
        memory = self._on_host(self._memory(chip))
        memory.mkdir(parents=True, exist_ok=True)
        # Containers of any user write there.
        memory.chmod(0o777)

    def _content(self, chip: str, share: Share) -> str:
        values = {
            "physical-npu-id": physical_id(chip),
            "virtual-npu-id": share.virtual,
            "aicore-quota": share.percent,
            "memory-quota": share.memory,
            "shm-id": self._dies[chip],
            "scheduling-policy": SHARE_POLICIES[share.policy],
        }
        return "".join(f"{key}={value}\n" for key, value in values.items())

    def keep(self, mounts: Iterable[Mount]) -> None:
        """Remove the files of shares without a record, and folders of jobs that have no share left."""
        recorded = self._recorded(mounts)
        folders = {folder for folder, _, _ in recorded}
        remaining = set()
        for entry in self._entries - recorded:
            unused = _folder(entry) if entry[0] in folders else SHARES_FOLDER / entry[0]
            try:
                shutil.rmtree(self._on_host(unused))
            except FileNotFoundError:
                continue
            except OSError as problem:
                _LOG.warning("files of a share not removed", folder=str(unused), why=str(problem))
                remaining.add(entry)
        self._entries = recorded | remaining

    def complete(self, mount: Mount, answer: messages.ContainerAllocateResponse) -> None:
        """Add to the answer for a chip what a share of it needs besides."""
        entry = _entry(mount)
        if entry is not None:
            chip = mount.chips[0]
            answer.envs.update(_ENVIRONMENT)
            answer.mounts.add(
                container_path=f"/dev/shm/{self._dies[chip]}", host_path=str(self._memory(chip))
            )
            folder = str(_folder(entry))
            answer.mounts.add(container_path=_CONTAINER_FOLDER, host_path=folder, read_only=True)

    def _memory(self, chip: str) -> Path:
        return self._memory_folder / str(physical_id(chip)) / self._dies[chip]

    def _on_host(self, path: Path) -> Path:
        return self._root / path.relative_to("/")


def _folder(entry: _Entry) -> Path:
    folder, chip, virtual = entry
    return SHARES_FOLDER / folder / f"{physical_id(chip)}_{virtual}"

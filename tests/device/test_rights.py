"""The plugin needs no root where kubelet's folder is open to it, and writes in its own folders only."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ringwise.device.simulated_kubelet import SimulatedKubelet
from tests.builders.values import CHIP
from tests.device.rig import CONFIG_MAPS, NODE, NODES, PODS
from tests.device.test_commands import kubeconfig, node_object
from tests.kube.fake_api_server import FakeApiServer

ROOT = Path(__file__).resolve().parents[2]
#: The user that owns nothing.
NOBODY = 65534


def _own_mounts() -> str:
    """Why this process cannot have mounts of its own; empty where it can."""
    if os.geteuid() != 0:
        return "needs root, to make the file system read only"
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        return "needs the programs unshare and mount"
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "--make-rprivate", "/"], capture_output=True, text=True, check=False
    )
    return f"mounts of its own are not allowed here: {tried.stderr.strip()}" if tried.returncode else ""


@pytest.mark.full
@pytest.mark.parametrize("read_only", [False, True], ids=["as another user", "on a read-only root"])
@pytest.mark.parametrize("mount_method", ["plain", "cdi"])
async def test_it_works_without_root_and_writes_in_its_folders_only(
    mount_method: str, read_only: bool
) -> None:
    if read_only and (why := _own_mounts()):
        pytest.skip(why)
    # The paths of sockets are short, and the other user must reach them.
    with tempfile.TemporaryDirectory(prefix="rw") as name:
        folder = Path(name)
        plugins, cdi = folder / "device-plugins", folder / "cdi"
        (folder / "chips.json").write_text(json.dumps({"count": 4}))
        async with FakeApiServer() as api:
            api.put(NODES, node_object())
            api.put(PODS, _pod())
            config = kubeconfig(folder, api.url)
            kubelet = SimulatedKubelet(plugins, folder / "pod-resources" / "kubelet.sock")
            cdi.mkdir()
            async with kubelet:
                _open_to_the_user(folder)
                before = _files(folder)
                process = await _started(folder, config, mount_method, [plugins, cdi] if read_only else [])
                try:
                    await kubelet.devices(CHIP, 4)
                    assert plugins.joinpath("Ascend910.sock").stat().st_uid in (NOBODY, os.getuid())
                    container = await kubelet.admit("default/train", CHIP, 1)
                    assert container.chips == (2,)
                    while f"kube-system/mindx-dl-deviceinfo-{NODE}" not in api.collections.get(
                        CONFIG_MAPS, {}
                    ):
                        await asyncio.sleep(0.01)
                    made = _files(folder) - before
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        process.send_signal(signal.SIGTERM)
                    _, errors = await process.communicate()
                assert process.returncode == 0, errors
                failures = [line for line in errors.decode().splitlines() if '"level":"error"' in line]
                assert failures == []
                allowed = {
                    "device-plugins/Ascend910.sock",
                    "device-plugins/ringwise",
                    "device-plugins/ringwise/Ascend910-mounts.jsonl",
                    *(("cdi/huawei.com-npu.json",) if mount_method == "cdi" else ()),
                }
                assert made == allowed


async def _started(
    folder: Path, config: str, mount_method: str, writable: list[Path]
) -> asyncio.subprocess.Process:
    confined = ["-m", "tests.device.confined", str(NOBODY), ",".join(map(str, writable))]
    return await asyncio.create_subprocess_exec(
        *(["unshare", "--mount"] if writable else []),
        sys.executable,
        *confined,
        f"--kubeconfig={config}",
        f"--kubelet-dir={folder}",
        f"--simulated-chips={folder}/chips.json",
        f"--mount-method={mount_method}",
        f"--cdi-dir={folder}/cdi",
        "--metrics-address=127.0.0.1:0",
        "--enable-healthz=false",
        cwd=ROOT,
        env={**os.environ, "NODE_NAME": NODE, "PYTHONDONTWRITEBYTECODE": "1"},
        stderr=subprocess.PIPE,
    )


def _pod() -> dict[str, object]:
    return {
        "metadata": {
            "namespace": "default",
            "name": "train",
            "annotations": {CHIP: "Ascend910-2", "predicate-time": "1"},
        },
        "spec": {
            "nodeName": NODE,
            "containers": [{"name": "main", "resources": {"limits": {CHIP: "1"}}}],
        },
        "status": {"phase": "Pending"},
    }


def _open_to_the_user(folder: Path) -> None:
    """As an administrator would open kubelet's folders to the plugin's user."""
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}

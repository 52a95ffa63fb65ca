"""A program that prints credentials (an exec plugin of client-go), as a user of a kubeconfig."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ringwise.wellknown import VOLCANO_SYSTEM
from ringwise_bench.control_plane import ControlPlane, Process, ringwise_command
from tests.cluster.objects import Object

EXEC_VERSION = "client.authentication.k8s.io/v1"

#: Prints a credential from a file, valid for some seconds, and counts its calls. It may be slow.
PLUGIN = """
import datetime, json, os, pathlib, sys, time
folder, seconds = pathlib.Path(sys.argv[1]), int(sys.argv[2])
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert info["apiVersion"] == "client.authentication.k8s.io/v1", info
with (folder / "calls").open("a") as file:
    file.write("x")
count = (folder / "calls").stat().st_size
delays = json.loads((folder / "delays").read_text())
if delays:
    time.sleep(delays[count % len(delays)])
choices = json.loads((folder / "credentials").read_text())
status = dict(choices[count % len(choices)])
if seconds:
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    status["expirationTimestamp"] = until.strftime("%Y-%m-%dT%H:%M:%SZ")
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def exec_user(
    folder: Path,
    credentials: Sequence[Mapping[str, str]],
    seconds: int = 0,
    delays: Sequence[float] = (),
) -> Object:
    """Each call prints the next of the credentials, after the next of the delays (seconds)."""
    folder.mkdir(exist_ok=True)
    (folder / "plugin.py").write_text(PLUGIN)
    (folder / "credentials").write_text(json.dumps(list(credentials)))
    set_delays(folder, delays)
    return {
        "exec": {
            "apiVersion": EXEC_VERSION,
            "command": sys.executable,
            "args": [str(folder / "plugin.py"), str(folder), str(seconds)],
            "interactiveMode": "Never",
        }
    }


def set_delays(folder: Path, delays: Sequence[float]) -> None:
    new = folder / "delays.new"
    new.write_text(json.dumps(list(delays)))
    new.replace(folder / "delays")


def calls(folder: Path) -> int:
    return (folder / "calls").stat().st_size


def launched_with(
    user: Mapping[str, Any], plane: ControlPlane, name: str, arguments: list[str], token: str
) -> Process:
    config = f"--kubeconfig={plane.kubeconfig_of(name, user)}"
    return plane.run(name, ringwise_command(*arguments, config), {"POD_NAMESPACE": VOLCANO_SYSTEM})

"""`ringwise bench start`: how long commands take to start.

Each is compared with a Python that imports click and msgspec, which every command needs. The commands run
one after the other, round by round, so that a slow machine is slow for all of them. Bytecode is compiled
before the first round, into a folder of the benchmark.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from ringwise_bench.report import Figure, at_most, shown

ROUNDS = 9
HELP_GOAL, PLACE_GOAL, SCHEDULER_GOAL = 2.5, 4.0, 5.0
#: Seconds after which a command that does not start has failed.
TIMEOUT = 60.0

_MAIN = "from ringwise.cli.main import main; main()"
_SERVER = "from ringwise_bench.empty_api_server import serve; serve()"
_MANIFESTS = """\
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {accelerator: huawei-Ascend910, accelerator-type: module}}
status:
  capacity: {cpu: "192", memory: 768Gi, pods: "110", huawei.com/Ascend910: "8"}
  allocatable: {cpu: "192", memory: 768Gi, pods: "110", huawei.com/Ascend910: "8"}
  conditions: [{type: Ready, status: "True"}]
---
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: default}
spec:
  schedulerName: volcano
  containers: [{name: main, resources: {limits: {huawei.com/Ascend910: "4"}}}]
"""


class StartFailedError(Exception):
    """A command of the benchmark failed."""


def run(full: bool = False) -> list[Figure]:
    """Median start times and their ratios; `full` measures three times as many rounds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with _api_server(folder) as kubeconfig:
            commands = _commands(folder, kubeconfig, environment)
            for start in commands.values():
                start()
            times: dict[str, list[float]] = {name: [] for name in commands}
            for _ in range(ROUNDS * 3 if full else ROUNDS):
                for name, start in commands.items():
                    times[name].append(start())
    medians = {name: median(seconds) for name, seconds in times.items()}
    base = medians["click and msgspec"]
    return [
        at_most("ringwise --help", medians["help"] / base, "x", HELP_GOAL),
        at_most("ringwise place on one small file", medians["place"] / base, "x", PLACE_GOAL),
        at_most(
            "ringwise run scheduler until it decides on an empty cluster",
            medians["scheduler"] / base,
            "x",
            SCHEDULER_GOAL,
        ),
        *(shown(f"start of {name}", seconds * 1000, "ms") for name, seconds in medians.items()),
    ]


def _commands(folder: Path, kubeconfig: Path, environment: dict[str, str]) -> dict[str, Callable[[], float]]:
    manifests = folder / "manifests.yaml"
    manifests.write_text(_MANIFESTS, encoding="utf-8")
    addresses = ("--metrics-address=127.0.0.1:0", "--healthz-address=127.0.0.1:0")
    scheduler = [_MAIN, "run", "scheduler", f"--kubeconfig={kubeconfig}", *addresses]
    return {
        "click and msgspec": lambda: _until_exit(["import click, msgspec"], environment),
        "help": lambda: _until_exit([_MAIN, "--help"], environment),
        "place": lambda: _until_exit([_MAIN, "place", "-f", str(manifests)], environment),
        "scheduler": lambda: _until_deciding(scheduler, environment),
    }


def _until_exit(arguments: list[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", *arguments], env=environment, capture_output=True, timeout=TIMEOUT, check=False
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        raise StartFailedError(f"{' '.join(arguments[1:])}: {done.stderr.decode(errors='replace')}")
    return seconds


def _until_deciding(arguments: list[str], environment: dict[str, str]) -> float:
    """Until the log has the line that the scheduler decides."""
    started = time.perf_counter()
    command = [sys.executable, "-c", *arguments]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if json.loads(line)["event"] == "deciding":
                    return time.perf_counter() - started
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
    raise StartFailedError(f"{' '.join(arguments[1:])}: ended before it decided")


@contextmanager
def _api_server(folder: Path) -> Iterator[Path]:
    """The kubeconfig of a server without objects, in a process of its own."""
    with subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            cluster = {"server": f"http://127.0.0.1:{port}"}
            kubeconfig = folder / "kubeconfig"
            document = {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "bench", "cluster": cluster}],
                "users": [{"name": "bench", "user": {}}],
                "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
                "current-context": "bench",
            }
            kubeconfig.write_text(json.dumps(document), encoding="utf-8")
            yield kubeconfig
        finally:
            process.terminate()

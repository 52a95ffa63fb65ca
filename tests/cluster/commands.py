"""The commands of users, as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ringwise_bench.control_plane import find_program, ringwise_command

#: Seconds within which a command must end, on a busy machine.
COMMAND_TIMEOUT = 300.0


def finished(
    command: Sequence[str], env: Mapping[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. One that takes too long fails with its name, and with what it has said."""
    try:
        return subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env=env,
            timeout=COMMAND_TIMEOUT,
        )
    except subprocess.TimeoutExpired as late:
        said = b"".join(part for part in (late.stdout, late.stderr) if isinstance(part, bytes))
        text = said.decode(errors="replace")[-2000:]
        raise AssertionError(f"not over after {COMMAND_TIMEOUT:g} s: {' '.join(command)}\n{text}") from None


class Command:
    """`kubectl ringwise ...` that runs beside the story."""

    def __init__(self, kubeconfig: Path, *arguments: str) -> None:
        self._process = subprocess.Popen(
            kubectl_command(*arguments),
            env=environment(kubeconfig),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def finish(self) -> subprocess.CompletedProcess[str]:
        out, errors = self._process.communicate(timeout=COMMAND_TIMEOUT)
        return subprocess.CompletedProcess(self._process.args, self._process.returncode, out, errors)

    def kill(self) -> None:
        """A story that failed does not finish it."""
        self._process.kill()
        self._process.communicate()


def kubectl_ringwise(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`kubectl ringwise ...`, found by kubectl on the PATH."""
    return _run(kubeconfig, kubectl_command(*arguments))


def kubectl_command(*arguments: str) -> list[str]:
    return [str(find_program("kubectl")), "ringwise", *arguments]


def ringwise(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return _run(kubeconfig, ringwise_command(*arguments))


def _run(kubeconfig: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    return finished(command, environment(kubeconfig))


def environment(kubeconfig: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent)}

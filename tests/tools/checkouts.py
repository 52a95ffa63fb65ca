"""Commands and labs of a checkout of Ringwise: this one, or one of another commit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("worker.py")
#: A lab that has not answered after so many seconds will not answer.
TIMEOUT = 60.0


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    def document(self) -> Any:
        """What `-o json` printed."""
        if self.code:
            raise RuntimeError(f"exit code {self.code}: {self.err.strip()}")
        return json.loads(self.out)


def environment(checkout: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONHASHSEED": "0", "COLUMNS": "120"}


class Checkout:
    """One process that runs commands of a checkout, one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER), str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(self.path),
            cwd=self.path,
        )

    def send(self, *arguments: str) -> None:
        """Start a command; `receive` waits for it. Two checkouts can work at the same time so."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"arguments": arguments}) + "\n")
        self._process.stdin.flush()

    def receive(self) -> Ran:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.path} ended with code {self._process.wait()}")
        return Ran(**json.loads(line))

    def run(self, *arguments: str) -> Ran:
        self.send(*arguments)
        return self.receive()

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    @contextmanager
    def lab(self, folder: Path, *options: str) -> Iterator[None]:
        """A lab of this checkout with virtual time, until the block ends."""
        process = subprocess.Popen(
            [
                sys.executable,
                str(WORKER),
                str(self.path),
                "lab",
                "--virtual",
                "--data",
                str(folder),
                *options,
            ],
            stdout=subprocess.DEVNULL,
            env=environment(self.path),
            cwd=self.path,
        )
        try:
            self._wait_for(process, folder)
            yield
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            code = process.wait()
        if code:
            raise RuntimeError(f"the lab of {self.path} ended with code {code}")

    def _wait_for(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        limit = time.monotonic() + TIMEOUT
        while time.monotonic() < limit and process.poll() is None:
            if (folder / "lab.sock").exists() and not self.run("get", "queues", "--lab", str(folder)).code:
                return
            time.sleep(0.05)
        raise RuntimeError(f"the lab of {self.path} does not answer")

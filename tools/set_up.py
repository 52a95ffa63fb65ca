"""Install pinned requirements and packages of this repository into a virtual environment, with progress.

    python tools/set_up.py .venv -r requirements-dev.txt -e . -e ./bench

The Makefile calls it. It needs nothing but the standard library. pip is silent for minutes on a slow network;
here a line says how far it is, in a terminal every second, in a log every ten.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

_PIP = ("-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off")


class Progress:
    """What pip does, in one line that is overwritten in a terminal."""

    def __init__(self, total: int, out: TextIO) -> None:
        self._total = total
        self._out = out
        self._terminal = out.isatty()
        self._began = time.monotonic()
        self._read = 0
        self._stage = "starting"
        self._shown = 0.0

    @property
    def seconds(self) -> int:
        return round(time.monotonic() - self._began)

    def take(self, line: str) -> None:
        """A line that pip printed."""
        if line.startswith(("Collecting ", "Requirement already satisfied")):
            self._read += 1
            self._stage = f"{min(self._read, self._total)} of {self._total} packages fetched"
        elif line.startswith("Installing collected packages"):
            self._stage = f"installing {self._total} packages"
            self.show(now=True)
        self.show()

    def show(self, now: bool = False) -> None:
        every = 1 if self._terminal else 10
        if not now and self.seconds - self._shown < every:
            return
        self._shown = self.seconds
        line = f"   {self._stage}, {self.seconds} s"
        self._out.write(f"\r\x1b[K{line}" if self._terminal else f"{line}\n")
        self._out.flush()

    def end(self) -> None:
        if self._terminal:
            self._out.write("\r\x1b[K")


def packages_of(requirements: Path) -> int:
    """How many packages a compiled requirements file pins."""
    return len(re.findall(r"^[A-Za-z0-9][^ =]*==", requirements.read_text(encoding="utf-8"), re.MULTILINE))


def install(command: list[str], progress: Progress) -> None:
    """Run pip; its errors are shown as they are, with the lines before them."""
    last: list[str] = []
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=unbuffered
    ) as pip:
        ended = threading.Event()

        def tick() -> None:
            while not ended.wait(1):
                progress.show()

        clock = threading.Thread(target=tick, daemon=True)
        clock.start()
        assert pip.stdout is not None
        for line in pip.stdout:
            last = [*last[-20:], line]
            progress.take(line)
        ended.set()
        clock.join()
    progress.end()
    if pip.returncode:
        said = "".join(last)
        sys.exit(f"{said}\n== pip failed with exit code {pip.returncode}; after it is mended: make setup")


def main(arguments: list[str], out: TextIO) -> None:
    known = argparse.ArgumentParser()
    known.add_argument("folder")
    known.add_argument("-r", dest="requirements", action="append", required=True)
    known.add_argument("-e", dest="packages", action="append", required=True)
    given = known.parse_args(arguments)
    total = sum(packages_of(Path(name)) for name in given.requirements)
    out.write(f"== setting up {given.folder}, once: {total} packages, up to three minutes\n")
    out.flush()
    progress = Progress(total, out)
    python = Path(given.folder, "bin", "python")
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", given.folder], check=True)
    pip = [str(python), *_PIP]
    install([*pip, "--require-hashes", *(f"-r{name}" for name in given.requirements)], progress)
    install([*pip, "--no-deps", "--no-build-isolation", *(f"-e{name}" for name in given.packages)], progress)
    out.write(f"== {given.folder} is ready after {progress.seconds} s\n")


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)

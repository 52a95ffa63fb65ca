"""A lab with its dashboard in a process, a network that can be cut, and a browser."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from tests.lab.rig import Terminal

#: Milliseconds that a condition may take on a slow machine. Nothing waits so long when all is well.
TIMEOUT = 180_000
_DASHBOARD = re.compile(r"dashboard on (http://\S+)")


class DashboardLab:
    """A lab on virtual time, with the address of its page."""

    def __init__(self, folder: Path, *options: str, port: int = 0) -> None:
        command = [sys.executable, "-m", "ringwise", "lab", "--data-dir", str(folder), "--virtual"]
        self.folder = folder
        self.terminal = Terminal(folder)
        self._process = subprocess.Popen(
            [*command, "--web-address", f"127.0.0.1:{port}", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self._process.stdout is not None
        said = []
        for line in self._process.stdout:
            said.append(line)
            if match := _DASHBOARD.search(line):
                self.url = match[1]
                break
        else:
            raise AssertionError(f"the lab shows no dashboard: {''.join(said)}")
        # What it says later must be read, or it stops when the pipe is full.
        self._reader = threading.Thread(target=self._process.stdout.read)
        self._reader.start()

    @property
    def port(self) -> int:
        port = urlsplit(self.url).port
        assert port is not None
        return port

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def dashboard_lab(folder: Path, *options: str, port: int = 0) -> Iterator[DashboardLab]:
    lab = DashboardLab(folder, *options, port=port)
    try:
        yield lab
    finally:
        lab.end()


class Network:
    """A way to a port that can be cut.

    `cut` breaks connections and refuses new ones. `hold` closes nothing and carries nothing: new connections
    are accepted, too. `release` carries again what was held; with `lost` only what new connections bring.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._carries = threading.Event()
        self._carries.set()
        #: Held connections whose data never comes.
        self._lost: set[socket.socket] = set()
        self._listener = self._listen(0)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port))
        self._start(self._accept, listener)
        return listener

    def _start(self, work: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._open |= {client, server}
                self._start(self._carry, client, server)
                self._start(self._carry, server, client)

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._carries.wait()
                if source not in self._lost:
                    sink.sendall(data)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._carries.set()
        with self._lock:
            broken, self._open = self._open, set()
        for one in broken:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._threads = []
        for one in broken:
            one.close()

    def hold(self) -> None:
        self._carries.clear()

    def release(self, *, lost: bool) -> None:
        if lost:
            with self._lock:
                self._lost |= self._open
        self._carries.set()

    def mend(self) -> None:
        self._listener = self._listen(self.port)


class View:
    """A tab with the page. What goes wrong in it fails the test."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url
        self.problems: list[str] = []
        page.set_default_timeout(TIMEOUT)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("console", self._on_console)
        page.on("dialog", self._on_dialog)

    def _on_console(self, message: Any) -> None:
        # A request that fails is shown by the page itself.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.problems.append(f"console: {message.text}")

    def _on_dialog(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, *path: str, settings: str = "", live: bool = True) -> View:
        where = "/".join(quote(part, safe="") for part in path)
        self.page.goto(f"{self.url}#/{where}{'?' if settings else ''}{settings}")
        self.page.locator("#view-title").wait_for()
        if live:
            self.wait_state("live")
        return self

    def wait_state(self, state: str) -> None:
        """Until the page says how it is connected."""
        self.page.locator(f".connection-{state}").wait_for()

    def see(self, text: str, inside: str = "main") -> None:
        """Until this text is shown."""
        self.page.locator(inside).get_by_text(text).first.wait_for()

    def see_total(self, name: str, value: str) -> None:
        row = self.page.locator(".totals div").filter(has=self.page.get_by_text(name, exact=True))
        row.get_by_text(value, exact=True).wait_for()

    def row(self, name: str, table: str) -> Any:
        """The row of a table that has a cell with this name."""
        return self.page.get_by_role("table", name=table, exact=True).get_by_role("row").filter(has_text=name)

    def text(self, selector: str = "main") -> str:
        return str(self.page.locator(selector).inner_text())

    def complete(self) -> View:
        """Until nothing of the view is still being read."""
        for words in ("Reading.", "Being computed."):
            self.page.locator("main .empty").filter(has_text=words).first.wait_for(state="detached")
        self.settled()
        return self

    def settled(self) -> None:
        """Until the page has drawn what it knows.

        What follows from a drawing is done by a timer after it (an effect), and may ask for another drawing.
        The same steps are asked for here, each after those of the page, however slow the machine is.
        """
        self.page.evaluate(
            """async () => {
              for (let round = 0; round < 3; round += 1) {
                await new Promise(requestAnimationFrame);
                await new Promise((resolve) => setTimeout(resolve));
              }
              await new Promise(requestAnimationFrame);
            }"""
        )

    def until(self, holds: Callable[[], bool]) -> None:
        """Until this holds, looked at after every drawing."""
        ends = time.monotonic() + TIMEOUT / 1000
        while not holds():
            assert time.monotonic() < ends, "it did not come to hold"
            self.settled()

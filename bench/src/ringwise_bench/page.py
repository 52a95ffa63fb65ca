"""The dashboard's page in a browser: frames per second and memory while the cluster changes.

A Chromium that is found on the machine is driven over its DevTools protocol, which is JSON on a websocket:
no other package is needed. It runs without a window, so frames are drawn by the processor.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from ringwise.records import dataclass

#: Names another browser than those that are looked for.
BROWSER_VARIABLE = "RINGWISE_BROWSER"
_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "headless_shell")
_ARGUMENTS = (
    "--headless=new",
    "--remote-debugging-port=0",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--enable-precise-memory-info",
    "--no-first-run",
    "--no-default-browser-check",
    "--window-size=1280,800",
)
_LISTENING = re.compile(r"DevTools listening on (ws://\S+)")
_TIMEOUT = 60.0
#: Waits until the page follows the server.
_READY = """
(async () => {
  const { connection, store } = await import("/page/main.js");
  const end = performance.now() + TIMEOUT;
  while (!(store.loaded && connection.status.state === "live" && document.querySelector("canvas"))) {
    if (performance.now() > end) throw new Error(`the page is not live: ${connection.status.state}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
})()
"""
#: In a new page: when the map has colours, and when the document had come of which it is drawn.
_DRAWN = """
(() => {
  const small = Object.assign(document.createElement("canvas"), { width: 64, height: 64 });
  const look = () => {
    const map = document.querySelector("canvas.map-base");
    if (map?.width && map.height) {
      // On a canvas of its own: who asks the map for its context first decides what kind it is.
      const context = small.getContext("2d", { willReadFrequently: true });
      context.drawImage(map, 0, 0, small.width, small.height);
      const pixels = new Uint32Array(context.getImageData(0, 0, small.width, small.height).data.buffer);
      if (pixels.some((pixel) => pixel !== pixels[0])) {
        const came = performance.getEntriesByType("resource")
          .filter((one) => one.name.includes("/api/v1/") && one.responseEnd)
          .map((one) => one.responseEnd);
        window.drawnAfter = performance.now() - Math.min(...came);
        return;
      }
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})()
"""
#: Counts frames and changes for a while, in which the wheel zooms the map in and out.
_MEASURE = """
(async () => {
  const { connection } = await import("/page/main.js");
  const map = document.querySelector("canvas.map-overlay");
  const box = map.getBoundingClientRect();
  const middle = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 };
  const before = connection.changes;
  const frames = [];
  const began = performance.now();
  await new Promise((resolve) => {
    const frame = (now) => {
      frames.push(now);
      const deltaY = -30 * Math.sin((now - began) / 500);
      map.dispatchEvent(new WheelEvent("wheel", { ...middle, deltaY, bubbles: true, cancelable: true }));
      if (performance.now() - began >= DURATION) resolve();
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  const gaps = frames.slice(1).map((now, i) => now - frames[i]);
  return {
    seconds: (performance.now() - began) / 1000,
    frames: frames.length,
    longest: gaps.length ? Math.max(...gaps) : 0,
    changes: connection.changes - before,
    drawnAfter: window.drawnAfter,
  };
})()
"""


class BrowserError(Exception):
    """The browser does not start, or the page in it does not work."""


@dataclass(frozen=True, slots=True)
class PageFigures:
    frames_per_second: float
    longest_frame_ms: float
    heap_mb: float
    changes_applied: int
    #: From the end of the first document to a map with colours.
    drawn_ms: float
    #: Processor time of the page's thread for each frame: it does not depend on what else the machine does.
    work_ms: float


def find_browser() -> Path | None:
    """A Chromium, or None. Where the environment names one, no other is taken."""
    named = os.environ.get(BROWSER_VARIABLE)
    names = (named,) if named else _NAMES
    return next((Path(path) for name in names if (path := shutil.which(name))), None)


async def measure_page(url: str, seconds: float) -> PageFigures:
    """Open the page, wait until it is live, and count for `seconds`."""
    browser = find_browser()
    if browser is None:
        raise BrowserError("no Chromium is found")
    async with (
        _running(browser) as address,
        aiohttp.ClientSession() as session,
        session.ws_connect(address, max_msg_size=0) as socket,
    ):
        page = await _Page.open(_Connection(socket))
        await page.call("Page.addScriptToEvaluateOnNewDocument", {"source": _DRAWN})
        await page.call("Page.navigate", {"url": url})
        await page.until_loaded()
        await page.evaluate(_READY.replace("TIMEOUT", str(_TIMEOUT * 1000)))
        await page.call("Performance.enable")
        before = await page.thread_seconds()
        counted = await page.evaluate(_MEASURE.replace("DURATION", str(seconds * 1000)))
        worked = await page.thread_seconds() - before
        await page.call("HeapProfiler.collectGarbage")
        heap = await page.call("Runtime.getHeapUsage")
    # Pixels and other buffers are outside of the heap of JavaScript.
    used = heap["usedSize"] + heap.get("backingStorageSize", 0)
    return PageFigures(
        frames_per_second=counted["frames"] / counted["seconds"],
        longest_frame_ms=counted["longest"],
        heap_mb=used / 1e6,
        changes_applied=counted["changes"],
        drawn_ms=counted["drawnAfter"],
        work_ms=worked * 1e3 / counted["frames"],
    )


@asynccontextmanager
async def _running(browser: Path) -> AsyncIterator[str]:
    """A browser with a profile of its own; gives the address of its DevTools."""
    with tempfile.TemporaryDirectory(prefix="ringwise-browser-", ignore_cleanup_errors=True) as profile:
        arguments = [*_ARGUMENTS, f"--user-data-dir={profile}"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            # Chromium refuses to run as root with its sandbox; only pages of this process are opened.
            arguments.append("--no-sandbox")
        process = await asyncio.create_subprocess_exec(
            browser,
            *arguments,
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        said: list[str] = []
        reader: asyncio.Task[None] | None = None
        try:
            address = await asyncio.wait_for(_address(process.stderr, said), _TIMEOUT)
            # What it says later must be read, or it stops when the pipe is full.
            reader = asyncio.create_task(_drain(process.stderr))
            yield address
        except TimeoutError:
            raise BrowserError(f"{browser} does not start:\n{''.join(said[-5:])}") from None
        finally:
            if reader is not None:
                reader.cancel()
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _address(stderr: asyncio.StreamReader, said: list[str]) -> str:
    async for line in stderr:
        said.append(line.decode(errors="replace"))
        if match := _LISTENING.search(said[-1]):
            return match[1]
    raise BrowserError(f"the browser ended at once:\n{''.join(said[-5:])}")


async def _drain(stderr: asyncio.StreamReader) -> None:
    while await stderr.read(65536):
        pass


class _Connection:
    """Calls over the websocket, one at a time."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = count(1)
        self._events: list[dict[str, Any]] = []

    async def call(self, method: str, parameters: dict[str, Any], session: str = "") -> dict[str, Any]:
        number = next(self._ids)
        request = {"id": number, "method": method, "params": parameters}
        await self._socket.send_str(
            msgspec.json.encode({**request, "sessionId": session} if session else request).decode()
        )
        while (message := await self._receive()).get("id") != number:
            self._events.append(message)
        if "error" in message:
            raise BrowserError(f"{method}: {message['error'].get('message', message['error'])}")
        result: dict[str, Any] = message.get("result", {})
        return result

    async def event(self, method: str) -> dict[str, Any]:
        """The next event of this name, those that have already come included."""
        for i, message in enumerate(self._events):
            if message.get("method") == method:
                return self._events.pop(i)
        while (message := await self._receive()).get("method") != method:
            self._events.append(message)
        return message

    async def _receive(self) -> dict[str, Any]:
        received = await self._socket.receive(timeout=2 * _TIMEOUT)
        if received.type is not aiohttp.WSMsgType.TEXT:
            raise BrowserError("the browser has ended")
        return msgspec.json.decode(received.data, type=dict[str, Any])


class _Page:
    """A tab."""

    def __init__(self, connection: _Connection, session: str) -> None:
        self._connection = connection
        self._session = session

    @classmethod
    async def open(cls, connection: _Connection) -> _Page:
        target = await connection.call("Target.createTarget", {"url": "about:blank"})
        attached = await connection.call(
            "Target.attachToTarget", {"targetId": target["targetId"], "flatten": True}
        )
        page = cls(connection, attached["sessionId"])
        await page.call("Page.enable")
        return page

    async def call(self, method: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        return await self._connection.call(method, parameters or {}, self._session)

    async def until_loaded(self) -> None:
        await self._connection.event("Page.loadEventFired")

    async def thread_seconds(self) -> float:
        """Processor time that the page's thread has used."""
        metrics = (await self.call("Performance.getMetrics"))["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "ThreadTime"))

    async def evaluate(self, expression: str) -> Any:
        """What a promise gives."""
        parameters = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        answer = await self.call("Runtime.evaluate", parameters)
        if "exceptionDetails" in answer:
            raised = answer["exceptionDetails"].get("exception", {})
            raise BrowserError(raised.get("description", answer["exceptionDetails"].get("text", "error")))
        return answer["result"].get("value")

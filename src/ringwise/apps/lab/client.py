"""Talks to a running lab over its socket."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ringwise.apps.lab.folder import LabFolder

#: The header in which a lab says what is wrong with its plugins: a JSON list of lines.
PLUGIN_PROBLEMS = "Ringwise-Plugin-Problems"
#: The header in which a lab says its version.
VERSION = "Ringwise-Version"
#: A client with this header gets, while a long answer is computed, how many placements were tried: each time
#: a line `{"tried": N}`. The last line is `{"status": S, "document": ...}`.
PROGRESS = "Ringwise-Progress"
LINES = "application/x-ndjson"


class NoLabError(Exception):
    """No lab answers; the message is one line and names the remedy."""


#: The status of an answer that something to be created exists.
ALREADY_EXISTS = 412


class RefusedByLabError(Exception):
    """The lab refused the request; the message has one line per problem."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.already_exists = status == ALREADY_EXISTS


class _Line(msgspec.Struct):
    tried: int | None = None
    #: Of a lab that ended before its answer.
    status: int = 500
    document: msgspec.Raw = msgspec.Raw(b"")


_LINE = msgspec.json.Decoder(_Line)


class _Connection(http.client.HTTPConnection):
    def __init__(self, folder: LabFolder, timeout: float | None) -> None:
        super().__init__("lab", timeout=timeout)
        self._folder = folder
        self._timeout = timeout

    def connect(self) -> None:
        self.sock = self._folder.connect(self._timeout)


class LabClient:
    def __init__(self, folder: Path, timeout: float | None = 300.0) -> None:
        self._folder = LabFolder(folder)
        self._timeout = timeout
        #: Called with how many placements were tried, while the lab computes a long answer.
        self.on_progress: Callable[[int], None] | None = None
        #: What the lab said about its plugins in its last answer.
        self.plugin_problems: list[str] = []
        #: Of the lab, as its last answer said; empty: it said none.
        self.version = ""

    def ask(self, question: str, **parameters: Any) -> Any:
        """A question about the lab; nothing changes."""
        return self._call(f"/v1/queries/{question}", parameters)

    def do(self, action: str, request: msgspec.Struct) -> Any:
        """Change something, by a request of the table (`requests.py`)."""
        return self._call(f"/v1/actions/{action}", request)

    def _call(self, path: str, body: object) -> Any:
        connection = _Connection(self._folder, self._timeout)
        try:
            headers = {"Content-Type": "application/json"}
            if self.on_progress is not None:
                headers[PROGRESS] = "1"
            connection.request("POST", path, msgspec.json.encode(body), headers)
            response = connection.getresponse()
            status, answer = response.status, b""
            while self.on_progress is not None and response.getheader("Content-Type") == LINES:
                line = _LINE.decode(response.readline() or b"{}")
                if line.tried is None:
                    status, answer = line.status, bytes(line.document)
                    break
                self.on_progress(line.tried)
            else:
                answer = response.read()
        except (OSError, http.client.HTTPException) as problem:
            raise self._no_lab(problem) from None
        finally:
            connection.close()
        try:
            document = msgspec.json.decode(answer)
        except msgspec.MsgspecError:
            document = {"error": f"the lab answered {status}"}
        self.version = response.getheader(VERSION, "")
        with suppress(msgspec.MsgspecError):
            said = response.getheader(PLUGIN_PROBLEMS, "[]")
            self.plugin_problems = msgspec.json.decode(said, type=list[str])
        if status >= 400:
            raise RefusedByLabError(document.get("error", "the lab rejected the request"), status)
        return document

    def _no_lab(self, problem: Exception) -> NoLabError:
        folder = self._folder.path
        if isinstance(problem, (FileNotFoundError, ConnectionRefusedError, NotADirectoryError)):
            return NoLabError(f"no lab runs on {folder}; start one in another terminal with: ringwise lab")
        if isinstance(problem, TimeoutError):
            return NoLabError(f"the lab on {folder} does not respond; it may be busy")
        if isinstance(problem, PermissionError):
            return NoLabError(f"the lab on {folder} belongs to another user")
        return NoLabError(f"the lab on {folder} stopped during the request ({type(problem).__name__})")

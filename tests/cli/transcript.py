"""Commands as a terminal of 80 columns shows them: stdout and stderr together, errors folded."""

from __future__ import annotations

import gc
import io
import shlex

import pytest

from ringwise.cli import kubectl, main

COLUMNS = 80
PROGRAMS = {"ringwise": main._ringwise, "kubectl ringwise": kubectl._plugin}


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


class _Keyboard:
    """What is typed is seen, too."""

    def __init__(self, keys: str, screen: _Screen) -> None:
        self._keys = io.StringIO(keys)
        self._screen = screen

    def readline(self, *size: int) -> str:
        line = self._keys.readline(*size)
        self._screen.write(line)
        return line


def typed(command: str, keys: str = "") -> str:
    """Run `ringwise ...` or `kubectl ringwise ...`, and return the command and what the screen shows."""
    program = next(name for name in PROGRAMS if command.startswith(f"{name} "))
    screen = _Screen()
    threshold = gc.get_threshold()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"TERM": "dumb", "COLUMNS": str(COLUMNS)}.items():
            patch.setenv(name, value)
        # Progress is erased from a screen, but not from a text.
        for method in ("start", "stop"):
            patch.setattr(f"rich.progress.Progress.{method}", lambda *_arguments: None)
            patch.setattr(f"rich.status.Status.{method}", lambda *_arguments: None)
        patch.setattr("signal.signal", lambda *_arguments: None)
        patch.setattr("sys.argv", ["ringwise", *shlex.split(command.removeprefix(program))])
        patch.setattr("sys.stdout", screen)
        patch.setattr("sys.stderr", screen)
        patch.setattr("sys.stdin", _Keyboard(keys, screen))
        try:
            code = main._run(PROGRAMS[program], program.replace(" ", "-"))
        finally:
            gc.set_threshold(*threshold)
    return f"$ {command}\n{screen.getvalue()}" + (f"(exit code {code})\n" if code else "")

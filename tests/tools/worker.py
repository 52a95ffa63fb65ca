"""Runs the `ringwise` command of one checkout many times in one process.

Started as `python worker.py CHECKOUT` with CHECKOUT/src on PYTHONPATH. Each line of standard input is a
JSON object with `arguments`; each line of standard output is its result. `python worker.py CHECKOUT lab ...`
runs one command, with a fixed wall clock, until it ends.

This file imports nothing of Ringwise by name except the command that the checkout's pyproject.toml declares,
so it works with checkouts of different layouts.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
import time
import tomllib
import traceback
from collections.abc import Callable
from pathlib import Path

#: The wall clock of a lab: 2026-01-10T08:00:00Z.
START = 1_768_032_000_000_000_000


def command_of(checkout: Path) -> Callable[[], None]:
    """The function behind the `ringwise` script, imported from the checkout and from nowhere else."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, name = project["project"]["scripts"]["ringwise"].partition(":")
    loaded = importlib.import_module(module)
    if checkout / "src" not in Path(str(loaded.__file__)).resolve().parents:
        raise SystemExit(f"{module} was imported from {loaded.__file__}, not from {checkout}")
    main: Callable[[], None] = getattr(loaded, name)
    return main


def run(main: Callable[[], None], arguments: list[str]) -> dict[str, object]:
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["ringwise", *arguments]
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        except Exception:
            # The command itself turns errors into one line; what arrives here is a defect to be shown.
            traceback.print_exc()
            code = 70
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


def serve(checkout: Path) -> None:
    main = command_of(checkout)
    answers = sys.stdout
    for line in sys.stdin:
        answers.write(json.dumps(run(main, json.loads(line)["arguments"])) + "\n")
        answers.flush()


if __name__ == "__main__":
    where = Path(sys.argv[1]).resolve()
    if len(sys.argv) > 2:
        time.time_ns = lambda: START
        ringwise = command_of(where)
        sys.argv = ["ringwise", *sys.argv[2:]]
        ringwise()
    else:
        serve(where)

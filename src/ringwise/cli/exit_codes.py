"""The exit codes of all commands. `docs/reference/commands.md` shows this table."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """How a command ended; scripts may rely on these numbers."""

    OK = 0
    FAILED = 1
    BAD_INPUT = 2
    REFUSED = 3
    PENDING = 4
    INTERNAL_ERROR = 70
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.OK: "Done. A pending job changes it only with `--exit-code` or `--wait`, and so does a refused "
    "one, except with `submit`.",
    ExitCode.FAILED: "The check found errors (`doctor`, `device-plugin check`), the decisions differ "
    "(`replay`), a goal does not hold (`bench`), an expectation does not hold (`drill`), the question was "
    "answered with no or pods did not go in time (`drain`), something is missing (`support-bundle`), a job "
    "is refused or a kind does not exist (`submit`), or the API server or the node refused.",
    ExitCode.BAD_INPUT: "Input or arguments cannot be read, a name is not known, no lab runs, or a "
    "command that changes something does not know where ([which cluster](#which-cluster)).",
    ExitCode.REFUSED: "A job is refused: it can never run as it is (`place`, `submit` and `why` with "
    "`--exit-code`; `submit --wait`).",
    ExitCode.PENDING: "No job is refused, and one waits (`place`, `submit` and `why` with `--exit-code`), "
    "or has not started within `--timeout` (`submit --wait`).",
    ExitCode.INTERNAL_ERROR: "A defect of Ringwise; `RINGWISE_DEBUG=1` shows where.",
    ExitCode.INTERRUPTED: "Ctrl-C before the work was done. Commands that run until Ctrl-C (`top`, "
    "`get --watch`, `lab`, `web`, `run`) end with 0.",
}


def code_of_outcomes(outcomes: list[str]) -> ExitCode:
    """The exit code for jobs with these outcomes."""
    if "rejected" in outcomes:
        return ExitCode.REFUSED
    return ExitCode.PENDING if "pending" in outcomes else ExitCode.OK

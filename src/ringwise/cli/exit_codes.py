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
    ExitCode.OK: "Success, also if jobs are pending or rejected, unless `--exit-code` or `--wait` is given; "
    "`submit` fails if a job is rejected.",
    ExitCode.FAILED: "The check found errors (`doctor`, `device-plugin check`), the decisions differ "
    "(`replay`), a goal is not met (`bench`), an expectation is not met (`drill`), the operation was not "
    "confirmed or pods did not terminate in time (`drain`), something is missing (`support-bundle`), a job "
    "is rejected or a kind does not exist (`submit`), or the API server or the node rejected the request.",
    ExitCode.BAD_INPUT: "Input or arguments are invalid, a name is not found, no lab is running, or a "
    "command that changes something has no target ([which cluster](#which-cluster)).",
    ExitCode.REFUSED: "A job is rejected: it can never run as it is (`place`, `submit` and `why` with "
    "`--exit-code`; `submit --wait`).",
    ExitCode.PENDING: "No job is rejected, but one is pending (`place`, `submit` and `why` with "
    "`--exit-code`) or has not started within `--timeout` (`submit --wait`).",
    ExitCode.INTERNAL_ERROR: "An internal error of Ringwise; `RINGWISE_DEBUG=1` prints the traceback.",
    ExitCode.INTERRUPTED: "Interrupted with Ctrl-C. Commands that run until Ctrl-C (`top`, "
    "`get --watch`, `lab`, `web`, `run`) exit with 0.",
}


def code_of_outcomes(outcomes: list[str]) -> ExitCode:
    """The exit code for jobs with these outcomes."""
    if "rejected" in outcomes:
        return ExitCode.REFUSED
    return ExitCode.PENDING if "pending" in outcomes else ExitCode.OK

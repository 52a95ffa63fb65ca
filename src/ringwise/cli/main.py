"""The entry point of `ringwise`.

Imports nothing that takes time, so that Ctrl-C is handled before the rest is loaded.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import click

#: What a shell reports for a program that Ctrl-C ended: `ExitCode.INTERRUPTED`, which is not loaded yet.
_INTERRUPTED = 130
#: New objects between two garbage collections. With the usual 700 an import is interrupted hundreds of times,
#: for objects that live until the end; a short command creates about 60,000 objects and needs none at all.
_GC_THRESHOLD = 200_000


def main() -> None:
    run(_ringwise, "ringwise")


def _ringwise() -> click.Group:
    from ringwise.cli.commands import cli

    return cli


def run(load: Callable[[], click.Group], program: str) -> NoReturn:
    """Load the commands, run the one that is asked for, and exit. No error prints a traceback.

    The program is called by its own name in every message, however it was started.
    """
    signal.signal(signal.SIGINT, _exit_at_once)
    code = _run(load, program)
    signal.signal(signal.SIGINT, _exit_at_once)
    # Python looks for garbage once more when it ends; the system takes all memory back anyway.
    gc.freeze()
    sys.exit(code)


def _run(load: Callable[[], click.Group], program: str) -> int:
    try:
        gc.set_threshold(_GC_THRESHOLD)
        import click

        commands = load()
        # From here on Ctrl-C is an exception, so that a command can clean up.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            code = commands.main(prog_name=program, standalone_mode=False)
        except click.ClickException as error:
            _show(error)
            return error.exit_code
        except click.Abort:
            return _INTERRUPTED
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has gone. Python's own flush at exit must not fail on it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get("RINGWISE_DEBUG"):
            raise
        print(
            f"ringwise: internal error: {type(error).__name__}: {error} "
            "(please report it; RINGWISE_DEBUG=1 prints the traceback)",
            file=sys.stderr,
        )
        from ringwise.cli.exit_codes import ExitCode

        return ExitCode.INTERNAL_ERROR


def _show(error: click.ClickException) -> None:
    """As click does; in a terminal the sentence wraps at its width."""
    from click import UsageError, echo
    from click.exceptions import NoArgsIsHelpError

    if isinstance(error, NoArgsIsHelpError) or not sys.stderr.isatty():
        error.show()
        return
    from ringwise.cli.output import complain

    context = error.ctx if isinstance(error, UsageError) else None
    if context is not None:
        echo(f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n", err=True)
    complain(f"Error: {error.format_message()}")


def _exit_at_once(_number: int, _frame: object) -> NoReturn:
    """Before a command runs there is nothing to clean up."""
    os._exit(_INTERRUPTED)

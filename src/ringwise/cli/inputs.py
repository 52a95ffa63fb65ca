"""What commands read: manifests, the configuration, boards. Errors are one line each, exit code 2."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ringwise.cli.output import complain, progress_bars, stop
from ringwise.framework.configuration import Configuration
from ringwise.grammar import counted
from ringwise.manifests.bundle import Bundle, read_bundle
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.text.errors import DocumentError
from ringwise.manifests.text.sources import read_file
from ringwise.scheduler.defaults import default_configuration
from ringwise.topology.boards import BoardCatalog

#: Errors that are printed; a page of them is enough to see what is wrong.
MAX_ERRORS = 50
#: How the names of support bundles end.
BUNDLE_SUFFIXES = (".tar.gz", ".tgz")


def load_configuration(path: Path | None, bundle: Bundle | None = None) -> Configuration:
    """The configuration of a file; without one that of the input's ConfigMap, else the default one."""
    if path is None and bundle is not None and bundle.configured is not None:
        return bundle.configured
    source = bundle.configuration if bundle is not None else None
    if path is None and source is None:
        return default_configuration()
    from ringwise.apps.extensions import read_user_configuration

    try:
        if path is not None:
            configuration = read_user_configuration(read_file(path), str(path))
        else:
            assert source is not None
            configuration = read_user_configuration(*source)
    except DocumentError as error:
        raise stop(error) from None
    for warning in configuration.warnings:
        complain(f"warning: {warning}")
    return configuration


def load_catalog(files: Sequence[Path]) -> BoardCatalog:
    """The shipped boards and those of the files."""
    try:
        return shipped_catalog(tuple(files))
    except DocumentError as error:
        raise stop(error) from None


def read_files(files: Sequence[str], *, keep_going: bool, namespace: str | None = None) -> Bundle:
    """The objects of the files, with the errors of those that cannot be read."""
    if len(files) == 1 and files[0].endswith(BUNDLE_SUFFIXES):
        return read_packed(files[0])
    stdin = sys.stdin.buffer.read() if "-" in files else None
    with progress_bars(download=True) as show_progress:
        progress = partial(show_progress, "reading")
        bundle = read_bundle(
            files, stdin=stdin, keep_going=keep_going, progress=progress, namespace=namespace
        )
    if bundle.empty and bundle.holds_nothing:
        raise stop(*(f"{name}: does not contain objects" for name in bundle.empty))
    complain(*(f"note: {name}: does not contain objects" for name in bundle.empty))
    return bundle


def read_packed(file: str) -> Bundle:
    """The objects of a support bundle."""
    from ringwise.apps.support.bundle_file import BundleError, read_support_bundle

    try:
        return read_support_bundle(file)
    except BundleError as error:
        raise stop(error) from None


def load_bundle(
    files: Sequence[str], *, keep_going: bool, may_skip: bool = True, namespace: str | None = None
) -> Bundle:
    """The objects of the files; an error ends the command unless it should keep going.

    `may_skip`: the command has the option `--keep-going`.
    """
    bundle = read_files(files, keep_going=keep_going, namespace=namespace)
    if bundle.errors and not keep_going:
        raise stop(*(skippable(bundle.errors) if may_skip else error_lines(bundle.errors)))
    complain(*error_lines(bundle.errors))
    return bundle


def error_lines(errors: Sequence[object]) -> list[str]:
    """Errors of an input, one line each; of very many the first ones."""
    lines = [str(error) for error in errors[:MAX_ERRORS]]
    more = len(errors) - len(lines)
    return [*lines, f"and {counted(f'{more:,}', 'more error')}"] if more else lines


def skippable(errors: Sequence[object]) -> list[str]:
    """Return errors of an input, one line each; the last one names the option that skips such objects."""
    lines = error_lines(errors)
    return [*lines[:-1], f"{lines[-1]} (--keep-going goes on without it)"]

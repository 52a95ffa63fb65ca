"""`ringwise support-bundle`: what others need to repeat the decisions of a cluster, without its names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.inputs import error_lines, load_catalog, load_configuration, read_files
from ringwise.cli.options import (
    FILE,
    board_option,
    cluster_files_option,
    configuration_option,
    flag,
    now_option,
    option,
    output_option,
    target_options,
)
from ringwise.cli.output import complain, spinner, stop
from ringwise.cli.query.queries import (
    FROM_CLUSTER,
    FROM_FILES,
    find_cluster,
    lab_client,
    lab_folder,
    show_text,
    source_of,
    talking_to_cluster,
)
from ringwise.grammar import counted

if TYPE_CHECKING:
    from ringwise.apps.support.bundle_file import Contents


@click.command("support-bundle")
@click.argument(
    "bundle",
    metavar="[FILE]",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("ringwise-bundle.tar.gz"),
)
@cluster_files_option
@target_options
@option(
    "--journal", "Journal of the scheduler; rotated files are included.  [default: that of the lab]", FILE
)
@flag("--keep-names", "Do not replace names and addresses.")
@flag("--with-text", "Include messages and other free text.")
@option("--mapping-file", "Write the names and their pseudonyms to this file. Do not share it.", FILE)
@configuration_option
@board_option
@now_option
@output_option
def support_bundle_command(
    bundle: Path,
    journal: Path | None,
    keep_names: bool,
    with_text: bool,
    mapping_file: Path | None,
    output: str,
    boards: tuple[Path, ...],
    **options: Any,
) -> None:
    """Write a support bundle with pseudonyms and no free text.

    It contains the objects, the configuration and the journal; its files are listed. FILE defaults to
    ringwise-bundle.tar.gz. `place`, `why` and `replay` give the same answers from it.

    Exit code 1 if something could not be read and is missing.
    """
    from ringwise.apps.support.bundle_file import readme, write_bundle

    if keep_names and mapping_file is not None:
        raise stop("ringwise: --keep-names and --mapping-file cannot be combined")
    if not bundle.name.endswith((".tar.gz", ".tgz")):
        raise stop(f"ringwise: {bundle}: the name of a bundle must end with .tar.gz")
    if journal is not None and not journal.exists():
        raise stop(f"ringwise: {journal}: journal not found")
    catalog = load_catalog(boards)
    contents = _contents({**options, "boards": boards}, journal)
    try:
        with spinner("writing") as show_progress:
            document = write_bundle(
                bundle,
                contents,
                catalog,
                keep_names=keep_names,
                with_text=with_text,
                mapping=mapping_file,
                progress=show_progress,
            )
    except OSError as problem:
        raise stop(f"ringwise: {bundle}: {(problem.strerror or str(problem)).lower()}") from None
    complain(f"written: {bundle}")
    show_text(document, output, readme(document), ExitCode.FAILED if document.missing else ExitCode.OK)


def _contents(options: dict[str, Any], journal: Path | None) -> Contents:
    from ringwise.apps.support.bundle_file import JOURNAL, Contents, lines_of

    journals = [] if journal is None else [(JOURNAL, journal)]
    chosen = source_of({**options, "boards": ()})
    if chosen == FROM_FILES:
        read = read_files(options["files"], keep_going=True)
        configuration = load_configuration(options["config"], read)
        complain(*error_lines(read.errors))
        missing = [f"{counted(read.errors, 'object')} that cannot be read"] if read.errors else []
        others = [
            f"{counted(count, 'object')} of the kind {kind}" for kind, count in sorted(read.ignored.items())
        ]
        if not any(read.objects.values()) and not journals:
            raise stop("ringwise: nothing to put into a bundle")
        now = read.newest_timestamp if options["now"] is None else options["now"]
        lines = lines_of(read, configuration, now)
        return Contents("files", lines, tuple(journals), tuple(missing), tuple(others))
    if chosen == FROM_CLUSTER:
        with talking_to_cluster(unreachable=ExitCode.BAD_INPUT):
            return _of_cluster(options, tuple(journals))
    with lab_client(options["lab"], "querying the lab") as client:
        lines = client.ask("objects")["lines"].encode()
    if journal is None:
        folder = lab_folder(options["lab"])
        older = [("journal.1.jsonl", folder / "journal.1.jsonl")]
        journals = [*(one for one in older if one[1].exists()), (JOURNAL, folder / JOURNAL)]
        journals = [one for one in journals if one[1].exists()]
    return Contents("lab", lines, tuple(journals))


def _of_cluster(options: dict[str, Any], journals: tuple[tuple[str, Path], ...]) -> Contents:
    import time

    from ringwise.apps.sources.cluster import read_live
    from ringwise.apps.support.bundle_file import Contents, lines_of

    access = find_cluster(options)
    with spinner("reading the cluster") as show_progress:
        live = read_live(access, lambda kind, count: show_progress(f"reading the cluster: {count} {kind}"))
    configuration = live.configuration if options["config"] is None else load_configuration(options["config"])
    complain(*error_lines(live.bundle.errors))
    missing = list(live.missing)
    if live.bundle.errors:
        missing.append(f"{counted(live.bundle.errors, 'object')} that cannot be read")
    return Contents("cluster", lines_of(live.bundle, configuration, time.time_ns()), journals, tuple(missing))

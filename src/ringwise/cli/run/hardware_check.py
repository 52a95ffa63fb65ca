"""`ringwise device-plugin check`: what the driver of this node says, compared with the board profile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.inputs import load_catalog
from ringwise.cli.options import FILE, board_option, driver_option, option, output_option
from ringwise.cli.output import complain, document_text, stop
from ringwise.cli.query.queries import show

if TYPE_CHECKING:
    from rich.console import Console

    from ringwise.views.documents.reference import CheckedChipFields, HardwareCheckDocument


@click.command("check")
@driver_option()
@option("--simulated-chips", "Description of simulated chips (JSON).", FILE)
@option("--report", "Also write the report to this file (JSON).", FILE)
@board_option
@output_option
def check_command(
    driver: str, simulated_chips: Path | None, report: Path | None, boards: tuple[Path, ...], output: str
) -> None:
    """Check the NPUs of this node.

    Chips, faults, network ports, memory and the board profile are checked. The command only reads from the
    driver, and requires no cluster. The report contains no names, addresses or serial numbers, so that it
    can be shared.

    Exit code 1 if the check finds a problem.
    """
    import asyncio

    from ringwise.apps.device_plugin import opened
    from ringwise.apps.hardware_check import check_hardware
    from ringwise.device.drivers.port import DriverError

    catalog = load_catalog(boards)

    async def check() -> HardwareCheckDocument:
        return await check_hardware(await opened(driver, simulated_chips), catalog)

    try:
        document = asyncio.run(check())
    except DriverError as problem:
        raise stop(f"ringwise device-plugin check: {problem}") from None
    if report is not None:
        try:
            report.write_text(document_text(document, "json"), encoding="utf-8")
        except OSError as problem:
            raise stop(f"ringwise: {report}: {(problem.strerror or str(problem)).lower()}") from None
        complain(f"written: {report}")
    show(document, output, _print, ExitCode.FAILED if document.problems else ExitCode.OK)


def _print(console: Console, document: HardwareCheckDocument) -> None:
    from ringwise.apps.hardware_check import groups_text
    from ringwise.cli.printers.tables import Column, Table
    from ringwise.wellknown import ACCELERATOR_TYPE

    label, groups = document.accelerator_type, document.driver_links
    facts = {
        "driver": f"{document.driver} {document.driver_version}".rstrip(),
        "chips": f"{len(document.chips)} x {document.card_type} ({document.resource})",
        "board ids": ", ".join(document.board_ids),
        "product": ", ".join(document.products) or "-",
        "SuperPoD": "yes" if document.superpod else "no",
        ACCELERATOR_TYPE: label or "not set: it cannot be determined",
        "board profile": ", ".join(document.boards) or "none",
        "links": document.links or "-",
        "links, by driver": "unknown" if groups is None else groups_text(groups),
    }
    for name, value in facts.items():
        console.print(f"{name + ':':<18}{value}", soft_wrap=True, markup=False, highlight=False)
    console.print()
    columns = (
        Column("chip", "id"),
        Column("model", lambda chip: chip.name),
        Column("faults", _faults, wraps=True),
        Column("network", "network"),
        Column("memory", _memory),
        Column("AI cores", lambda chip: str(chip.ai_cores or "unknown")),
        Column("sharing", lambda chip: {True: "enabled", False: "disabled", None: "unknown"}[chip.sharing]),
    )
    Table.of(columns, document.chips).print(console)
    console.print()
    for problem in document.problems or ["no problem found"]:
        console.print(problem, soft_wrap=True, markup=False, highlight=False)


def _faults(chip: CheckedChipFields) -> str:
    faults = ", ".join(f"{code} ({level})" for code, level in chip.faults.items())
    return faults or ("none" if chip.answers else "unknown")


def _memory(chip: CheckedChipFields) -> str:
    used = chip.memory_used_megabytes
    total = f"{chip.memory_megabytes} MB" if chip.memory_megabytes else "unknown"
    return total if used is None else f"{used:.0f} of {total}"

"""Switches and SuperPoDs of a view, drawn: shared by `place`, `why` and `topology show`."""

from __future__ import annotations

from rich.console import Console

from ringwise.cli.drawing.racks import draw_racks
from ringwise.cli.superpod_drawing import DrawnBlock, DrawnSuperPod, draw_superpods
from ringwise.cli.switch_drawing import draw_switches
from ringwise.scheduler.view import SchedulerView
from ringwise.views.topology import SuperPodPicture, superpod_pictures, switch_picture


def print_switches(console: Console, view: SchedulerView) -> bool:
    """Draw the leaf switches; False where there are none."""
    picture = switch_picture(view)
    if picture is None:
        return False
    text = draw_switches(picture.resolved, picture.states, picture.free_nodes, picture.jobs_of_node)
    console.print(text, end="", markup=False, soft_wrap=True)
    return True


def print_superpods(console: Console, view: SchedulerView) -> bool:
    """Draw the SuperPoDs and their racks; False where there are none."""
    pictures = superpod_pictures(view)
    if not pictures:
        return False
    plain = [picture for picture in pictures if not picture.racks]
    in_racks = [picture for picture in pictures if picture.racks]
    if plain:
        console.print(draw_superpods(_drawn(picture) for picture in plain), soft_wrap=True)
    if in_racks:
        console.print(draw_racks(in_racks), soft_wrap=True)
    return True


def _drawn(picture: SuperPodPicture) -> DrawnSuperPod:
    return DrawnSuperPod(
        picture.superpod,
        len(picture.free),
        picture.reserve,
        tuple(DrawnBlock(job, block, len(nodes)) for (job, block), nodes in picture.blocks.items()),
        len(picture.busy),
        len(picture.unusable),
    )

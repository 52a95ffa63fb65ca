"""`ringwise demo`: the main job, in front of the user's eyes."""

from __future__ import annotations

import click


@click.command()
def demo() -> None:
    """Place sample jobs of every kind."""

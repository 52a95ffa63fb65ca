"""What a person does to the running lab: delete, cordon, uncordon, drain, fault, advance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ringwise.apps.why import time_text
from ringwise.cli.lab import duration_argument
from ringwise.cli.output import output_option, stop
from ringwise.cli.queries import Answer, lab_option, show, talking


def _do(lab: Path | None, output: str, action: str, sentence: str, **parameters: Any) -> None:
    with talking(action) as client:
        answer = client(lab).do(action, **parameters)
    words = sentence.format(**{**parameters, **answer})
    show(Answer(answer, lambda console: console.print(words, markup=False, soft_wrap=True)), output)


@click.command("delete")
@click.argument("kind", type=click.Choice(["job", "pod", "queue", "node"]), metavar="job|pod|queue|node")
@click.argument("name", metavar="[NAMESPACE/]NAME")
@click.option("-n", "--namespace", help="Its namespace, where several have that name.")
@lab_option
@output_option
def delete_command(kind: str, name: str, namespace: str | None, lab: Path | None, output: str) -> None:
    """Delete a job with its pods, a pod, an empty queue, or a node with what runs on it."""
    _do(lab, output, "delete", "{kind} {name} deleted", kind=kind, name=name, namespace=namespace)


@click.command("cordon")
@click.argument("node")
@lab_option
@output_option
def cordon_command(node: str, lab: Path | None, output: str) -> None:
    """Let no new pod onto NODE."""
    _do(lab, output, "cordon", "node {node} cordoned", node=node)


@click.command("uncordon")
@click.argument("node")
@lab_option
@output_option
def uncordon_command(node: str, lab: Path | None, output: str) -> None:
    """Let pods onto NODE again."""
    _do(lab, output, "uncordon", "node {node} uncordoned", node=node)


@click.command("drain")
@click.argument("node")
@lab_option
@output_option
def drain_command(node: str, lab: Path | None, output: str) -> None:
    """Cordon NODE and ask its pods to go."""
    with talking("drain") as client:
        answer = client(lab).do("drain", node=node)
    leaving = answer["leaving"]
    words = [f"node {node} cordoned; {len(leaving)} pod(s) asked to go", *(f"  {pod}" for pod in leaving)]
    show(
        Answer(answer, lambda console: console.print("\n".join(words), markup=False, soft_wrap=True)), output
    )


@click.command("fault")
@click.argument("node")
@click.argument("chips", nargs=-1, required=True, metavar="CHIP...")
@click.option("--network", is_flag=True, help="Only the chips' network port.")
@click.option("--heal", is_flag=True, help="Heal them instead.")
@lab_option
@output_option
def fault_command(
    node: str, chips: tuple[str, ...], network: bool, heal: bool, lab: Path | None, output: str
) -> None:
    """Break chips of NODE (3, 0-3 or all of 0,2,5), or heal them."""
    numbers = [chip for text in chips for chip in _chips(text)]
    what = "network of chip(s)" if network else "chip(s)"
    done = "healthy" if heal else "faulty"
    sentence = f"node {{node}}: {what} {', '.join(map(str, numbers))} {done}"
    _do(lab, output, "fault", sentence, node=node, chips=numbers, network=network, heal=heal)


def _chips(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(part) > 9:
            raise stop(f"ringwise: {text!r} names no chips: write 3, 0-3 or 0,2,5")
        found += range(int(first), int(last or first) + 1)
    return found


@click.command("advance")
@click.argument("duration", type=duration_argument, required=False, metavar="[DURATION]")
@lab_option
@output_option
def advance_command(duration: int | None, lab: Path | None, output: str) -> None:
    """Let DURATION pass in a lab with --virtual time; without it, until something happens next."""
    with talking("time passes") as client:
        answer = client(lab).do("advance", nanoseconds=duration)
    words = f"it is {time_text(answer['now'])}"
    show(Answer(answer, lambda console: console.print(words, markup=False)), output)

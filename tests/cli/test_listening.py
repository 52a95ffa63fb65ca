"""Components listen on the address of their pod, and outside a pod on loopback."""

from __future__ import annotations

import click
import pytest

from ringwise.cli.commands import run_command
from ringwise.metrics.endpoints import parse_address
from tests.deploy.shipped import objects

COMPONENTS = ("scheduler", "controller", "admission", "device-plugin")


def defaults(component: str) -> dict[str, str]:
    command = run_command.get_command(click.Context(run_command), component)
    assert command is not None
    inner = click.Context(command)
    found = {one.name: one.get_default(inner) for one in command.params if str(one.name).endswith("address")}
    return {str(name): str(address) for name, address in found.items()}


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize(
    ("pod", "host"),
    [(None, "127.0.0.1"), ("", "127.0.0.1"), ("10.1.2.3", "10.1.2.3"), ("fd00::7", "fd00::7")],
)
def test_the_default_addresses(
    component: str, pod: str | None, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POD_IP", raising=False)
    if pod is not None:
        monkeypatch.setenv("POD_IP", pod)
    addresses = defaults(component)
    assert addresses
    # The dashboard of a scheduler is off.
    assert addresses.pop("web_address", "") == ""
    for address in addresses.values():
        # The device plugin takes a port, too.
        assert address == "11251" or parse_address(address)[0] == host


def test_every_workload_knows_the_address_of_its_pod() -> None:
    made = [one for one in objects(admission=True) if one["kind"] in ("Deployment", "DaemonSet")]
    assert len(made) == 4
    for deployment in made:
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        paths = {
            one["name"]: one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            for one in container["env"]
        }
        assert paths["POD_IP"] == "status.podIP"

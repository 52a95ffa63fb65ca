"""The names that the webhook serves, against those whose objects the API server sends to it."""

from __future__ import annotations

import json

import pytest

from ringwise.apps.admission.serving_certificate import CertificateManager
from tests.deploy.shipped import only, webhooks
from tests.kube.harness import InstantClock, server

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
#: Those with a condition.
CONDITIONED = [
    "pods.ringwise.io",
    "workloads.ringwise.io",
    "fill.pods.ringwise.io",
    "user.pods.ringwise.io",
    "user.workloads.ringwise.io",
    "user.cronjobs.ringwise.io",
]


def warned(text: str) -> list[tuple[str, str]]:
    lines = [json.loads(line) for line in text.splitlines() if "does not match objects" in line]
    return [(line["webhook"], line["schedulers"]) for line in lines]


@pytest.mark.parametrize(
    ("names", "unsent"),
    [
        (("volcano", "ringwise"), ""),
        (("ringwise",), ""),
        (("ring", "volcano"), "ring"),
        (("mine", "other"), "mine, other"),
    ],
)
async def test_a_name_that_is_served_and_not_sent_is_a_warning_once(
    names: tuple[str, ...], unsent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with server() as (api, client):
        api.put(WEBHOOKS, webhooks("Validating"))
        api.put(MUTATING, webhooks("Mutating"))
        api.put("/api/v1/secrets", only("Secret"))
        manager = CertificateManager(client, "volcano-system", clock=InstantClock(), scheduler_names=names)
        await manager.check()
        await manager.check()
    assert warned(capsys.readouterr().err) == [(hook, unsent) for hook in CONDITIONED if unsent]

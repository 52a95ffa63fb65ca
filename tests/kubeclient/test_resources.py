"""Paths of objects, also of such whose names another user chose."""

from __future__ import annotations

import pytest
from yarl import URL

from ringwise.kubeclient.resources import CONFIG_MAPS


@pytest.mark.parametrize(
    "owner",
    [
        "x/../../../kube-system/configmaps/coredns",
        "x/..",
        "x%2f..%2f..",
        "x?dryRun=All",
        "x#",
        "x\\..\\y",
        "x y\r\nHost: other",
    ],
)
def test_no_name_leads_to_another_object(owner: str) -> None:
    """The API server does not check names in ownerReferences, and a URL loses its `..`."""
    url = URL("https://server" + CONFIG_MAPS.path("tenant", f"reset-config-{owner}"))
    *parents, name = url.raw_path.split("/")
    assert "/".join(parents) == "/api/v1/namespaces/tenant/configmaps"
    assert name.startswith("reset-config-x")
    assert (url.query_string, url.fragment) == ("", "")


def test_names_of_kubernetes_stay_as_they_are() -> None:
    assert CONFIG_MAPS.path("a", "system:b.c-1") == "/api/v1/namespaces/a/configmaps/system:b.c-1"

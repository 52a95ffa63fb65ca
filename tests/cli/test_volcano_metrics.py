"""The list of Volcano's metrics, and those that are exported."""

from __future__ import annotations

from ringwise.metrics.prometheus import Metrics
from ringwise_bench.docs.volcano_metrics import PREFIX, exported_metrics, volcano_metrics
from tests.metric_text import samples


def test_what_is_exported_has_the_names_types_and_labels_of_volcano() -> None:
    listed = {
        name: (one.type, tuple(one.labels)) for name, one in volcano_metrics().items() if not one.missing
    }
    assert {name: (kind, labels) for name, (kind, labels, _) in exported_metrics().items()} == listed


def test_whatever_the_dashboard_of_volcano_queries_is_exported() -> None:
    assert not [name for name, one in volcano_metrics().items() if one.dashboard and one.missing]
    assert sum(one.dashboard for one in volcano_metrics().values()) == 23


def test_the_client_library_changes_no_name() -> None:
    """It gives every counter a suffix."""
    found = samples(Metrics(volcano=True).text().decode())
    assert f"{PREFIX}total_preemption_attempts" in found

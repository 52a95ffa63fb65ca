"""Journals and lab submissions with changed values: read, or rejected with the reader's own error."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from ringwise.apps.lab.submission import Submission, submission_of
from ringwise.apps.replay import JournalError, batch_line, header_line, open_journal
from ringwise.manifests.bundle import read_bundle
from ringwise.messages import events as ev
from ringwise.scheduler.defaults import default_configuration
from ringwise.scheduler.journal import Batch
from tests.manifests.builders import pod_group, priority_class, queue, real_node, real_pod, text_of, vcjob
from tests.manifests.hostile_values import changed_documents

BUNDLE = read_bundle(
    ["-"], stdin=text_of(real_node(1), real_pod(1, 10), pod_group(), queue(), priority_class(), vcjob())
)


def test_changed_journals_are_read_or_rejected(tmp_path: Path) -> None:
    configuration = default_configuration()
    header = header_line(configuration, ["volcano"])
    events: list[ev.Event] = [
        ev.ConfigurationSeen(configuration),
        *(ev.NodeSeen(node) for node in BUNDLE.nodes),
        *(ev.QueueSeen(one) for one in BUNDLE.queues),
        *(ev.PodGroupSeen(group) for group in BUNDLE.pod_groups),
        *(ev.VcJobSeen(job) for job in BUNDLE.vcjobs),
        *(ev.PodSeen(pod) for pod in BUNDLE.pods),
    ]
    line = json.loads(batch_line(Batch(0, 1, tuple(events), ())))
    path = tmp_path / "journal"
    rejected = read = 0
    for number, (head, body) in enumerate(
        zip(changed_documents([json.loads(header)]), changed_documents([line], seed=14), strict=True)
    ):
        first = json.dumps(head).encode() + b"\n" if number % 4 == 0 else header
        path.write_bytes(first + json.dumps(body).encode() + b"\n")
        try:
            read += len(list(open_journal(path).batches))
        except JournalError:
            rejected += 1
    assert rejected
    assert read


def test_changed_submissions_are_read_or_rejected() -> None:
    made, problems = submission_of(BUNDLE)
    assert not problems
    rejected = read = 0
    for document in changed_documents([json.loads(msgspec.json.encode(made))]):
        try:
            submission = msgspec.json.decode(json.dumps(document), type=Submission)
            submission.share_classes()
            list(submission.objects())
            read += 1
        except (msgspec.MsgspecError, ValueError, RecursionError):
            rejected += 1
    assert rejected
    assert read

"""A format that stores no ids is no worse off: its tables have name mappings, and only what needs ids is refused."""

from __future__ import annotations

from formatkit.contract import Capability
from formatkit.tck import Layer, Outcome, run
from formatkit.tck.without_ids import renumbered
from support.faulty.scan import reporting


def test_it_passes_the_checks_of_scans() -> None:
    subject = reporting(
        lambda schema: renumbered(schema, {field_id: -field_id for field_id in schema.field_ids}),
        without=[Capability.FIELD_IDS],
    )
    results = run(subject, layers=[Layer.SCAN], workers=1).results
    assert [(result.check, result.message) for result in results if result.outcome is Outcome.FAILED] == []
    refused = {result.check for result in results if result.outcome is Outcome.REFUSED}
    assert "renamed_columns_are_found_by_their_ids" in refused
    assert len(refused) < len(results) / 5

"""The format keeps the contract."""

from formatkit_jsonl import JsonLinesFormat

from formatkit import tck


@tck.parametrize(JsonLinesFormat())
def test_conformance(check: tck.BoundCheck) -> None:
    """One test for each check of the kit."""
    check()

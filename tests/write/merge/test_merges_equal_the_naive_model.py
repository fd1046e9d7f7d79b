"""Whatever a merge is asked for, the table then holds what SQL's rule gives row by row."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatkit.errors import InvalidDataError
from formatkit.write.operations import Mode
from support.filters import LessThan
from support.lived_tables import installed_formats
from support.merges import SCHEMA, SPECS, merges, table_rows
from support.modelled_table import ModelledTable, new_table, shown
from support.naive_merge import SeveralMatchesError

WAYS: list[tuple[int, Mode]] = [
    (1, "copy-on-write"),
    *((version, mode) for version in (2, 3) for mode in ("merge-on-read", "copy-on-write")),
]


@pytest.mark.parametrize(("version", "mode"), WAYS)
@settings(max_examples=settings.default.max_examples // 2)  # type: ignore[union-attr]
@given(data=st.data())
def test_a_merge_does_what_a_list_of_rows_would(version: int, mode: Mode, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        table = new_table(Path(directory), SCHEMA, version=version, spec=data.draw(st.sampled_from(SPECS)))
        model = ModelledTable(table)
        for _ in range(data.draw(st.integers(0, 3))):
            model.append(data.draw(table_rows()), data.draw(st.sampled_from([None, *installed_formats(SCHEMA)])))
        if version > 1 and data.draw(st.booleans()):
            model.delete(LessThan("n", 1), "merge-on-read")
        for _ in range(data.draw(st.integers(1, 2))):
            merge = data.draw(merges())
            try:
                for row in model.rows:
                    merge.model.fate_of(row)
            except SeveralMatchesError:
                before, files = shown(table), set(Path(directory).rglob("*"))
                with pytest.raises(InvalidDataError, match="several source rows"):
                    model.merge(merge.source, merge.model, mode=mode, **merge.arguments)
                assert shown(table) == before
                assert {path for path in Path(directory).rglob("*") if path.is_file()} <= files
            else:
                model.merge(merge.source, merge.model, mode=mode, **merge.arguments)
            model.check()

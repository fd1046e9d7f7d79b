"""Writers of delete files that are wrong in one thing each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyiceberg.manifest import DATA_FILE_TYPE, DataFile, DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from formatkit.errors import ConfigurationError, FormatkitError
from formatkit.tck import Subject
from formatkit.write.deletes import write_equality_deletes, write_position_deletes
from support.faults import fault
from support.faulty.deletes import writing
from support.faulty.writing import changing_batches, retyped, written_by

_PLACES = {field.name: place for place, field in enumerate(DATA_FILE_TYPE[3].fields)}
_PATH = 2147483546


def recording(name: str, change: Callable[[Any], Any]) -> Subject[Any]:
    """Good files, of which the manifest says one thing otherwise."""

    def changed(entry: DataFile | None) -> Any:
        if entry is not None:
            entry[_PLACES[name]] = change(entry[_PLACES[name]])
        return entry

    return writing(
        positions=lambda *given, **options: changed(write_position_deletes(*given, **options)),
        rows=lambda *given, **options: changed(write_equality_deletes(*given, **options)),
    )


@fault("positions_are_stored_by_path_and_in_order")
def positions_are_stored_backwards() -> Subject[Any]:
    return changing_batches(lambda _, batch: batch.take(list(range(batch.num_rows))[::-1]))


@fault("the_entry_of_a_position_delete_file_says_what_it_is", "the_entry_of_an_equality_delete_file_says_what_it_is")
def delete_files_are_listed_as_data() -> Subject[Any]:
    return recording("content", lambda _: DataFileContent.DATA)


@fault("the_entry_of_an_equality_delete_file_says_what_it_is")
def equality_ids_are_sorted() -> Subject[Any]:
    return recording("equality_ids", lambda ids: sorted(ids or ()))


@fault("positions_of_one_file_are_recorded_with_their_bounds_alone")
def bounds_of_paths_are_cut() -> Subject[Any]:
    return recording("lower_bounds", lambda known: {field_id: bound[:16] for field_id, bound in known.items()})


@fault("positions_of_several_files_are_recorded_without_metrics")
def paths_are_counted() -> Subject[Any]:
    return recording("value_counts", lambda _: {_PATH: 4})


@fault("delete_files_say_which_kind_they_are")
def equality_deletes_do_not_say_their_columns() -> Subject[Any]:
    return writing(
        rows=lambda sink, data, schema, ids, **options: write_equality_deletes(sink, data, schema, ids[:1], **options)
    )


@fault("delete_files_store_the_ids_of_their_columns")
def columns_of_delete_files_are_numbered() -> Subject[Any]:
    def numbered(field: NestedField) -> NestedField:
        return NestedField(field.field_id % 1000, field.name, field.field_type, required=field.required)

    return written_by(retyped(numbered))


@fault("positions_that_no_row_can_have_are_refused")
def positions_that_make_no_sense_are_left_out() -> Subject[Any]:
    return writing(positions=_lenient(write_position_deletes))


@fault("equality_ids_that_make_no_sense_are_refused", "rows_without_a_column_that_is_compared_are_refused")
def equality_ids_that_make_no_sense_are_left_out() -> Subject[Any]:
    return writing(rows=_lenient(write_equality_deletes))


def _lenient(write: Callable[..., Any]) -> Callable[..., Any]:
    def written(*given: Any, **options: Any) -> Any:
        try:
            return write(*given, **options)
        except FormatkitError:
            return None

    return written


@fault("rows_of_equality_deletes_are_stored_whatever_their_types")
def the_last_row_of_a_delete_file_is_lost() -> Subject[Any]:
    return changing_batches(lambda _, batch: batch.slice(0, max(1, batch.num_rows - 1)))


@fault("equality_deletes_may_have_optional_and_nested_columns_and_no_others")
def equality_columns_must_be_required() -> Subject[Any]:
    def strict(sink: Any, data: Any, schema: Schema, ids: Any, **options: Any) -> Any:
        if not all(schema.find_field(field_id).required for field_id in ids):
            raise ConfigurationError("rows are compared by required columns only")
        return write_equality_deletes(sink, data, schema, ids, **options)

    return writing(rows=strict)


@fault("deletes_that_formatkit_wrote_are_applied")
def positions_count_from_one() -> Subject[Any]:
    def shifted(sink: Any, positions: Any, **options: Any) -> DataFile:
        counted = {path: [position + 1 for position in found] for path, found in positions.items()}
        return write_position_deletes(sink, counted, **options)

    return writing(positions=shifted)

"""Writers that treat files, settings, ids or keys in the wrong way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import ByteSink, ByteSource, Capability, Encryption, OpenOptions, WriteOptions, WriteResult
from formatkit.errors import ConfigurationError, FormatkitError, StorageError
from formatkit.formats.arrow.plugin import ArrowFormat
from formatkit.formats.parquet.plugin import ParquetFormat
from formatkit.io import MemorySink
from formatkit.tck import Subject
from support.faults import fault
from support.faulty.writing import Writer, retyped, subject, undeclared, written_by


@fault("a_file_that_may_be_replaced_is_replaced")
def an_existing_file_is_kept_in_silence() -> Subject[Any]:
    class Keeping(Writer):
        def __init__(self, plugin: Any, sink: Any, options: WriteOptions) -> None:
            super().__init__(plugin, sink if sink.data is None else MemorySink(), options)

    return written_by(Keeping)


@fault("a_file_that_may_not_be_replaced_stays", "a_location_that_is_taken_stays_as_it_is")
def files_are_always_replaced() -> Subject[Any]:
    return _opened_with(lambda options: replace(options, overwrite=True))


@fault("closing_twice_returns_the_same")
def the_second_close_fails() -> Subject[Any]:
    class Once(Writer):
        closed = False

        def close(self) -> WriteResult | None:
            if self.closed:
                raise FormatkitError("the file was closed")
            self.closed = True
            return super().close()

    return written_by(Once)


@fault("a_file_without_rows_is_not_written")
def files_without_rows_are_written() -> Subject[Any]:
    class Eager(Writer):
        def close(self) -> WriteResult | None:
            result = super().close()
            if result is None:
                _publish(self.sink, b"no rows")
            return result

    return written_by(Eager)


@fault("batches_without_rows_between_others_leave_no_trace")
def a_batch_without_rows_ends_the_file() -> Subject[Any]:
    class Ending(Writer):
        rows_came = ended = False

        def write(self, batch: Any) -> None:
            self.ended = self.ended or (self.rows_came and not batch.num_rows)
            self.rows_came = self.rows_came or bool(batch.num_rows)
            if not self.ended:
                super().write(batch)

    return written_by(Ending)


@fault("an_aborted_file_leaves_nothing_behind", "aborting_leaves_the_location_as_it_was")
def an_aborted_file_is_published() -> Subject[Any]:
    class Publishing(Writer):
        def abort(self) -> None:
            self.close()

    return written_by(Publishing)


@fault("an_aborted_file_leaves_nothing_behind")
def closing_after_abort_does_nothing() -> Subject[Any]:
    class Quiet(Writer):
        aborted = False

        def abort(self) -> None:
            self.aborted = True
            super().abort()

        def close(self) -> WriteResult | None:
            return None if self.aborted else super().close()

    return written_by(Quiet)


@fault("an_error_inside_the_block_leaves_nothing_behind")
def the_block_always_ends_with_close() -> Subject[Any]:
    class Closing(Writer):
        def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
            self.close()

    return written_by(Closing)


@fault("leaving_the_block_publishes_the_file")
def the_end_of_the_block_does_nothing() -> Subject[Any]:
    class Idle(Writer):
        def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
            pass

    return written_by(Idle)


@fault("a_storage_that_fails_while_writing_is_reported")
def failures_of_the_storage_are_swallowed() -> Subject[Any]:
    class Deaf(Writer):
        def write(self, batch: Any) -> None:
            try:
                super().write(batch)
            except (StorageError, FormatkitError):
                self.abort()

        def close(self) -> WriteResult | None:
            try:
                return super().close()
            except FormatkitError:
                return None

    return written_by(Deaf)


@fault("the_size_is_that_of_the_stored_file")
def the_size_is_told_before_the_footer_is_written() -> Subject[Any]:
    return _telling(lambda result: replace(result, size_bytes=result.size_bytes - 10))


@fault("bytes_written_tells_about_how_long_the_file_is")
def bytes_written_are_told_at_the_end_only() -> Subject[Any]:
    class Silent(Writer):
        def bytes_written(self) -> int:
            return 0

    return written_by(Silent)


@fault("unknown_write_properties_are_ignored")
def unknown_properties_are_refused() -> Subject[Any]:
    def checked(options: WriteOptions) -> WriteOptions:
        if any(not key.startswith(("write.parquet.", "write.orc.", "write.avro.")) for key in options.properties):
            raise ConfigurationError("there is an unknown property")
        return options

    return _opened_with(checked)


@fault("properties_do_not_change_rows")
def a_limit_of_rows_is_one_of_the_file() -> Subject[Any]:
    class Limited(Writer):
        def write(self, batch: Any) -> None:
            is_limited = "write.parquet.row-group-limit" in self.options.properties
            super().write(batch.slice(0, 2) if is_limited else batch)

    return written_by(Limited)


@fault("small_chunks_that_are_asked_for_reach_the_file")
def properties_are_lost() -> Subject[Any]:
    return _opened_with(lambda options: replace(options, properties={}), ParquetFormat())


@fault("split_offsets_ascend_inside_the_file")
def split_offsets_are_those_of_the_ends() -> Subject[Any]:
    return _telling(
        lambda result: replace(result, split_offsets=(*(result.split_offsets or ())[1:], result.size_bytes))
    )


@fault("a_file_that_cannot_be_split_has_no_split_offsets")
def split_offsets_are_told_though_files_cannot_be_split() -> Subject[Any]:
    return undeclared(Capability.SPLIT)


@fault("ids_are_stored_at_every_level")
def elements_of_lists_have_no_ids_of_their_own() -> Subject[Any]:
    return written_by(
        retyped(
            lambda field: (
                NestedField(1000 + field.field_id, field.name, field.field_type, required=field.required)
                if field.name == "element"
                else field
            )
        )
    )


@fault("ids_that_are_not_stored_are_negative")
def ids_are_made_up_of_positions() -> Subject[Any]:
    return undeclared(Capability.FIELD_IDS)


@fault("encrypted_files_are_read_with_their_key")
def the_aad_prefix_is_forgotten_when_reading() -> Subject[Any]:
    class Forgetful(ParquetFormat):
        def reader(self) -> Any:
            return _Reading(ParquetFormat(), lambda given: given and Encryption(key=given.key))

    return subject(Forgetful())


@fault(
    "encrypted_files_are_not_read_without_their_key",
    "encrypted_files_do_not_show_what_they_hold",
)
def keys_are_declared_and_ignored() -> Subject[Any]:
    class Open(_KeyIgnoring):
        capabilities = ArrowFormat.capabilities | {Capability.ENCRYPTION}

    return subject(Open())


@fault("encryption_that_is_not_declared_is_refused")
def keys_are_ignored() -> Subject[Any]:
    return subject(_KeyIgnoring())


@fault(
    "columns_that_are_missing_surplus_or_of_another_type_are_refused",
    "values_that_their_type_cannot_hold_are_refused",
    "moments_of_another_zone_are_refused",
    "a_null_where_a_value_is_required_is_refused",
    "a_file_is_not_seen_before_it_is_complete",
)
def a_file_is_there_as_soon_as_its_writer_is() -> Subject[Any]:
    class Early(Writer):
        def __init__(self, plugin: Any, sink: ByteSink, options: WriteOptions) -> None:
            _publish(sink, b"")
            super().__init__(plugin, sink, replace(options, overwrite=True))

    return written_by(Early)


@fault("columns_in_another_order_go_where_their_names_say")
def columns_are_taken_in_the_order_in_which_they_come() -> Subject[Any]:
    class Positional(ArrowBatch):
        def evolve(self, source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
            step = super().evolve(source, target, constants)
            if [field.field_id for field in source.fields] == [field.field_id for field in target.fields]:
                return step
            return lambda batch: _with_columns(step(batch), [1, 0, 2])

    return subject(operations=Positional())


@fault("columns_that_the_data_lacks_take_their_write_default")
def write_defaults_are_ignored() -> Subject[Any]:
    class Forgetful(ArrowBatch):
        def evolve(self, source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
            return super().evolve(source, target, dict.fromkeys(constants, None))

    return subject(operations=Forgetful())


@fault("every_leaf_has_a_size_and_all_fit_into_the_file")
def only_columns_at_the_top_have_sizes() -> Subject[Any]:
    return _telling(
        lambda result: replace(
            result, column_sizes={number: size for number, size in (result.column_sizes or {}).items() if number < 20}
        ),
        ParquetFormat(),
    )


@fault("a_column_with_more_bytes_has_the_larger_size")
def sizes_are_the_same_for_all_columns() -> Subject[Any]:
    return _telling(
        lambda result: replace(result, column_sizes=dict.fromkeys(result.column_sizes or (), 1)), ParquetFormat()
    )


@fault("column_sizes_that_are_not_declared_are_absent")
def column_sizes_are_told_though_not_declared() -> Subject[Any]:
    return undeclared(Capability.COLUMN_SIZES, ParquetFormat())


@fault("files_are_the_same_in_every_storage")
def files_on_disk_are_written_twice() -> Subject[Any]:
    class Doubling(Writer):
        def write(self, batch: Any) -> None:
            super().write(batch)
            if not isinstance(self.sink, MemorySink):
                super().write(batch)

    return written_by(Doubling)


def _with_columns(batch: pa.RecordBatch, order: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([batch.column(i) for i in order], names=batch.schema.names)


def _publish(sink: ByteSink, data: bytes) -> None:
    stream = sink.create(overwrite=True)
    stream.write(data)
    stream.close()


def _opened_with(change: Callable[[WriteOptions], WriteOptions], plugin: Any = None) -> Subject[Any]:
    class Changed(Writer):
        def __init__(self, good: Any, sink: ByteSink, options: WriteOptions) -> None:
            super().__init__(good, sink, change(options))

    return written_by(Changed, plugin)


def _telling(change: Callable[[WriteResult], WriteResult], plugin: Any = None) -> Subject[Any]:
    class Telling(Writer):
        def close(self) -> WriteResult | None:
            result = super().close()
            return None if result is None else change(result)

    return written_by(Telling, plugin)


class _KeyIgnoring(ArrowFormat):
    def reader(self) -> Any:
        return _Reading(ArrowFormat(), lambda _: None)

    def writer(self) -> Any:
        return _Writing(ArrowFormat())


class _Reading:
    def __init__(self, plugin: Any, change: Callable[[Encryption | None], Encryption | None]) -> None:
        self._plugin = plugin
        self._change = change

    def open(self, source: ByteSource, options: OpenOptions) -> Any:
        return self._plugin.reader().open(source, replace(options, encryption=self._change(options.encryption)))


class _Writing:
    def __init__(self, plugin: Any) -> None:
        self._plugin = plugin

    def open(self, sink: ByteSink, options: WriteOptions) -> Any:
        return self._plugin.writer().open(sink, replace(options, encryption=None))

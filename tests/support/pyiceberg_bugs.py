"""What pyiceberg 0.12 gets wrong, and the checks that say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["BUGS", "LACKS", "Bug", "failing_checks"]

PARQUET = ("parquet",)
ORC = ("orc",)
FILES = PARQUET + ORC
SCANS_OF_PARQUET = ("scans of parquet",)
SCANS_OF_ORC = ("scans of orc",)
SCANS = SCANS_OF_PARQUET + SCANS_OF_ORC
EVERYWHERE = FILES + SCANS


@dataclass(frozen=True)
class Bug:
    """Something that pyiceberg does wrong, or does not do.

    Attributes:
        title: What it is, in a sentence.
        shows: A pattern of what a check says that fails for it.
        fails: The checks that fail first for it, by the subjects for which they do. The first one is about nothing
            else; the data of the others meet it.
    """

    title: str
    shows: str
    fails: Mapping[tuple[str, ...], tuple[str, ...]]

    @property
    def checks(self) -> list[str]:
        """Each check once, the one that names the bug first."""
        return list(dict.fromkeys(name for names in self.fails.values() for name in names))


def failing_checks(subject: str) -> dict[str, Bug]:
    """The bug for which each check of a subject fails that does."""
    return {
        name: bug
        for bug in (*BUGS, *LACKS)
        for subjects, names in bug.fails.items()
        if subject in subjects
        for name in names
    }


BUGS = (
    Bug(
        "null lists and maps of structs become empty when they are read or written (apache/iceberg-python issue 3833)",
        r"\[\].*, not .*None",
        {
            FILES: (
                "null_empty_and_full_of_nulls_stay_apart",
                "structs_lists_and_maps_round_trip",
                "columns_of_any_type_without_a_value_round_trip",
                "slices_from_the_middle_of_nested_columns_are_written_alike",
                "tables_of_uneven_chunks_are_written_in_order",
                "fields_inside_structs_lists_and_maps_are_pruned",
                "a_filter_finds_its_leaf_among_nested_columns",
                "a_file_that_stores_some_ids_is_taken_at_its_word",
                "the_caller_may_say_that_names_or_positions_tell_columns",
                "dates_are_read_as_timestamps",
            ),
            PARQUET: (
                "batches_stay_valid_after_everything_was_closed",
                "batches_in_any_physical_form_are_written_alike",
            ),
            EVERYWHERE: (
                "a_mapping_reaches_into_structs_lists_and_maps",
                "a_field_that_a_struct_lacks_takes_its_default_where_the_struct_is_not_null",
                "null_structs_stay_null_when_only_fields_that_the_file_lacks_are_wanted",
                "columns_that_were_added_later_are_null",
                "a_column_that_was_dropped_and_added_again_is_a_new_one",
                "columns_are_found_wherever_they_stand_in_the_file",
                "renamed_columns_are_found_by_their_ids",
                "columns_that_swapped_their_names_keep_their_values",
                "a_name_that_moved_on_to_another_column_says_nothing",
                "structs_may_grow_wherever_they_are",
                "ints_are_read_as_longs",
                "floats_are_read_as_the_doubles_that_they_are",
                "decimals_are_read_with_more_digits",
                "filters_find_nested_renamed_and_swapped_columns",
            ),
        },
    ),
    Bug(
        "rows with null, and in Parquet with NaN, are dropped under `!=` and its like, though not under `not in`",
        r"where .*(!=|NotEqual|NotNaN)",
        {
            FILES: (
                "null_rows_are_kept_where_a_value_is_excluded",
                "nan_hides_no_row_beside_it",
                "rows_that_match_come_in_file_order",
                "filters_see_through_every_encoding",
                "decimals_of_any_width_are_compared_rightly",
                "filters_on_promoted_columns_compare_the_values_that_they_became",
                "filters_go_through_a_mapping_whose_ids_are_no_positions",
                "filters_see_the_partitions_value_in_a_column_that_the_file_lacks",
                "files_of_several_specs_are_read_alike",
            ),
            EVERYWHERE: (
                "filters_keep_and_drop_nulls_nans_and_zeros_as_the_spec_says",
                "a_filtered_column_need_not_be_selected_and_may_bear_the_old_name_of_another",
            ),
            ORC: ("bytes_are_compared_without_sign",),
            SCANS_OF_PARQUET: ("filters_order_bytes_unsigned_and_decimals_as_numbers",),
        },
    ),
    Bug(
        "where no column is read there are no rows either",
        r"found 0|found \[\]|max\(\)",
        {
            FILES: (
                "an_empty_projection_gives_the_number_of_rows",
                "no_batch_is_larger_than_was_asked_for",
                "positions_can_be_asked_for_alone",
                "deleted_rows_are_gone_whatever_columns_are_asked_for",
                "deleted_rows_are_marked_where_the_mark_is_asked_for",
                "lineage_that_is_not_stored_is_inherited",
                "every_row_knows_its_file",
                "every_row_knows_its_spec",
                "every_row_knows_its_position",
                "no_row_is_deleted",
                "every_row_knows_its_partition",
                "partition_fields_that_were_removed_are_null",
            ),
            PARQUET: (
                "bytes_of_columns_that_are_not_asked_for_are_not_read",
                "rows_without_a_stored_column_are_counted_or_refused",
            ),
        },
    ),
    Bug(
        "`in` takes 0.0 and -0.0 for two values",
        r"where In\(.*0\.0",
        {FILES: ("zeros_of_either_sign_are_equal",)},
    ),
    Bug(
        "columns of uuid cannot be filtered in Parquet (apache/iceberg-python issue 2372)",
        r"no kernel matching input types \(extension<arrow\.uuid>",
        {PARQUET: ("bytes_are_compared_without_sign", "filters_order_bytes_unsigned_and_decimals_as_numbers")},
    ),
    Bug(
        "an optional struct that the data lack cannot be written to Parquet if one of its fields is required",
        r"declared non-nullable but contains nulls",
        {PARQUET: ("optional_columns_that_the_data_lacks_are_null",)},
    ),
    Bug(
        "a text cannot be written to Parquet if its bound, rounded up, ends in a surrogate",
        r"surrogates not allowed",
        {PARQUET: ("truncated_text_bounds_are_text_of_any_alphabet",)},
    ),
    Bug(
        "a moment cannot be written to Parquet if Python's datetime cannot hold it",
        r"date value out of range",
        {PARQUET: ("moments_at_the_ends_of_64_bits_are_kept_or_refused",)},
    ),
    Bug(
        "columns of type unknown are stored",
        r"number of stored columns.*expected 3, found 6",
        {PARQUET: ("unknown_columns_are_not_stored_and_their_neighbours_are",)},
    ),
    Bug(
        "a moment before 1677 or after 2262 makes an ORC file unreadable",
        r"out of range for nanosecond resolution",
        {
            ORC: (
                "moments_before_1970_keep_parts_of_a_second",
                "moments_at_the_ends_of_64_bits_are_kept_or_refused",
                "days_and_moments_before_1970_are_compared_rightly",
                "every_primitive_type_round_trips",
                "required_columns_of_every_primitive_type_round_trip",
                "batches_stay_valid_after_everything_was_closed",
                "batches_in_any_physical_form_are_written_alike",
                "batches_of_one_file_may_differ_in_their_form",
                "unknown_write_properties_are_ignored",
                "rows_of_equality_deletes_are_stored_whatever_their_types",
            )
        },
    ),
    Bug(
        "in ORC, time is taken for long, uuid and fixed for binary, and what is required for optional",
        r"types of primitives|(time|uuid) in the table but|Cannot promote (long to time|an binary to uuid)",
        {
            ORC: ("columns_have_the_types_that_were_written", "columns_of_every_type_can_tell_deleted_rows"),
            ORC + SCANS_OF_ORC: (
                "stored_values_and_nulls_win_over_defaults_of_every_type",
                "filters_order_bytes_unsigned_and_decimals_as_numbers",
            ),
        },
    ),
    Bug(
        "a filter beyond 32 bits on a column that was int returns rows with null",
        r"where x < 5000000000: .*None",
        {SCANS: ("filters_on_promoted_columns_compare_the_values_that_they_became",)},
    ),
    Bug(
        "a change of a decimal's scale is taken for a promotion",
        r"decimal\(9, 2\) as decimal\(9, 3\): expected IllegalPromotionError, but nothing was raised",
        {SCANS: ("changes_of_type_that_iceberg_does_not_know_are_refused",)},
    ),
    Bug(
        "dates are not promoted to timestamps",
        r"no attribute 'tz'|Cannot promote date to timestamp_ns",
        {SCANS: ("dates_are_read_as_timestamps", "a_date_that_no_timestamp_can_hold_is_refused")},
    ),
    Bug(
        "a filter does not find the default of a date, a moment or a uuid that the file lacks",
        r"DateLiteral\(18779\)\): expected 4, found 0",
        {SCANS: ("filters_on_columns_that_files_lack_answer_as_if_they_were_stored",)},
    ),
    Bug(
        "a filter finds the default of a field even where the struct around it is null",
        r"where s\.(t\.)?z = 7: row 1 is \{1: 1, 2: (None|\{3: None\})",
        {
            SCANS: (
                "filters_see_the_default_of_a_column_that_the_file_lacks",
                "a_struct_two_levels_deep_takes_the_defaults_of_fields_that_it_lacks",
            )
        },
    ),
    Bug(
        "a required column that only the partition knows is refused as missing",
        r"Field is required, and could not be found in the file: 2: p",
        {SCANS: ("a_column_that_the_file_lacks_has_the_partitions_value_even_if_it_is_falsy",)},
    ),
    Bug(
        "a default wins over the null of the partition",
        r"\{1: 0, 2: 7\}, not \{1: 0, 2: None\}",
        {SCANS: ("a_null_of_the_partition_is_a_value_and_wins_over_the_default",)},
    ),
    Bug(
        "a filter on a partition column whose value is null may end the scan with a TypeError",
        r"not supported between instances of 'NoneType' and 'int'",
        {SCANS: ("filters_see_the_partitions_value_in_a_column_that_the_file_lacks",)},
    ),
    Bug(
        "a column that the name mapping does not know makes a file unreadable",
        r"Could not find field with name: (a|ignored)",
        {
            SCANS: (
                "columns_that_are_not_mapped_are_never_read",
                "filters_go_through_a_mapping_whose_ids_are_no_positions",
            )
        },
    ),
    Bug(
        "a file that stores some ids is read as if it stored none",
        r"row 0 is \{1: 0, 2: \{20: 1\}.*, not \{1: 0, 2: \{20: None\}",
        {SCANS: ("a_file_that_stores_some_ids_is_taken_at_its_word",)},
    ),
    Bug(
        "a name that could be two columns, case aside, is taken for the last of them",
        r"expected AmbiguousColumnError, but nothing was raised",
        {SCANS: ("names_that_differ_by_case_alone_are_told_apart",)},
    ),
    Bug(
        "deletes by position are applied whatever their age and partition",
        r"rows: row|expected FormatkitError, but nothing",
        {
            SCANS: (
                "deletes_by_position_concern_files_of_their_own_age_too",
                "deletes_by_position_without_a_partition_concern_no_other",
                "partitions_of_several_fields_are_equal_in_all_of_them",
                "a_deletion_vector_of_another_partition_is_refused",
                "a_deletion_vector_that_is_older_than_its_data_file_is_refused",
            )
        },
    ),
    Bug(
        "damage to a deletion vector is not noticed, nor that it is another than the manifest says",
        r"expected CorruptFileError, but nothing",
        {
            SCANS: (
                "damage_to_a_deletion_vector_is_noticed_before_a_row_is_returned",
                "a_deletion_vector_that_is_not_the_one_of_the_manifest_is_refused",
            )
        },
    ),
    Bug(
        "a delete file that spells the path of a data file in another way deletes nothing",
        r"rows: row 0 is",
        {SCANS: ("paths_of_one_place_may_be_spelled_in_several_ways",)},
    ),
)

LACKS = (
    Bug(
        "metadata columns",
        r"Could not find column: '_",
        {SCANS: ("a_partition_column_need_not_be_selected_to_be_filtered", "files_of_several_specs_are_read_alike")},
    ),
    Bug(
        "a default for a struct",
        r"Tuple size must be equal to number of struct fields",
        {SCANS: ("a_struct_that_the_file_lacks_is_null_unless_its_default_is_the_empty_struct",)},
    ),
    Bug(
        "a choice between a stored column and the value of its partition",
        r"has no prefer_partition_constants",
        {SCANS: ("the_partitions_value_wins_if_the_caller_prefers_it",)},
    ),
    Bug(
        "a way to read files without ids by names or positions",
        r"has no missing_ids",
        {SCANS: ("the_caller_may_say_that_names_or_positions_tell_columns",)},
    ),
)

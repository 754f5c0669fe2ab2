//go:build !(mutant_taken_unsynced || mutant_name_unsynced || mutant_data_folder_unsynced || mutant_outbox_unsynced || mutant_outbox_swept || mutant_put_back_skipped || mutant_entered_twice || mutant_counter_unwritten || mutant_epoch_unchecked || mutant_vanished_kept || mutant_freeze_newer || mutant_same_always || mutant_version_first || mutant_ref_unchecked || mutant_sum_unchecked || mutant_published_unlinked || mutant_column_unwritten || mutant_column_cached || mutant_commit_split || mutant_overflow_unchecked || mutant_counter_lowered || mutant_unknown_trusted || mutant_base_unexpected || mutant_desync_opened || mutant_format_unread || mutant_epoch_kept || mutant_expect_unchecked || mutant_fenced_conflict || mutant_reader_writes || mutant_fence_last || mutant_repair_half || mutant_end_inclusive || mutant_future_answered || mutant_value_tag_unread || mutant_key_length_wraps || mutant_wal_unread || mutant_gc_age || mutant_gc_order)

package mutant

const active = None

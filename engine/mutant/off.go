//go:build !(mutant_taken_unsynced || mutant_name_unsynced || mutant_data_folder_unsynced || mutant_outbox_unsynced || mutant_outbox_swept || mutant_put_back_skipped || mutant_entered_twice || mutant_counter_unwritten || mutant_epoch_unchecked || mutant_vanished_kept || mutant_freeze_newer || mutant_same_always || mutant_version_first || mutant_ref_unchecked || mutant_sum_unchecked || mutant_published_unlinked)

package mutant

const active = None

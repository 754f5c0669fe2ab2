//go:build mutant_outbox_unsynced

package mutant

// killed by: ./integration/forgetful TestOutboxSurvives
const active = OutboxUnsynced

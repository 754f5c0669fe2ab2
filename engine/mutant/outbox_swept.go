//go:build mutant_outbox_swept

package mutant

// killed by: ./engine/work TestOutbox
const active = OutboxSwept

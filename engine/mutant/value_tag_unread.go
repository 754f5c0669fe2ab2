//go:build mutant_value_tag_unread

package mutant

// killed by: ./engine/keys TestValues
const active = ValueTagUnread

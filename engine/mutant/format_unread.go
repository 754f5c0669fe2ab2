//go:build mutant_format_unread

package mutant

// killed by: ./engine/catalog TestFormatRefused
const active = FormatUnread

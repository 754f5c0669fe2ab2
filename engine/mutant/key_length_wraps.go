//go:build mutant_key_length_wraps

package mutant

// killed by: ./engine/keys TestText
const active = KeyLengthWraps

// Package strictjson reads JSON that strangers wrote, as a stream and within
// limits, and writes the one form that equal content has.
//
// encoding/json is not enough for files that decide what people's tables hold:
// it takes the last of two equal keys, matches keys without regard to case,
// replaces invalid UTF-8 silently and reads to any depth. Here each of these is
// an error with its line. A reader pulls values in the order of the text, so a
// list of a million entries costs one entry of memory.
//
// It must not know what the JSON means.
package strictjson

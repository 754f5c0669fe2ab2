// Package serve offers a repository over HTTP: to any client that can GET, and
// to Tarn's own driver for http and https URLs, which writes through it. It
// stands before any store, so that who has a token need not have the store's
// keys, and it lets nobody do what would harm the repository:
//
//  1. Only the repository's own keys are seen: fdl.json, HEAD, refs/,
//     versions/, the data folder, and scratch objects of the probe. Whatever
//     else lies in the folder or bucket is not there.
//  2. What is write-once is created, never replaced.
//  3. Refs and HEAD change only on condition, to what a ref may hold: a ref
//     names a version that is there.
//  4. A data file or a version's file is removed only when it is older than
//     the repository's grace period; a ref only in a state that is named.
//     fdl.json and HEAD are never removed.
//  5. Without a token that says so nothing is written; and nothing is read,
//     once there is a file of tokens, unless it has a line for everybody.
//  6. No secret is in a URL, in the log or in an answer.
//
// Objects are sent with ETag, ranges and conditions by net/http. What a body
// held is known before the store is asked to keep it: the size, and the
// sha256 when the client says one.
//
// It must not know what versions, tables and data files hold.
package serve

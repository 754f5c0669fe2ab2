// Package repo is the repository format: names, refs, versions, their JSON
// files, and the order in which they are written.
//
//	fdl.json                             what kind of repository this is       fdljson.go
//	HEAD, refs/heads/.., refs/tags/..    small objects that move on condition  refs.go, names.go
//	versions/<ID>/version.json           parents, author, checksums            version.go
//	versions/<ID>/dataset.json           description for people                dataset.go
//	versions/<ID>/files.json             every data file of the version        files.go
//	versions/<ID>/ducklake.duckdb        the frozen catalog, opaque here
//	versions/<ID>/catalogs/              further catalogs, kept and not read
//	<data_dir><schema>/<table>/..        data and delete files
//
// Invariants, cited by number in the code:
//
//  1. Only HEAD, refs and fdl.json ever change. Everything else is written
//     once: already there with the same content goes on, other content stops.
//  2. A ref is moved only to a version whose version.json is there, and
//     version.json is written only after every other file of its version. So a
//     reader who follows a ref never meets a half-written version.
//  3. A ref moves by compare-and-swap from the state its writer has seen. An
//     error of a swap is unknown until it has been read back.
//  4. Bytes of a version are compared with the sha256 of version.json before
//     anything believes them.
//  5. A parent is older than its child: created_at and number grow.
//  6. What another tool wrote is read leniently (unknown fields are kept,
//     missing ones have defaults) and never repaired in passing.
//
// It must not know working folders, the catalog store or mounts.
package repo

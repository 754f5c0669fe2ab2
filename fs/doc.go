// Package fs is the tree that users see: FUSE nodes that translate kernel
// calls into questions to the engine and back, and nothing else.
//
// # The tree
//
// Two roots, mounted apart (package mount):
//
//	Root   HEAD branches/ tags/ history/ by-date/ versions/ work/    read-only
//	Work   <branch>/{tables,data,catalog,meta}/, generated files,    writable
//	       and the control files .commit .push .pull .reset
//
// In Root every node embeds roNode, which answers EROFS to each change: the
// kernel's read-only superblock is the first guard, this is the second, and
// the only one where a user who is not root mounts.
//
// # Caching
//
// The mount's default is to cache nothing; a node that may be cached says so.
// Everything inside a version is immutable: its entries, attributes, missing
// names and pages are kept for long (Forever, FOPEN_KEEP_CACHE), and its
// inode comes from what it is, so the same stored file in many versions has
// one set of pages. Refs are read afresh at each READLINK, which no kernel
// caches unless asked; with Links: Folders the children of a ref's folder are
// looked up afresh in the version that the ref names then, and everything
// below those children belongs to that version. So a path that is walked
// again sees a moved ref at once, while an open file, a mapped file and a
// shell's working folder stay in the version they were found in. Nothing in
// the writable tree is cached by name. The kernel is never notified.
//
// Generated files are rendered at open and read with direct I/O: a handle
// sees one text; their size is that of the last text, and of a version's,
// which never change, the true one from the start.
//
// A file of tables/ whose rows differ from the stored bytes is made at first
// open. Until then its announced size may still change, so its attributes are
// not cached; when the size did change, the handle reads with direct I/O and
// so sees the true end whatever the kernel believes.
//
// # Inodes
//
// An inode stands for one set of bytes: a stored file, a rewritten file of one
// version, a real file of the state folder. When a name comes to mean other
// bytes (a base file is opened for writing and becomes a staged one, a file is
// renamed over, a generation ends) it means another inode, and an operation
// on the old one that needs the name answers ESTALE: the kernel then looks the
// name up again and repeats the call, and no caller sees it. Handles go on with
// the file they opened.
//
// # Waiting
//
// LOOKUP, READDIR, GETATTR, OPEN, CREATE, MKDIR, RENAME and UNLINK never wait
// for a commit: the kernel holds the folder's lock meanwhile, and a commit's
// own child process walks through this mount. Only SETATTR, FLUSH and FSYNC of
// a control file and FSYNCDIR of work/<branch> itself wait, and give up with
// EINTR when the caller is interrupted; the work goes on. While FSYNCDIR
// waits the kernel keeps work/<branch> locked, so the child comes through the
// side door: /.w/<branch>/, a folder that is in no listing, whose children
// are the very inodes of catalog/ (nodetable.go).
//
// A control file is a new inode at each lookup. With one inode the kernel
// would queue a second caller behind the first, unkillable.
//
// # Locks
//
// Each is held for a few instructions, none while the engine or the disk is
// asked, except openFiles.mu, which keeps a descriptor open while a system
// call uses it, listing.mu, of one open folder, while that is listed, and
// nodeTable.mu, while a file of catalog/ is made, found or removed. No lock is
// taken while another of this package is held, except: any below listing.mu;
// openFiles.mu below nodeTable.mu.
//
// It must not know commands, the catalog store or DuckLake.
package fs

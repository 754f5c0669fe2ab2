/* The official slatedb crate for package slatekv: a database open for writing,
 * a view of one moment, a scan of a view.
 *
 * Every call blocks the calling thread. A call that takes a slate_cancel ends
 * early, as SLATE_CANCELLED, when that is fired; NULL is allowed. Handles may
 * be used from any thread, a scan by one at a time. Free nothing while a call
 * that uses it is under way. Bytes passed in are not kept; buffers passed out
 * belong to the caller, who gives them back with slate_buf_free.
 *
 * Options are JSON:
 *   "dir"            folder of the database: an absolute path; or
 *   "url"            s3://bucket/prefix, az://container/prefix, gs://bucket/prefix
 *   "env"            variables of the environment, those the store does not know
 *                    are ignored; the process's own environment is not looked at
 *   "store"          the store's options, which win; unknown ones are refused
 *   "allow_http"     bool: the endpoint is http://
 *   "long_lived"     bool: compact and collect beside this writer
 *   "settings"       the engine's settings over ours; unknown ones are refused
 *   "expected_epoch" of a writer: fail as SLATE_FENCED unless this epoch is the last
 *   "probe"          of a writer: a new name, under which it is tried first
 *                    whether the store honours conditional writes
 *   "cache_id"       of views: those of one id share what they have cached
 */
#ifndef SLATEDB_C_H
#define SLATEDB_C_H
#include <stddef.h>
#include <stdint.h>

enum {
  SLATE_OK = 0,
  SLATE_NOT_EXIST = 1,   /* no database there */
  SLATE_FENCED = 2,      /* a newer writer has opened: nothing was written, the handle is dead */
  SLATE_CONFLICT = 3,    /* an expected value did not hold: nothing was written */
  SLATE_UNAVAILABLE = 4, /* the object store, with errno where the system gave one */
  SLATE_DAMAGED = 5,     /* stored bytes are not what they should be */
  SLATE_CLOSED = 6,
  SLATE_INVALID = 7,     /* an argument, an option or a setting */
  SLATE_INTERNAL = 8,    /* a fault of the engine, or a panic that was caught */
  SLATE_CANCELLED = 9,
  SLATE_UNKNOWN = 10,    /* a commit that is there wholly or not at all; the handle is dead */
  SLATE_VANISHED = 11,   /* an object that the view needs is gone */
  SLATE_UNSAFE = 12      /* the store does not honour conditional writes */
};

typedef struct slate_writer slate_writer;
typedef struct slate_view slate_view;
typedef struct slate_scan slate_scan;
typedef struct slate_cancel slate_cancel;

typedef struct {
  uint8_t *ptr;
  size_t len;
  size_t cap;
} slate_buf;

/* What became of a call: text is one line of UTF-8, empty when it succeeded. */
typedef struct {
  int32_t code;
  int32_t err_no;
  slate_buf text;
} slate_outcome;

void slate_buf_free(slate_buf b);

slate_cancel *slate_cancel_new(void);
void slate_cancel_fire(slate_cancel *c);
void slate_cancel_free(slate_cancel *c);

/* Opens for writing, makes the database when it is missing, and fences every
 * older writer. */
slate_outcome slate_writer_open(const uint8_t *opts, size_t opts_len, slate_cancel *c, slate_writer **out);
uint64_t slate_writer_epoch(slate_writer *w);
/* The value as of the last durable commit; *found stays when there is none. */
slate_outcome slate_writer_get(slate_writer *w, const uint8_t *key, size_t len, slate_cancel *c, int32_t *found, slate_buf *out);
/* Applies a batch, all of it or nothing, durably. An entry is: kind u8 (0 put,
 * 1 delete, 2 expect this value, 3 expect absence), u32 LE length of the key,
 * u32 LE length of the value, key, value. Can be cancelled until the batch is
 * handed to the engine, and then nothing was written. */
slate_outcome slate_writer_commit(slate_writer *w, const uint8_t *batch, size_t len, slate_cancel *c);
/* Pins the database as this writer sees it now. */
slate_outcome slate_writer_view(slate_writer *w, slate_cancel *c, slate_view **out);
/* Ends and frees the writer, whatever the outcome. keep 0: something failed
 * before, write nothing more. */
slate_outcome slate_writer_close(slate_writer *w, int32_t keep);

/* Pins the newest durable state in the store. Writes nothing, fences nobody. */
slate_outcome slate_view_open(const uint8_t *opts, size_t opts_len, slate_cancel *c, slate_view **out);
/* Epoch of the last writer before the view; 0 for a writer's view. */
uint64_t slate_view_epoch(slate_view *v);
slate_outcome slate_view_get(slate_view *v, const uint8_t *key, size_t len, slate_cancel *c, int32_t *found, slate_buf *out);
/* Scans [start, end), to the last key when bounded is 0. An empty or inverted
 * range is an empty scan. */
slate_outcome slate_view_scan(slate_view *v, const uint8_t *start, size_t start_len, const uint8_t *end, size_t end_len,
                              int32_t bounded, int32_t descending, slate_cancel *c, slate_scan **out);
/* Ends and frees the view, whatever the outcome. */
slate_outcome slate_view_close(slate_view *v);

/* The next pairs until there are max bytes of them: u32 LE length of the key,
 * u32 LE length of the value, key, value. Empty at the end. */
slate_outcome slate_scan_next(slate_scan *s, size_t max, slate_cancel *c, slate_buf *out);
void slate_scan_free(slate_scan *s);

#endif

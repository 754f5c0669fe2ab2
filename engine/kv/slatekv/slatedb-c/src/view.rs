//! A database at one moment: of a writer's handle, or read from the store.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use slatedb::config::{DbReaderOptions, ScanOptions};
use slatedb::{DbIterator, DbReader, DbReaderMode, DbSnapshot, IterationOrder};
use tokio_util::sync::CancellationToken;

use crate::clock::Pinned;
use crate::error::{Code, Fail, Res};
use crate::packed::push_pair;
use crate::run::{cache, wait, within};
use crate::settings::RETRIES;
use crate::target;

const CLOSE_LIMIT: Duration = Duration::from_secs(20);

/// A scan reads ahead so much, in so many requests at once.
const READ_AHEAD: usize = 1 << 20;
const FETCHES: usize = 4;

pub enum View {
    Snapshot(Arc<DbSnapshot>),
    Reader(DbReader),
}

impl View {
    /// Reads the newest durable state from the store and stays there. Nothing
    /// is written: the mode that follows is the only one that sets no
    /// checkpoint, and the clock keeps it from following. So nothing protects
    /// the view from collection either; one that has outlived what it reads
    /// says Vanished.
    pub fn open(opts: &Value, cancel: Option<&CancellationToken>) -> Res<View> {
        let (store, path) = target::open(opts)?;
        let id = opts.get("cache_id").and_then(Value::as_u64).unwrap_or(0);
        wait(cancel, async {
            let reader = DbReader::builder(path, store)
                .with_reader_mode(DbReaderMode::FollowLatest)
                .with_options(DbReaderOptions { object_store_max_retries: Some(RETRIES), ..Default::default() })
                .with_system_clock(Arc::new(Pinned::default()))
                .with_db_cache(cache(), id)
                .build()
                .await?;
            Ok(View::Reader(reader))
        })
    }

    pub async fn get(&self, key: &[u8]) -> Res<Option<Bytes>> {
        Ok(match self {
            View::Snapshot(s) => s.get(key).await?,
            View::Reader(r) => r.get(key).await?,
        })
    }

    /// Epoch of the writer whose database this is; 0 for a snapshot, which does
    /// not say.
    pub fn epoch(&self) -> u64 {
        match self {
            View::Snapshot(_) => 0,
            View::Reader(r) => r.manifest().writer_epoch(),
        }
    }

    /// Scans [start, end). No end: to the last key.
    pub async fn scan(&self, start: &[u8], end: Option<&[u8]>, descending: bool) -> Res<Scan> {
        // The engine panics on an empty or inverted range.
        if end.is_some_and(|e| start >= e) {
            return Ok(Scan(None));
        }
        let low = match start.len() {
            0 => Bound::Unbounded,
            _ => Bound::Included(Bytes::copy_from_slice(start)),
        };
        let high = match end {
            None => Bound::Unbounded,
            Some(e) => Bound::Excluded(Bytes::copy_from_slice(e)),
        };
        let mut o = ScanOptions::default();
        o.cache_blocks = true;
        o.read_ahead_bytes = READ_AHEAD;
        o.max_fetch_tasks = FETCHES;
        if descending {
            o.order = IterationOrder::Descending;
        }
        let range = (low, high);
        Ok(Scan(Some(match self {
            View::Snapshot(s) => s.scan_with_options(range, &o).await?,
            View::Reader(r) => r.scan_with_options(range, &o).await?,
        })))
    }

    pub fn close(self) -> Res<()> {
        match self {
            View::Snapshot(_) => Ok(()),
            View::Reader(r) => wait(
                None,
                within(CLOSE_LIMIT, Code::Unavailable, async {
                    match r.close().await {
                        Ok(()) => Ok(()),
                        Err(e) => match Fail::from(e) {
                            f if f.code == Code::Closed => Ok(()),
                            f => Err(f),
                        },
                    }
                }),
            ),
        }
    }
}

/// A scan under way; None at its end.
pub struct Scan(Option<DbIterator>);

impl Scan {
    /// The next pairs, until there are max bytes of them; empty at the end.
    pub async fn next(&mut self, max: usize) -> Res<Vec<u8>> {
        let mut out = Vec::new();
        while out.len() < max {
            let Some(it) = self.0.as_mut() else { break };
            match it.next().await? {
                Some(p) => push_pair(&mut out, &p.key, &p.value),
                None => self.0 = None,
            }
        }
        Ok(out)
    }
}

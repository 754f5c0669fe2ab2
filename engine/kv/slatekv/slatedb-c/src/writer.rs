//! A database open for writing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slatedb::admin::{Admin, AdminBuilder};
use slatedb::config::{CloseOptions, DurabilityLevel, FlushOptions, FlushType, ReadOptions};
use slatedb::object_store::path::Path;
use slatedb::object_store::ObjectStore;
use slatedb::{Db, WriteBatch};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::error::{Code, Fail, Res};
use crate::packed::{self, Entry};
use crate::run::{cache, wait, within};
use crate::view::View;
use crate::{probe, settings, target, tidy};

/// A commit that has no answer for so long is given up, its outcome unknown.
/// The retries below end much earlier, unless the store only just drips.
const COMMIT_LIMIT: Duration = Duration::from_secs(120);
/// Closing waits for what is being flushed.
const CLOSE_LIMIT: Duration = Duration::from_secs(60);
/// With so many WAL objects since the last table, closing writes a table: each
/// of them is a request when the database is opened again.
const WAL_OBJECTS: u64 = 64;

/// Cache entries are told apart by handle: WAL objects are numbered, and two
/// databases may be made in one place one after the other.
pub fn cache_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub struct Writer {
    db: Db,
    admin: Admin,
    place: (Path, Arc<dyn ObjectStore>),
    long_lived: bool,
    epoch: u64,
    /// Log objects that opening the database now would replay, at most.
    log_objects: AtomicU64,
    /// Held from the look at the expected values until the batch is in memory,
    /// so that no other commit comes between; not while it becomes durable.
    order: Mutex<()>,
}

impl Writer {
    /// Opens, and fences every older writer. With "expected_epoch" it fails as
    /// fenced when another one than that has the database.
    pub fn open(opts: &Value, cancel: Option<&CancellationToken>) -> Res<Writer> {
        let (store, path) = target::open(opts)?;
        let settings = settings::writer(opts)?;
        wait(cancel, async {
            if let Some(name) = opts.get("probe").and_then(Value::as_str) {
                probe::creates_once(store.as_ref(), &path, name).await?;
            }
            let mut b =
                Db::builder(path.clone(), store.clone()).with_settings(settings).with_db_cache(cache(), cache_id());
            if let Some(n) = opts.get("expected_epoch").and_then(Value::as_u64) {
                b = b.with_expected_epoch(n);
            }
            let db = b.build().await?;
            let m = db.manifest();
            let epoch = m.writer_epoch();
            let log_objects = AtomicU64::new(m.next_wal_sst_id().saturating_sub(m.replay_after_wal_id()));
            let admin = AdminBuilder::new(path.clone(), store.clone()).build();
            let long_lived = settings::long_lived(opts);
            Ok(Writer { db, admin, place: (path, store), long_lived, epoch, log_objects, order: Mutex::new(()) })
        })
    }

    /// Reads one key as of the last durable commit.
    pub async fn get(&self, key: &[u8]) -> Res<Option<bytes::Bytes>> {
        let o = ReadOptions::default().with_durability_filter(DurabilityLevel::Remote);
        Ok(self.db.get_with_options(key, &o).await?)
    }

    /// Pins the database as of now. What other commits have in memory is
    /// waited for: a view must not show what may yet be lost.
    pub async fn view(&self) -> Res<View> {
        let snap = self.db.snapshot()?;
        if snap.seq() > self.db.status().durable_seq {
            self.db.flush().await?;
        }
        Ok(View::Snapshot(snap))
    }

    /// Whether a newer writer has opened, asked where everybody can see it.
    async fn check_fence(&self) -> Res<()> {
        match self.admin.read_manifest(None).await? {
            Some(m) if m.writer_epoch() == self.epoch => Ok(()),
            Some(_) => Err(Fail::new(Code::Fenced, "a newer writer has opened the database")),
            None => Err(Fail::new(Code::Fenced, "the database is gone")),
        }
    }

    /// Applies a batch: all of it is durable when this returns Ok.
    pub fn commit(&self, batch: &[u8], cancel: Option<&CancellationToken>) -> Res<()> {
        let entries = packed::entries(batch)?;
        let (expected, changes): (Vec<_>, Vec<_>) = entries.into_iter().partition(|e| e.kind >= packed::EXPECT);
        // Until the batch is handed over it can be cancelled.
        let order = wait(cancel, async {
            let order = self.order.lock().await;
            for e in &expected {
                if !self.holds(e).await? {
                    // Fenced comes first: after it, nothing is worth a retry.
                    self.check_fence().await?;
                    return Err(Fail::new(Code::Conflict, hex(e.key)));
                }
            }
            Ok(order)
        })?;
        if changes.is_empty() {
            drop(order);
            return wait(cancel, async {
                self.check_fence().await?;
                Ok(self.db.flush().await?) // what the expectations were read from
            });
        }
        let mut b = WriteBatch::new();
        for e in &changes {
            match e.kind {
                packed::DELETE => b.delete(e.key),
                _ => b.put(e.key, e.value),
            }
        }
        // From here on the answer is awaited, whoever gives up meanwhile.
        wait(
            None,
            within(COMMIT_LIMIT, Code::Unknown, async {
                let handle = self.db.write(b).await.map_err(|e| {
                    let f = Fail::from(e);
                    match f.code {
                        Code::Closed | Code::Invalid => f, // refused at the door
                        _ => f.after_write(),
                    }
                })?;
                drop(order);
                self.log_objects.fetch_add(1, Ordering::Relaxed);
                // Not the flush interval: this asks for a flush now, which every
                // concurrent commit shares.
                self.db.flush().await.map_err(|e| Fail::from(e).after_write())?;
                handle.await_durable().await.map_err(|e| Fail::from(e).after_write())
            }),
        )
    }

    async fn holds(&self, e: &Entry<'_>) -> Res<bool> {
        if e.key.is_empty() {
            return Ok(e.kind == packed::EXPECT_ABSENT);
        }
        let have = self.db.get(e.key).await?;
        Ok(match have {
            None => e.kind == packed::EXPECT_ABSENT,
            Some(v) => e.kind == packed::EXPECT && v == e.value,
        })
    }

    /// Ends the handle. keep: nothing failed before, so what is in memory is
    /// known to be durable and may be put into a table; otherwise nothing more
    /// is written.
    pub fn close(&self, keep: bool) -> Res<()> {
        let tidied = if keep { wait(None, within(CLOSE_LIMIT, Code::Unavailable, self.tidy())) } else { Ok(()) };
        let o = CloseOptions::default().with_flush_type(None);
        let closed =
            wait(None, within(CLOSE_LIMIT, Code::Unavailable, async { Ok(self.db.close_with_options(o).await?) }));
        tidied.and(closed)
    }

    /// Leaves the store so that the next one opens quickly. By itself the
    /// engine does this at no time, or at each close: for a command that
    /// commits once, three requests more.
    async fn tidy(&self) -> Res<()> {
        if self.log_objects.load(Ordering::Relaxed) > WAL_OBJECTS {
            self.db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await?;
        }
        if !self.long_lived {
            let (path, store) = self.place.clone();
            tidy::compact(path, store, &self.admin, self.epoch).await?;
        }
        Ok(())
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

fn hex(key: &[u8]) -> String {
    let shown: String = key.iter().take(64).map(|b| format!("{b:02x}")).collect();
    format!("key {shown}")
}

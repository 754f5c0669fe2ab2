//! A database open for writing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use slatedb::admin::{Admin, AdminBuilder};
use slatedb::config::{CloseOptions, DurabilityLevel, FlushOptions, FlushType, ReadOptions};
use slatedb::object_store::path::Path;
use slatedb::object_store::ObjectStore;
use slatedb::{Db, WriteBatch};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::error::{Code, Fail, Res};
use crate::run::{cache, wait, within};
use crate::view::View;
use crate::{commit, probe, settings, target, tidy};

/// A commit that has no answer for so long is given up, its outcome unknown.
/// The retries below end much earlier, unless the store only just drips.
pub const COMMIT_LIMIT: Duration = Duration::from_secs(120);
/// Closing waits for what is being flushed.
const CLOSE_LIMIT: Duration = Duration::from_secs(60);
/// With so many log objects since the last table, closing writes a table: each
/// of them is a request when the database is opened again.
const LOG_OBJECTS: u64 = 64;

/// Cache entries are told apart by handle: log objects are numbered, and two
/// databases may be made in one place one after the other.
fn cache_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The database, as the task that commits has it too.
pub struct Core {
    db: Db,
    admin: Admin,
    epoch: u64,
    /// Log objects that opening the database now would replay, at most.
    log_objects: AtomicU64,
}

impl Core {
    /// The value that the next commit would find, durable or not yet.
    pub async fn newest(&self, key: &[u8]) -> Res<Option<Bytes>> {
        Ok(self.db.get(key).await?)
    }

    /// Writes a batch and waits until it is durable.
    pub async fn write(&self, batch: WriteBatch) -> Res<()> {
        let handle = self.db.write(batch).await.map_err(|e| {
            let f = Fail::from(e);
            match f.code {
                Code::Closed | Code::Invalid => f, // refused at the door
                _ => f.after_write(),
            }
        })?;
        self.log_objects.fetch_add(1, Ordering::Relaxed);
        // Not the flush interval: this asks for a flush now.
        self.db.flush().await.map_err(|e| Fail::from(e).after_write())?;
        handle.await_durable().await.map_err(|e| Fail::from(e).after_write())
    }

    /// Makes durable what is in memory, and sees that nobody else has opened.
    pub async fn settle(&self) -> Res<()> {
        self.db.flush().await?;
        match self.admin.read_manifest(None).await? {
            Some(m) if m.writer_epoch() == self.epoch => Ok(()),
            Some(_) => Err(Fail::new(Code::Fenced, "a newer writer has opened the database")),
            None => Err(Fail::new(Code::Fenced, "the database is gone")),
        }
    }
}

pub struct Writer {
    core: Arc<Core>,
    queue: commit::Queue,
    task: JoinHandle<()>,
    place: (Path, Arc<dyn ObjectStore>),
    long_lived: bool,
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
            let mut b = Db::builder(path.clone(), store.clone());
            b = b.with_settings(settings).with_db_cache(cache(), cache_id());
            if let Some(n) = opts.get("expected_epoch").and_then(Value::as_u64) {
                b = b.with_expected_epoch(n);
            }
            let db = b.build().await?;
            let admin = AdminBuilder::new(path.clone(), store.clone()).build();
            let m = db.manifest();
            let log_objects = AtomicU64::new(m.next_wal_sst_id().saturating_sub(m.replay_after_wal_id()));
            let core = Arc::new(Core { db, admin, epoch: m.writer_epoch(), log_objects });
            let (queue, requests) = mpsc::unbounded_channel();
            let task = tokio::spawn(commit::run(core.clone(), requests));
            Ok(Writer { core, queue, task, place: (path, store), long_lived: settings::long_lived(opts) })
        })
    }

    /// Reads one key as of the last durable commit.
    pub async fn get(&self, key: &[u8]) -> Res<Option<Bytes>> {
        let o = ReadOptions::default().with_durability_filter(DurabilityLevel::Remote);
        Ok(self.core.db.get_with_options(key, &o).await?)
    }

    /// Pins the database as of now. What other commits have in memory is
    /// waited for: a view must not show what may yet be lost.
    pub async fn view(&self) -> Res<View> {
        let snap = self.core.db.snapshot()?;
        if snap.seq() > self.core.db.status().durable_seq {
            self.core.db.flush().await?;
        }
        Ok(View::Snapshot(snap))
    }

    /// Applies a batch: all of it is durable when this returns Ok.
    pub fn commit(&self, batch: &[u8], cancel: Option<&CancellationToken>) -> Res<()> {
        wait(None, commit::submit(&self.queue, batch, cancel))
    }

    /// Ends the handle. keep: nothing failed before, so what is in memory is
    /// known to be durable and may be put into a table; otherwise nothing more
    /// is written.
    pub fn close(self, keep: bool) -> Res<()> {
        wait(None, async {
            drop(self.queue);
            let _ = self.task.await; // nobody is waiting for it any more
            let core = self.core;
            let tidied = match keep {
                true => within(CLOSE_LIMIT, Code::Unavailable, tidy(&core, self.place, self.long_lived)).await,
                false => Ok(()),
            };
            let o = CloseOptions::default().with_flush_type(None);
            let closed =
                within(CLOSE_LIMIT, Code::Unavailable, async { Ok(core.db.close_with_options(o).await?) }).await;
            tidied.and(closed)
        })
    }

    pub fn epoch(&self) -> u64 {
        self.core.epoch
    }
}

/// Leaves the store so that the next one opens quickly. By itself the engine
/// does this never, or at each close: three requests more for a command that
/// commits once.
async fn tidy(core: &Core, (path, store): (Path, Arc<dyn ObjectStore>), long_lived: bool) -> Res<()> {
    if core.log_objects.load(Ordering::Relaxed) > LOG_OBJECTS {
        core.db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await?;
    }
    if !long_lived {
        tidy::compact(path, store, &core.admin, core.epoch).await?;
    }
    Ok(())
}

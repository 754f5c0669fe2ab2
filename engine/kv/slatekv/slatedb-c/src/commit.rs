//! Commits, in groups.
//!
//! One task takes what is waiting, looks at the expected values, hands all of
//! it to the engine as one batch and waits until that is durable; meanwhile the
//! next group gathers. So nothing can come between a look and the write that
//! rests on it, and callers share the cost of a flush. A lock round look and
//! write would do the first and not the second: the engine takes no write while
//! it flushes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use bytes::Bytes;
use slatedb::WriteBatch;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::error::{Code, Fail, Res};
use crate::packed::{self, Entry};
use crate::run::within;
use crate::writer::{Core, COMMIT_LIMIT};

/// A group takes no more once it has so many bytes: memory, and the time that
/// the first of it waits.
const GROUP_BYTES: usize = 16 << 20;

/// A commit that waits. Whoever sets taken first decides: the task, that it is
/// done, or its caller, that it never was.
pub struct Request {
    entries: Vec<Entry>,
    size: usize,
    taken: Arc<AtomicBool>,
    reply: oneshot::Sender<Res<()>>,
}

pub type Queue = mpsc::UnboundedSender<Request>;

/// Waits for a commit. Cancelled before the task has taken it, nothing was
/// written; after that the answer is awaited, whoever gives up meanwhile.
pub async fn submit(queue: &Queue, batch: &[u8], cancel: Option<&CancellationToken>) -> Res<()> {
    let gone = || Fail::new(Code::Unknown, "the task that commits has ended");
    let (reply, mut answer) = oneshot::channel();
    let taken = Arc::new(AtomicBool::new(false));
    let entries = packed::entries(Bytes::copy_from_slice(batch))?;
    let request = Request { entries, size: batch.len(), taken: taken.clone(), reply };
    queue.send(request).map_err(|_| Fail::new(Code::Closed, "the database is closed"))?;
    if let Some(token) = cancel {
        tokio::select! {
            biased;
            r = &mut answer => return r.map_err(|_| gone())?,
            _ = token.cancelled() => {
                if !taken.swap(true, Ordering::SeqCst) {
                    return Err(Fail::new(Code::Cancelled, "cancelled"));
                }
            }
        }
    }
    answer.await.map_err(|_| gone())?
}

/// The task: until the queue is closed and empty.
pub async fn run(core: Arc<Core>, mut queue: mpsc::UnboundedReceiver<Request>) {
    while let Some(first) = queue.recv().await {
        let mut size = first.size;
        let mut group = vec![first];
        while size < GROUP_BYTES {
            let Ok(next) = queue.try_recv() else { break };
            size += next.size;
            group.push(next);
        }
        group.retain(|r| !r.taken.swap(true, Ordering::SeqCst));
        if !group.is_empty() {
            commit(&core, group).await;
        }
    }
}

async fn commit(core: &Core, group: Vec<Request>) {
    let mut batch = WriteBatch::new();
    let mut changed: HashMap<Bytes, Option<Bytes>> = HashMap::new();
    let mut results = Vec::with_capacity(group.len());
    for r in &group {
        let looked = look(core, &changed, &r.entries).await;
        if looked.is_ok() {
            for e in r.entries.iter().filter(|e| e.changes()) {
                if e.kind == packed::DELETE {
                    batch.delete(&e.key);
                    changed.insert(e.key.clone(), None);
                } else {
                    batch.put_bytes(e.key.clone(), e.value.clone());
                    changed.insert(e.key.clone(), Some(e.value.clone()));
                }
            }
        }
        results.push(looked);
    }
    let written = if changed.is_empty() {
        // What the looks rest on must be durable, and ours still.
        within(COMMIT_LIMIT, Code::Unavailable, core.settle()).await
    } else {
        within(COMMIT_LIMIT, Code::Unknown, core.write(batch)).await
    };
    for (r, looked) in group.into_iter().zip(results) {
        let result = match (&written, looked) {
            (Ok(()), looked) => looked,
            // Fenced comes first: after it, nothing is worth a retry.
            (Err(e), Err(_)) if e.code == Code::Fenced => Err(e.clone()),
            (Err(_), Err(own)) => Err(own),
            (Err(e), Ok(())) => Err(e.clone()),
        };
        let _ = r.reply.send(result); // its caller may have gone
    }
}

/// Whether all expected values hold, with what the group has changed so far.
async fn look(core: &Core, changed: &HashMap<Bytes, Option<Bytes>>, entries: &[Entry]) -> Res<()> {
    for e in entries.iter().filter(|e| !e.changes()) {
        let have = match changed.get(&e.key) {
            Some(value) => value.clone(),
            None if e.key.is_empty() => None,
            None => core.newest(&e.key).await?,
        };
        let holds = match have {
            None => e.kind == packed::EXPECT_ABSENT,
            Some(v) => e.kind == packed::EXPECT && v == e.value,
        };
        if !holds {
            return Err(Fail::new(Code::Conflict, hex(&e.key)));
        }
    }
    Ok(())
}

fn hex(key: &[u8]) -> String {
    let shown: String = key.iter().take(64).map(|b| format!("{b:02x}")).collect();
    format!("key {shown}")
}

//! What short commands leave behind, merged now and then.
//!
//! A command that finds a long log writes it as a table at its end, and a read
//! looks into all tables. A mount compacts all the time; where there are only
//! commands, the one that finds many tables does it at its end. Objects are
//! removed by mounts only.

use std::sync::Arc;
use std::time::Duration;

use slatedb::admin::Admin;
use slatedb::compactor::CompactorBuilder;
use slatedb::config::{CompactionWorkerOptions, CompactorOptions};
use slatedb::object_store::path::Path;
use slatedb::object_store::ObjectStore;

use crate::error::Res;
use crate::settings::RETRIES;

/// So many tables start it, and when there are so few it ends.
const MANY: usize = 16;
const FEW: usize = 4;
/// A command waits no longer than this; what is done then is kept.
const LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

/// Compacts if that is due and nobody else is at it. epoch is the caller's as
/// a writer: after a newer one the store is not ours to tidy.
pub async fn compact(path: Path, store: Arc<dyn ObjectStore>, admin: &Admin, epoch: u64) -> Res<()> {
    let Some(m) = admin.read_manifest(None).await? else { return Ok(()) };
    if m.writer_epoch() != epoch || m.l0().len() < MANY {
        return Ok(());
    }
    let options = CompactorOptions {
        poll_interval: POLL,
        commit_compacted_interval: POLL,
        object_store_max_retries: Some(RETRIES),
        worker: Some(CompactionWorkerOptions {
            compactions_poll_interval: POLL,
            object_store_max_retries: Some(RETRIES),
            ..Default::default()
        }),
        ..Default::default()
    };
    // The epoch that was seen: should a mount have started its own compactor
    // since, ours must give way and not shut that one out.
    let c = CompactorBuilder::new(path, store).with_options(options).with_expected_epoch(m.compactor_epoch()).build();
    tokio::select! {
        r = c.run() => Ok(r?),
        _ = tokio::time::timeout(LIMIT, until_few(admin)) => Ok(c.stop().await?),
    }
}

async fn until_few(admin: &Admin) {
    loop {
        tokio::time::sleep(POLL).await;
        match admin.read_manifest(None).await {
            Ok(Some(m)) if m.l0().len() > FEW => {}
            _ => return,
        }
    }
}

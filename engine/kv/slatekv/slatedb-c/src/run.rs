//! The one runtime of the process, the cache that all handles share, and the
//! guard round every call from C.

use std::any::Any;
use std::future::Future;
use std::panic::{catch_unwind, set_hook, AssertUnwindSafe};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use slatedb::db_cache::moka::{MokaCache, MokaCacheOptions};
use slatedb::db_cache::{DbCache, SplitCache};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::error::{Code, Fail, Res};

/// Threads that run the engine; callers' own threads wait in block_on.
const WORKERS: usize = 2;
/// Threads for file I/O. Left alone, tokio would start up to 512.
const FILE_THREADS: usize = 16;

/// What the shared cache may hold, in bytes. The engine's own default is 640
/// MiB for each open handle.
const CACHED_BLOCKS: u64 = 48 << 20;
const CACHED_META: u64 = 16 << 20;

pub fn runtime() -> Res<&'static Runtime> {
    static RT: OnceLock<Option<Runtime>> = OnceLock::new();
    RT.get_or_init(|| {
        // A panic is reported to the caller as an error; without this it would
        // also be printed on the stderr of whatever program this is part of.
        set_hook(Box::new(|_| {}));
        Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .max_blocking_threads(FILE_THREADS)
            .thread_name("slatedb")
            .enable_all()
            .build()
            .ok()
    })
    .as_ref()
    .ok_or_else(|| Fail::new(Code::Internal, "the SlateDB runtime could not be started"))
}

/// The cache of all handles of the process.
pub fn cache() -> Arc<dyn DbCache> {
    static CACHE: OnceLock<Arc<dyn DbCache>> = OnceLock::new();
    CACHE
        .get_or_init(|| {
            let part = |max_capacity| {
                let o = MokaCacheOptions { max_capacity, ..Default::default() };
                Some(Arc::new(MokaCache::new_with_opts(o)) as Arc<dyn DbCache>)
            };
            let split = SplitCache::new().with_block_cache(part(CACHED_BLOCKS)).with_meta_cache(part(CACHED_META));
            Arc::new(split.build())
        })
        .clone()
}

/// Waits for f on the caller's thread, until it is cancelled. What f was doing
/// is dropped then.
pub fn wait<T>(cancel: Option<&CancellationToken>, f: impl Future<Output = Res<T>>) -> Res<T> {
    let rt = runtime()?;
    match cancel {
        None => rt.block_on(f),
        Some(token) => rt.block_on(async {
            tokio::select! {
                biased;
                _ = token.cancelled() => Err(Fail::new(Code::Cancelled, "cancelled")),
                r = f => r,
            }
        }),
    }
}

/// Waits for f, but not longer than limit; late is what to say then.
pub async fn within<T>(limit: Duration, late: Code, f: impl Future<Output = Res<T>>) -> Res<T> {
    match tokio::time::timeout(limit, f).await {
        Ok(r) => r,
        Err(_) => Err(Fail {
            code: late,
            errno: 110, // ETIMEDOUT
            text: format!("the object store gave no answer within {} s", limit.as_secs()),
        }),
    }
}

/// Runs f; a panic in it is an error like any other.
pub fn guard(f: impl FnOnce() -> Res<()>) -> Res<()> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(r) => r,
        Err(p) => Err(Fail::new(Code::Internal, format!("SlateDB panicked: {}", says(p.as_ref())))),
    }
}

fn says(p: &(dyn Any + Send)) -> &str {
    p.downcast_ref::<&str>().copied().or_else(|| p.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let e = guard(|| panic!("at the {}", "disco")).unwrap_err();
        assert_eq!((e.code, e.text.as_str()), (Code::Internal, "SlateDB panicked: at the disco"));
    }

    #[test]
    fn the_engine_panics_on_an_empty_range_and_that_is_caught() {
        let e = guard(|| {
            wait(None, async {
                let store = Arc::new(slatedb::object_store::memory::InMemory::new());
                let db = slatedb::Db::open("x", store).await?;
                db.scan("b".as_bytes().to_vec().."b".as_bytes().to_vec()).await?;
                Ok(())
            })
        });
        assert_eq!(e.unwrap_err().code, Code::Internal);
    }

    #[test]
    fn waiting_ends_when_cancelled() {
        let token = CancellationToken::new();
        token.cancel();
        let e = wait::<()>(Some(&token), std::future::pending()).unwrap_err();
        assert_eq!(e.code, Code::Cancelled);
        let e = wait::<()>(None, within(Duration::from_millis(1), Code::Unknown, std::future::pending())).unwrap_err();
        assert_eq!((e.code, e.errno), (Code::Unknown, 110));
    }

    #[test]
    fn all_handles_share_one_cache() {
        assert!(Arc::ptr_eq(&cache(), &cache()));
    }
}

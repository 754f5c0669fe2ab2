//! Fencing rests on one thing: that of two creations of one object only one
//! succeeds. There are servers that answer 200 to both. Asked before the first
//! write of each open.

use slatedb::object_store::path::Path;
use slatedb::object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions};

use crate::error::{Code, Fail, Res};

/// name must be new: two probes at once must not meet.
pub async fn creates_once(store: &dyn ObjectStore, root: &Path, name: &str) -> Res<()> {
    let at = root.clone().join("probe").join(name);
    let create = || store.put_opts(&at, "probe".into(), PutOptions::from(PutMode::Create));
    create().await.map_err(unavailable)?;
    let again = create().await;
    // Whatever came of it, the object goes; a probe that stays harms nobody.
    let _ = store.delete(&at).await;
    match again {
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(()),
        Ok(_) => Err(Fail::new(Code::Unsafe, "it let an object be created twice")),
        Err(e) => Err(unavailable(e)),
    }
}

fn unavailable(e: Error) -> Fail {
    match e {
        Error::NotImplemented { .. } => Fail::new(Code::Unsafe, "it cannot create on condition"),
        e => Fail::from(slatedb::Error::unavailable("probe".into()).with_source(Box::new(e))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::wait;
    use slatedb::object_store::memory::InMemory;

    #[test]
    fn a_store_that_keeps_its_word_passes_and_is_left_as_it_was() {
        let store = InMemory::new();
        wait(None, async {
            creates_once(&store, &Path::from("a"), "x").await?;
            creates_once(&store, &Path::from("a"), "x").await
        })
        .unwrap();
    }
}

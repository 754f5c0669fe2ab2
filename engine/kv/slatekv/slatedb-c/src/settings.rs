//! The engine's settings: its defaults, ours over them, the caller's over both.

use std::time::Duration;

use serde_json::Value;
use slatedb::config::{CompactorOptions, GarbageCollectorDirectoryOptions, GarbageCollectorOptions, Settings};

use crate::error::{Fail, Res};

/// How often the engine tries a failed request again, beyond the HTTP client's
/// own tries. Its default is for ever: a folder that cannot be written, a full
/// disk or wrong credentials would never be reported.
pub const RETRIES: u32 = 2;

const MIB: usize = 1 << 20;

/// Objects younger than this are never collected: a reader holds no lock on
/// what it reads.
const KEEP: Duration = Duration::from_secs(3600);
/// In a folder there is no compare-and-swap to protect a collected manifest's
/// number from a writer that slept; keep them longer than any should sleep.
const KEEP_MANIFESTS_OF_A_FOLDER: Duration = Duration::from_secs(24 * 3600);

/// Whether the handle stays open, and so also tidies the store up.
pub fn long_lived(opts: &Value) -> bool {
    opts.get("long_lived").and_then(Value::as_bool).unwrap_or(false)
}

/// Settings of a writer.
pub fn writer(opts: &Value) -> Res<Settings> {
    let long_lived = long_lived(opts);
    let folder = opts.get("dir").is_some();
    let mut s = Settings {
        // Each commit asks for its own flush. Nothing else does, so that what
        // was not acknowledged is not made durable behind its caller's back.
        flush_interval: None,
        manifest_update_timeout: Duration::from_secs(60),
        l0_sst_size_bytes: 32 * MIB,
        max_unflushed_bytes: 256 * MIB,
        object_store_max_retries: Some(RETRIES),
        compactor_options: None,
        garbage_collector_options: None,
        ..Settings::default()
    };
    if long_lived {
        s.compactor_options =
            Some(CompactorOptions { object_store_max_retries: Some(RETRIES), ..CompactorOptions::default() });
        s.garbage_collector_options = Some(collector(folder));
    } else {
        // Nobody compacts beside a short command, so none may wait for it.
        s.l0_max_ssts = 4096;
        s.l0_max_ssts_per_key = 4096;
    }
    match opts.get("settings") {
        None | Some(Value::Null) => Ok(s),
        Some(over) => overlay(s, over),
    }
}

fn collector(folder: bool) -> GarbageCollectorOptions {
    let dir = |min_age| Some(GarbageCollectorDirectoryOptions { min_age, ..Default::default() });
    GarbageCollectorOptions {
        manifest_options: dir(if folder { KEEP_MANIFESTS_OF_A_FOLDER } else { KEEP }),
        wal_options: dir(KEEP),
        // Never: once a fence is gone, the writer that it shut out can write
        // in its place and be told that it succeeded.
        wal_fence_options: None,
        compacted_options: dir(KEEP),
        compactions_options: dir(if folder { KEEP_MANIFESTS_OF_A_FOLDER } else { KEEP }),
        boundary_files_enabled: !folder,
        object_store_max_retries: Some(RETRIES),
        ..GarbageCollectorOptions::default()
    }
}

/// Lays over on the settings. A key that the settings do not have is refused:
/// the engine would ignore it, and a misspelt limit would be no limit.
fn overlay(s: Settings, over: &Value) -> Res<Settings> {
    // The names of nested settings that are off are taken from the defaults.
    let mut known = serde_json::to_value(Settings {
        compactor_options: Some(CompactorOptions::default()),
        garbage_collector_options: Some(GarbageCollectorOptions::default()),
        ..Settings::default()
    })
    .map_err(Fail::invalid)?;
    let mut value = serde_json::to_value(s).map_err(Fail::invalid)?;
    check("", &mut known, over)?;
    merge(&mut value, over, &known);
    serde_json::from_value(value).map_err(|e| Fail::invalid(format!("setting: {e}")))
}

fn check(at: &str, known: &mut Value, over: &Value) -> Res<()> {
    let (Value::Object(known), Value::Object(over)) = (known, over) else {
        return Ok(());
    };
    for (key, value) in over {
        match known.get_mut(key) {
            None => return Err(Fail::invalid(format!("unknown setting {at}{key}"))),
            Some(inner) => check(&format!("{at}{key}."), inner, value)?,
        }
    }
    Ok(())
}

/// known fills in what a nested setting that was off lacks.
fn merge(a: &mut Value, b: &Value, known: &Value) {
    match (a, b) {
        (a @ Value::Null, Value::Object(_)) if known.is_object() => {
            *a = known.clone();
            merge(a, b, known);
        }
        (Value::Object(a), Value::Object(b)) => {
            for (k, v) in b {
                let inner = known.get(k).unwrap_or(&Value::Null);
                merge(a.entry(k.clone()).or_insert(Value::Null), v, inner);
            }
        }
        (a, b) => *a = b.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use serde_json::json;

    #[test]
    fn short_commands_neither_compact_nor_collect() {
        let s = writer(&json!({})).unwrap();
        assert!(s.compactor_options.is_none() && s.garbage_collector_options.is_none());
        assert!(s.flush_interval.is_none());
        assert_eq!(s.object_store_max_retries, Some(RETRIES));
        s.validate().unwrap();
    }

    #[test]
    fn long_lived_handles_do_and_never_collect_fences() {
        for (opts, boundary) in [(json!({"long_lived": true}), true), (json!({"long_lived": true, "dir": "/x"}), false)]
        {
            let s = writer(&opts).unwrap();
            assert_eq!(s.compactor_options.as_ref().unwrap().object_store_max_retries, Some(RETRIES));
            let gc = s.garbage_collector_options.as_ref().unwrap();
            assert!(gc.wal_fence_options.is_none());
            assert_eq!(gc.object_store_max_retries, Some(RETRIES));
            assert_eq!(gc.boundary_files_enabled, boundary);
            s.validate().unwrap();
        }
    }

    #[test]
    fn unknown_settings_are_refused_at_any_depth() {
        for over in [
            json!({"l0_sst_size_byte": 1}),
            json!({"compactor_options": {"poll_intervall": "1s"}}),
            json!({"garbage_collector_options": {"wal_options": {"min_aeg": "1s"}}}),
        ] {
            let e = writer(&json!({"settings": over})).unwrap_err();
            assert_eq!(e.code, Code::Invalid);
            assert!(e.text.starts_with("unknown setting "), "{}", e.text);
        }
        assert_eq!(writer(&json!({"settings": {"l0_sst_size_bytes": "many"}})).unwrap_err().code, Code::Invalid);
    }

    #[test]
    fn known_settings_are_taken() {
        let s = writer(&json!({"settings": {"l0_sst_size_bytes": 5, "flush_interval": "7s", "compactor_options": {"poll_interval": "3s"}}})).unwrap();
        assert_eq!(s.l0_sst_size_bytes, 5);
        assert_eq!(s.flush_interval, Some(Duration::from_secs(7)));
        assert_eq!(s.compactor_options.unwrap().poll_interval, Duration::from_secs(3));
    }
}

//! Where a database is: the object store and the path in it.
//!
//! Db::resolve_object_store is not used: it leaves local files without fsync,
//! takes no path, and hands every variable of the environment to the store,
//! where a bare TOKEN or REGION is taken for a credential. Here only what the
//! caller passes counts; it passes the variables of the clouds.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slatedb::object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use slatedb::object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use slatedb::object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use slatedb::object_store::local::LocalFileSystem;
use slatedb::object_store::path::Path;
use slatedb::object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::error::{Fail, Res};

/// One request may be tried so often by the HTTP client, and for so long. The
/// client's own limits are 10 tries and three minutes.
const HTTP_RETRIES: usize = 3;
const HTTP_RETRY_FOR: Duration = Duration::from_secs(20);
const HTTP_CONNECT: Duration = Duration::from_secs(5);
const HTTP_REQUEST: Duration = Duration::from_secs(30);

fn retry() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(3),
            base: 2.0,
        },
        max_retries: HTTP_RETRIES,
        retry_timeout: HTTP_RETRY_FOR,
    }
}

fn client(allow_http: bool) -> ClientOptions {
    ClientOptions::new().with_connect_timeout(HTTP_CONNECT).with_timeout(HTTP_REQUEST).with_allow_http(allow_http)
}

/// One layer of configuration: the environment, then what was said explicitly.
fn layer<'a>(opts: &'a Value, name: &str) -> Vec<(&'a str, &'a str)> {
    let mut pairs: Vec<_> = opts
        .get(name)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)))
        .collect();
    pairs.sort(); // the same outcome whatever the order they came in
    pairs
}

/// Puts both layers on a builder. The environment has much that is not the
/// store's (AWS_PAGER); an explicit key that the store does not know is an error.
fn configure<B, K: FromStr>(builder: B, opts: &Value, with: impl Fn(B, K, String) -> B) -> Res<B> {
    let mut b = builder;
    for (key, value) in layer(opts, "env") {
        if let Ok(k) = K::from_str(&key.to_ascii_lowercase()) {
            b = with(b, k, value.to_string());
        }
    }
    for (key, value) in layer(opts, "store") {
        let k = K::from_str(key).map_err(|_| Fail::invalid(format!("unknown store option {key}")))?;
        b = with(b, k, value.to_string());
    }
    Ok(b)
}

/// The store and the path of the database, from {"url": .., "env": {..},
/// "store": {..}, "allow_http": bool}, or {"dir": ..} for a folder.
pub fn open(opts: &Value) -> Res<(Arc<dyn ObjectStore>, Path)> {
    if let Some(dir) = opts.get("dir").and_then(Value::as_str) {
        let path = Path::from_absolute_path(dir).map_err(Fail::invalid)?;
        return Ok((Arc::new(LocalFileSystem::new().with_fsync(true)), path));
    }
    let text = opts.get("url").and_then(Value::as_str).unwrap_or("");
    let url = url::Url::parse(text).map_err(Fail::invalid)?;
    let path = Path::from_url_path(url.path()).map_err(Fail::invalid)?;
    let http = client(opts.get("allow_http").and_then(Value::as_bool).unwrap_or(false));
    let store: Arc<dyn ObjectStore> = match url.scheme() {
        "s3" => {
            let b = AmazonS3Builder::new().with_client_options(http).with_retry(retry()).with_url(text);
            Arc::new(configure(b, opts, |b, k: AmazonS3ConfigKey, v| b.with_config(k, v))?.build()?)
        }
        "az" => {
            let b = MicrosoftAzureBuilder::new().with_client_options(http).with_retry(retry()).with_url(text);
            Arc::new(configure(b, opts, |b, k: AzureConfigKey, v| b.with_config(k, v))?.build()?)
        }
        "gs" => {
            let b = GoogleCloudStorageBuilder::new().with_client_options(http).with_retry(retry()).with_url(text);
            Arc::new(configure(b, opts, |b, k: GoogleConfigKey, v| b.with_config(k, v))?.build()?)
        }
        other => return Err(Fail::invalid(format!("unknown kind of object store {other}"))),
    };
    Ok((store, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use serde_json::json;

    #[test]
    fn explicit_options_are_checked_and_the_environment_is_not() {
        let opts = json!({"url": "s3://bucket/a/b", "env": {"AWS_PAGER": "less", "AWS_REGION": "x"}, "store": {"aws_region": "y"}});
        let (store, path) = open(&opts).unwrap();
        assert_eq!(path.as_ref(), "a/b");
        assert!(store.to_string().contains("bucket"));
        let opts = json!({"url": "s3://bucket/a", "store": {"aws_regoin": "y"}});
        assert_eq!(open(&opts).unwrap_err().code, Code::Invalid);
    }

    #[test]
    fn the_three_clouds_and_a_folder() {
        for opts in [
            json!({"url": "az://container/p", "env": {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_ACCOUNT_KEY": "aaaa"}}),
            json!({"url": "gs://bucket/p", "store": {"google_skip_signature": "true"}}),
            json!({"dir": "/some/p"}),
        ] {
            let (_, path) = open(&opts).unwrap();
            assert!(path.as_ref().ends_with('p'), "{path}");
        }
        assert_eq!(open(&json!({"url": "ftp://x/y"})).unwrap_err().code, Code::Invalid);
    }
}

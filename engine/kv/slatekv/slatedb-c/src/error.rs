//! What can go wrong, as a code and one line of text. The codes are the
//! numbers of slatedb_c.h.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use slatedb::object_store;
use slatedb::{CloseReason, ErrorKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    Ok = 0,
    NotExist = 1,
    Fenced = 2,
    Conflict = 3,
    Unavailable = 4,
    Damaged = 5,
    Closed = 6,
    Invalid = 7,
    Internal = 8,
    Cancelled = 9,
    Unknown = 10,
    Vanished = 11,
    Unsafe = 12,
}

/// A failure. errno is what the operating system said, 0 when it said nothing.
#[derive(Clone, Debug)]
pub struct Fail {
    pub code: Code,
    pub errno: i32,
    pub text: String,
}

pub type Res<T> = Result<T, Fail>;

impl Fail {
    pub fn new(code: Code, text: impl ToString) -> Fail {
        Fail { code, errno: 0, text: text.to_string() }
    }

    pub fn invalid(text: impl ToString) -> Fail {
        Fail::new(Code::Invalid, text)
    }

    /// The same failure where it may have come after the bytes were written.
    /// A fenced writer has written nothing: the other one's fence lies where
    /// its object would have gone.
    pub fn after_write(mut self) -> Fail {
        if self.code != Code::Fenced {
            self.code = Code::Unknown;
        }
        self
    }
}

impl From<slatedb::Error> for Fail {
    fn from(e: slatedb::Error) -> Fail {
        let mut code = match e.kind() {
            ErrorKind::Transaction => Code::Conflict,
            ErrorKind::Closed(CloseReason::Fenced) => Code::Fenced,
            ErrorKind::Closed(CloseReason::Clean) => Code::Closed,
            ErrorKind::Closed(_) => Code::Internal,
            ErrorKind::Unavailable => Code::Unavailable,
            ErrorKind::Invalid => Code::Invalid,
            ErrorKind::Data => Code::Damaged,
            _ => Code::Internal,
        };
        let mut cause = Cause::default();
        cause.read(&e);
        let text = cause.text;
        // The engine's kinds are coarser than what we must tell apart, and
        // within one kind only its text differs.
        if cause.no_bucket {
            return Fail { code: Code::NotExist, errno: 0, text: one_line(&text) };
        }
        if code == Code::Damaged {
            if text.contains("failed to find latest") {
                return Fail::new(Code::NotExist, ""); // no database here
            } else if cause.not_found || text.contains("failed to find manifest") || text.contains("wal truncated") {
                code = Code::Vanished; // an object that the database names is gone
            }
        }
        // A manifest that does not parse comes as an internal callback error; a
        // log object whose lengths are wrong makes the task that replays it panic.
        if code == Code::Internal
            && (text.contains("transactional object") || text.contains("wal_replay task panicked"))
        {
            code = Code::Damaged;
        }
        if code == Code::Unavailable && cause.not_found {
            code = Code::Vanished;
        }
        Fail { code, errno: cause.errno, text: one_line(&text) }
    }
}

impl From<object_store::Error> for Fail {
    fn from(e: object_store::Error) -> Fail {
        let mut cause = Cause::default();
        cause.read(&e);
        Fail { code: Code::Invalid, errno: cause.errno, text: one_line(&cause.text) }
    }
}

/// What the chain of sources of an error says.
#[derive(Default)]
struct Cause {
    text: String,
    errno: i32,
    not_found: bool,
    no_bucket: bool,
}

/// A listing gives no kind of its own, only what the server answered.
const NO_BUCKET: [&str; 3] = ["NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"];
const NO_ENTRY: [&str; 2] = ["status code: 401", "status code: 403"];
const EACCES: i32 = 13;

impl Cause {
    fn read(&mut self, e: &(dyn StdError + 'static)) {
        let mut next = Some(e);
        while let Some(e) = next {
            let says = e.to_string();
            if self.text.is_empty() {
                self.text = says;
            } else if !self.text.contains(&says) {
                self.text.push_str(": ");
                self.text.push_str(&says);
            }
            let io = e.downcast_ref::<io::Error>().or_else(|| e.downcast_ref::<Arc<io::Error>>().map(|a| a.as_ref()));
            if let Some(io) = io {
                if let Some(n) = io.raw_os_error() {
                    self.errno = n;
                }
            }
            let store = e
                .downcast_ref::<object_store::Error>()
                .or_else(|| e.downcast_ref::<Arc<object_store::Error>>().map(|a| a.as_ref()));
            match store {
                Some(object_store::Error::NotFound { .. }) => self.not_found = true,
                Some(object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. })
                    if self.errno == 0 =>
                {
                    self.errno = 13
                } // EACCES
                _ => {}
            }
            next = e.source();
        }
        self.no_bucket = NO_BUCKET.iter().any(|s| self.text.contains(s));
        if self.errno == 0 && NO_ENTRY.iter().any(|s| self.text.contains(s)) {
            self.errno = EACCES;
        }
    }
}

/// Servers answer with pages of XML; a person is shown one line, of the XML its
/// message.
fn one_line(text: &str) -> String {
    let mut short = text.to_string();
    if let (Some(xml), Some(from)) = (text.find("<?xml").or(text.find("<Error")), text.find("<Message>")) {
        let from = from + "<Message>".len();
        if let Some(len) = text[from..].find("</Message>") {
            short = format!("{}{}", &text[..xml], &text[from..from + len]);
        }
    }
    let mut line = short.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > 600 {
        let cut = (0..=600).rev().find(|&i| line.is_char_boundary(i)).unwrap_or(0);
        line.truncate(cut);
        line.push_str(" ...");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_decides_where_the_kind_does_not() {
        for (e, want) in [
            (
                slatedb::Error::data("failed to find latest transactional object (e.g. manifest) version".into()),
                Code::NotExist,
            ),
            (slatedb::Error::data("checksum mismatch in x".into()), Code::Damaged),
            (slatedb::Error::data("failed to find manifest with id. id=`3`".into()), Code::Vanished),
            (
                slatedb::Error::internal("generic transactional object (e.g. manifest) error CallbackError".into()),
                Code::Damaged,
            ),
            (
                slatedb::Error::internal("wal internal error (wal_replay task panicked unexpectedly".into()),
                Code::Damaged,
            ),
            (slatedb::Error::unavailable("404: <Code>NoSuchBucket</Code>".into()), Code::NotExist),
            (slatedb::Error::internal("other".into()), Code::Internal),
            (slatedb::Error::transaction("x".into()), Code::Conflict),
            (slatedb::Error::closed("x".into(), CloseReason::Fenced), Code::Fenced),
            (slatedb::Error::closed("x".into(), CloseReason::Clean), Code::Closed),
            (slatedb::Error::closed("x".into(), CloseReason::Panic), Code::Internal),
        ] {
            let text = e.to_string();
            assert_eq!(Fail::from(e).code, want, "{text}");
        }
    }

    #[test]
    fn a_refused_listing_is_a_permission() {
        let f = Fail::from(slatedb::Error::unavailable("non-2xx status code: 403 Forbidden".into()));
        assert_eq!((f.code, f.errno), (Code::Unavailable, EACCES));
    }

    #[test]
    fn errno_is_found_through_the_layers() {
        let io = io::Error::from_raw_os_error(28);
        let store = object_store::Error::Generic { store: "x", source: Box::new(io) };
        let e = slatedb::Error::unavailable("object store error".into()).with_source(Box::new(Arc::new(store)));
        let f = Fail::from(e);
        assert_eq!((f.code, f.errno), (Code::Unavailable, 28));
    }

    #[test]
    fn a_failure_after_the_write_is_unknown_unless_fenced() {
        assert_eq!(Fail::new(Code::Unavailable, "x").after_write().code, Code::Unknown);
        assert_eq!(Fail::new(Code::Fenced, "x").after_write().code, Code::Fenced);
    }

    #[test]
    fn text_is_one_bounded_line() {
        let line = one_line(&format!("a\n  <b>\t{}", "ü".repeat(2000)));
        assert!(!line.contains('\n') && line.len() < 620, "{line}");
        let xml = "403: <?xml version=\"1.0\"?><Error><Code>X</Code><Message>not you</Message><Host>h</Host></Error>";
        assert_eq!(one_line(xml), "403: not you");
    }
}

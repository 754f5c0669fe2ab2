//! Keys and values as they cross the C interface: one buffer for many.
//!
//! An entry is: kind u8, key length u32 LE, value length u32 LE, key, value.

use bytes::Bytes;

use crate::error::{Fail, Res};

/// The engine asserts on other lengths, so they are refused before it sees them.
pub const MAX_KEY: usize = 65535;
/// The value length field of the engine's rows is 32 bits; ours is the limit
/// of package kv.
pub const MAX_VALUE: usize = 64 << 20;

pub const PUT: u8 = 0;
pub const DELETE: u8 = 1;
/// Value is what the key must have.
pub const EXPECT: u8 = 2;
/// The key must be absent.
pub const EXPECT_ABSENT: u8 = 3;

pub struct Entry {
    pub kind: u8,
    pub key: Bytes,
    pub value: Bytes,
}

impl Entry {
    /// Whether it changes something, or only expects.
    pub fn changes(&self) -> bool {
        self.kind == PUT || self.kind == DELETE
    }
}

const HEADER: usize = 9;

/// Takes a buffer apart. Keys and values are parts of it, not copies.
pub fn entries(mut b: Bytes) -> Res<Vec<Entry>> {
    let mut all = Vec::new();
    while !b.is_empty() {
        let bad = || Fail::invalid("malformed batch");
        if b.len() < HEADER {
            return Err(bad());
        }
        let head = b.split_to(HEADER);
        let len = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
        let (kind, k, v) = (head[0], len(1), len(5));
        if kind > EXPECT_ABSENT || k.checked_add(v).is_none_or(|n| n > b.len()) {
            return Err(bad());
        }
        let e = Entry { kind, key: b.split_to(k), value: b.split_to(v) };
        if e.changes() && (k == 0 || k > MAX_KEY) {
            return Err(Fail::invalid(format!("key of {k} bytes: 1 to {MAX_KEY} are allowed")));
        }
        if v > MAX_VALUE {
            return Err(Fail::invalid(format!("value of {v} bytes: at most {MAX_VALUE} are allowed")));
        }
        all.push(e);
    }
    Ok(all)
}

/// Adds one pair to a buffer of scan results: lengths u32 LE, key, value.
pub fn push_pair(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    fn entry(kind: u8, k: &[u8], v: &[u8]) -> Vec<u8> {
        let mut b = vec![kind];
        push_pair(&mut b, k, v);
        b
    }

    #[test]
    fn round_trip() {
        let mut b = entry(PUT, b"a", b"1");
        b.extend(entry(DELETE, b"b", b""));
        b.extend(entry(EXPECT_ABSENT, b"", b""));
        let got = entries(b.into()).unwrap();
        assert_eq!(got.len(), 3);
        assert_eq!((got[0].kind, &got[0].key[..], &got[0].value[..]), (PUT, &b"a"[..], &b"1"[..]));
        assert_eq!((got[1].kind, &got[1].key[..]), (DELETE, &b"b"[..]));
    }

    #[test]
    fn bad_sizes_and_bytes_are_refused() {
        let whole = entry(PUT, b"key", b"value");
        for cut in 1..whole.len() {
            assert_eq!(
                entries(Bytes::copy_from_slice(&whole[..cut])).err().map(|e| e.code),
                Some(Code::Invalid),
                "cut at {cut}"
            );
        }
        for b in [
            entry(PUT, b"", b"v"),
            entry(PUT, &vec![0; MAX_KEY + 1], b""),
            entry(DELETE, b"", b""),
            entry(4, b"k", b""),
            [&[PUT][..], &[0xff; 8]].concat(),
        ] {
            assert_eq!(entries(b.into()).err().map(|e| e.code), Some(Code::Invalid));
        }
        assert!(entries(entry(PUT, &vec![0; MAX_KEY], b"").into()).is_ok());
    }
}

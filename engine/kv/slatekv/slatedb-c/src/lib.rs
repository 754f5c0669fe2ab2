//! The official slatedb crate behind the C interface of slatedb_c.h, for
//! package slatekv. What each function promises is said there; this file only
//! carries arguments over.
//!
//! Every entry runs under guard, so that no panic crosses into C.
#![allow(clippy::missing_safety_doc)] // the header says it

mod clock;
mod commit;
mod error;
mod packed;
mod probe;
mod run;
mod settings;
mod target;
mod tidy;
mod view;
mod writer;

use std::future::Future;
use std::mem::ManuallyDrop;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use error::{Code, Fail, Res};
use run::{guard, runtime, wait};
use view::{Scan, View};
use writer::Writer;

/// A buffer that belongs to the caller until slate_buf_free.
#[repr(C)]
pub struct Buf {
    ptr: *mut u8,
    len: usize,
    cap: usize,
}

impl From<Vec<u8>> for Buf {
    fn from(v: Vec<u8>) -> Buf {
        let mut v = ManuallyDrop::new(v);
        Buf { ptr: v.as_mut_ptr(), len: v.len(), cap: v.capacity() }
    }
}

/// What became of a call.
#[repr(C)]
pub struct Outcome {
    code: i32,
    errno: i32,
    text: Buf,
}

fn answer(f: impl FnOnce() -> Res<()>) -> Outcome {
    let none = Buf { ptr: std::ptr::null_mut(), len: 0, cap: 0 };
    match guard(f) {
        Ok(()) => Outcome { code: Code::Ok as i32, errno: 0, text: none },
        Err(e) => Outcome { code: e.code as i32, errno: e.errno, text: e.text.into_bytes().into() },
    }
}

#[no_mangle]
pub unsafe extern "C" fn slate_buf_free(b: Buf) {
    if !b.ptr.is_null() && b.cap != 0 {
        drop(Vec::from_raw_parts(b.ptr, b.len, b.cap));
    }
}

unsafe fn bytes<'a>(p: *const u8, n: usize) -> &'a [u8] {
    if n == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(p, n)
    }
}

unsafe fn options(p: *const u8, n: usize) -> Res<Value> {
    serde_json::from_slice(bytes(p, n)).map_err(Fail::invalid)
}

/// Waits for the next step of a call, until it is cancelled.
unsafe fn step<T>(c: *const CancellationToken, f: impl Future<Output = Res<T>>) -> Res<T> {
    wait(c.as_ref(), f)
}

#[no_mangle]
pub extern "C" fn slate_cancel_new() -> *mut CancellationToken {
    Box::into_raw(Box::new(CancellationToken::new()))
}

#[no_mangle]
pub unsafe extern "C" fn slate_cancel_fire(c: *const CancellationToken) {
    (*c).cancel()
}

#[no_mangle]
pub unsafe extern "C" fn slate_cancel_free(c: *mut CancellationToken) {
    drop(Box::from_raw(c))
}

#[no_mangle]
pub unsafe extern "C" fn slate_writer_open(
    opts: *const u8, opts_len: usize, c: *const CancellationToken, out: *mut *mut Writer,
) -> Outcome {
    answer(|| {
        let w = Writer::open(&options(opts, opts_len)?, c.as_ref())?;
        *out = Box::into_raw(Box::new(w));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slate_writer_epoch(w: *const Writer) -> u64 {
    (*w).epoch()
}

#[no_mangle]
pub unsafe extern "C" fn slate_writer_get(
    w: *const Writer, key: *const u8, len: usize, c: *const CancellationToken, found: *mut i32, out: *mut Buf,
) -> Outcome {
    answer(|| {
        if let Some(v) = step(c, (*w).get(bytes(key, len)))? {
            *found = 1;
            *out = v.to_vec().into();
        }
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slate_writer_commit(
    w: *const Writer, batch: *const u8, len: usize, c: *const CancellationToken,
) -> Outcome {
    answer(|| (*w).commit(bytes(batch, len), c.as_ref()))
}

#[no_mangle]
pub unsafe extern "C" fn slate_writer_view(
    w: *const Writer, c: *const CancellationToken, out: *mut *mut View,
) -> Outcome {
    answer(|| {
        let v = step(c, (*w).view())?;
        *out = Box::into_raw(Box::new(v));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slate_writer_close(w: *mut Writer, keep: i32) -> Outcome {
    let w = Box::from_raw(w);
    answer(|| {
        let _in = runtime()?.enter(); // what it holds ends its tasks
        w.close(keep != 0)
    })
}

#[no_mangle]
pub unsafe extern "C" fn slate_view_open(
    opts: *const u8, opts_len: usize, c: *const CancellationToken, out: *mut *mut View,
) -> Outcome {
    answer(|| {
        let v = View::open(&options(opts, opts_len)?, c.as_ref())?;
        *out = Box::into_raw(Box::new(v));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slate_view_epoch(v: *const View) -> u64 {
    (*v).epoch()
}

#[no_mangle]
pub unsafe extern "C" fn slate_view_get(
    v: *const View, key: *const u8, len: usize, c: *const CancellationToken, found: *mut i32, out: *mut Buf,
) -> Outcome {
    answer(|| {
        if let Some(value) = step(c, (*v).get(bytes(key, len)))? {
            *found = 1;
            *out = value.to_vec().into();
        }
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slate_view_scan(
    v: *const View, start: *const u8, start_len: usize, end: *const u8, end_len: usize, bounded: i32, descending: i32,
    c: *const CancellationToken, out: *mut *mut Scan,
) -> Outcome {
    answer(|| {
        let end = (bounded != 0).then(|| bytes(end, end_len));
        let s = step(c, (*v).scan(bytes(start, start_len), end, descending != 0))?;
        *out = Box::into_raw(Box::new(s));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slate_view_close(v: *mut View) -> Outcome {
    let v = Box::from_raw(v);
    answer(|| {
        let _in = runtime()?.enter();
        v.close()
    })
}

#[no_mangle]
pub unsafe extern "C" fn slate_scan_next(
    s: *mut Scan, max: usize, c: *const CancellationToken, out: *mut Buf,
) -> Outcome {
    answer(|| {
        *out = step(c, (*s).next(max))?.into();
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slate_scan_free(s: *mut Scan) {
    let _ = guard(|| {
        let _in = runtime()?.enter();
        drop(Box::from_raw(s));
        Ok(())
    });
}

//! The clock of a reader that must not move.
//!
//! A DbReader in mode FollowLatest is the only one that writes nothing, but it
//! follows: its first poll comes right after the open, so the longest poll
//! interval does not pin it. Polls wait on the clock's ticker; this one never
//! ticks. Everything else the engine waits for goes on as usual.

use std::future::{pending, Future};
use std::pin::Pin;
use std::time::Duration;

use chrono::{DateTime, Utc};
use slatedb_common::clock::{DefaultSystemClock, SystemClock, SystemClockTicker};

type Wait<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Tells the time, and never wakes anybody.
#[derive(Debug, Default)]
struct Still(DefaultSystemClock);

impl SystemClock for Still {
    fn now(&self) -> DateTime<Utc> {
        self.0.now()
    }
    fn sleep<'a>(&'a self, _: Duration) -> Wait<'a> {
        Box::pin(pending())
    }
    fn ticker<'a>(&'a self, every: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, every)
    }
}

/// Runs as any clock does, but its tickers never tick.
#[derive(Debug, Default)]
pub struct Pinned(Still);

impl SystemClock for Pinned {
    fn now(&self) -> DateTime<Utc> {
        self.0.now()
    }
    fn sleep<'a>(&'a self, d: Duration) -> Wait<'a> {
        self.0 .0.sleep(d)
    }
    fn ticker<'a>(&'a self, every: Duration) -> SystemClockTicker<'a> {
        self.0.ticker(every)
    }
}

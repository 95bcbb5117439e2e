//! Hot reload: looks every second whether a file or an approval changed (MGP §15.2).
//!
//! Applies to: both.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::Change;
use super::stamp::{Stamp, stamp};
use crate::config::Config;
use crate::error::Error;
use crate::source::{Loaded, Sources, Trust};

/// How often is looked.
const EVERY: Duration = Duration::from_secs(1);

/// Follows the files of a configuration.
///
/// What is half written is waited for: a file must look the same twice.
#[derive(Debug)]
#[must_use = "it looks while `next` is awaited"]
pub struct Reload {
    sources: Sources,
    trust: Trust,
    current: Config,
    /// How everything looked when it was last read.
    read: Look,
    /// How it looked a moment ago.
    last: Look,
    revision: watch::Receiver<u64>,
    ticks: Interval,
}

/// How the files look, and the approvals.
type Look = (Vec<Stamp>, u64);

/// What became of the files.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reloaded {
    /// They say something else now.
    Changed(Box<Change>, Box<Loaded>),
    /// They cannot be used, and the configuration before stays in force.
    Kept(Error),
}

impl Reload {
    /// Follows the files from a configuration on that was loaded from them.
    pub fn new(sources: Sources, trust: Trust, loaded: &Loaded) -> Self {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Nothing was looked at yet, so that what changed since it was loaded is found.
        let never = (Vec::new(), 0);
        let (current, revision) = (loaded.config.clone(), trust.revision());
        Self { sources, trust, current, read: never.clone(), last: never, revision, ticks }
    }

    /// Waits until the files say something else, or cannot be used any more.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: a change it did not tell is told by the next one.
    pub async fn next(&mut self) -> Reloaded {
        loop {
            self.ticks.tick().await;
            let look = self.look().await;
            let settled = look == self.last;
            self.last = look;
            if !settled || self.last == self.read {
                continue;
            }
            let loaded = self.sources.load(&self.trust).await;
            self.read.clone_from(&self.last);
            match loaded {
                Ok(loaded) => {
                    let change = Change::between(&self.current, &loaded.config);
                    if !change.is_empty() {
                        self.current = loaded.config.clone();
                        return Reloaded::Changed(Box::new(change), Box::new(loaded));
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the configuration before stays in force");
                    return Reloaded::Kept(error);
                }
            }
        }
    }

    async fn look(&mut self) -> Look {
        let files: Vec<PathBuf> = self.sources.files().map(PathBuf::from).collect();
        let revision = *self.revision.borrow_and_update();
        // A file of a network that is gone must not hold up the runtime.
        let stamps = spawn_blocking(move || files.iter().map(|file| stamp(file)).collect());
        (stamps.await.unwrap_or_default(), revision)
    }
}

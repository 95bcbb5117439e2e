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
/// Values of variables, and files that `${file:…}` names, are read when a server is started, and not followed.
#[derive(Debug)]
#[must_use = "it looks while `next` is awaited"]
pub struct Reload {
    sources: Sources,
    trust: Trust,
    current: Config,
    /// How everything looked when it was last read here.
    read: Option<Look>,
    /// How the files looked a moment ago.
    last: Vec<Stamp>,
    /// What was wrong when they were last read, so that it is said once.
    told: Vec<String>,
    revision: watch::Receiver<u64>,
    ticks: Interval,
}

/// How the files look, and the approvals.
type Look = (Vec<Stamp>, u64);

/// What became of the files.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reloaded {
    /// They were written anew, or say something else by an approval. The change is against what they said when they were
    /// read before, and empty where they say the same.
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
        let (read, last, told) = (None, Vec::new(), doubts(loaded));
        let (current, revision) = (loaded.config.clone(), trust.revision());
        Self { sources, trust, current, read, last, told, revision, ticks }
    }

    /// Waits until the files are written anew, say something else by an approval, or cannot be used any more.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: a change it did not tell is told by the next one.
    pub async fn next(&mut self) -> Reloaded {
        loop {
            self.ticks.tick().await;
            let look = self.look().await;
            let settled = look.0 == self.last;
            self.last.clone_from(&look.0);
            if !settled || self.read.as_ref() == Some(&look) {
                continue;
            }
            match self.sources.load(&self.trust).await {
                Ok(mut loaded) => {
                    // Whoever read them at somebody's word since then knows something else than this does.
                    let is_written = self.read.as_ref().is_some_and(|read| read.0 != look.0);
                    self.read = Some(look);
                    let said = doubts(&loaded);
                    self.keep_broken(&mut loaded);
                    let change = Change::between(&self.current, &loaded.config);
                    if is_written || !change.is_empty() || self.told != said {
                        self.current = loaded.config.clone();
                        self.told = said;
                        return Reloaded::Changed(Box::new(change), Box::new(loaded));
                    }
                }
                Err(error) => {
                    // What is wrong in a file stays so until it is written again; all else may pass, and is looked at anew.
                    let is_read = matches!(error, Error::Faults(_));
                    self.read = Some(if is_read { look } else { Look::default() });
                    let said = vec![error.to_string()];
                    if self.told != said {
                        tracing::warn!(%error, "the configuration before stays in force");
                        self.told = said;
                        return Reloaded::Kept(error);
                    }
                }
            }
        }
    }

    /// A typing error in the entry of a server that runs does not end it: its entry before stays in force.
    fn keep_broken(&self, loaded: &mut Loaded) {
        let Loaded { config, broken, .. } = loaded;
        for id in
            broken.iter().filter(|id| config.server(id).is_none()).cloned().collect::<Vec<_>>()
        {
            config.servers.extend(self.current.server(&id).cloned());
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

/// What is wrong or doubtful in files that can be used.
fn doubts(loaded: &Loaded) -> Vec<String> {
    let findings = loaded.findings.iter().map(ToString::to_string);
    findings.chain(loaded.unapproved.iter().map(ToString::to_string)).collect()
}

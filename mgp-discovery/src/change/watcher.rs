//! Hot reload: checks every second whether a file or an approval changed (MGP §15.2).

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::ConfigChange;
use super::stamp::{Stamp, stamp};
use crate::config::Config;
use crate::error::DiscoveryError;
use crate::source::{LoadedConfig, Sources, Trust};

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Watcher of the files of a configuration.
///
/// A file is read only after two polls in a row find the same stamp, so that a half-written file is usually not read.
/// Values of variables, and files named by `${file:…}`, are read when a server starts, and are not watched.
#[derive(Debug)]
#[must_use = "files are polled only while `next` is awaited"]
pub struct ConfigWatcher {
    sources: Sources,
    trust: Trust,
    current: Config,
    /// The state of the files and approvals when this watcher last read them; the default makes the next poll read them
    /// again.
    read: State,
    last: Vec<Stamp>,
    /// The problems that were reported last, so that the same problem is not reported at every poll.
    reported: Vec<String>,
    revision: watch::Receiver<u64>,
    ticks: Interval,
}

/// The stamps of the files, and the revision of the approvals.
type State = (Vec<Stamp>, u64);

/// The outcome of a change of the files.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reloaded {
    /// The files were written again or became usable again, or an approval changed their effect. Contains the changes
    /// from the previous configuration to the new one (none if both are equal), and the new configuration.
    Changed(Box<ConfigChange>, Box<LoadedConfig>),
    /// The files cannot be used, and the previous configuration stays in effect.
    Kept(DiscoveryError),
}

impl ConfigWatcher {
    /// Creates a watcher of the files from which a configuration was loaded.
    pub fn new(sources: Sources, trust: Trust, loaded: &LoadedConfig) -> Self {
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Report a file that was written after it was loaded, even if its content is now equal to the loaded content:
        // the caller might have read other content since then. The revision `u64::MAX` never occurs, so the first poll
        // also notices approvals that were given since then.
        let read = (loaded.stamps.clone(), u64::MAX);
        let (last, reported) = (Vec::new(), doubts(loaded));
        let (current, revision) = (loaded.config.clone(), trust.revision());
        Self { sources, trust, current, read, last, reported, revision, ticks }
    }

    /// Waits until the files are written again, an approval changes their effect, or they become unusable.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: the next call reports the change.
    pub async fn next(&mut self) -> Reloaded {
        loop {
            self.ticks.tick().await;
            let state = self.state().await;
            let settled = state.0 == self.last;
            self.last.clone_from(&state.0);
            if !settled || self.read == state {
                continue;
            }
            match self.sources.load(&self.trust).await {
                Ok(mut loaded) => {
                    // Report written files even if their content is unchanged: the caller might have read other content
                    // itself before they were written again.
                    let is_written = self.read.0 != state.0;
                    self.read = state;
                    let found = doubts(&loaded);
                    self.keep_broken(&mut loaded);
                    let change = ConfigChange::between(&self.current, &loaded.config);
                    if is_written || !change.is_empty() || self.reported != found {
                        self.current = loaded.config.clone();
                        self.reported = found;
                        return Reloaded::Changed(Box::new(change), Box::new(loaded));
                    }
                }
                Err(error) => {
                    // An error in the content lasts until the file is written again, so wait for that. Any other error
                    // might be temporary, so read the file again at the next poll.
                    let is_read = matches!(error, DiscoveryError::InvalidConfig(_));
                    self.read = if is_read { state } else { State::default() };
                    let found = vec![error.to_string()];
                    if self.reported != found {
                        tracing::warn!(%error, "reload failed; keeping the previous configuration");
                        self.reported = found;
                        return Reloaded::Kept(error);
                    }
                }
            }
        }
    }

    /// Keeps the previous entry of a running server whose new entry has an error.
    fn keep_broken(&self, loaded: &mut LoadedConfig) {
        let LoadedConfig { config, broken, .. } = loaded;
        for id in
            broken.iter().filter(|id| config.server(id).is_none()).cloned().collect::<Vec<_>>()
        {
            config.servers.extend(self.current.server(&id).cloned());
        }
    }

    async fn state(&mut self) -> State {
        let files: Vec<PathBuf> = self.sources.files().map(PathBuf::from).collect();
        let revision = *self.revision.borrow_and_update();
        // Reading a stamp can block, e.g. if a network folder does not respond, so a blocking thread does it.
        let stamps = spawn_blocking(move || files.iter().map(|file| stamp(file)).collect());
        (stamps.await.unwrap_or_default(), revision)
    }
}

/// Returns the problems of a usable configuration as lines: its findings, and the file that is not approved, if any.
fn doubts(loaded: &LoadedConfig) -> Vec<String> {
    let findings = loaded.findings.iter().map(ToString::to_string);
    findings.chain(loaded.unapproved.iter().map(ToString::to_string)).collect()
}

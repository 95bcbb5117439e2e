//! A subscriber that records what is logged.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// A subscriber that records events as lines `LEVEL TARGET NAME=VALUE …`; clones share the lines.
#[derive(Clone, Debug)]
pub struct RecordedLog {
    level: Level,
    lines: Arc<Mutex<Vec<String>>>,
}

impl RecordedLog {
    /// Creates a log of the events of this level and of more severe levels.
    #[must_use]
    pub fn of(level: Level) -> Self {
        Self { level, lines: Arc::default() }
    }

    /// Returns the lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the lines so far whose events have this target.
    #[must_use]
    pub fn lines_of(&self, target: &str) -> Vec<String> {
        let mut lines = self.lines();
        lines.retain(|line| line.split(' ').nth(1) == Some(target));
        lines
    }
}

impl Subscriber for RecordedLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = format!("{} {}", event.metadata().level(), event.metadata().target());
        event.record(&mut |field: &Field, value: &dyn Debug| {
            // Writing to a text does not fail.
            let _ = write!(line, " {field}={value:?}");
        });
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

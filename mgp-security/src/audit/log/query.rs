//! Finding events in a log while it is written.
//!
//! Applies to: both.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use mgp_types::mgp::{AuditEvent, EventType, NotificationExtension};
use mgp_types::store::StoreError;

use super::chain::{Kind, Line};
use super::lines::{Backwards, Lines, find};
use super::queue::Shared;
use super::segments::{Place, Segment};

/// How many records one query looks at; it can be gone on with.
const LOOKED_AT: usize = 16_384;

/// How many bytes one query looks at.
const BYTES: usize = 16 * 1024 * 1024;

/// How many events a page has at most.
const PAGE: usize = 1000;

/// Which events are looked for; each member that is given must fit.
///
/// ```
/// use mgp_security::AuditQuery;
///
/// let denied = AuditQuery::new().agent("agent.one").event_type("TOOL_BLOCKED").newest_first().limit(10);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct AuditQuery {
    agent: Option<String>,
    server: Option<String>,
    tool: Option<String>,
    event_type: Option<EventType>,
    trace: Option<String>,
    since: Option<SystemTime>,
    until: Option<SystemTime>,
    limit: Option<usize>,
    order: Order,
    /// The last event that was seen.
    cursor: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    #[default]
    OldestFirst,
    NewestFirst,
}

/// Events that were found.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AuditPage {
    /// The events, with their numbers in `_mgp.seq`.
    pub events: Vec<AuditEvent>,
    /// Where to go on, where there may be more: the `after` of the next query.
    pub next: Option<u64>,
}

// === impl AuditQuery ===

impl AuditQuery {
    /// Looks for every event, oldest first, a thousand at a time.
    pub fn new() -> Self {
        Self::default()
    }

    /// Of one party: the id of the actor.
    pub fn agent(mut self, id: impl Into<String>) -> Self {
        self.agent = Some(id.into());
        self
    }

    /// Done to one server.
    pub fn server(mut self, id: impl Into<String>) -> Self {
        self.server = Some(id.into());
        self
    }

    /// Done to one tool.
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.tool = Some(name.into());
        self
    }

    /// Of one type.
    pub fn event_type(mut self, event_type: impl Into<String>) -> Self {
        self.event_type = Some(EventType::from(event_type.into().as_str()));
        self
    }

    /// Of one trace.
    pub fn trace(mut self, id: impl Into<String>) -> Self {
        self.trace = Some(id.into());
        self
    }

    /// Not before a time.
    pub fn since(mut self, time: SystemTime) -> Self {
        self.since = Some(time);
        self
    }

    /// Before a time.
    pub fn until(mut self, time: SystemTime) -> Self {
        self.until = Some(time);
        self
    }

    /// At most so many, and never more than a thousand.
    pub fn limit(mut self, events: usize) -> Self {
        self.limit = Some(events);
        self
    }

    /// The newest first.
    pub fn newest_first(mut self) -> Self {
        self.order = Order::NewestFirst;
        self
    }

    /// Goes on after an event, in the order asked for: what [`AuditPage::next`] said.
    pub fn after(mut self, seq: u64) -> Self {
        self.cursor = Some(seq);
        self
    }

    fn fits(&self, event: &AuditEvent) -> bool {
        fn is<'a>(wanted: Option<&str>, found: impl FnOnce() -> Option<&'a str>) -> bool {
            wanted.is_none_or(|wanted| found() == Some(wanted))
        }
        let target = event.target.as_ref();
        is(self.agent.as_deref(), || Some(&event.actor.id))
            && is(self.server.as_deref(), || target?.server_id.as_deref())
            && is(self.tool.as_deref(), || target?.tool_name.as_deref())
            && is(self.trace.as_deref(), || event.trace_id.as_deref())
            && self.event_type.as_ref().is_none_or(|wanted| *wanted == event.event_type)
            // An event whose time cannot be read is in no span of time.
            && self.since.is_none_or(|since| event.timestamp.is_before(since) == Some(false))
            && self.until.is_none_or(|until| event.timestamp.is_before(until) == Some(true))
    }
}

/// Reads the files of a log, as far as they are kept.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    place: Place,
    until: Until,
}

/// How far a log is read.
#[derive(Clone, Debug)]
enum Until {
    /// As far as its writer has come.
    Written(Arc<Shared>),
    /// Up to this record.
    Record(u64),
}

/// A query on its way through the log.
struct Search<'a> {
    query: &'a AuditQuery,
    /// The newest record that is kept; what comes after it may be taken back.
    kept: u64,
    limit: usize,
    records: usize,
    bytes: usize,
    page: AuditPage,
}

/// Whether a search goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    On,
    Done,
}

// === impl Reader ===

impl Reader {
    pub(super) fn place(&self) -> (&std::path::Path, &str) {
        (&self.place.dir, &self.place.name)
    }

    pub(super) fn new(place: Place, shared: Arc<Shared>) -> Self {
        Self { place, until: Until::Written(shared) }
    }

    pub(super) fn at_rest(place: Place, kept: u64) -> Self {
        Self { place, until: Until::Record(kept) }
    }

    /// Reads where waiting for the disk is no harm.
    pub(super) fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        let reader = self.clone();
        async move {
            tokio::task::spawn_blocking(move || read(&reader)).await.map_err(StoreError::failed)?
        }
    }

    pub(super) fn query(&self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        let mut search = Search {
            query,
            kept: match &self.until {
                Until::Written(shared) => shared.kept.load(Ordering::Acquire),
                Until::Record(kept) => *kept,
            },
            limit: query.limit.unwrap_or(PAGE).min(PAGE),
            records: 0,
            bytes: 0,
            page: AuditPage::default(),
        };
        if search.limit == 0 || search.kept == 0 {
            return Ok(search.page);
        }
        let segments = self.place.segments().map_err(StoreError::failed)?;
        let read = match query.order {
            Order::OldestFirst => self.forwards(&segments, &mut search),
            Order::NewestFirst => Self::backwards(&segments, &mut search),
        };
        read.map(|()| search.page)
    }

    fn forwards(&self, segments: &[Segment], search: &mut Search<'_>) -> Result<(), StoreError> {
        let from = search.query.cursor.map_or(1, |cursor| cursor.saturating_add(1));
        if let Until::Written(shared) = &self.until
            && from > *shared.newest.borrow()
        {
            return Ok(());
        }
        // Numbers of events grow with the files: the last file whose first line lies before is the one to begin with.
        let mut begin = 0;
        for (index, segment) in segments.iter().enumerate().skip(1) {
            match first(&segment.path)? {
                Some(no) if no < from => begin = index,
                _ => break,
            }
        }
        for (index, segment) in segments.iter().enumerate().skip(begin) {
            let Some(at) = there(find(&segment.path, if index == begin { from } else { 0 }))?
            else {
                continue;
            };
            let Some(mut lines) = there(Lines::open(&segment.path, at))? else { continue };
            while let Some((_, line)) = lines.next().map_err(StoreError::failed)? {
                if search.look(line)? == Step::Done {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn backwards(segments: &[Segment], search: &mut Search<'_>) -> Result<(), StoreError> {
        let before = search.query.cursor;
        for segment in segments.iter().rev() {
            let at = match before {
                Some(before) => {
                    if first(&segment.path)?.is_none_or(|no| no >= before && no > 0) {
                        continue;
                    }
                    there(find(&segment.path, before))?
                }
                None => None,
            };
            let Some(mut lines) = there(Backwards::open(&segment.path, at))? else { continue };
            while let Some(line) = lines.next().map_err(StoreError::failed)? {
                if search.look(&line)? == Step::Done {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The number in a file's first line; none where it has no line.
fn first(path: &Path) -> Result<Option<u64>, StoreError> {
    let Some(mut lines) = there(Lines::open(path, 0))? else { return Ok(None) };
    let line = lines.next().map_err(StoreError::failed)?;
    Ok(line.and_then(|(_, line)| Line::read(line)).map(|line| line.no))
}

/// A file that was removed meanwhile has nothing that is kept.
fn there<T>(read: io::Result<T>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::failed(error)),
    }
}

impl Search<'_> {
    /// Looks at one line.
    fn look(&mut self, line: &[u8]) -> Result<Step, StoreError> {
        let oldest_first = self.query.order == Order::OldestFirst;
        let Some(read) = Line::read(line) else {
            // What is not yet kept may be half written; it ends the log.
            return match (self.records, oldest_first) {
                (0, false) => Ok(Step::On),
                _ => Err(damaged()),
            };
        };
        if read.seq > self.kept {
            return Ok(if oldest_first { Step::Done } else { Step::On });
        }
        self.records += 1;
        self.bytes += line.len();
        if read.kind == Kind::Event {
            let mut event: AuditEvent = serde_json::from_str(read.body).map_err(|_| damaged())?;
            if self.query.fits(&event) {
                event.mgp.get_or_insert_with(NotificationExtension::new).seq = Some(read.no);
                self.page.events.push(event);
            }
        }
        let full = self.page.events.len() >= self.limit;
        if full || self.records >= LOOKED_AT || self.bytes >= BYTES {
            // Backwards, the number of an internal record is that of an event still to come.
            let internal = !oldest_first && read.kind != Kind::Event;
            self.page.next = Some(read.no + u64::from(internal));
            return Ok(Step::Done);
        }
        Ok(Step::On)
    }
}

fn damaged() -> StoreError {
    StoreError::Unreadable("the audit log is damaged: verify it to find where".to_owned())
}

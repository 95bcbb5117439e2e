//! Queries that read a log, also while it is being written.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use mgp_types::mgp::{AuditEvent, EventType, NotificationExtension};
use mgp_types::store::StoreError;

use super::super::result_word;
use super::chain::{Line, RecordKind};
use super::error::LogError;
use super::head::LogHead;
use super::lines::{Lines, ReverseLines, find};
use super::queue::LogQueue;
use super::segments::{LogPlace, Segment};

/// The maximum number of records that one query reads; the next page continues after them.
const MAX_RECORDS: usize = 16_384;

const MAX_BYTES: usize = 16 * 1024 * 1024;

const MAX_PAGE: usize = 1000;

/// A filter for events; an event must match every member that is set.
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
    result: Option<String>,
    trace: Option<String>,
    since: Option<SystemTime>,
    until: Option<SystemTime>,
    limit: Option<usize>,
    order: Order,
    /// The number of the last event on the previous page.
    cursor: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    #[default]
    OldestFirst,
    NewestFirst,
}

/// One page of matching events.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AuditPage {
    /// The events, with their numbers in `_mgp.seq`.
    pub events: Vec<AuditEvent>,
    /// The argument of [`after`](AuditQuery::after) that selects the next page, or `None` if this is the last page.
    pub next: Option<u64>,
}

impl AuditQuery {
    /// Creates a query for all events, oldest first, a thousand per page.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects events whose actor has this id.
    pub fn agent(mut self, id: impl Into<String>) -> Self {
        self.agent = Some(id.into());
        self
    }

    /// Selects events whose target is this server.
    pub fn server(mut self, id: impl Into<String>) -> Self {
        self.server = Some(id.into());
        self
    }

    /// Selects events whose target is this tool: its name, or the id of its server and its name, as `SERVER.TOOL`.
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.tool = Some(name.into());
        self
    }

    /// Selects events of this type.
    pub fn event_type(mut self, event_type: impl Into<String>) -> Self {
        self.event_type = Some(EventType::from(event_type.into().as_str()));
        self
    }

    /// Selects events whose result is this word, one of [`RESULT_WORDS`](crate::RESULT_WORDS).
    pub fn result(mut self, word: impl Into<String>) -> Self {
        self.result = Some(word.into());
        self
    }

    /// Selects events with this trace id.
    pub fn trace(mut self, id: impl Into<String>) -> Self {
        self.trace = Some(id.into());
        self
    }

    /// Selects events at or after this time.
    pub fn since(mut self, time: SystemTime) -> Self {
        self.since = Some(time);
        self
    }

    /// Selects events before this time.
    pub fn until(mut self, time: SystemTime) -> Self {
        self.until = Some(time);
        self
    }

    /// Sets the number of events per page, at most a thousand.
    pub fn limit(mut self, events: usize) -> Self {
        self.limit = Some(events);
        self
    }

    /// Returns the newest events first instead of the oldest.
    pub fn newest_first(mut self) -> Self {
        self.order = Order::NewestFirst;
        self
    }

    /// Selects events that come after the event with this number in the sort order. To get the next page, pass the
    /// value of [`AuditPage::next`].
    pub fn after(mut self, seq: u64) -> Self {
        self.cursor = Some(seq);
        self
    }

    fn matches(&self, event: &AuditEvent) -> bool {
        fn is<'a>(wanted: Option<&str>, found: impl FnOnce() -> Option<&'a str>) -> bool {
            wanted.is_none_or(|wanted| found() == Some(wanted))
        }
        let target = event.target.as_ref();
        let server = target.and_then(|target| target.server_id.as_deref());
        let tool = target.and_then(|target| target.tool_name.as_deref());
        is(self.agent.as_deref(), || Some(&event.actor.id))
            && is(self.server.as_deref(), || server)
            && self.tool.as_deref().is_none_or(|wanted| is_named(wanted, server, tool))
            && is(self.trace.as_deref(), || event.trace_id.as_deref())
            && self.event_type.as_ref().is_none_or(|wanted| *wanted == event.event_type)
            && is(self.result.as_deref(), || Some(result_word(event)))
            // An event with an unreadable time does not match any time span, so it is left out.
            && self.since.is_none_or(|since| event.timestamp.is_before(since) == Some(false))
            && self.until.is_none_or(|until| event.timestamp.is_before(until) == Some(true))
    }
}

/// Returns whether `wanted` names a tool: by the tool's name, or by the id of the server, a dot and the tool's name.
fn is_named(wanted: &str, server: Option<&str>, tool: Option<&str>) -> bool {
    let bare = || wanted.strip_prefix(server?)?.strip_prefix('.');
    tool.is_some_and(|tool| tool == wanted || bare() == Some(tool))
}

/// A reader of the retained files of a log.
#[derive(Clone, Debug)]
pub(super) struct LogReader {
    place: LogPlace,
    until: ReadLimit,
    /// `true` if records that cannot be read are left out, instead of ending a query with an error.
    skips_unreadable: bool,
}

/// The last record that a reader is allowed to read.
#[derive(Clone, Debug)]
enum ReadLimit {
    /// Up to the newest written record. The log is still being written, so a later read can get further.
    Written(Arc<LogQueue>),
    /// Up to the record with this number. The log does not grow while it is read.
    Record(u64),
}

/// Read access to the files of a log, up to the record in its head. Readers do not block the writer.
#[derive(Clone, Debug)]
pub struct LogFiles(LogReader);

impl LogFiles {
    /// Creates a reader of the files of a log. Without a head, its queries return no events.
    ///
    /// # Errors
    /// [`LogError::Name`] if the name cannot be part of a file name.
    pub fn new(dir: &Path, name: &str, head: Option<&LogHead>) -> Result<Self, LogError> {
        let last = head.map_or(0, |head| head.seq);
        Ok(Self(LogReader::at_rest(LogPlace::new(dir, name)?, last)))
    }

    /// Leaves out records that cannot be read, for a log that was changed. Without this setting, such a record ends a
    /// query with an error.
    #[must_use]
    pub fn skip_unreadable(mut self) -> Self {
        self.0.skips_unreadable = true;
        self
    }

    /// Returns one page of the events that match a query. Each call reads a bounded part of the log, so a page can
    /// contain few or no events although more pages follow.
    ///
    /// # Errors
    /// [`StoreError`] if the log cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn query(&self, query: AuditQuery) -> Result<AuditPage, StoreError> {
        self.0.run(move |reader| reader.query(&query)).await
    }
}

/// The state of a query while it reads the log.
struct Search<'a> {
    query: &'a AuditQuery,
    /// The number of the newest written record when the query began; later records are not returned, because the writer
    /// might still remove them.
    written: u64,
    skips_unreadable: bool,
    limit: usize,
    records: usize,
    bytes: usize,
    page: AuditPage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Continue,
    Done,
}

impl LogReader {
    pub(super) fn place(&self) -> (&std::path::Path, &str) {
        (&self.place.dir, &self.place.name)
    }

    /// Returns whether the file to which the log writes is no longer in its folder.
    pub(super) fn is_removed(&self) -> bool {
        let ReadLimit::Written(shared) = &self.until else { return false };
        let segment = self.place.segment(shared.segment.load(Ordering::Acquire));
        matches!(segment.path.try_exists(), Ok(false))
    }

    pub(super) fn new(place: LogPlace, shared: Arc<LogQueue>) -> Self {
        Self { place, until: ReadLimit::Written(shared), skips_unreadable: false }
    }

    pub(super) fn at_rest(place: LogPlace, written: u64) -> Self {
        Self { place, until: ReadLimit::Record(written), skips_unreadable: false }
    }

    /// Runs a read on a thread that is allowed to block.
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
            written: match &self.until {
                ReadLimit::Written(shared) => shared.written.load(Ordering::Acquire),
                ReadLimit::Record(written) => *written,
            },
            skips_unreadable: self.skips_unreadable,
            limit: query.limit.unwrap_or(MAX_PAGE).min(MAX_PAGE),
            records: 0,
            bytes: 0,
            page: AuditPage::default(),
        };
        if search.limit == 0 || search.written == 0 {
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
        if let ReadLimit::Written(shared) = &self.until
            && from > *shared.newest.borrow()
        {
            return Ok(());
        }
        let begin = file_of(segments, from, first)?;
        for (index, segment) in segments.iter().enumerate().skip(begin) {
            let Some(at) = if_exists(find(&segment.path, if index == begin { from } else { 0 }))?
            else {
                continue;
            };
            let Some(mut lines) = if_exists(Lines::open(&segment.path, at))? else { continue };
            while let Some((_, line)) = lines.next().map_err(StoreError::failed)? {
                if search.read_line(line)? == Progress::Done {
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
                    if_exists(find(&segment.path, before))?
                }
                None => None,
            };
            let Some(mut lines) = if_exists(ReverseLines::open(&segment.path, at))? else {
                continue;
            };
            while let Some(line) = lines.next().map_err(StoreError::failed)? {
                if search.read_line(&line)? == Progress::Done {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Returns the index of the file with which a search for the events from the number `from` on begins: the last file
/// whose first number is lower, or else the first file. `first` returns the number in a file's first readable line.
///
/// Event numbers increase from file to file. A log can have thousands of files, so this is a binary search, which opens
/// only few of them.
pub(super) fn file_of(
    segments: &[Segment],
    from: u64,
    first: impl Fn(&Path) -> Result<Option<u64>, StoreError>,
) -> Result<usize, StoreError> {
    let (mut found, mut low, mut high) = (0, 0, segments.len());
    while high.saturating_sub(low) > 1 {
        let middle = low + (high - low) / 2;
        // A file without a readable line has no number, so use the nearest file before it.
        let mut known = None;
        for index in (low + 1..=middle).rev() {
            known = first(&segments[index].path)?.map(|no| (index, no));
            if known.is_some() {
                break;
            }
        }
        match known {
            Some((index, no)) if no >= from => high = index,
            Some((index, _)) => (found, low) = (index, middle),
            None => low = middle,
        }
    }
    Ok(found)
}

/// Returns the event number in a file's first readable line, or `None` if the file has no such line.
fn first(path: &Path) -> Result<Option<u64>, StoreError> {
    let Some(mut lines) = if_exists(Lines::open(path, 0))? else { return Ok(None) };
    while let Some((_, line)) = lines.next().map_err(StoreError::failed)? {
        if let Some(line) = Line::read(line) {
            return Ok(Some(line.no));
        }
    }
    Ok(None)
}

/// Maps a missing file to `None`: it was removed after the files were listed, so its records are no longer retained.
fn if_exists<T>(read: io::Result<T>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::failed(error)),
    }
}

impl Search<'_> {
    fn read_line(&mut self, line: &[u8]) -> Result<Progress, StoreError> {
        let oldest_first = self.query.order == Order::OldestFirst;
        let Some(read) = Line::read(line) else {
            // An incomplete line may be a write in progress, so it is skipped. This can occur only at the end of the
            // log; an incomplete line elsewhere is unreadable.
            return match (self.records, oldest_first) {
                (0, false) => Ok(Progress::Continue),
                _ => self.unreadable(),
            };
        };
        if read.seq > self.written {
            // Reached a record after `written`, so an oldest-first search is done. But in a log that was changed, the
            // number of a record can be wrong. Therefore a search that skips unreadable records reads on.
            let is_end = oldest_first && !self.skips_unreadable;
            return Ok(if is_end { Progress::Done } else { Progress::Continue });
        }
        self.records += 1;
        self.bytes += line.len();
        if read.kind == RecordKind::Event {
            let Ok(mut event) = serde_json::from_str::<AuditEvent>(read.body) else {
                return self.unreadable();
            };
            if self.query.matches(&event) {
                event.mgp.get_or_insert_with(NotificationExtension::new).seq = Some(read.no);
                self.page.events.push(event);
            }
        }
        let full = self.page.events.len() >= self.limit;
        if full || self.records >= MAX_RECORDS || self.bytes >= MAX_BYTES {
            // An intent or checkpoint repeats the number of the event before it. When reading backwards, that event
            // comes next, so the cursor must be one higher than its number.
            let internal = !oldest_first && read.kind != RecordKind::Event;
            self.page.next = Some(read.no + u64::from(internal));
            return Ok(Progress::Done);
        }
        Ok(Progress::Continue)
    }

    fn unreadable(&self) -> Result<Progress, StoreError> {
        if self.skips_unreadable { Ok(Progress::Continue) } else { Err(damaged()) }
    }
}

fn damaged() -> StoreError {
    StoreError::Unreadable("the audit log is damaged; verify it to find the record".to_owned())
}

//! An event before and after its publication.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::{LazyLock, OnceLock};
use std::time::SystemTime;

use memchr::memmem::Finder;
use mgp_types::mgp::{EventParams, Severity};
use mgp_types::service::{Principal, ServerId, TenantId};
use mgp_types::{Payload, RpcError, Timestamp};
use serde::{Deserialize, Serialize};

use super::pattern::{MAX_NAME, is_name};

/// The maximum depth of an event. The depth is the event's position in a chain in which each event causes the next (MGP
/// §13, later revisions).
pub(super) const MAX_DEPTH: u32 = 10;

/// The maximum size of the data of an event, in bytes.
pub(super) const MAX_DATA: usize = 64 * 1024;

/// An event to publish: its channel, severity and data (MGP §13.3).
///
/// ```
/// use mgp_stream::EventDraft;
/// use mgp_types::mgp::Severity;
///
/// let draft = EventDraft::new("model.loaded").severity(Severity::Warning).data(&["llama3"]).unwrap();
/// # drop(draft);
/// ```
#[derive(Clone, Debug)]
#[must_use = "an event is not sent before it is published"]
pub struct EventDraft {
    pub(super) channel: Cow<'static, str>,
    pub(super) severity: Option<Severity>,
    pub(super) data: Payload,
    pub(super) timestamp: Option<Timestamp>,
    pub(super) subject: EventSubject,
    pub(super) depth: u32,
    pub(super) dropped: u64,
}

/// The server, tool, tenant and principal to which an event relates; they determine who is allowed to receive the
/// event.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EventSubject {
    /// The server to which the event relates.
    pub server: Option<ServerId>,
    /// The tool to which the event relates, by the name that its server gives it.
    pub tool: Option<String>,
    /// The tenant whose call caused the event.
    pub tenant: Option<TenantId>,
    /// The principal to whom the event belongs, if any. Other principals receive the event only if the hub's function
    /// for access (see [`EventHub::with_limits`](crate::EventHub::with_limits)) permits it.
    pub owner: Option<Principal>,
    /// `true` if `server` published the event itself, and this kernel only forwards it.
    pub is_forwarded: bool,
}

impl EventDraft {
    /// Creates an event without data, with severity `info`.
    pub fn new(channel: impl Into<Cow<'static, str>>) -> Self {
        Self {
            channel: channel.into(),
            severity: None,
            data: Payload::empty_object(),
            timestamp: None,
            subject: EventSubject::default(),
            depth: 0,
            dropped: 0,
        }
    }

    /// Sets the severity. A member `severity` of the data takes precedence.
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = Some(severity);
        self
    }

    /// Sets the data of the event, which is encoded as JSON.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the data cannot be written as JSON.
    pub fn data<T: Serialize + ?Sized>(mut self, data: &T) -> Result<Self, RpcError> {
        self.data = Payload::of(data)?;
        Ok(self)
    }

    /// Sets the data of the event, which is JSON already.
    pub fn payload(mut self, data: Payload) -> Self {
        self.data = data;
        self
    }

    /// Sets the time of the event. Default: the time of its publication.
    pub fn timestamp(mut self, at: Timestamp) -> Self {
        self.timestamp = Some(at);
        self
    }

    /// Sets the event's depth in a chain of events: one more than the depth of the event that caused it.
    ///
    /// Publishing fails if the depth is above 10, so that events cannot cause each other without end.
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// Sets the number of events that were lost just before this event, on their way to this hub. Subscribers get the
    /// number as `_mgp.dropped`.
    pub fn dropped(mut self, count: u64) -> Self {
        self.dropped = count;
        self
    }

    /// Sets the server, tool, tenant and principal to which the event relates, which determine who may receive it.
    pub fn subject(mut self, subject: EventSubject) -> Self {
        self.subject = subject;
        self
    }

    /// Returns the severity of the event: the member `severity` of the data, else the severity of the draft, else
    /// `info`.
    pub(super) fn effective_severity(&self) -> Severity {
        #[derive(Deserialize)]
        struct Data {
            severity: Severity,
        }
        static NAME: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b"\"severity\""));
        // Search the text for the member before parsing it, because most data has no member `severity`.
        let has_own = NAME.find(self.data.as_str().as_bytes()).is_some();
        let of_data = has_own.then(|| self.data.get::<Data>().ok()).flatten();
        let of_data = of_data.map(|data| data.severity);
        of_data.or_else(|| self.severity.clone()).unwrap_or(Severity::Info)
    }

    pub(super) fn check(&self) -> Result<(), RpcError> {
        if !is_name(&self.channel) {
            return Err(RpcError::invalid_params(format!(
                "`{}` is not the name of a channel; use words separated by dots, e.g. `model.loaded`",
                mgp_types::clip(&self.channel, MAX_NAME)
            )));
        }
        if self.channel == EventParams::TERMINATED {
            return Err(RpcError::invalid_params(format!(
                "`{}` is only for the last events of subscriptions; publish on another channel",
                EventParams::TERMINATED
            )));
        }
        if self.data.as_str().len() > MAX_DATA {
            return Err(RpcError::invalid_params(format!(
                "the data of an event may have at most {MAX_DATA} bytes; publish a reference to it"
            )));
        }
        if self.depth > MAX_DEPTH {
            return Err(RpcError::invalid_params(format!(
                "more than {MAX_DEPTH} events caused each other; break the cycle"
            )));
        }
        Ok(())
    }
}

/// A published event, shared by all subscriptions that store it.
#[derive(Debug)]
pub(super) struct PublishedEvent {
    pub(super) draft: EventDraft,
    pub(super) rank: u8,
    pub(super) at: SystemTime,
    /// The members `channel`, `timestamp`, `severity` and `data` as JSON, without braces. They are written only when
    /// they are needed for the first time, because most events of a kernel are never sent.
    members: OnceLock<String>,
}

impl PublishedEvent {
    pub(super) fn new(draft: EventDraft, rank: u8) -> Self {
        Self { draft, rank, at: SystemTime::now(), members: OnceLock::new() }
    }

    /// Restores an event from a store. `members` is the text that [`members`](Self::members) returned when the event
    /// was stored.
    pub(super) fn restored(draft: EventDraft, rank: u8, at: SystemTime, members: String) -> Self {
        Self { draft, rank, at, members: members.into() }
    }

    pub(super) fn members(&self) -> &str {
        self.members.get_or_init(|| {
            let EventDraft { channel, data, timestamp, .. } = &self.draft;
            let timestamp = timestamp.clone().unwrap_or_else(|| self.at.into());
            let severity = self.draft.effective_severity();
            let quoted = |text: &str| Payload::of(text).unwrap_or_else(|_| Payload::null());
            format!(
                "\"channel\":\"{channel}\",\"timestamp\":{},\"severity\":{},\"data\":{}",
                quoted(timestamp.as_str()).as_str(),
                quoted(severity.as_str()).as_str(),
                data.as_str()
            )
        })
    }

    /// Returns whether the event is the last of its subscription. Every subscriber may see such an event.
    pub(super) fn is_last(&self) -> bool {
        self.draft.channel == EventParams::TERMINATED
    }

    /// Returns the estimated size of the event in memory, in bytes. It includes the text of [`members`](Self::members),
    /// even if that was not written yet.
    pub(super) fn bytes(&self) -> usize {
        2 * (self.draft.channel.len() + self.draft.data.as_str().len()) + size_of::<Self>()
    }

    /// Returns the event as JSON, with its sequence number in the subscription and the number of events that were
    /// dropped before it.
    pub(super) fn to_json(&self, subscription: Option<&str>, seq: u64, dropped: u64) -> String {
        let members = self.members();
        let EventDraft { depth, subject, .. } = &self.draft;
        let mut text = String::with_capacity(members.len() + 128);
        text.push('{');
        if let Some(id) = subscription {
            let _ = write!(text, "\"subscription_id\":\"{id}\",");
        }
        let _ = write!(text, "{members},\"_mgp\":{{\"seq\":{seq}");
        if *depth > 0 {
            let _ = write!(text, ",\"depth\":{depth}");
        }
        let dropped = dropped.saturating_add(self.draft.dropped);
        if dropped > 0 {
            let _ = write!(text, ",\"dropped\":{dropped}");
        }
        if let Some(server) = subject.server.as_ref().filter(|_| subject.is_forwarded)
            && let Ok(server) = Payload::of(server.as_str())
        {
            let _ = write!(text, ",\"server_id\":{}", server.as_str());
        }
        text.push_str("}}");
        text
    }
}

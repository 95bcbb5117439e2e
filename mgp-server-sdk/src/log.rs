//! Log messages to the caller of a request, at the level that the client chose (MCP logging).
//!
//! A legacy session sets its level once; a modern request contains its own level. Less severe messages are not sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_types::mcp::{EmptyResult, Era, LogLevel, LogMessageParams};
use mgp_types::method::LoggingSetLevel;
use mgp_types::service::{
    BoxFuture, Call, Context, MetaKey, OutletItem, OutletItemKind, Router, Scope,
};
use mgp_types::{Payload, RpcError};
use serde::Serialize;

use crate::tool::{FromCall, ToolRequest};

/// A sender of log messages to the caller; without [`Server::logging`](crate::Server::logging) it sends nothing.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::{LogLevel, Logger};
///
/// let import = Tool::new("import", "Imports rows", |log: Logger| async move {
///     let log = log.named("import");
///     log.info("began").await;
///     log.debug(&serde_json::json!({ "rows": 7 })).await;
///     log.log(LogLevel::Notice, "done").await;
///     "done"
/// });
/// # drop(Server::new("s", "1").logging().tool(import));
/// ```
#[derive(Clone, Debug)]
pub struct Logger {
    cx: Context,
    name: Option<Arc<str>>,
}

impl Logger {
    /// Returns the logger of a call.
    #[must_use]
    pub fn of(cx: &Context) -> Self {
        Self { cx: cx.clone(), name: None }
    }

    /// Sets the name of the logger, which the messages contain.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns whether messages of a level are sent, so that a function can avoid building
    /// messages that would be dropped.
    #[must_use]
    pub fn wants(&self, level: LogLevel) -> bool {
        let threshold = self.cx.extensions.get::<LogThreshold>();
        threshold.is_some_and(|threshold| threshold.takes(level))
            && self.cx.outlet.wants(OutletItemKind::Log)
    }

    /// Returns the lowest level of the log messages that are sent to the caller of a call, or `None` if none are sent.
    #[must_use]
    pub fn min_level(cx: &Context) -> Option<LogLevel> {
        let threshold = cx.extensions.get::<LogThreshold>()?;
        cx.outlet.wants(OutletItemKind::Log).then(|| threshold.least())
    }

    /// Returns whether a legacy session receives messages of this level that belong to no call.
    #[must_use]
    pub fn is_sent_to(session: &Scope, level: LogLevel) -> bool {
        level >= session.state::<SessionLevel>().get()
    }

    /// Sends a message; waits while the caller reads slowly.
    ///
    /// # Cancel safety
    /// If the future is dropped, the message may or may not have been sent.
    #[must_use = "a message is sent when it is awaited"]
    pub fn log<T: Serialize + ?Sized>(&self, level: LogLevel, data: &T) -> BoxFuture<'static, ()> {
        let params = self.wants(level).then(|| self.params(level, data)).flatten();
        let outlet = self.cx.outlet.clone();
        Box::pin(async move {
            if let Some(params) = params {
                // The error is ignored, because a caller that has disconnected needs no log message.
                let _ = outlet.send(OutletItem::Log(params)).await;
            }
        })
    }

    /// Sends a message of the level `debug`; see [`log`](Self::log).
    #[must_use = "a message is sent when it is awaited"]
    pub fn debug<T: Serialize + ?Sized>(&self, data: &T) -> BoxFuture<'static, ()> {
        self.log(LogLevel::Debug, data)
    }

    /// Sends a message of the level `info`; see [`log`](Self::log).
    #[must_use = "a message is sent when it is awaited"]
    pub fn info<T: Serialize + ?Sized>(&self, data: &T) -> BoxFuture<'static, ()> {
        self.log(LogLevel::Info, data)
    }

    /// Sends a message of the level `warning`; see [`log`](Self::log).
    #[must_use = "a message is sent when it is awaited"]
    pub fn warning<T: Serialize + ?Sized>(&self, data: &T) -> BoxFuture<'static, ()> {
        self.log(LogLevel::Warning, data)
    }

    /// Sends a message of the level `error`; see [`log`](Self::log).
    #[must_use = "a message is sent when it is awaited"]
    pub fn error<T: Serialize + ?Sized>(&self, data: &T) -> BoxFuture<'static, ()> {
        self.log(LogLevel::Error, data)
    }

    fn params<T: Serialize + ?Sized>(&self, level: LogLevel, data: &T) -> Option<Payload> {
        let written = Payload::of(data).and_then(|data| {
            let mut params = LogMessageParams::new(level, data);
            params.logger = self.name.as_deref().map(str::to_owned);
            Payload::of(&params)
        });
        written.inspect_err(|error| tracing::debug!(%error, "cannot encode a log message")).ok()
    }
}

impl FromCall for Logger {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(Self::of(request.cx()))
    }
}

/// The lowest level of the log messages that a caller receives, or the session whose client sets it.
#[derive(Debug)]
enum LogThreshold {
    /// The level of a legacy session, which the client can change. It is read when a message is sent.
    Session(Arc<SessionLevel>),
    /// The level that the modern request itself contains.
    Request(LogLevel),
}

impl LogThreshold {
    fn takes(&self, level: LogLevel) -> bool {
        level >= self.least()
    }

    fn least(&self) -> LogLevel {
        match self {
            Self::Session(least) => least.get(),
            Self::Request(least) => *least,
        }
    }
}

/// The level that the client set for its legacy session; `info` if it has set none.
#[derive(Debug)]
struct SessionLevel(AtomicUsize);

impl Default for SessionLevel {
    fn default() -> Self {
        let level = Self(AtomicUsize::new(0));
        level.set(LogLevel::Info);
        level
    }
}

impl SessionLevel {
    fn set(&self, level: LogLevel) {
        let index = LogLevel::ALL.iter().position(|known| *known == level).unwrap_or_default();
        self.0.store(index, Ordering::Relaxed);
    }

    fn get(&self) -> LogLevel {
        LogLevel::ALL.get(self.0.load(Ordering::Relaxed)).copied().unwrap_or(LogLevel::Info)
    }
}

/// Stores in a call the lowest level of the log messages to send to its caller.
pub(crate) fn store_level(call: &mut Call) {
    let threshold = match call.cx().caller.era {
        Era::Legacy => Some(LogThreshold::Session(call.cx().scope.state::<SessionLevel>())),
        Era::Modern => requested_level(call).map(LogThreshold::Request),
    };
    if let Some(threshold) = threshold {
        call.cx_mut().extensions.insert(threshold);
    }
}

/// Returns the level in a modern request; `None` if it is absent or unknown.
fn requested_level(call: &Call) -> Option<LogLevel> {
    serde_json::from_str(call.params().meta_member(MetaKey::LogLevel)?).ok()
}

/// Returns the endpoint with which a client sets the level of its legacy session.
pub(crate) fn routes() -> Router {
    Router::new().on::<LoggingSetLevel, _, _>(|cx, params| {
        cx.scope.state::<SessionLevel>().set(params.level);
        async { Ok(EmptyResult::new()) }
    })
}

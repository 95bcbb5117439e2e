//! Typed requests to the caller for input (questions, elicitation, sampling, roots), in all revisions of MCP.
//!
//! A caller of 2025-11-25 or before receives a question immediately, and the function waits for the answer. A caller of
//! 2026-07-28 receives the question as the result of its call, and the function runs again from the start when the
//! answers arrive. Therefore a question must have the same key in each run. Questions without an explicit key
//! ([`Elicitation::key`] and similar methods) are numbered in the order in which the function creates them, so this
//! order must not depend on time, random numbers, or concurrent tasks. Use `cx.once(key, ..)` for values that must not
//! change between runs.

mod callback;
mod elicit;
mod form;
mod roots;
mod sample;
mod url;

use std::sync::atomic::{AtomicU32, Ordering};

use mgp_lifecycle::TaskTicket;
use mgp_types::mcp::{ClientCapabilities, Era, LogLevel};
use mgp_types::mgp::CallbackType;
use mgp_types::service::{BoxFuture, CallerAccess, CallerRequest, Context};
use mgp_types::{ErrorCode, Payload, RpcError};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use callback::UserQuestion;
pub use elicit::{Elicitation, Elicited};
pub use roots::RootsRequest;
pub use sample::Sampling;
pub use url::{UrlElicitation, UrlElicited};

use crate::log::Logger;
use crate::whole_numbers;

/// The operations of a [`Context`] in a server's functions: asking the caller for input, and logging.
///
/// The time limit of a function, 30 s by default, includes the time in which a caller of 2025-11-25 or before answers.
/// A function that asks people needs a longer limit: [`Tool::timeout`](crate::Tool::timeout), or
/// [`Server::timeout`](crate::Server::timeout) for prompts and resources.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::{ContextExt, Elicited};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Guest {
///     /// The name of the guest.
///     name: String,
///     vegetarian: Option<bool>,
/// }
///
/// let invite = Tool::new("invite", "Invites a guest", |cx: Context| async move {
///     Ok::<_, RpcError>(match cx.elicit::<Guest>("Who is the guest?").await? {
///         Elicited::Accepted(guest) => format!("{} is invited", guest.name),
///         Elicited::Declined | Elicited::Cancelled => "no guest is invited".to_owned(),
///     })
/// })
/// .timeout(std::time::Duration::from_mins(10));
/// # drop(invite);
/// ```
pub trait ContextExt {
    /// Asks the user to confirm something; returns `true` only if the user clearly agrees (MGP §13.4).
    ///
    /// ```
    /// use mgp_server_sdk::ContextExt;
    /// use mgp_server_sdk::prelude::*;
    ///
    /// let clean = Tool::new("clean", "Deletes old files", |cx: Context| async move {
    ///     if !cx.confirm("Delete 3 files?").await? {
    ///         return Ok("nothing was deleted");
    ///     }
    ///     Ok::<_, RpcError>("3 files were deleted")
    /// });
    /// # drop(clean);
    /// ```
    fn confirm(&self, message: impl Into<String>) -> UserQuestion<bool>;

    /// Asks the user for a text.
    fn input(&self, message: impl Into<String>) -> UserQuestion<String>;

    /// Asks the user to choose one of the options.
    fn select<O: Into<String>>(
        &self,
        message: impl Into<String>,
        options: impl IntoIterator<Item = O>,
    ) -> UserQuestion<String>;

    /// Shows a message to the user and expects no answer. The message is sent as a callback if the caller negotiated
    /// callbacks, else as a log message of the level `notice`, if the server has
    /// [`logging`](crate::Server::logging) and the caller accepts that level.
    #[must_use = "the message is sent when it is awaited"]
    fn inform(&self, message: impl Into<String>) -> BoxFuture<'static, ()>;

    /// Asks the user to fill in a form with the fields of a flat struct.
    fn elicit<T: DeserializeOwned + JsonSchema>(
        &self,
        message: impl Into<String>,
    ) -> Elicitation<T>;

    /// Asks the user to visit a URL.
    fn elicit_url(&self, message: impl Into<String>, url: impl Into<String>) -> UrlElicitation;

    /// Notifies the caller that the user has visited a page; `id` is the id of the [`UrlElicitation`].
    ///
    /// Only callers of revision 2025-11-25 are notified; for other callers this method does nothing.
    #[must_use = "the notification is sent when it is awaited"]
    fn elicitation_complete(&self, id: impl Into<String>) -> BoxFuture<'static, ()>;

    /// Asks the caller's model to generate a message (MCP sampling).
    fn sample(&self, prompt: impl Into<String>) -> Sampling;

    /// Asks the caller for its working directories.
    fn roots(&self) -> RootsRequest;

    /// Makes the call an MCP task from now on, if the tool and its caller support tasks; otherwise does nothing.
    ///
    /// Later questions to the caller then belong to the task. Without this method, a call of a caller of 2026-07-28
    /// becomes a task when it takes longer than [`TasksConfig::grace`](mgp_lifecycle::TasksConfig).
    #[must_use = "the task starts when it is awaited"]
    fn begin_task(&self) -> BoxFuture<'static, Result<(), RpcError>>;

    /// Closes the response stream of the call. The call continues, and the caller reconnects to receive the rest.
    ///
    /// Use this method in long calls, so that they do not occupy a connection. Only callers of revision 2025-11-25 over
    /// HTTP can reconnect; for all others this does nothing and returns `false`.
    fn end_stream(&self) -> bool;

    /// Sends a log message to the caller: a text, or any value that can be serialized to JSON. Without
    /// [`Server::logging`](crate::Server::logging) this does nothing.
    #[must_use = "a message is sent when it is awaited"]
    fn log<T: Serialize + ?Sized>(&self, level: LogLevel, data: &T) -> BoxFuture<'static, ()>;
}

impl ContextExt for Context {
    fn confirm(&self, message: impl Into<String>) -> UserQuestion<bool> {
        callback::confirm(self, message.into())
    }

    fn input(&self, message: impl Into<String>) -> UserQuestion<String> {
        callback::text(self, CallbackType::Input, message.into())
    }

    fn select<O: Into<String>>(
        &self,
        message: impl Into<String>,
        options: impl IntoIterator<Item = O>,
    ) -> UserQuestion<String> {
        callback::text(self, CallbackType::Selection, message.into()).options(options)
    }

    fn inform(&self, message: impl Into<String>) -> BoxFuture<'static, ()> {
        callback::inform(self, message.into())
    }

    fn elicit<T: DeserializeOwned + JsonSchema>(
        &self,
        message: impl Into<String>,
    ) -> Elicitation<T> {
        Elicitation::new(self, message.into())
    }

    fn elicit_url(&self, message: impl Into<String>, url: impl Into<String>) -> UrlElicitation {
        UrlElicitation::new(self, message.into(), url.into())
    }

    fn elicitation_complete(&self, id: impl Into<String>) -> BoxFuture<'static, ()> {
        url::complete(self, id.into())
    }

    fn sample(&self, prompt: impl Into<String>) -> Sampling {
        Sampling::new(self, prompt.into())
    }

    fn roots(&self) -> RootsRequest {
        RootsRequest::new(self)
    }

    fn begin_task(&self) -> BoxFuture<'static, Result<(), RpcError>> {
        let ticket = TaskTicket::of(self).cloned();
        Box::pin(async move {
            match ticket {
                Some(ticket) => ticket.begin().await,
                None => Ok(()),
            }
        })
    }

    fn end_stream(&self) -> bool {
        self.peer.end_stream(self.key)
    }

    fn log<T: Serialize + ?Sized>(&self, level: LogLevel, data: &T) -> BoxFuture<'static, ()> {
        Logger::of(self).log(level, data)
    }
}

/// The counter that numbers the questions of one run of a function.
#[derive(Debug, Default)]
pub(crate) struct QuestionCounter(AtomicU32);

/// A question to the caller that has not been asked yet: the context of its call, and its key.
#[derive(Clone, Debug)]
struct Question {
    cx: Context,
    /// The key that identifies the question. `None` if the caller of 2026-07-28 needs a key, but the author set none
    /// and the call has no counter from which a number could be taken; asking then fails.
    key: Option<String>,
}

impl Question {
    /// Creates the next question of a call. Its number is assigned here, not when the question is awaited.
    fn new(cx: &Context, kind: &str) -> Self {
        let key = match (&cx.caller_access, cx.extensions.get::<QuestionCounter>()) {
            (_, Some(order)) => {
                Some(format!("{kind}-{}", order.0.fetch_add(1, Ordering::Relaxed) + 1))
            }
            (CallerAccess::Channel(_), None) => None,
            // A legacy caller does not receive the key, so all its questions of one kind can have the same key.
            (_, None) => Some(kind.to_owned()),
        };
        Self { cx: cx.clone(), key }
    }

    /// Asks the question. Some kinds of questions need a capability of the client in addition to support for their
    /// method, e.g. forms; this function first checks that the client declared it.
    fn ask(
        self,
        needs: ClientCapability,
        ask: Result<CallerRequest, RpcError>,
    ) -> BoxFuture<'static, Result<Payload, RpcError>> {
        Box::pin(async move {
            let ask = ask?;
            if self.cx.caller.accepts.accepts(ask.method()) {
                needs.check(&self.cx)?;
            }
            let key = self.key()?;
            self.cx.ask(&key, ask).await
        })
    }

    fn key(&self) -> Result<String, RpcError> {
        self.key.clone().ok_or_else(|| {
            RpcError::internal("the order of questions is unknown here; set a key for the question")
        })
    }
}

/// A capability of the client that a question needs, in addition to support for the method.
#[derive(Clone, Copy, Debug)]
enum ClientCapability {
    Nothing,
    Form,
    Url,
    SamplingTools,
}

impl ClientCapability {
    fn check(self, cx: &Context) -> Result<(), RpcError> {
        if matches!(self, Self::Nothing) {
            return Ok(());
        }
        let offered = cx.caller.capabilities.as_ref().map(Payload::get::<ClientCapabilities>);
        let offered = offered.transpose()?.unwrap_or_default();
        let elicitation = offered.elicitation.unwrap_or_default();
        let (is_offered, name, needed) = match self {
            Self::Nothing => (true, "", ""),
            // According to the specification, a client that declares neither `form` nor `url` supports forms.
            Self::Form => (
                elicitation.form.is_some() || elicitation.url.is_none(),
                "elicitation.form",
                r#"{"elicitation":{"form":{}}}"#,
            ),
            Self::Url => {
                (elicitation.url.is_some(), "elicitation.url", r#"{"elicitation":{"url":{}}}"#)
            }
            Self::SamplingTools => (
                offered.sampling.is_some_and(|sampling| sampling.tools.is_some()),
                "sampling.tools",
                r#"{"sampling":{"tools":{}}}"#,
            ),
        };
        if is_offered {
            return Ok(());
        }
        let message = format!("the client must offer the capability `{name}`");
        Err(match cx.caller.era {
            Era::Legacy => RpcError::new(ErrorCode::PERMISSION_DENIED, message).after_start(),
            Era::Modern => RpcError::new(ErrorCode::MISSING_CLIENT_CAPABILITY, message)
                .data(Payload::from_trusted(format!(r#"{{"requiredCapabilities":{needed}}}"#))),
        })
    }
}

/// Decodes the caller's answer; `what` names the kind of answer in the error.
fn read<T: DeserializeOwned>(answer: &Payload, what: &str) -> Result<T, RpcError> {
    whole_numbers::read(answer.as_str()).map_err(|error| {
        RpcError::invalid_params(format!("the caller's answer is not a valid {what}: {error}"))
    })
}

//! Asking the caller, typed: the person (elicitation), the model (sampling), the roots; in both eras.
//!
//! A legacy caller is asked at once and the function waits.
//! A modern caller is asked with the result, and the function runs again from the top when the answers are there:
//! a question must have the same key each time. Without one of its own ([`Elicitation::key`] and so on)
//! a question is numbered in the order in which the function makes its questions, so that order must not depend
//! on chance: not on time, on random numbers, or on tasks that race. Values that must not change between
//! rounds are kept with `cx.once(key, ..)`.
//!
//! Applies to: inbound.

mod elicit;
mod form;
mod roots;
mod sample;
mod visit;

use std::sync::atomic::{AtomicU32, Ordering};

use mgp_lifecycle::TaskTicket;
use mgp_types::mcp::{ClientCapabilities, Era, LogLevel};
use mgp_types::service::{Ask, Asking, BoxFuture, Context};
use mgp_types::{ErrorCode, Payload, RpcError};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use elicit::{Elicitation, Elicited};
pub use roots::RootsQuestion;
pub use sample::Sampling;
pub use visit::{UrlElicitation, Visited};

use crate::log::Logger;

/// What a function can do with its [`Context`]: ask the caller, and log.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::{ContextExt, Elicited};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Guest {
///     /// Who comes.
///     name: String,
///     vegetarian: Option<bool>,
/// }
///
/// let invite = Tool::new("invite", "Invites a guest", |cx: Context| async move {
///     Ok::<_, RpcError>(match cx.elicit::<Guest>("Who shall come?").await? {
///         Elicited::Accepted(guest) => format!("{} is invited", guest.name),
///         Elicited::Declined | Elicited::Cancelled => "nobody is invited".to_owned(),
///     })
/// });
/// # drop(invite);
/// ```
pub trait ContextExt {
    /// Asks the person with a form: the fields of a flat struct, as its schema says.
    fn elicit<T: DeserializeOwned + JsonSchema>(
        &self,
        message: impl Into<String>,
    ) -> Elicitation<T>;

    /// Asks the person to visit a page.
    fn elicit_url(&self, message: impl Into<String>, url: impl Into<String>) -> UrlElicitation;

    /// Tells the caller that a page was visited, by the id its [`UrlElicitation`] was given.
    ///
    /// Only callers of 2025-11-25 are told; for others this does nothing.
    #[must_use = "nothing is told until it is awaited"]
    fn elicitation_complete(&self, id: impl Into<String>) -> BoxFuture<'static, ()>;

    /// Asks the caller's model.
    fn sample(&self, prompt: impl Into<String>) -> Sampling;

    /// Asks which directories the caller works in.
    fn roots(&self) -> RootsQuestion;

    /// Makes the call a task now, where the tool and its caller support that; else it stays as it is.
    ///
    /// What is asked before is asked by the call, what is asked afterwards by the task.
    /// A call that takes longer than [`TasksConfig::grace`](mgp_lifecycle::TasksConfig) becomes a task without it.
    #[must_use = "a task begins when it is awaited"]
    fn begin_task(&self) -> BoxFuture<'static, Result<(), RpcError>>;

    /// Ends the stream the call is answered on; the caller comes back for the rest, and the call goes on.
    ///
    /// For calls that take long, so that no connection is held for them.
    /// Callers of 2025-11-25 over HTTP come back; for others nothing happens, and this is `false`.
    fn hang_up(&self) -> bool;

    /// Sends a log message to the caller: text, or anything that can be written as JSON.
    #[must_use = "a message is sent when it is awaited"]
    fn log<T: Serialize + ?Sized>(&self, level: LogLevel, data: &T) -> BoxFuture<'static, ()>;
}

impl ContextExt for Context {
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
        visit::complete(self, id.into())
    }

    fn sample(&self, prompt: impl Into<String>) -> Sampling {
        Sampling::new(self, prompt.into())
    }

    fn roots(&self) -> RootsQuestion {
        RootsQuestion::new(self)
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

    fn hang_up(&self) -> bool {
        self.peer.hang_up(self.key)
    }

    fn log<T: Serialize + ?Sized>(&self, level: LogLevel, data: &T) -> BoxFuture<'static, ()> {
        Logger::of(self).log(level, data)
    }
}

/// Numbers the questions of one run of a function.
#[derive(Debug, Default)]
pub(crate) struct Order(AtomicU32);

/// A question and its key, before it is asked.
#[derive(Clone, Debug)]
struct Question {
    cx: Context,
    /// `None` where the order of questions is not known.
    key: Option<String>,
}

impl Question {
    /// The next question of a call; it takes its number now, not when it is awaited.
    fn new(cx: &Context, kind: &str) -> Self {
        let key = match (&cx.asking, cx.extensions.get::<Order>()) {
            (_, Some(order)) => {
                Some(format!("{kind}-{}", order.0.fetch_add(1, Ordering::Relaxed) + 1))
            }
            (Asking::Via(_), None) => None,
            // Nobody sees the key.
            (_, None) => Some(kind.to_owned()),
        };
        Self { cx: cx.clone(), key }
    }

    /// Asks, once it is known that the caller offers what is needed beyond the kind of question.
    fn ask(
        self,
        needs: Needs,
        ask: Result<Ask, RpcError>,
    ) -> BoxFuture<'static, Result<Payload, RpcError>> {
        Box::pin(async move {
            let ask = ask?;
            if self.cx.caller.asks.offers(ask.method()) {
                needs.check(&self.cx)?;
            }
            let key = self.key.ok_or_else(|| {
                RpcError::internal(
                    "the order of questions is not known here; give the question a key",
                )
            })?;
            self.cx.ask(&key, ask).await
        })
    }
}

/// What the caller must offer besides the kind of question.
#[derive(Clone, Copy, Debug)]
enum Needs {
    Nothing,
    Form,
    Url,
    SamplingTools,
}

impl Needs {
    fn check(self, cx: &Context) -> Result<(), RpcError> {
        if matches!(self, Self::Nothing) {
            return Ok(());
        }
        let offered = cx.caller.capabilities.as_ref().map(Payload::get::<ClientCapabilities>);
        let offered = offered.transpose()?.unwrap_or_default();
        let elicitation = offered.elicitation.unwrap_or_default();
        let (is_offered, name, needed) = match self {
            Self::Nothing => (true, "", ""),
            // Neither member means forms.
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
            Era::Legacy => RpcError::new(ErrorCode::PERMISSION_DENIED, message),
            Era::Modern => RpcError::new(ErrorCode::MISSING_CLIENT_CAPABILITY, message)
                .data(Payload::from_trusted(format!(r#"{{"requiredCapabilities":{needed}}}"#))),
        })
    }
}

/// An answer of the caller, decoded.
fn read<T: DeserializeOwned>(answer: &Payload, what: &str) -> Result<T, RpcError> {
    serde_json::from_str(answer.as_str()).map_err(|error| {
        RpcError::invalid_params(format!("the caller's answer is no {what}: {error}"))
    })
}

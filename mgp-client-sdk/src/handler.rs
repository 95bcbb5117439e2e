//! A client's handlers of requests and notifications (MCP sampling, roots, elicitation, logging).

use std::fmt;
use std::future::{Future, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use mgp_lifecycle::ToolRetryInfo;
use mgp_types::RpcError;
use mgp_types::mcp::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, LogMessageParams, Root,
};
use mgp_types::method::{ElicitationCreate, Request, RootsList, SamplingCreateMessage};
use mgp_types::mgp::{LifecycleParams, ServerState};
use mgp_types::service::{AcceptedRequests, AuditSink, Progress, ServerId};

use crate::wire::{ProgressHook, not_offered};

/// A handler of a server's requests and notifications.
///
/// Every method has a default; the client offers the requests that [`accepted_requests`](Self::accepted_requests)
/// names.
///
/// ```
/// use mgp_client_sdk::{Client, ClientHandler};
/// use mgp_client_sdk::types::RpcError;
/// use mgp_client_sdk::types::mcp::{ElicitAction, ElicitParams, ElicitResult};
/// use mgp_client_sdk::types::service::AcceptedRequests;
///
/// struct Careful;
///
/// impl ClientHandler for Careful {
///     fn accepted_requests(&self) -> AcceptedRequests {
///         let mut accepted_requests = AcceptedRequests::default();
///         accepted_requests.elicitation = true;
///         accepted_requests
///     }
///
///     async fn elicit(&self, question: ElicitParams) -> Result<ElicitResult, RpcError> {
///         println!("{}", question.message);
///         Ok(ElicitResult::new(ElicitAction::Decline))
///     }
/// }
///
/// let builder = Client::builder("careful", "1.0").handler(Careful);
/// # drop(builder);
/// ```
pub trait ClientHandler: Send + Sync + 'static {
    /// Returns the requests that the handler answers; the client offers these to the server. Default: none.
    fn accepted_requests(&self) -> AcceptedRequests {
        AcceptedRequests::default()
    }

    /// Returns whether the handler implements [`elicit_url`](Self::elicit_url). Default: `false`.
    fn accepts_urls(&self) -> bool {
        false
    }

    /// Shows a form to the user and returns the answer.
    ///
    /// # Errors
    /// The error to send to the server.
    fn elicit(
        &self,
        question: ElicitParams,
    ) -> impl Future<Output = Result<ElicitResult, RpcError>> + Send {
        let _ = question;
        ready(Err(not_offered(ElicitationCreate::METHOD)))
    }

    /// Asks the user to open a page in a browser.
    ///
    /// # Errors
    /// The error to send to the server.
    fn elicit_url(
        &self,
        question: ElicitParams,
    ) -> impl Future<Output = Result<ElicitResult, RpcError>> + Send {
        let _ = question;
        ready(Err(not_offered(ElicitationCreate::METHOD)))
    }

    /// Lets a model generate a message (MCP sampling). The client refuses conversations with tools.
    ///
    /// # Errors
    /// The error to send to the server.
    fn sample(
        &self,
        conversation: CreateMessageParams,
    ) -> impl Future<Output = Result<CreateMessageResult, RpcError>> + Send {
        let _ = conversation;
        ready(Err(not_offered(SamplingCreateMessage::METHOD)))
    }

    /// Returns the client's roots (its working directories).
    ///
    /// # Errors
    /// The error to send to the server.
    fn roots(&self) -> impl Future<Output = Result<Vec<Root>, RpcError>> + Send {
        ready(Err(not_offered(RootsList::METHOD)))
    }

    /// Receives a log message; must not block.
    fn log(&self, message: LogMessageParams) {
        let _ = message;
    }

    /// Receives a change of a list, a resource or the manifest. The client has already dropped the affected cached
    /// lists. Must not block.
    fn changed(&self, what: &ServerChange) {
        let _ = what;
    }

    /// Receives a change of the server's state (MGP §11.4); must not block.
    fn state_changed(&self, change: &LifecycleParams) {
        let _ = change;
    }

    /// Receives the progress of a tool call; must not block.
    fn progress(&self, tool: &str, step: &Progress) {
        let _ = (tool, step);
    }
}

/// A part of a server that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerChange {
    /// The list of the server's tools.
    Tools,
    /// The lists of the server's resources and resource templates.
    Resources,
    /// The list of the server's prompts.
    Prompts,
    /// One resource of the server, by its URI.
    Resource(String),
    /// The manifest of the server (extension `manifest`).
    Manifest,
}

pub(crate) type ChangeHook = Arc<dyn Fn(&ServerChange) + Send + Sync>;

pub(crate) type StateHook = Arc<dyn Fn(&LifecycleParams) + Send + Sync>;

/// A function that looks up what governance knows about a server's tool.
pub(crate) type FindKnownTool =
    dyn Fn(Option<&ServerId>, &str) -> Option<ToolRetryInfo> + Send + Sync;

/// All hooks of a client: the hooks that its user has set for notifications, and the hooks for audit and governance.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) changed: Vec<ChangeHook>,
    pub(crate) states: Vec<StateHook>,
    pub(crate) progress: Option<ProgressHook>,
    /// The audit sink that records when the server connects and disconnects.
    pub(crate) audit: Option<Arc<dyn AuditSink>>,
    /// The function that looks up what governance knows about tools, for retries.
    pub(crate) known_tools: Option<Arc<FindKnownTool>>,
    /// A version that changes when the client's layers begin to show different items in lists, e.g. after access was
    /// granted.
    pub(crate) visibility: Option<tokio::sync::watch::Receiver<u64>>,
    /// The function that notifies governance of a restart of the server.
    pub(crate) restarted: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Hooks {
    pub(crate) fn has_change_hooks(&self) -> bool {
        !self.changed.is_empty()
    }

    pub(crate) fn has_state_hooks(&self) -> bool {
        !self.states.is_empty()
    }

    /// Reports a change of the server's state. Some servers write the state's name in upper case and others in lower
    /// case, so the name is normalized first.
    pub(crate) fn notify_state(&self, mut change: LifecycleParams) {
        change.new_state = change.new_state.in_any_case();
        change.previous_state = change.previous_state.map(ServerState::in_any_case);
        for hook in &self.states {
            run_hook(&change.new_state, || hook(&change));
        }
    }

    pub(crate) fn notify_change(&self, what: &ServerChange) {
        for hook in &self.changed {
            run_hook(what, || hook(what));
        }
    }
}

/// Runs a hook, and logs a panic in it. So a panic prevents neither the other hooks nor a start of the server.
fn run_hook(change: &dyn fmt::Debug, hook: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(hook)).is_err() {
        tracing::error!(?change, "panic in a hook for changes");
    }
}

mgp_types::opaque_debug!(Hooks);

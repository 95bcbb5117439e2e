//! What a client answers and takes notice of (MCP sampling, roots, elicitation, logging).
//!
//! Applies to: inbound.

use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;

use mgp_lifecycle::KnownTool;
use mgp_types::RpcError;
use mgp_types::mcp::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, LogMessageParams, Root,
};
use mgp_types::method::{ElicitationCreate, Request, RootsList, SamplingCreateMessage};
use mgp_types::mgp::{LifecycleParams, ServerState};
use mgp_types::service::{Asks, AuditSink, Progress, ServerId};

use crate::wire::{ProgressHook, not_offered};

/// Answers a server's questions and hears its news.
///
/// Every method has a default; [`asks`](Self::asks) says which questions are answered, and the client offers those.
///
/// ```
/// use mgp_client_sdk::{Client, ClientHandler};
/// use mgp_types::RpcError;
/// use mgp_types::mcp::{ElicitAction, ElicitParams, ElicitResult};
/// use mgp_types::service::Asks;
///
/// struct Careful;
///
/// impl ClientHandler for Careful {
///     fn asks(&self) -> Asks {
///         let mut asks = Asks::default();
///         asks.elicitation = true;
///         asks
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
    /// Which questions are answered.
    fn asks(&self) -> Asks {
        Asks::default()
    }

    /// Whether [`visit`](Self::visit) is answered.
    fn visits(&self) -> bool {
        false
    }

    /// Asks the person with a form.
    ///
    /// # Errors
    /// What the server is told instead.
    fn elicit(
        &self,
        question: ElicitParams,
    ) -> impl Future<Output = Result<ElicitResult, RpcError>> + Send {
        let _ = question;
        ready(Err(not_offered(ElicitationCreate::METHOD)))
    }

    /// Asks the person whether they visit a page.
    ///
    /// # Errors
    /// What the server is told instead.
    fn visit(
        &self,
        question: ElicitParams,
    ) -> impl Future<Output = Result<ElicitResult, RpcError>> + Send {
        let _ = question;
        ready(Err(not_offered(ElicitationCreate::METHOD)))
    }

    /// Asks the model.
    ///
    /// # Errors
    /// What the server is told instead.
    fn sample(
        &self,
        conversation: CreateMessageParams,
    ) -> impl Future<Output = Result<CreateMessageResult, RpcError>> + Send {
        let _ = conversation;
        ready(Err(not_offered(SamplingCreateMessage::METHOD)))
    }

    /// Tells the roots.
    ///
    /// # Errors
    /// What the server is told instead.
    fn roots(&self) -> impl Future<Output = Result<Vec<Root>, RpcError>> + Send {
        ready(Err(not_offered(RootsList::METHOD)))
    }

    /// Hears a log message; it must not wait.
    fn log(&self, message: LogMessageParams) {
        let _ = message;
    }

    /// Hears of a change; the client's own lists are already forgotten. It must not wait.
    fn changed(&self, what: &Changed) {
        let _ = what;
    }

    /// Hears that the server enters another state (MGP §11.4); it must not wait.
    fn state(&self, change: &LifecycleParams) {
        let _ = change;
    }

    /// Hears how far a tool call is; it must not wait.
    fn progress(&self, tool: &str, step: &Progress) {
        let _ = (tool, step);
    }
}

/// What changed at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Changed {
    /// The list of tools.
    Tools,
    /// The lists of resources and templates.
    Resources,
    /// The list of prompts.
    Prompts,
    /// One resource, by its URI.
    Resource(String),
}

/// Hears of changes.
pub(crate) type ChangeHook = Arc<dyn Fn(&Changed) + Send + Sync>;

/// Hears of states.
pub(crate) type StateHook = Arc<dyn Fn(&LifecycleParams) + Send + Sync>;

/// What is known of a tool of a server.
pub(crate) type Known = dyn Fn(Option<&ServerId>, &str) -> Option<KnownTool> + Send + Sync;

/// Who is told of what.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) changed: Vec<ChangeHook>,
    pub(crate) states: Vec<StateHook>,
    pub(crate) progress: Option<ProgressHook>,
    /// Who records that the server is there, and that it is gone.
    pub(crate) audit: Option<Arc<dyn AuditSink>>,
    /// What is known of tools, for calls that are made again.
    pub(crate) known: Option<Arc<Known>>,
    /// Moves when gates on the way show other things than before.
    pub(crate) moves: Option<tokio::sync::watch::Receiver<u64>>,
}

impl Hooks {
    pub(crate) fn hears_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    pub(crate) fn hears_states(&self) -> bool {
        !self.states.is_empty()
    }

    /// Tells of another state of the server; servers write the words in more than one way (checklist C19).
    pub(crate) fn tell_state(&self, mut change: LifecycleParams) {
        change.new_state = change.new_state.in_any_case();
        change.previous_state = change.previous_state.map(ServerState::in_any_case);
        for hook in &self.states {
            hook(&change);
        }
    }

    pub(crate) fn tell(&self, what: &Changed) {
        for hook in &self.changed {
            hook(what);
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.changed.len() + self.states.len() + usize::from(self.progress.is_some());
        write!(f, "{all} hooks")
    }
}

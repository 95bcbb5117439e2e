//! Tool search, session cache and context budget for the Model General Protocol (MGP §16).
//!
//! [`ToolIndex`] contains the tools of all servers, and searches them by keywords, meaning and category. All callers
//! share it; a search returns only tools that the caller is allowed to call ([`Allowed`]).
//!
//! - Search: [`ToolIndex`], [`ServerEntry`], [`Query`], [`Filter`]. [`render_results`] renders the result for a model.
//! - Context budget: [`Sessions`] with a budget and [`Pins`]; [`listed_tools`] returns the tools of a caller's
//!   `tools/list`.
//! - Serving: [`Endpoints`] handles the four methods, [`MetaTools`] are the tools that search for tools, and
//!   [`ForwardedCall`] parses the call of a found tool. [`Endpoints::record_call`] records a finished call.
//! - Learning from calls: [`History`], for [`ToolIndexBuilder::history`].
//!
//! ```
//! use mgp_toolindex::{
//!     AllTools, MetaTools, Query, ServerEntry, Sessions, ToolIndex, listed_tools, render_results,
//! };
//! use mgp_types::mcp::Tool;
//! use mgp_types::mgp::ContextLevel;
//! use mgp_types::service::{Context, Peer, Principal, Scope, ScopeKind};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tool = |json: &str| serde_json::from_str::<Tool>(json);
//! let read = r#"{"name":"read_text","description":"Read a file","inputSchema":{"type":"object"}}"#;
//! let send = r#"{"name":"send","description":"Send an e-mail","inputSchema":{"type":"object"}}"#;
//! let index = ToolIndex::new();
//! index.put_all([
//!     ServerEntry::new("files").description("The user's files").tool(tool(read)?),
//!     ServerEntry::new("mail").description("The user's mailbox").tool(tool(send)?),
//! ])?;
//!
//! // A server gets the context with each call.
//! let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Connection), Principal::local());
//! let query = Query::new("look into a file").limit(3).principal(&cx.principal);
//! let found = index.search(&query, &AllTools)?;
//! assert_eq!(found.hits[0].tool.tool_id(), "files.read_text");
//!
//! // The answer for the model, within the default budget of 8,000 tokens.
//! let sessions = Sessions::new();
//! let answer = render_results(&found, sessions.plan().budget_of(&cx.principal));
//! assert_eq!(answer.tools[0].name, "read_text");
//!
//! // The model calls the tool, so it is cached in the session and listed.
//! let session = sessions.open(&cx, None)?;
//! sessions.record_use(&session, &found.hits[0].tool);
//! let view = sessions.view(&cx.principal, Some(&session), &index, &AllTools);
//! assert!(view.total_tokens <= view.max_tokens);
//! let list = listed_tools(&ContextLevel::Hybrid, &MetaTools::new(), &index, &AllTools, &view);
//! let names: Vec<_> = list.iter().map(|tool| tool.name.as_str()).collect();
//! assert_eq!(names, ["mgp_tools_discover", "mgp_tools_call", "mgp_tools_request", "read_text"]);
//! # Ok(())
//! # }
//! ```
//!
//! Features: `static-table` (default), search by meaning with a built-in word table; `tokens` (default), exact token
//! counts; `lexicon` (default), queries and tools in twelve languages besides English; `sqlite`, index and history in a
//! database; `fastembed` and `hub`, a sentence encoder.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod catalog;
mod embed;
mod endpoint;
mod error;
mod index;
mod keyword;
mod learn;
mod lexicon;
mod meta;
#[cfg(feature = "sqlite")]
mod persist;
mod search;
mod session;
mod text;
mod tokens;
mod vector;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use catalog::{
    AllTools, Allowed, AllowedKey, Extent, IndexedTool, ServerEntry, ToolEntry, ToolFeature,
};
#[cfg(feature = "static-table")]
pub use embed::StaticTable;
pub use embed::{Cost, EmbedError, Embedder};
#[cfg(feature = "fastembed")]
pub use embed::{ModelError, Sentences, SentencesConfig};
pub use endpoint::{
    Availability, AvailabilityCheck, Caller, CreationOutcome, CreationRequest, Endpoints,
    ToolCreator, render_results,
};
pub use error::{BudgetError, IndexError, RequestError, SessionError};
pub use index::{
    IndexLimits, IndexStats, PutReport, RefusedTool, Resolved, ToolIndex, ToolIndexBuilder,
    ToolRefusal,
};
pub use learn::{
    Erase, History, HistoryConfig, HistoryScope, HistoryStats, Retention, UnmetSearch, UseOutcome,
};
pub use meta::{ForwardedCall, MetaTool, MetaTools, listed_tool, listed_tools, name_for};
pub use search::{Explain, Fallback, FallbackReason, Filter, Hit, Query, Reason, SearchResult};
pub use session::{
    ContextPlan, META_TOKENS, Pins, Session, SessionLimits, SessionTool, SessionView, Sessions,
    check_budget, default_budget,
};
pub use tokens::{Exactness, TokenCounter, max_tokens_of, max_tokens_of_definition};

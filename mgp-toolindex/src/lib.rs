//! Tool search, session cache and context budget for the Model General Protocol (MGP §16).
//!
//! [`ToolIndex`] holds the tools of all servers and finds the right ones: by words, by meaning, by category, or by all
//! of it. It is shared by all callers; what a caller may not call ([`Allowed`]) is not found.
//!
//! - To find tools: [`ToolIndex`], [`ServerEntry`], [`Query`], [`Filter`]. A model reads what [`present`] makes of it.
//! - To keep few tools in context: [`Sessions`] with their budget and [`Pins`]; [`surface`] is what a caller's
//!   `tools/list` holds.
//! - To serve all that: [`Endpoints`] answers the four methods, [`MetaTools`] are the tools to find tools, and
//!   [`FoundCall`] reads a call of a tool that was found. After a call, [`Endpoints::called`].
//! - To learn from calls: [`History`], for [`ToolIndexBuilder::history`].
//!
//! ```
//! use mgp_toolindex::{
//!     Everything, MetaTools, Query, ServerEntry, Sessions, ToolIndex, present, surface,
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
//! // Whoever calls; in a server it comes with each call.
//! let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Connection), Principal::local());
//! let query = Query::new("look into a file").most(3).asker(&cx.principal);
//! let found = index.search(&query, &Everything)?;
//! assert_eq!(found.hits[0].tool.tool_id(), "files.read_text");
//!
//! // What a model is told of it, within the budget: 8,000 tokens unless something else is said.
//! let sessions = Sessions::new();
//! let told = present(&found, sessions.plan().budget_of(&cx.principal), query.how_many());
//! assert_eq!(told.tools[0].name, "read_text");
//!
//! // The model calls it, so it stays in its session and in its list of tools.
//! let session = sessions.open(&cx, None)?;
//! sessions.used(&session, &found.hits[0].tool);
//! let view = sessions.view(&cx.principal, Some(&session), &index, &Everything);
//! assert!(view.total_tokens <= view.max_tokens);
//! let list = surface(&ContextLevel::Hybrid, &MetaTools::new(), &index, &Everything, &view);
//! let names: Vec<_> = list.iter().map(|tool| tool.name.as_str()).collect();
//! assert_eq!(names, ["mgp_tools_discover", "mgp_tools_call", "mgp_tools_request", "read_text"]);
//! # Ok(())
//! # }
//! ```
//!
//! Features: `static-table` (default), search by meaning with a table in the crate; `tokens` (default), exact counts of
//! tokens; `sqlite`, index and history in a database; `fastembed` and `hub`, a sentence encoder.
//!
//! Applies to: both.

mod catalog;
mod embed;
mod endpoint;
mod error;
mod index;
mod keyword;
mod learn;
mod meta;
#[cfg(feature = "sqlite")]
mod persist;
mod search;
mod session;
mod text;
mod tokens;
mod vector;

pub use catalog::{
    Allowed, AllowedKey, CategoryNode, CategoryTree, Everything, Extent, Listed, ServerEntry,
    ToolEntry,
};
#[cfg(feature = "static-table")]
pub use embed::StaticTable;
pub use embed::{Cost, EmbedError, Embedder};
#[cfg(feature = "fastembed")]
pub use embed::{
    Made, ModelError, ModelFile, ModelFolder, ModelManifest, ModelRuntime, ModelSource,
    ModelWheels, Sentences, SentencesConfig,
};
pub use endpoint::{Caller, Create, Creating, Endpoints, Standing, StandingOf, Wanted, present};
pub use error::{BudgetError, IndexError, RequestError, SessionError};
pub use index::{
    IndexLimits, Put, RefusedTool, Resolved, Stats, ToolIndex, ToolIndexBuilder, ToolRefusal,
};
pub use learn::{Erase, History, HistoryConfig, HistoryStats, Keep, Outcome, Share};
pub use meta::{FoundCall, MetaTool, MetaTools, Spelling, name_for, surface};
pub use search::{Explain, Fallback, FallbackReason, Filter, Found, Hit, Query, Reason};
pub use session::{
    ContextPlan, HeldTool, Pins, Session, SessionLimits, SessionView, Sessions, check_budget,
    default_budget,
};
pub use tokens::{Exactness, TokenCounter, tokens_at_most};

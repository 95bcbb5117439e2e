//! Tool search, session cache and context budget for the Model General Protocol (MGP §16).
//!
//! [`ToolIndex`] holds the tools of all servers and finds the right ones: by words, by meaning, by category, or by all
//! of it. It is shared by all callers; what a caller may not call ([`Allowed`]) is not found.
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

//! Finding tools, and keeping few of them in context (MGP §16).
//!
//! Applies to: both.

use super::{Permission, RiskLevel, ServerState, ToolSecurity};
use crate::record::{Lenient, List, Number, RawObject, open_enum, record};

open_enum! {
    /// How to search (§16.4).
    pub enum SearchStrategy {
        /// Words, exact and fuzzy.
        Keyword = "keyword",
        /// Meaning.
        Semantic = "semantic",
        /// Categories.
        Category = "category",
        /// Words and meaning together (ours).
        Hybrid = "hybrid",
    }

    /// What became of a request for tools (§16.6).
    pub enum RequestStatus {
        /// All found.
        Fulfilled = "fulfilled",
        /// Some found.
        Partial = "partial",
        /// None found.
        Unavailable = "unavailable",
        /// Found, but a permission must be approved.
        PendingApproval = "pending_approval",
        /// None found, one is being made.
        Creating = "creating",
    }

    /// Why tools are asked for.
    pub enum RequestReason {
        /// Something cannot be done.
        CapabilityGap = "capability_gap",
        /// It could be faster (later revisions).
        Performance = "performance",
        /// Another tool is liked better (later revisions).
        Preference = "preference",
    }

    /// How much of the tools a model sees (§16.3).
    pub enum ContextLevel {
        /// All of them.
        Standard = "L0",
        /// Their categories.
        Category = "L1",
        /// A tool to find tools.
        Discovery = "L2",
        /// Pinned tools, and a tool to find tools.
        Hybrid = "L3",
    }
}

record! {
    /// A tool in the index (§16.4).
    pub struct IndexEntry {
        /// Names it; unique.
        req tool_id: String,
        /// Its server.
        req server_id: String,
        /// Its name there.
        req name: String,
        /// What it does.
        opt description: Option<String>,
        /// Where it belongs.
        list categories: List<String>,
        /// Words for it.
        list keywords: List<String>,
        /// What it does to the world.
        opt security: Option<Lenient<ToolSecurity>>,
        /// Its meaning as a vector.
        opt embedding: Option<Vec<Number>>,
    }

    /// Which tools to find.
    pub struct DiscoverToolsFilter {
        /// They are in one of these.
        list categories: List<String>,
        /// No more dangerous than this.
        opt risk_level_max: Option<RiskLevel>,
        /// Their server is in this state.
        opt status: Option<ServerState>,
        /// They are of one of these servers.
        list servers: List<String>,
        /// They need no permission beside these.
        opt permissions: Option<Vec<Permission>>,
        /// They take one of these.
        list input_types: List<String>,
        /// They give one of these.
        list output_types: List<String>,
    }

    /// Parameters of `mgp/tools/discover` (§16.5).
    pub struct DiscoverToolsParams {
        /// What is needed, in any words.
        opt query: Option<String>,
        /// How to search.
        opt strategy: Option<SearchStrategy>,
        /// How many at most.
        opt max_results: Option<u64>,
        /// Which tools.
        opt filter: Option<DiscoverToolsFilter>,
        /// Whether each tool says why it was found.
        opt explain: Option<bool>,
        /// The session, where neither connection nor transport has one.
        opt session_handle: Option<String>,
    }

    /// A tool that was found, with all that is needed to call it.
    pub struct FoundTool {
        /// Its name.
        req name: String,
        /// Its server.
        req server_id: String,
        /// What it does.
        opt description: Option<String>,
        /// How well it fits, 0 to 1.
        opt relevance_score: Option<Number>,
        /// JSON Schema of the arguments.
        req input_schema as "inputSchema": RawObject,
        /// What it does to the world.
        opt security: Option<Lenient<ToolSecurity>>,
        /// Names it; unique.
        opt tool_id: Option<String>,
        /// Whether texts or details were left out to save tokens; found alone it is told in full.
        opt trimmed: Option<bool>,
        /// Why it was found.
        opt reason: Option<String>,
    }

    /// Result of `mgp/tools/discover`.
    pub struct DiscoverToolsResult {
        /// The tools, best first.
        req tools: Vec<FoundTool>,
        /// How many there are in all.
        opt total_available: Option<u64>,
        /// How they were searched.
        opt search_strategy: Option<SearchStrategy>,
        /// How long it took.
        opt query_time_ms: Option<Number>,
        /// How they were searched instead (later revisions).
        opt fallback_strategy: Option<SearchStrategy>,
        /// Why not as was asked.
        opt fallback_reason: Option<String>,
        /// How many tools were found and left out, because they would not fit the budget.
        opt omitted: Option<u64>,
        /// What else is to be known of the answer.
        list notes: List<String>,
    }

    /// What tools must do.
    pub struct ToolRequirements {
        /// What they can.
        list capabilities: List<String>,
        /// What they take.
        list input_types: List<String>,
        /// What they give.
        list output_types: List<String>,
        /// How dangerous at most, if possible.
        opt preferred_risk_level: Option<RiskLevel>,
    }

    /// Parameters of `mgp/tools/request` (§16.6).
    pub struct RequestToolsParams {
        /// Why.
        opt reason: Option<RequestReason>,
        /// What is being done.
        opt context: Option<String>,
        /// What they must do.
        req requirements: ToolRequirements,
        /// The trace of the task.
        opt task_trace_id: Option<String>,
        /// The session, where neither connection nor transport has one.
        opt session_handle: Option<String>,
    }

    /// A tool that was not loaded, when it is told as an object.
    pub struct UnavailableTool {
        /// What was wanted.
        opt capability: Option<String>,
        /// Its name.
        opt name: Option<String>,
        /// Its server.
        opt server_id: Option<String>,
        /// Why not.
        opt reason: Option<String>,
    }

    /// Result of `mgp/tools/request`.
    pub struct RequestToolsResult {
        /// What became of it.
        req status: RequestStatus,
        /// The tools that are now in the session.
        def tools_loaded: Vec<FoundTool>,
        /// What was not found: names or objects.
        def tools_unavailable: Vec<crate::Payload>,
        /// How many the session has now.
        opt session_tools_count: Option<u64>,
        /// How many tokens they cost.
        opt context_tokens_added: Option<u64>,
        /// What else is to be known of the tools that were loaded.
        list notes: List<String>,
        /// The session they were loaded into, where neither connection nor transport has one.
        opt session_handle: Option<String>,
    }

    /// Parameters of `mgp/tools/session` (§16.7).
    pub struct SessionParams {
        /// The session, where neither connection nor transport has one.
        opt session_handle: Option<String>,
    }

    /// Result of `mgp/tools/session`.
    pub struct SessionResult {
        /// Tools that are always there.
        req pinned: Vec<String>,
        /// Tools that were used.
        req cached: Vec<String>,
        /// How many tokens they cost.
        opt total_tokens: Option<u64>,
        /// How many they may cost.
        opt max_tokens: Option<u64>,
    }

    /// Parameters of `mgp/tools/session/evict`.
    pub struct EvictParams {
        /// The tools.
        req tools: Vec<String>,
        /// Why.
        opt reason: Option<String>,
        /// The session, where neither connection nor transport has one.
        opt session_handle: Option<String>,
    }

    /// Result of `mgp/tools/session/evict`.
    pub struct EvictResult {
        /// How many went.
        req evicted: u64,
        /// How many are left.
        req remaining_count: u64,
        /// How many tokens that saves.
        req freed_tokens: u64,
        /// Pinned tools stay.
        list not_evicted: List<String>,
    }

    /// How many tokens tool definitions may cost (§16.8).
    pub struct ContextBudget {
        /// In all.
        req max_tokens: u64,
        /// Kept for pinned tools.
        req pinned_reserve: u64,
        /// Kept for found tools.
        req discovery_reserve: u64,
        /// The most cached tools may cost.
        req cache_limit: u64,
    }

    /// The budget as it is configured.
    pub struct ContextBudgetConfig {
        /// The budget.
        req tool_context_budget: ContextBudget,
    }
}

//! Search for tools, and the tools in a model's context (MGP §16).

use super::{Permission, RiskLevel, ServerState, ToolSecurity};
use crate::proposal::LatencyClass;
use crate::record::{Lenient, List, Number, RawObject, open_enum, record};

open_enum! {
    /// A search strategy (§16.4).
    pub enum SearchStrategy {
        /// Keywords, exact and fuzzy.
        Keyword = "keyword",
        /// Similarity of meaning.
        Semantic = "semantic",
        /// A search by category.
        Category = "category",
        /// Keywords and meaning combined (an addition of this implementation).
        Hybrid = "hybrid",
    }

    /// The order of found tools (extension `cost_hints`).
    pub enum DiscoverOrder {
        /// The most relevant first; the default.
        Relevance = "relevance",
        /// The cheapest first.
        Cost = "cost",
        /// The quickest first.
        Latency = "latency",
    }

    /// The outcome of a request for tools (§16.6).
    pub enum RequestStatus {
        /// All requested tools were found.
        Fulfilled = "fulfilled",
        /// Some tools were found.
        Partial = "partial",
        /// No tools were found for any capability.
        Unavailable = "unavailable",
        /// Tools were found, but a permission must be approved.
        PendingApproval = "pending_approval",
        /// No tools were found, but one is being created.
        CreationOutcome = "creating",
    }

    /// The reason for a request for tools.
    pub enum RequestReason {
        /// The agent lacks a capability.
        CapabilityGap = "capability_gap",
        /// A faster tool is wanted (later revisions of MGP).
        Performance = "performance",
        /// Another tool is preferred (later revisions of MGP).
        Preference = "preference",
    }

    /// The level of context reduction: it determines what a model's list of tools contains (§16.3).
    pub enum ContextLevel {
        /// All tools.
        Standard = "L0",
        /// The categories of the tools.
        Category = "L1",
        /// Only a tool that finds other tools.
        Discovery = "L2",
        /// Pinned tools, and a tool that finds other tools.
        Hybrid = "L3",
    }
}

record! {
    /// A tool in the index (§16.4).
    pub struct IndexEntry {
        /// The unique id of the tool.
        req tool_id: String,
        /// The id of the server.
        req server_id: String,
        /// The name that the server gives the tool.
        req name: String,
        /// A description of the tool.
        opt description: Option<String>,
        /// The categories of the tool.
        list categories: List<String>,
        /// The keywords of the tool.
        list keywords: List<String>,
        /// The security metadata.
        opt security: Option<Lenient<ToolSecurity>>,
        /// The embedding vector of the tool.
        opt embedding: Option<Vec<Number>>,
    }

    /// The conditions of a search: a found tool meets all conditions that are set.
    pub struct DiscoverToolsFilter {
        /// The allowed categories: a tool must be in at least one of them.
        list categories: List<String>,
        /// The highest risk that a tool is allowed to have.
        opt risk_level_max: Option<RiskLevel>,
        /// The state in which the tool's server must be.
        opt status: Option<ServerState>,
        /// The ids of the servers to search.
        list servers: List<String>,
        /// The available permissions: a tool must not need any other permission.
        opt permissions: Option<Vec<Permission>>,
        /// Types of input, of which a tool must accept at least one.
        list input_types: List<String>,
        /// Types of output, of which a tool must return at least one.
        list output_types: List<String>,
        /// The maximum cost in units; tools that do not state their cost are left out (extension `cost_hints`).
        opt max_cost_units read whole: Option<u64>,
        /// The slowest accepted latency; tools that do not state their latency are left out (extension `cost_hints`).
        opt latency_max: Option<LatencyClass>,
    }

    /// Parameters of `mgp/tools/discover` (§16.5).
    pub struct DiscoverToolsParams {
        /// A description, in natural language, of what the wanted tools must do.
        opt query: Option<String>,
        /// The search strategy.
        opt strategy: Option<SearchStrategy>,
        /// The maximum number of results.
        opt max_results read whole: Option<u64>,
        /// The conditions that the found tools must meet.
        opt filter: Option<DiscoverToolsFilter>,
        /// The order of the tools that were found (extension `cost_hints`).
        opt sort: Option<DiscoverOrder>,
        /// `true` if the server must return the reason why each tool was found.
        opt explain: Option<bool>,
        /// The handle of the session; needed if neither the connection nor the transport identifies the session.
        opt session_handle: Option<String>,
    }

    /// A tool that was found, with everything that a caller needs to call it.
    pub struct FoundTool {
        /// The name of the tool.
        req name: String,
        /// The id of the server.
        req server_id: String,
        /// A description of the tool.
        opt description: Option<String>,
        /// The relevance of the tool, from 0 to 1.
        opt relevance_score: Option<Number>,
        /// JSON Schema of the arguments.
        req input_schema as "inputSchema": RawObject,
        /// The security metadata.
        opt security: Option<Lenient<ToolSecurity>>,
        /// The unique id of the tool.
        opt tool_id: Option<String>,
        /// `true` if parts of the definition were left out to save tokens; a search that finds only this tool leaves
        /// more room for its definition.
        opt trimmed: Option<bool>,
        /// The reason why the tool was found.
        opt reason: Option<String>,
    }

    /// Result of `mgp/tools/discover`.
    pub struct DiscoverToolsResult {
        /// The tools, best first.
        req tools: Vec<FoundTool>,
        /// The total number of matching tools.
        opt total_available read whole: Option<u64>,
        /// The strategy used.
        opt search_strategy: Option<SearchStrategy>,
        /// The duration of the search, in milliseconds.
        opt query_time_ms: Option<Number>,
        /// The strategy that was used because the requested one was not available (later revisions of MGP).
        opt fallback_strategy: Option<SearchStrategy>,
        /// The reason why the requested strategy was not available.
        opt fallback_reason: Option<String>,
        /// The number of tools that were found and left out because they exceed the budget.
        opt omitted read whole: Option<u64>,
        /// Remarks on the answer.
        list notes: List<String>,
        /// The parts of a query that describes several tasks, with the tools for each part (an addition of this
        /// implementation).
        opt mgp as "_mgp": Option<DiscoverExtension>,
    }

    /// `result._mgp` of a search for tools (an addition of this implementation).
    pub struct DiscoverExtension {
        /// The parts of the query, in its order.
        list parts: List<QueryPart>,
    }

    /// One of several tasks that a query describes; each task needs a tool of its own.
    pub struct QueryPart {
        /// The text of the part.
        req text: String,
        /// The names of the tools that fit this part, best first; a tool whose name is not unique is given by its id.
        list tools: List<String>,
    }

    /// Requirements on tools.
    pub struct ToolRequirements {
        /// The required capabilities.
        list capabilities: List<String>,
        /// Types of input that the tools must accept.
        list input_types: List<String>,
        /// Types of output that the tools must return.
        list output_types: List<String>,
        /// The highest risk that the caller prefers for the tools.
        opt preferred_risk_level: Option<RiskLevel>,
    }

    /// Parameters of `mgp/tools/request` (§16.6).
    pub struct RequestToolsParams {
        /// The reason for the request.
        opt reason: Option<RequestReason>,
        /// A description of the agent's current task.
        opt context: Option<String>,
        /// The requirements that the tools must meet.
        req requirements: ToolRequirements,
        /// The trace id of the task.
        opt task_trace_id: Option<String>,
        /// The handle of the session; needed if neither the connection nor the transport identifies the session.
        opt session_handle: Option<String>,
    }

    /// A tool that was not loaded, or a capability for which no tool was loaded.
    pub struct UnavailableTool {
        /// The requested capability.
        opt capability: Option<String>,
        /// The name of the tool.
        opt name: Option<String>,
        /// The id of the server.
        opt server_id: Option<String>,
        /// The reason why the tool was not loaded.
        opt reason: Option<String>,
    }

    /// Result of `mgp/tools/request`.
    pub struct RequestToolsResult {
        /// The outcome of the request.
        req status: RequestStatus,
        /// The tools that are now in the session.
        def tools_loaded: Vec<FoundTool>,
        /// The tools that were not loaded, each as a name or as an `UnavailableTool` object.
        def tools_unavailable: Vec<crate::Payload>,
        /// The number of tools in the session.
        opt session_tools_count read whole: Option<u64>,
        /// The number of tokens that the newly loaded tools cost.
        opt context_tokens_added read whole: Option<u64>,
        /// Remarks on the loaded tools.
        list notes: List<String>,
        /// The handle of the session that holds the tools; absent if the connection or the transport identifies it.
        opt session_handle: Option<String>,
    }

    /// Parameters of `mgp/tools/session` (§16.7).
    pub struct SessionParams {
        /// The handle of the session; needed if neither the connection nor the transport identifies the session.
        opt session_handle: Option<String>,
    }

    /// Result of `mgp/tools/session`.
    pub struct SessionResult {
        /// The names of the pinned tools.
        req pinned: Vec<String>,
        /// The names of the cached tools.
        req cached: Vec<String>,
        /// The number of tokens that the pinned and the cached tools cost.
        opt total_tokens read whole: Option<u64>,
        /// The maximum number of tokens that tools are allowed to cost.
        opt max_tokens read whole: Option<u64>,
    }

    /// Parameters of `mgp/tools/session/evict`.
    pub struct EvictParams {
        /// The names of the tools to evict.
        req tools: Vec<String>,
        /// The reason for the eviction.
        opt reason: Option<String>,
        /// The handle of the session; needed if neither the connection nor the transport identifies the session.
        opt session_handle: Option<String>,
    }

    /// Result of `mgp/tools/session/evict`.
    pub struct EvictResult {
        /// The number of evicted tools.
        req evicted read whole: u64,
        /// The number of remaining tools.
        req remaining_count read whole: u64,
        /// The number of tokens that the evicted tools had cost.
        req freed_tokens read whole: u64,
        /// The names of the tools that were not evicted, because they are pinned.
        list not_evicted: List<String>,
    }

    /// The token budget for tool definitions (§16.8).
    pub struct ContextBudget {
        /// The total budget, in tokens.
        req max_tokens read whole: u64,
        /// The part of the budget that is reserved for pinned tools, in tokens.
        req pinned_reserve read whole: u64,
        /// The part of the budget that is reserved for found tools, in tokens.
        req discovery_reserve read whole: u64,
        /// The maximum cost of cached tools, in tokens.
        req cache_limit read whole: u64,
    }

    /// The token budget, as the configuration contains it.
    pub struct ContextBudgetConfig {
        /// The token budget for tool definitions.
        req tool_context_budget: ContextBudget,
    }
}

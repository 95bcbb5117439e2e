//! Limits of the tool calls of agents and servers, applied before a call reaches its server.
//!
//! Layers of `mgp-lifecycle` apply the limits of calls a minute, of concurrent calls and of sizes; `usage.rs` counts
//! hourly and daily quotas. The limits of calls a minute and of sizes apply before the decision about a call, the other
//! limits after it (`decided.rs`). All rounds of a call count once (`rounds.rs`). If the configuration sets no limits,
//! a call costs only two additional comparisons.

mod decided;
mod limit_table;
mod refusals;
mod rounds;
mod usage;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mgp_discovery::{CallLimits, Config, ServerLimits};
use mgp_lifecycle::{
    ConcurrencyLimitLayer, LifecycleError, LimitConfig, RateKey, RateLayer, RateLimit, RateUse,
    SizeConfig, SizeLayer,
};
use mgp_security::{Definitions, Governance};
use mgp_types::mcp::Meta;
use mgp_types::method::{Request as _, ToolsCall};
use mgp_types::proposal::{ActualCost, CostHints, Member as _};
use mgp_types::service::{
    Body, Call, Context, Method, Params, Peer, Principal, Reply, Rule, Scope, ScopeKind, ServerId,
    Stack, StreamLimit,
};
use mgp_types::store::StoreError;
use mgp_types::sync::RwLock;
use mgp_types::{Object, Payload, RpcError};
use tower_layer::Layer as _;

use self::decided::LimitedCall;
use self::limit_table::LimitTable;
use self::refusals::RefusalLog;
use self::rounds::{Round, RoundGuard, WaitingCalls};
use self::usage::{Counted, Usage};
pub use self::usage::{QuotaCount, quota_counts};

/// The limits of the tool calls of all agents and servers. This handle is cheap to clone.
#[derive(Clone)]
pub(crate) struct CallBounds(Arc<BoundsState>);

struct BoundsState {
    /// `true` if the configuration sets any limit.
    is_set: AtomicBool,
    table: RwLock<Arc<BoundTable>>,
    usage: Usage,
    refusals: RefusalLog,
    /// The calls that the kernel expects to be repeated with answers to questions (the next round).
    waiting: WaitingCalls,
    /// The definitions of tools. A definition can state the cost of a call.
    definitions: Definitions,
}

/// The limits of each agent and of each server.
#[derive(Default)]
struct BoundTable {
    /// The common limits, which apply to each agent that has no limits of its own.
    agents: Option<Arc<Bound>>,
    agent: HashMap<String, Arc<Bound>>,
    server: HashMap<String, Arc<ServerBound>>,
}

/// The limits of one agent or server, with the layers that count its calls.
struct Bound {
    table: LimitTable,
    limits: CallLimits,
    rate: Option<RateLayer>,
    running: Option<ConcurrencyLimitLayer>,
    size: Option<SizeLayer>,
}

struct ServerBound {
    /// The server's name in the table of counts.
    counter: String,
    all: Bound,
    limits: ServerLimits,
    tools: HashMap<String, RateLayer>,
}

impl CallBounds {
    pub(crate) async fn load(governance: &Governance, config: &Config) -> Result<Self, StoreError> {
        let usage = Usage::load(Arc::clone(governance.store())).await?;
        let (table, definitions) = (RwLock::default(), governance.definitions().clone());
        let refusals = RefusalLog::new(Arc::clone(governance.audit()));
        let (is_set, waiting) = (AtomicBool::new(false), WaitingCalls::default());
        let state = BoundsState { is_set, table, usage, refusals, waiting, definitions };
        let this = Self(Arc::new(state));
        this.set(config);
        Ok(this)
    }

    /// Applies a new configuration, beginning with the next call. Unchanged limits keep their counts.
    pub(crate) fn set(&self, config: &Config) {
        let before = Arc::clone(&self.0.table.read());
        let agents = keep(before.agents.as_ref(), LimitTable::new("limits"), &config.limits);
        let mut table = BoundTable { agents, ..BoundTable::default() };
        for (name, agent) in config.agents.iter().filter(|(_, agent)| !agent.limits.is_empty()) {
            let limits = agent.limits.or(&config.limits);
            let own = LimitTable::new(format!("agents.{name}.limits"));
            let bound = keep(before.agent.get(name), own, &limits);
            table.agent.extend(bound.map(|bound| (name.clone(), bound)));
        }
        for server in &config.servers {
            let id = server.id.to_string();
            let known = before.server.get(&id).filter(|known| known.limits == server.limits);
            let bound = known.cloned().or_else(|| ServerBound::new(&id, &server.limits));
            table.server.extend(bound.map(|bound| (id, bound)));
        }
        // Add an entry even for a server whose table limits nothing, but sets the cost of calls in units: these units
        // count towards the quotas of agents.
        let is_set = table.agents.is_some() || !table.agent.is_empty() || !table.server.is_empty();
        *self.0.table.write() = Arc::new(table);
        self.0.is_set.store(is_set, Ordering::Relaxed);
    }

    /// Returns whether the configuration sets any limit.
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Relaxed)
    }

    /// Returns a stack that applies the limits that do not depend on the decision about a call, and then passes the
    /// call to `inner`. Stores the other limits in the call, where [`layer_decided`](Self::layer_decided) finds them.
    pub(crate) fn layer(&self, call: &mut Call, server: &ServerId, inner: Stack) -> Stack {
        let Some(tool) = call.tool() else { return inner };
        let table = Arc::clone(&self.0.table.read());
        let principal = &call.cx().principal;
        let agent = table.of_agent(principal).cloned();
        let (id, server) = (server, table.server.get(server.as_str()).cloned());
        if let Some(limit) = StreamLimit::of(call.cx()) {
            let bounds =
                server.as_ref().map(|server| &server.all).into_iter().chain(agent.as_deref());
            bounds.for_each(|bound| bound.restrict_stream(limit));
            if let Some(server) = &server {
                server.restrict_stream(tool.name, limit);
            }
        }
        if agent.is_none() && server.is_none() {
            return inner;
        }
        let configured = server.as_ref().and_then(|server| server.limits.units_of(tool.name));
        // The innermost part of the stack sets this flag. So the flag shows that a call has passed all limits that
        // apply before the decision.
        let reached = Arc::new(AtomicBool::new(false));
        let inner = {
            let reached = Arc::clone(&reached);
            Stack::from_fn(move |call| {
                reached.store(true, Ordering::Relaxed);
                inner.send(call)
            })
        };
        let cost = CallCost { configured, stated: self.stated_units(id, tool.name) };
        let tool_rate = server.as_ref().and_then(|server| server.tools.get(tool.name).cloned());
        let who = who(principal);
        let round = self.0.waiting.begin(call.cx(), &who, id, tool.name);
        let is_later = round.as_ref().is_some_and(|round| round.is_later());
        let limited = LimitedCall::new(agent.clone(), server.clone(), who, cost, round.clone());
        let limited = Arc::new(limited);
        call.cx_mut().extensions.insert_shared(Arc::clone(&limited));
        let mut stack = self.check_quotas(limited, inner);
        if let Some((rate, server)) = tool_rate.filter(|_| !is_later).zip(server.as_ref()) {
            let key = server.all.table.quote("tool_calls_per_minute");
            stack = name_key(Stack::new(rate.layer(stack)), key);
        }
        for bound in server.as_ref().map(|server| &server.all).into_iter().chain(agent.as_deref()) {
            stack = bound.layer(stack, is_later);
        }
        self.record_end(id.clone(), reached, round, stack)
    }

    /// Returns a stack that ends the round of the call when `stack` has answered. If the call failed before it passed
    /// the limits (`reached` is not set), the stack also records this refusal.
    fn record_end(
        &self,
        server: ServerId,
        reached: Arc<AtomicBool>,
        round: Option<Arc<Round>>,
        stack: Stack,
    ) -> Stack {
        let state = Arc::clone(&self.0);
        Stack::from_fn(move |call: Call| {
            let (state, server, reached) = (Arc::clone(&state), server.clone(), reached.clone());
            let (cx, tool) = (call.cx().clone(), call.tool().map(|tool| tool.name.to_owned()));
            let mut running = round.as_ref().map(RoundGuard::new);
            let sending = stack.send(call);
            async move {
                let answer = sending.await;
                if let Some(running) = &mut running {
                    running.note(&answer);
                }
                if let (Err(error), false) = (&answer, reached.load(Ordering::Relaxed)) {
                    let tool = tool.unwrap_or_default();
                    let rule = Rule::new(error.message().to_owned());
                    state.refusals.refused(&cx, Some(&server), &tool, error, Some(&rule)).await;
                }
                answer
            }
        })
    }

    /// Records a call that was refused before it reached the limits and the security checks of a server. `server` is
    /// `None` if the tool was not found.
    pub(crate) async fn record_refusal(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        tool: &str,
        error: &RpcError,
    ) {
        self.0.refusals.refused(cx, server, tool, error, Rule::of(error)).await;
    }

    /// Returns the limits that apply to all calls of an agent together; `None` if there are none.
    pub(crate) fn limits_of(&self, agent: &Principal) -> Option<CallLimits> {
        let table = Arc::clone(&self.0.table.read());
        table.of_agent(agent).map(|bound| bound.limits.clone())
    }

    /// Describes the quotas that apply to a call: how much of each is used now, with its configuration key, and the
    /// error if a used-up quota would refuse the call now.
    pub(crate) fn describe_quotas(
        &self,
        agent: &Principal,
        id: &ServerId,
        tool: &str,
    ) -> Vec<(String, Option<RpcError>)> {
        let table = Arc::clone(&self.0.table.read());
        let (own, server) = (table.of_agent(agent), table.server.get(id.as_str()));
        let configured = server.and_then(|server| server.limits.units_of(tool));
        let cost = CallCost { configured, stated: self.stated_units(id, tool) };
        let counted = counted(own.map(|bound| &**bound), server, &who(agent));
        self.0.usage.describe(&counted, cost.units())
    }

    /// Describes the limits of calls a minute and of running calls that apply to a call: each with its configuration
    /// key and its current use. The second value of a pair is `true` if a limit of calls a minute would refuse the call
    /// now; it is always `false` for a limit of running calls.
    pub(crate) fn describe_rates(
        &self,
        agent: &Principal,
        id: &ServerId,
        tool: &str,
    ) -> Vec<(String, bool)> {
        let mut cx = Context::new(Peer::none(), Scope::new(ScopeKind::Request), agent.clone());
        cx.server = Some(id.clone());
        let params = Params::tool(tool, &Payload::empty_object());
        let call = Call::request(Method::of(ToolsCall::METHOD), params, cx);
        let table = Arc::clone(&self.0.table.read());
        let (own, server) = (table.of_agent(agent), table.server.get(id.as_str()));
        let of_agent = own.map(|bound| (&**bound, true));
        let of_server = server.map(|server| (&server.all, false));
        let of_tool = server.and_then(|server| {
            let rate = server.tools.get(tool)?;
            Some((rate, server.all.table.key("tool_calls_per_minute")))
        });
        let mut described = Vec::new();
        for (bound, is_agent) in of_agent.into_iter().chain(of_server) {
            if let Some(rate) = &bound.rate {
                let key = bound.table.key("calls_per_minute");
                described.extend(rate_words(rate, &call, &key));
            }
            if let Some((running, max)) = bound.running.as_ref().zip(bound.limits.running) {
                // A limit of an agent counts only the calls of this agent; a limit of a server counts the calls of all
                // agents.
                let now = if is_agent { running.running_of(agent) } else { running.running() };
                let words = format!("{now} of {max} at once: {}", bound.table.key("running"));
                described.push((words, false));
            }
        }
        described.extend(of_tool.into_iter().flat_map(|(rate, key)| rate_words(rate, &call, &key)));
        described
    }

    /// Returns the cost that the server states for calls of a tool, in units.
    fn stated_units(&self, server: &ServerId, tool: &str) -> Option<u64> {
        CostHints::of(&*self.0.definitions.definition(Some(server), tool)?).units()
    }

    /// Returns a stack that refuses a call whose quotas are used up. So no person is asked to confirm such a call. The
    /// stack charges nothing, because the kernel has not yet decided about the call.
    fn check_quotas(&self, limited: Arc<LimitedCall>, inner: Stack) -> Stack {
        let usage = self.0.usage.clone();
        Stack::from_fn(move |call: Call| {
            let sending = match limited.refusal(&usage) {
                Some(refusal) => Err(refusal),
                None => Ok(inner.send(call)),
            };
            async move { sending?.await }
        })
    }
}

#[derive(Clone, Copy)]
struct CallCost {
    /// The cost that the operator has configured; if it is set, the kernel ignores the cost that the server states.
    configured: Option<u64>,
    /// The cost that the server states. It can raise the cost of a call, but cannot lower it below 1, because quotas
    /// also limit the server.
    stated: Option<u64>,
}

impl CallCost {
    /// Returns the units to charge before the call runs; 1 if its cost is not known.
    fn units(self) -> u64 {
        self.configured.unwrap_or_else(|| self.stated.unwrap_or(1).max(1))
    }

    /// Returns the cost that a result states, in units; 0 if the result states none or the operator has configured the
    /// cost.
    fn actual(self, reply: &Reply) -> u64 {
        let result = reply.as_body().filter(|_| self.configured.is_none()).map(Body::as_raw);
        // Search the text before parsing it, because few results state a cost.
        let result = result.filter(|result| result.as_str().contains("\"units\""));
        let meta: Option<Meta> =
            result.and_then(|result| result.get::<Object>().ok()?.decode("_meta").ok()?);
        let cost = ActualCost::read(meta.as_ref()).ok().flatten();
        cost.map_or(0, |cost| cost.rounded())
    }
}

impl BoundTable {
    fn of_agent(&self, principal: &Principal) -> Option<&Arc<Bound>> {
        let is_local = principal.tenant() == Principal::local().tenant();
        let agent = principal.as_agent().filter(|_| is_local);
        agent.and_then(|agent| self.agent.get(agent.as_str())).or(self.agents.as_ref())
    }
}

impl Bound {
    fn new(table: LimitTable, limits: &CallLimits) -> Self {
        let rate = limits.calls_per_minute.map(|max| rate(max).by(RateKey::AgentName));
        let rate = rate.map(RateLayer::new);
        let running = limits.running.map(|max| {
            let mut config = LimitConfig::default();
            config.max_running = usize::MAX / 2;
            (config.running_per_caller, config.by_agent) = (Some(count(max)), true);
            ConcurrencyLimitLayer::new(config)
        });
        Self { table, limits: limits.clone(), rate, running, size: size(limits) }
    }

    fn counted(&self, who: String) -> Counted<'_> {
        Counted { who, limits: &self.limits, table: &self.table }
    }

    /// Limits how many bytes of chunks a call can stream, if the configuration sets such a limit.
    fn restrict_stream(&self, limit: &StreamLimit) {
        if let Some(bytes) = self.limits.max_stream_bytes {
            limit.restrict(bytes, Some(&self.table.quote("max_stream_bytes")));
        }
    }

    /// Returns a stack that limits the number of running calls: a call waits until it is permitted, and then reaches
    /// `inner`.
    fn layer_running(&self, inner: Stack) -> Stack {
        match &self.running {
            Some(running) => {
                name_key(Stack::new(running.layer(inner)), self.table.quote("running"))
            }
            None => inner,
        }
    }

    /// Returns a stack that checks the size of a call, then the rate of calls, and then passes the call to `inner`. If
    /// the call repeats an earlier request with answers to questions (`is_later`), the stack does not check the rate
    /// again.
    fn layer(&self, inner: Stack, is_later: bool) -> Stack {
        let mut stack = inner;
        if let Some(rate) = self.rate.as_ref().filter(|_| !is_later) {
            let key = self.table.quote("calls_per_minute");
            stack = name_key(Stack::new(rate.layer(stack)), key);
        }
        if let Some(size) = &self.size {
            stack = name_key(Stack::new(size.layer(stack)), self.table.quote("max_arguments"));
        }
        stack
    }
}

impl ServerBound {
    fn restrict_stream(&self, tool: &str, limit: &StreamLimit) {
        if let Some(bytes) = self.limits.tool_max_stream_bytes.get(tool) {
            limit.restrict(*bytes, Some(&self.all.table.quote("tool_max_stream_bytes")));
        }
    }

    fn new(id: &str, limits: &ServerLimits) -> Option<Arc<Self>> {
        if *limits == ServerLimits::default() {
            return None;
        }
        let mut all = Bound::new(LimitTable::of_server(id), &limits.calls);
        // All agents of all tenants share these rates and the permitted number of running calls. Agents take turns
        // while their calls wait for a running call to end.
        let shared = |max, by| RateLayer::new(rate(max).by(by).across_tenants());
        all.rate = limits.calls.calls_per_minute.map(|max| shared(max, RateKey::Server));
        all.running = limits.calls.running.map(|max| {
            let mut config = LimitConfig::default();
            config.max_running = count(max);
            ConcurrencyLimitLayer::new(config)
        });
        let tools = limits.tool_calls_per_minute.iter();
        let tools = tools.map(|(tool, max)| (tool.clone(), shared(*max, RateKey::Tool))).collect();
        Some(Arc::new(Self { counter: usage::server_key(id), all, limits: limits.clone(), tools }))
    }
}

/// Returns the previous bound if its limits are unchanged, so that its counts are kept; otherwise a new bound. Returns
/// `None` if the table sets no limit.
fn keep(before: Option<&Arc<Bound>>, table: LimitTable, limits: &CallLimits) -> Option<Arc<Bound>> {
    if limits.is_empty() {
        return None;
    }
    let same = before.filter(|before| before.limits == *limits && before.table == table);
    Some(same.cloned().unwrap_or_else(|| Arc::new(Bound::new(table, limits))))
}

fn rate(max: u64) -> RateLimit {
    RateLimit::per_minute(u32::try_from(max).unwrap_or(u32::MAX))
}

/// Describes how much of a limit of calls a minute is used now; the second value is `true` if the limit would refuse a
/// call.
fn rate_words(rate: &RateLayer, call: &Call, key: &str) -> Vec<(String, bool)> {
    let words =
        rate.used(call).into_iter().map(|RateUse { limit, used, free_in, next_in, .. }| {
            let more = match next_in {
                None => ", no call is allowed".to_owned(),
                Some(Duration::ZERO) if used == 0 => String::new(),
                Some(Duration::ZERO) => {
                    format!(", all free again in {} s", free_in.as_secs_f64().ceil())
                }
                Some(wait) => {
                    format!(", the next call is allowed in {}", mgp_types::duration_words(wait))
                }
            };
            (format!("{used} of {limit} a minute{more}: {key}"), next_in != Some(Duration::ZERO))
        });
    words.collect()
}

fn size(limits: &CallLimits) -> Option<SizeLayer> {
    let mut config = SizeConfig::default();
    (config.arguments, config.result) = (count(limits.max_arguments?), usize::MAX);
    Some(SizeLayer::new(config))
}

fn count(max: u64) -> usize {
    usize::try_from(max).unwrap_or(usize::MAX)
}

/// Returns the agent and the server whose quotas count a call; leaves out those without limits.
fn counted<'a>(
    agent: Option<&'a Bound>,
    server: Option<&'a Arc<ServerBound>>,
    who: &str,
) -> Vec<Counted<'a>> {
    let agent = agent.map(|bound| bound.counted(format!("agent/{who}")));
    let server = server.map(|server| server.all.counted(server.counter.clone()));
    agent.into_iter().chain(server).collect()
}

/// Returns a principal's name in the table of counts. Escapes slashes in the tenant, because a token may name a tenant
/// or an agent that contains slashes, and agents of different tenants must not share a count.
fn who(principal: &Principal) -> String {
    let tenant = principal.tenant().as_str().replace('%', "%25").replace('/', "%2F");
    format!("{tenant}/{}", principal.name())
}

/// Returns a stack that names a configuration key in each refusal by the limit of `stack`: the key that raises this
/// limit.
fn name_key(stack: Stack, key: String) -> Stack {
    const RAISE: &str = "an operator can raise ";
    let key = Arc::<str>::from(key);
    Stack::from_fn(move |call: Call| {
        let (sending, key) = (stack.send(call), Arc::clone(&key));
        async move {
            sending.await.map_err(|error: RpcError| {
                let source = std::error::Error::source(&error);
                let refusal = source.and_then(|source| source.downcast_ref::<LifecycleError>());
                let is_limit = matches!(
                    refusal,
                    Some(
                        LifecycleError::Saturated
                            | LifecycleError::NotStarted(_)
                            | LifecycleError::RateLimited(_)
                            | LifecycleError::TooLarge(_)
                    )
                );
                // Leave other errors unchanged. Another layer names the key of a time-out; no key helps if a server is
                // not ready; and an inner limit has already named its key.
                if !is_limit || error.message().contains(RAISE) {
                    return error;
                }
                let message = format!("{}; {RAISE}{key}", error.message());
                error.with_message(message)
            })
        }
    })
}

#[cfg(test)]
mod tests {
    use mgp_types::service::mock;

    use super::*;

    #[tokio::test]
    async fn only_the_refusal_of_a_limit_names_a_key_to_raise() {
        let message = async |refusal: LifecycleError| {
            let refuses = Stack::from_fn(move |_: Call| {
                let refused: Result<Reply, RpcError> = Err(refusal.clone().into());
                std::future::ready(refused)
            });
            let mut client = mock::client(name_key(refuses, "`running`".to_owned()));
            let error = client.request("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
            error.message().to_owned()
        };
        let full = message(LifecycleError::Saturated).await;
        assert!(full.ends_with("; an operator can raise `running`"), "{full}");
        let wait = Duration::from_secs(1);
        let away = message(LifecycleError::CircuitOpen { server: None, wait }).await;
        assert!(!away.contains("raise"), "{away}");
    }
}

//! Tests that the attributes `#[tool]` and `#[tools]` expand to the same tools as the corresponding builder calls.

#![expect(clippy::unused_async, reason = "tools are async whether they wait or not")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{
    CallerState, Cancelled, FromCall, FromCaller, ResultStream, Resume, SessionInfo, ToolRequest,
    Trace,
};
use mgp_types::mcp::{TaskSupport, ToolAnnotations};
use mgp_types::mgp::{
    CodeSafety, CodeSafetyLevel, Permission, RiskLevel, SideEffect, ToolSecurity, Validator,
};
use mgp_types::proposal::Intent;
use mgp_types::service::{Deadline, Peer, Principal, mock};

use super::raw::connect_mock;

/// A weather report.
#[derive(Serialize, JsonSchema)]
struct Report {
    celsius: f64,
}

/// Returns the weather.
///
/// Of today, and of the days after it.
#[tool(
    name = "weather.tell",
    title = "Weather",
    read_only,
    idempotent,
    destructive = false,
    open_world,
    timeout = "1500ms",
    task = "optional",
    security(
        risk = "moderate",
        permissions("network", "com.example.sky"),
        side_effects("network"),
        reversible
    )
)]
async fn weather(
    /// The city to look at.
    city: String,
    #[arg(description = "The number of days.", default = 3)] days: u8,
    unit: Option<String>,
    cx: Context,
) -> Result<Json<Report>, ToolError> {
    if city.is_empty() {
        return Err(ToolError(format!("no city in call {}", cx.key)));
    }
    let offset = if unit.as_deref() == Some("kelvin") { 273.0 } else { 0.0 };
    Ok(Json(Report { celsius: f64::from(days) + offset }))
}

/// The builder calls to which [`weather`] expands.
fn weather_by_hand() -> Tool {
    #[derive(Deserialize, JsonSchema)]
    struct Arguments {
        /// The city to look at.
        city: String,
        /// The number of days.
        #[serde(default = "default_days")]
        days: u8,
        unit: Option<String>,
    }
    fn default_days() -> u8 {
        3
    }
    async fn weather(
        city: String,
        days: u8,
        unit: Option<String>,
    ) -> Result<Json<Report>, ToolError> {
        let offset = if unit.is_some() { 273.0 } else { 0.0 };
        let known = if city.is_empty() { 0.0 } else { f64::from(days) };
        Ok(Json(Report { celsius: known + offset }))
    }
    let mut hints = ToolAnnotations::new();
    hints.read_only_hint = Some(true);
    hints.idempotent_hint = Some(true);
    hints.destructive_hint = Some(false);
    hints.open_world_hint = Some(true);
    let description = "Returns the weather.\n\nOf today, and of the days after it.";
    Tool::new("weather.tell", description, |Args(arguments): Args<Arguments>, _: Context| {
        weather(arguments.city, arguments.days, arguments.unit)
    })
    .title("Weather")
    .annotations(hints)
    .timeout(Duration::from_millis(1500))
    .task(TaskSupport::Optional)
    .risk(RiskLevel::Moderate)
    .permissions(["network", "com.example.sky"])
    .side_effects([SideEffect::Network])
    .reversible()
}

/// Runs code.
#[tool(security(
    risk = "dangerous",
    permissions("code_execution", "shell.execute"),
    side_effects("process", "filesystem", "database", "notification"),
    validator = "code_safety",
    code_safety(
        level = "strict",
        language = "python",
        max_code_size_bytes = 10_000,
        blocked_imports("os", "sys"),
        blocked_patterns("eval\\("),
        allowed_imports("math")
    ),
    confirmation,
    reversible = false
))]
fn run_code(code: String) -> String {
    code
}

fn run_code_by_hand() -> Tool {
    #[derive(Deserialize, JsonSchema)]
    struct Arguments {
        code: String,
    }
    let mut rules = CodeSafety::new(CodeSafetyLevel::Strict);
    rules.language = Some("python".to_owned());
    rules.max_code_size_bytes = Some(10_000);
    rules.blocked_imports = vec!["os".to_owned(), "sys".to_owned()].into();
    rules.blocked_patterns = vec!["eval\\(".to_owned()].into();
    rules.allowed_imports = vec!["math".to_owned()].into();
    let mut security = ToolSecurity::new(RiskLevel::Dangerous);
    security.permissions_required =
        vec![Permission::CodeExecution, Permission::ShellExecute].into();
    security.side_effects = vec![
        SideEffect::Process,
        SideEffect::Filesystem,
        SideEffect::Database,
        SideEffect::Notification,
    ]
    .into();
    security.validator = Some(Validator::CodeSafety);
    security.code_safety = Some(rules);
    security.confirmation_required = Some(true);
    security.reversible = Some(false);
    Tool::blocking("run_code", "Runs code.", |arguments: Arguments| arguments.code)
        .security(security)
}

const SECURITY: &str = r#"{"mgp":{"version":"0.3.0","extensions":["streaming","tool_security"]}}"#;

async fn listed(tools: impl mgp_server_sdk::IntoTools, capabilities: &str) -> serde_json::Value {
    let (mut client, _) = connect_mock(Server::new("t", "1").tool(tools), capabilities).await;
    client.request("tools/list", "{}").await.unwrap().get().unwrap()
}

#[tokio::test]
async fn the_macro_expands_to_the_builder_calls() {
    for (macros, builder) in [(weather(), weather_by_hand()), (run_code(), run_code_by_hand())] {
        assert_eq!(macros.definition(), builder.definition());
        for capabilities in ["{}", SECURITY] {
            let ours = listed(macros.clone(), capabilities).await;
            assert_eq!(ours, listed(builder.clone(), capabilities).await);
            let shows = ours["tools"][0]["security"].is_object();
            assert_eq!(shows, capabilities == SECURITY, "{ours}");
        }
    }
}

async fn call(client: &mut mock::Client, tool: &str, arguments: &str) -> Result<String, String> {
    let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
    match client.request("tools/call", &params).await {
        Ok(result) => {
            let result: serde_json::Value = result.get().unwrap();
            Ok(result["content"][0]["text"].as_str().unwrap_or_default().to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test]
async fn defaults_options_and_results_work() {
    let server = Server::new("t", "1").tool(weather()).tool(run_code());
    let (mut client, _) = connect_mock(server, SECURITY).await;
    let cold = call(&mut client, "weather.tell", r#"{"city":"Oslo"}"#).await.unwrap();
    assert_eq!(cold, r#"{"celsius":3.0}"#);
    let warm = r#"{"city":"Oslo","days":1,"unit":"kelvin"}"#;
    assert_eq!(call(&mut client, "weather.tell", warm).await.unwrap(), r#"{"celsius":274.0}"#);
    let failed = call(&mut client, "weather.tell", r#"{"city":""}"#).await.unwrap();
    assert!(failed.starts_with("no city in call"), "{failed}");
    let error = call(&mut client, "weather.tell", r#"{"days":1}"#).await.unwrap_err();
    assert_eq!(error, "invalid arguments for `weather.tell`: `city`: it is missing (4000)");
    assert_eq!(call(&mut client, "run_code", r#"{"code":"1"}"#).await.unwrap(), "1");
}

// === Blocks ===

#[tokio::test]
async fn a_set_of_tools_can_be_shared_with_the_rest_of_the_program() {
    let counter = Arc::new(Counter::new(40));
    let server = Server::new("t", "1").tool(Arc::clone(&counter));
    let (mut client, _) = connect_mock(server, SECURITY).await;
    counter.count.store(7, Ordering::Relaxed);
    assert_eq!(call(&mut client, "counter.read", "{}").await.unwrap(), "7");
}

struct Counter {
    count: AtomicU64,
}

#[tools(prefix = "counter.")]
impl Counter {
    fn new(start: u64) -> Self {
        Self { count: AtomicU64::new(start) }
    }

    /// Adds to the count.
    #[tool(json)]
    async fn add(
        &self,
        #[schemars(range(min = 1))] amount: u64,
        session: SessionInfo,
    ) -> Result<Report, RpcError> {
        assert!(session.client().is_some());
        self.advance(amount).map(|now| Report { celsius: f64::from(now) })
    }

    /// Reads the count.
    #[tool(inline)]
    fn read(self: Arc<Self>) -> String {
        self.count.load(Ordering::Relaxed).to_string()
    }

    /// Greets.
    #[mgp_server_sdk::tool(name = "hi", deny_unknown_fields)]
    async fn hello(r#type: Option<String>, #[arg(rename = "to")] name: String) -> String {
        format!("hello {}{name}", r#type.unwrap_or_default())
    }

    fn advance(&self, amount: u64) -> Result<u32, RpcError> {
        let now = self.count.fetch_add(amount, Ordering::Relaxed) + amount;
        u32::try_from(now).map_err(|_| RpcError::internal("it ran over"))
    }
}

#[tokio::test]
async fn a_block_is_the_set_of_its_tools() {
    let (mut client, _) =
        connect_mock(Server::new("t", "1").tool(Counter::new(40)), SECURITY).await;
    assert_eq!(
        call(&mut client, "counter.add", r#"{"amount":2}"#).await.unwrap(),
        r#"{"celsius":42.0}"#
    );
    assert_eq!(call(&mut client, "counter.read", "{}").await.unwrap(), "42");
    assert_eq!(call(&mut client, "counter.hi", r#"{"to":"you"}"#).await.unwrap(), "hello you");
    let error = call(&mut client, "counter.hi", r#"{"to":"you","at":1}"#).await.unwrap_err();
    let expected = "invalid arguments for `counter.hi`: `at`: there is no such argument; expected `type` or `to` (4000)";
    assert_eq!(error, expected);
    let list = client.request("tools/list", "{}").await.unwrap();
    let list: serde_json::Value = list.get().unwrap();
    assert_eq!(list["tools"][0]["inputSchema"]["properties"]["amount"]["minimum"], 1);
    assert_eq!(list["tools"][0]["outputSchema"]["properties"]["celsius"]["type"], "number");
    assert_eq!(list["tools"][2]["inputSchema"]["additionalProperties"], false);
}

#[tools(list = resets, prefix = "counter.")]
impl Counter {
    /// Sets the count.
    #[tool]
    async fn reset(&self, to: u64) {
        self.count.store(to, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_further_block_of_a_type_has_a_method_that_returns_its_tools() {
    let counter = Arc::new(Counter::new(40));
    let server = Server::new("t", "1").tool(Arc::clone(&counter).resets()).tool(counter);
    let (mut client, _) = connect_mock(server, SECURITY).await;
    call(&mut client, "counter.reset", r#"{"to":7}"#).await.unwrap();
    assert_eq!(call(&mut client, "counter.read", "{}").await.unwrap(), "7");
}

struct Platforms(&'static str);

#[tools]
impl Platforms {
    /// Runs on every platform.
    #[tool]
    async fn always(&self) -> &'static str {
        self.0
    }

    /// Runs outside of tests only.
    #[cfg(not(test))]
    #[tool]
    async fn never(&self, place: NoSuchType) -> String {
        place.to_string()
    }

    /// Runs in tests only.
    #[tool]
    #[cfg(test)]
    #[cfg(not(doc))]
    async fn tested(word: String) -> String {
        word
    }
}

#[tokio::test]
async fn a_tool_whose_condition_does_not_hold_is_left_out() {
    let list = listed(Platforms("here"), SECURITY).await;
    let names: Vec<_> =
        list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["always", "tested"]);
    let (mut client, _) =
        connect_mock(Server::new("t", "1").tool(Platforms("here")), SECURITY).await;
    assert_eq!(call(&mut client, "tested", r#"{"word":"yes"}"#).await.unwrap(), "yes");
}

// === Extractors ===

struct Agent(String);

impl FromCall for Agent {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(Self(request.cx().principal.subject().to_string()))
    }
}

/// Types that are not extractors, but have the names of extractors.
mod geography {
    use super::{Deserialize, JsonSchema};

    #[derive(Debug, Deserialize, JsonSchema)]
    pub(crate) enum Peer {
        North,
        South,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    pub(crate) struct State {
        pub(crate) name: String,
    }
}

/// Takes every extractor.
#[tool]
#[expect(clippy::too_many_arguments, reason = "it takes all there is")]
async fn everything(
    state: geography::State,
    #[arg] side: geography::Peer,
    State(words): State<Vec<String>>,
    #[extract] Agent(name): Agent,
    principal: Principal,
    cancelled: Cancelled,
    deadline: Deadline,
    peer: Peer,
    trace: Trace,
) -> String {
    let facts = [cancelled.is_cancelled(), deadline.remaining().is_some(), peer.is_closed()];
    let trace = trace.id().unwrap_or("none").to_owned();
    format!("{} {side:?} {words:?} {name} {principal:?} {facts:?} {trace}", state.name)
}

/// Takes the extractors of streams and extensions.
#[tool]
async fn story(
    stream: ResultStream,
    place: Resume<u64>,
    state: CallerState,
    intent: FromCaller<Intent>,
) -> Result<(), RpcError> {
    let facts = [place.0.is_some(), state.is_kept(), intent.0.is_some()];
    stream.send_text(format!("{facts:?}")).await?;
    Ok(())
}

#[tokio::test]
async fn extractors_of_streams_and_extensions_are_not_arguments() {
    let schema = story().definition().input_schema.as_payload().as_str().to_owned();
    assert_eq!(schema, r#"{"type":"object","properties":{}}"#);
    let (mut client, _) = connect_mock(Server::new("t", "1").tool(story()), SECURITY).await;
    assert_eq!(call(&mut client, "story", "{}").await.unwrap(), "[false, false, false]");
}

/// Borrows its arguments.
#[tool]
async fn longest(words: &[String], #[arg(default = "none")] other: &str, cx: Context) -> String {
    tokio::task::yield_now().await;
    let longest = words.iter().max_by_key(|word| word.len());
    format!("{} for {}", longest.map_or(other, String::as_str), cx.principal.subject())
}

/// Borrows a path.
#[tool]
async fn parent(path: &Path) -> String {
    path.parent().map_or_else(String::new, |parent| parent.display().to_string())
}

#[tokio::test]
async fn arguments_can_be_borrowed() {
    let server = Server::new("t", "1").tool(longest()).tool(parent());
    let (mut client, _) = connect_mock(server, SECURITY).await;
    assert_eq!(call(&mut client, "parent", r#"{"path":"notes/today"}"#).await.unwrap(), "notes");
    let answer = call(&mut client, "longest", r#"{"words":["a","abc"]}"#).await;
    assert_eq!(answer.unwrap(), "abc for local");
    assert_eq!(call(&mut client, "longest", r#"{"words":[]}"#).await.unwrap(), "none for local");
}

#[tokio::test]
async fn extractors_are_recognized_by_name_and_by_attribute() {
    let server = Server::new("t", "1").tool(everything()).state(vec!["a".to_owned()]);
    let (mut client, _) = connect_mock(server, SECURITY).await;
    let params = r#"{"name":"everything","arguments":{"state":{"name":"Ohio"},"side":"North"},"trace_id":"t-1"}"#;
    let result: serde_json::Value =
        client.request("tools/call", params).await.unwrap().get().unwrap();
    let expected = r#"Ohio North ["a"] local local/local [false, true, true] t-1"#;
    assert_eq!(result["content"][0]["text"], expected);
    let list: serde_json::Value = client.request("tools/list", "{}").await.unwrap().get().unwrap();
    let required = &list["tools"][0]["inputSchema"]["required"];
    assert_eq!(*required, serde_json::json!(["state", "side"]));
    let other = call(&mut client, "everything", r#"{"state":{"name":"Ohio"},"side":"South"}"#);
    assert!(other.await.unwrap().contains("South"));
}

//! Tests each extension beyond MGP once through `mgp serve`, over stdio and HTTP in both eras. Where possible, the
//! server behind the kernel does not support the extension.

use futures_util::StreamExt as _;
use mgp_client_sdk::{
    Client, ClientBuilder, EraChoice, Error, SessionStateJar, StreamItem, ToolResult as _,
};
use mgp_testkit::until;
use mgp_types::mcp::Era;
use mgp_types::method::{PermissionsCheck, ScopesNegotiate, TransactionBegin, TransactionRollback};
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::proposal::{
    BeginTransactionParams, CheckPermissionsParams, Compensation, ConfirmationRequired,
    ConfirmationToken, CostHints, DataReference, EndTransactionParams, IdempotencyKey, Intent,
    LatencyClass, NegotiateScopesParams, ProvenanceHops, SessionState, SessionToken, Suggestion,
    TransactionId, TransactionStatus, UserConfirmed, WantsCheckpoints, WasReplay,
};
use mgp_types::{ErrorCode, RawObject};
use serde_json::json;

use crate::serving::Serving;
use crate::world::{ERAS, World};

const CONFIG: &str = r#"
[kernel.references]
enabled = true
[kernel.registry]
file = "registry.json"
[agents.ada]
interactive = true
scopes = ["read:*"]
limits = { units_per_day = 1000 }

[[servers]]
id = "things"
command = "{DESK}"
args = ["things", "ticket", "{DIR}/journal"]
[servers.mgp]
default_policy = "opt-out"
risk = { make_ticket = "moderate", remove_ticket = "moderate" }

[[servers]]
id = "terminal"
command = "{DESK}"
args = ["terminal"]
[servers.mgp]
default_policy = "opt-out"
permissions = ["filesystem.read", "filesystem.write"]
risk = { write_report = "dangerous" }
[servers.limits]
tool_units = { list_folder = 10000 }
[servers.results]
max_text = 100

[[servers]]
id = "data"
command = "{DESK}"
args = ["data"]
[servers.mgp]
default_policy = "opt-out"

[[servers]]
id = "extensions"
command = "{DESK}"
args = ["extensions"]
[servers.mgp]
default_policy = "opt-out"
risk = { count = "safe", rows = "safe", look = "safe" }
"#;

const REGISTRY: &str = r#"{"servers": [{"server": {"name": "io.example/weather",
    "description": "Weather forecasts for any city"}}]}"#;

/// A plain MCP server whose results have members of extensions that it did not negotiate.
const UNASKED: &str = r#"
while IFS= read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  answer='{}'
  case "$line" in
    *'"initialize"'*) answer='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}' ;;
    *'"tools/list"'*) answer='{"tools":[{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}' ;;
    *'"tools/call"'*) answer='{"content":[{"type":"text","text":"done"}],"_meta":{"session_state":"s","suggestion":{"recommended_tool":"hidden"},"data_reference":{"ref_id":"r","origin_server":"other","mime_type":"text/plain","access_url":"http://127.0.0.1:9/r"}}}' ;;
    *) [ -n "$id" ] || continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$answer"
done
"#;

const UNASKED_CONFIG: &str = r#"
[kernel.references]
enabled = true

[[servers]]
id = "raw"
command = "/bin/sh"
args = ["{DIR}/raw.sh"]
[servers.mgp]
default_policy = "opt-out"
risk = { look = "safe" }
"#;

/// Returns the builder of a client with all extensions.
fn with_all() -> ClientBuilder {
    const ALL: [Extension; 13] = [
        Extension::Manifest,
        Extension::IntentHints,
        Extension::CostHints,
        Extension::Scopes,
        Extension::Idempotency,
        Extension::Transactions,
        Extension::HumanInTheLoop,
        Extension::Provenance,
        Extension::Checkpoint,
        Extension::DataReferences,
        Extension::MultimodalSignatures,
        Extension::StructuredErrors,
        Extension::ServerRecommendations,
    ];
    let set: ExtensionSet = ALL.into_iter().collect();
    assert_eq!(set.with(Extension::SessionState), ExtensionSet::PROPOSALS);
    let builder = Client::builder("host", "1").extension(SessionStateJar::new());
    ALL.into_iter().fold(builder, ClientBuilder::extension)
}

#[tokio::test]
async fn every_extension_works_over_stdio_and_http_in_both_eras() {
    let world = World::new(CONFIG);
    world.write("registry.json", REGISTRY);
    world.write("table.csv", &format!("number\n{}", "7\n".repeat(200)));
    let serving = Serving::new(&world).await;
    let key = world.json(&["keys", "add", "ada"])["key"].as_str().unwrap().to_owned();
    serving.comes(&key).await.close().await;
    world.knows(10).await;
    for era in ERAS {
        let choice = if era == Era::Legacy { EraChoice::Legacy } else { EraChoice::Modern };
        let http = with_all().era(choice).bearer(&key).connect_url(&serving.url).await.unwrap();
        let stdio = world.host("ada", era, with_all()).await;
        for (name, client) in [("http", http), ("stdio", stdio)] {
            let name = format!("{name}-{era:?}");
            describes(&client).await;
            calls_once(&client, &name).await;
            undoes(&client, &name).await;
            confirms(&client, &world, &name).await;
            limits(&client).await;
            passes_data(&client, &world).await;
            keeps_state(&client).await;
            ignores_null(&client).await;
            client
                .call("make_ticket")
                .arg("name", &name)
                .with(&Intent(name.clone()))
                .await
                .unwrap();
            let query = ["audit", "query", "--tool", "make_ticket"];
            let is_recorded =
                async || world.json(&query).to_string().contains(&format!(r#""intent":"{name}""#));
            until("the intent is recorded", is_recorded).await;
            client.close().await;
        }
    }
}

#[tokio::test]
async fn members_that_a_plain_server_sends_unasked_are_not_taken_for_the_kernel_s() {
    let world = World::new(UNASKED_CONFIG);
    world.write("raw.sh", UNASKED);
    for era in ERAS {
        let client = world.host("ada", era, with_all()).await;
        world.knows(1).await;
        // The client returns each session state that it gets; a state of the server would make the second call fail.
        for _ in 0..2 {
            let result = client.call("look").await.unwrap();
            assert_eq!(result.to_text(), "done", "{era:?}");
            assert_eq!(result.member::<SessionState>().unwrap(), None, "{era:?}");
            assert_eq!(result.member::<Suggestion>().unwrap(), None, "{era:?}");
            let reference = result.member::<DataReference>().unwrap().unwrap();
            assert_eq!((&*reference.origin_server, reference.access_url), ("raw", None), "{era:?}");
        }
        client.close().await;
    }
}

#[tokio::test]
async fn a_host_without_an_extension_gets_no_member_of_it_that_a_server_writes_outside_of_meta() {
    let world = World::new(&format!("[kernel]\nsurface = 'direct'\n{UNASKED_CONFIG}"));
    let mgp = r#"{"tools":{},"mgp":{"version":"0.6.0","extensions":["cost_hints"]}}"#;
    let script = UNASKED.replace(r#"{"tools":{}}"#, mgp);
    world.write(
        "raw.sh",
        &script.replace(r#"{"name":"look","#, r#"{"name":"look","latency":"minutes","#),
    );
    for era in ERAS {
        for (builder, is_shown) in [(Client::builder("host", "1"), false), (with_all(), true)] {
            let client = world.host("ada", era, builder).await;
            world.knows(1).await;
            let tools = client.list_tools().await.unwrap();
            let look = tools.iter().find(|tool| tool.name == "look").unwrap();
            let latency = is_shown.then_some(LatencyClass::Minutes);
            assert_eq!(CostHints::of(look).latency, latency, "{era:?}");
            client.close().await;
        }
    }
}

/// Checks the manifest, recommendations and structured errors.
async fn describes(client: &Client) {
    let manifest = client.manifest().await.unwrap();
    assert!(manifest.tools.iter().any(|tool| tool.name == "make_ticket"));
    let found = client.recommend_servers("a weather forecast").await.unwrap();
    assert_eq!(found[0].server, "io.example/weather");
    let unknown = client.call("nothing").await.unwrap_err();
    assert_eq!(unknown.structured().unwrap().code, "TOOL_NOT_FOUND");
}

/// Checks idempotency and provenance.
async fn calls_once(client: &Client, name: &str) {
    let call = || {
        let call = client.call("make_ticket").arg("name", name);
        call.with(&IdempotencyKey(name.to_owned()))
    };
    let (first, second) = (call().await.unwrap(), call().await.unwrap());
    assert_eq!(first.to_text(), second.to_text());
    assert!(second.member::<WasReplay>().unwrap().unwrap().0);
    let hops = first.member::<ProvenanceHops>().unwrap().unwrap();
    assert_eq!(hops.0[0].server_id, "things");
}

async fn undoes(client: &Client, name: &str) {
    let mut begin = BeginTransactionParams::new();
    begin.transaction_id = Some(name.to_owned());
    client.request::<TransactionBegin>(&begin).await.unwrap();
    let mut undo = Compensation::new("remove_ticket");
    undo.arguments = Some(RawObject::of(&json!({ "name": name })).unwrap());
    let step = client.call("make_ticket").arg("name", name);
    step.with(&TransactionId(name.to_owned())).with(&undo).await.unwrap();
    let ended = client.request::<TransactionRollback>(&EndTransactionParams::new(name)).await;
    let ended = ended.unwrap();
    assert_eq!(ended.status, TransactionStatus::RolledBack, "{ended:?}");
}

async fn confirms(client: &Client, world: &World, name: &str) {
    let path = world.path(name);
    let write = || client.call("write_report").arg("path", &path).arg("text", "x");
    let asked = ConfirmationRequired::of(&write().await.unwrap()).unwrap();
    assert!(!path.exists());
    let token = ConfirmationToken(asked.confirmation_token);
    write().with(&token).with(&UserConfirmed(true)).await.unwrap();
    assert!(path.exists());
}

/// Checks scopes, cost and media types.
async fn limits(client: &Client) {
    let mut params = NegotiateScopesParams::new();
    params.requested_scopes = vec!["read:tickets".to_owned(), "write".to_owned()].into();
    let granted = client.request::<ScopesNegotiate>(&params).await.unwrap();
    assert_eq!(granted.granted_scopes, ["read:tickets"]);
    let token = SessionToken(granted.session.unwrap().token);
    client.call("count").with(&token).await.unwrap();
    let params = CheckPermissionsParams::new("count");
    assert!(client.request::<PermissionsCheck>(&params).await.unwrap().allowed);

    let code = |answer: Result<_, Error>| answer.map(drop).unwrap_err().code();
    let dear = client.call("list_folder").arg("path", "/").await;
    assert_eq!(code(dear), ErrorCode::QUOTA_EXCEEDED);
    let long = client.call("look").arg("image", "x".repeat(2000)).await;
    assert_eq!(code(long), ErrorCode::RESOURCE_EXHAUSTED);
}

/// Checks data references: the kernel shortens a result, and a call of another server gets the whole result through the
/// reference.
async fn passes_data(client: &Client, world: &World) {
    let read = client.call("read_file").arg("path", world.path("table.csv")).await.unwrap();
    let reference = read.member::<DataReference>().unwrap().unwrap();
    let argument = json!({ "data_reference": { "ref_id": reference.ref_id } });
    let result = client.call("analyze_csv").arg("csv", argument).await.unwrap();
    assert_eq!(result.get::<serde_json::Value>().unwrap()["count"], 200);
}

/// Checks that a member with the value `null` counts as absent.
async fn ignores_null(client: &Client) {
    const MEMBERS: [&str; 10] = [
        "intent",
        "session_token",
        "idempotency_key",
        "idempotency_ttl_seconds",
        "transaction_id",
        "step_id",
        "compensation",
        "confirmation_token",
        "user_confirmed",
        "checkpoints",
    ];
    let call = client.call("count");
    MEMBERS.into_iter().fold(call, |call, name| call.meta(name, ())).await.unwrap();
}

/// Checks session state and checkpoints.
async fn keeps_state(client: &Client) {
    let count = async || client.call("count").await.unwrap().to_text().parse::<u32>().unwrap();
    let before = count().await;
    assert_eq!(count().await, before + 1);

    let mut stream = client.call("rows").with(&WantsCheckpoints(true)).stream();
    let checkpoint = loop {
        match stream.next().await.unwrap().unwrap() {
            StreamItem::Checkpoint(checkpoint) => break checkpoint,
            StreamItem::Result(result) => panic!("no checkpoint before {result:?}"),
            _ => {}
        }
    };
    drop(stream);
    let rest = client.call("rows").with(&checkpoint).await.unwrap();
    assert!(rest.to_text().starts_with("10\n"), "{}", rest.to_text());
}

//! Tests of requests: the callers who may register, and the params.

use std::collections::BTreeMap;

use mgp_types::Timestamp;
use mgp_types::mgp::{RegisterParams, ServerMgpConfig, TrustLevel};
use mgp_types::service::{Authority, CredentialGrant};
use proptest::prelude::*;

use super::super::params::RegisterRequest;
use super::super::record::{BoundFile, Creator, Proposal, Record, Stage};
use super::*;

#[tokio::test(start_paused = true)]
async fn credentials_for_tools_do_not_administer_and_expired_ones_do_nothing() {
    let world = World::new();
    let mut client = world.client(operator());
    let mut ask = async |pass: CredentialGrant| {
        client.cx.extensions.insert(pass);
        client.request(DiscoveryRegister::METHOD, &count("made").to_string()).await
    };
    for word in ["tools.call", "admin.read"] {
        assert_eq!(
            ask(CredentialGrant::new([word], || true)).await.unwrap_err().code().0,
            1000,
            "{word}"
        );
    }
    assert_eq!(
        ask(CredentialGrant::new(["admin.write"], || false)).await.unwrap_err().code().0,
        1003
    );
    assert!(ask(CredentialGrant::new(["tools.call", "admin.write"], || true)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_registration_by_an_operator_needs_no_approval() {
    let world = World::new();
    let reply = world.register(operator(), count("made")).await.unwrap();
    assert_eq!((&reply["id"], &reply["status"]), (&json!("made"), &json!("connected")));
    assert_eq!(world.fake.log(), ["start made --all"]);
    let server = world.fake.running().remove(0);
    assert_eq!(
        mgp_of(&server).trust_level.as_str(),
        "sandboxed",
        "at run time, unless said otherwise"
    );
    assert_eq!(server.denied.len(), 5);
    assert_eq!(world.new_events(), ["server_registered SUCCESS by ada"]);

    // An operator's server has the trust level that the request names.
    let mut params = script("other");
    params["mgp"]["trust_level"] = json!("trusted");
    world.register(operator(), params).await.unwrap();
    let server = world.fake.running().remove(1);
    assert_eq!((mgp_of(&server).trust_level.as_str(), server.denied.len()), ("trusted", 0));
}

#[tokio::test(start_paused = true)]
async fn an_id_is_used_once() {
    let world = World::new();
    world.fake.configure("files");
    world.register(operator(), count("made")).await.unwrap();
    world.register(maker(), count("waits")).await.unwrap();
    let other = Principal::local().agent("maker-two");
    for (by, id, words) in [
        (operator(), "made", "deregister that one first"),
        (maker(), "made", "deregister that one first"),
        (operator(), "files", "there is a server `files` already; choose another id"),
        (maker(), "files", "there is a server `files`"),
        (maker(), "FILES", "there is a server `files`"),
        (maker(), "Made", "there is a server `made`"),
        (maker(), "Waits", "there is a server `waits`"),
        (other, "waits", "it waits for an operator"),
    ] {
        let error = refused(world.register(by, count(id)).await, 4101, words);
        assert!(error.as_recovery().unwrap().details.as_ref().unwrap().get("remedy").is_some());
    }
    assert_eq!(world.stored().await, 2);
}

/// The remedy in the error for a variable that agents may not set.
const ALLOW_VARIABLE: &str = "ask an operator to add it to `kernel.registration.env`";

#[tokio::test(start_paused = true)]
async fn invalid_params_are_refused_with_a_remedy() {
    let world = World::new();
    let with = |name: &str, value: Value| {
        let mut params = count("made");
        params[name] = value;
        params
    };
    let many: Vec<String> = vec!["x".to_owned(); 65];
    for (params, words) in [
        (with("id", json!("../etc")), "`id` begins with a letter or digit"),
        (with("id", json!("")), "`id` begins with a letter or digit"),
        (with("command", json!(" ")), "`command` is missing"),
        (with("command", json!("nothing")), "there is no program `nothing` on `PATH`"),
        (with("command", json!("./nothing")), "there is no program `./nothing`"),
        (with("transport", json!("http")), "`transport` is `stdio`"),
        (with("url", json!("https://example.com/mcp")), "add the URL with `mgp servers add ID"),
        (with("command", json!("https://example.com/mcp")), "registry in `published`"),
        (with("args", json!(["${HOME}"])), "`${…}` is not expanded"),
        (with("env", json!({ "KEY": "${cmd:id}" })), "`${…}` is not expanded"),
        (with("args", json!(["a\u{0}b"])), "NUL"),
        (with("args", json!(many)), "`args` has 65 entries"),
        (with("args", json!(["x".repeat(20_000)])), "4096 are possible"),
        (with("env", json!({ "KEY": "x".repeat(20_000) })), "`env` has 20003 bytes"),
        (with("env", json!({ "A=B": "x" })), "a name in `env`"),
        (with("env", json!({ "1": "x" })), "a name in `env`"),
        (with("env", json!({ "LD_PRELOAD": "x" })), ALLOW_VARIABLE),
        (with("env", json!({ "PythonPath": "x" })), ALLOW_VARIABLE),
        (with("env", json!({ "OPENSSL_CONF": "/tmp/e.cnf" })), ALLOW_VARIABLE),
        (with("env", json!({ "HOME": "/tmp" })), ALLOW_VARIABLE),
        (with("env", json!({ "XDG_CONFIG_HOME": "/tmp" })), ALLOW_VARIABLE),
        (with("cwd", json!("nowhere")), "there is no folder"),
        (with("justification", json!("x".repeat(2000))), "`justification` has 2000 bytes"),
        (with("mgp", json!({ "permissions_required": ["nonsense"] })), "permissions_required"),
        (with("mgp", json!({ "restart_policy": "often" })), "restart_policy"),
        (with("source", json!("print(1)")), "`source` is run by an interpreter"),
        (with("source", json!("x".repeat(300_000))), "`source` has 300000 bytes"),
    ] {
        refused(world.register(maker(), params).await, -32602, words);
        tokio::time::advance(Duration::from_mins(1)).await;
    }
    assert_eq!(world.stored().await, 0);
}

/// Regression test: an earlier version only refused names from a list of dangerous names. Such a list cannot be
/// complete: e.g. `FOO` might name a plug-in.
#[tokio::test(start_paused = true)]
async fn an_agent_cannot_name_a_program_or_variable_that_is_not_listed() {
    let world = World::new();
    program(&world.folder.join("bin/other"), "\u{7f}ELF");
    program(&world.folder.join("count"), "\u{7f}ELF");
    let path = |name: &str| world.folder.join(name).display().to_string();
    for command in ["other", &path("bin/other"), "./count", &path("bin/../count"), &path("count")] {
        let params = json!({ "id": "made", "command": command });
        refused(world.register(maker(), params).await, 4100, "kernel.registration.programs");
    }
    for command in ["count", "bin/count", &path("bin/count")] {
        let params = json!({ "id": format!("made{}", command.len()), "command": command });
        world.register(maker(), params).await.unwrap();
    }
    // Agents may name a common interpreter, but the code that it runs still needs a judge.
    let params = json!({ "id": "script", "command": "python3.11", "args": ["made.py"] });
    refused(world.register(maker(), params).await, 4100, "cannot judge the code");
    tokio::time::advance(Duration::from_mins(1)).await;

    let with = |name: &str| {
        let mut params = count("again");
        params["env"] = json!({ name: "x" });
        params
    };
    let confined = "MGP_CONFINED_LD_AUDIT_TOKEN";
    for name in
        ["FOO", "LD_AUDIT_TOKEN", confined, "KEYS", "AKEY", "key", "MODE2", "NODE_EXTRA_CA_CERTS"]
    {
        refused(world.register(maker(), with(name)).await, -32602, ALLOW_VARIABLE);
    }
    for name in ["KEY", "LD_ALLOWED", "GITHUB_TOKEN", "MCP_MODE"] {
        tokio::time::advance(Duration::from_mins(1)).await;
        world.register(maker(), with(name)).await.unwrap();
        world.deregister(maker(), "again").await.unwrap();
    }
    world.register(operator(), json!({ "id": "other", "command": "other" })).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_agent_cannot_loosen_rules() {
    let world = World::new();
    let mut params = count("made");
    params["mgp"] = json!({
        "trust_level": "trusted", "default_policy": "opt-out", "permissions": ["camera"],
        "permissions_required": ["shell"], "max_restarts": 4_000_000_000_u32, "backoff_base_ms": 0,
    });
    params["created_by"] = json!("operator");
    world.register(maker(), params).await.unwrap();
    let waiting = world.waiting().await.remove(0);
    assert_eq!(waiting.created_by, maker(), "whatever name is claimed");
    assert_eq!(waiting.claimed_by.as_deref(), Some("operator"));
    world.approve().await.unwrap();
    let server = world.fake.running().remove(0);
    assert_eq!(mgp_of(&server).trust_level.as_str(), "sandboxed");
    assert_eq!(mgp_of(&server).default_policy, mgp_types::mgp::DefaultPolicy::OptIn);
    assert!(mgp_of(&server).permissions.is_empty());
    assert_eq!(mgp_of(&server).permissions_required[0].as_str(), "shell.execute");
    assert_eq!(mgp_of(&server).restart.max, 10_000);
    assert!(mgp_of(&server).restart.backoff_base > Duration::ZERO);
    assert_eq!(server.created_by, maker());
}

/// Generates texts with ordinary and special characters.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{0,12}", "[a-zA-Z0-9._=${}/\u{0}\u{1b}\u{202e}\n-]{0,12}", "[a-z]{1,8}"]
}

proptest! {
    #[test]
    fn accepted_params_can_be_passed_to_a_program(
        id in any_text(),
        command in any_text(),
        args in proptest::collection::vec(any_text(), 0..70),
        env in proptest::collection::btree_map(any_text(), any_text(), 0..5),
        extension in any_text(),
    ) {
        let mut params = RegisterParams::new(id);
        params.command = Some(command);
        params.args = args.into();
        params.env = Some(env);
        params.mgp.get_or_insert_default().extensions = vec![extension].into();
        if let Ok(read) = RegisterRequest::read(params, Authority::User, &RegistrationConfig::default(), RegistrationAllowList::default(), None) {
            prop_assert!(!read.id.is_empty() && !read.id.contains(['/', '\\', '\0']));
            prop_assert!(!read.id.starts_with('.'), "it is part of a path");
            let texts = [&read.command].into_iter().chain(&read.args).chain(read.env.values());
            let is_literal = |text: &String| !text.contains('\0') && !text.contains("${");
            prop_assert!(texts.into_iter().all(is_literal));
            prop_assert!(read.env.keys().all(|name| !name.contains('=')));
            prop_assert_eq!(read.trust, TrustLevel::Sandboxed);
        }
    }

    #[test]
    fn a_review_contains_no_control_characters(
        command in any_text(),
        args in proptest::collection::vec(any_text(), 0..5),
        words in any_text(),
    ) {
        let program = Proposal {
            id: "made".into(),
            real: command.clone(),
            files: vec![BoundFile { path: command.as_str().into(), sha256: "0".into() }],
            command,
            args: args.clone(),
            cwd: words.clone(),
            env: BTreeMap::new(),
            source: None,
            published: None,
            remote: None,
            mgp: ServerMgpConfig::default(),
            trust: TrustLevel::Sandboxed,
            notes: vec![words.clone()],
        };
        let record = Record {
            program,
            by: Creator::of(&Principal::local().agent(words.as_str())),
            claimed_by: Some(words.clone()),
            justification: Some(words),
            asked_at: Timestamp::now(),
            changed: false,
            created: None,
            stage: Stage::Waiting { until: None },
        };
        let waiting = PendingRegistration::of(&record).unwrap();
        prop_assert_eq!(&waiting.argv[1..], &args[..]);
        let shown = waiting.to_string();
        let is_safe = |c: char| c == '\n' || !c.is_control() && c != '\u{202e}';
        prop_assert!(shown.chars().all(is_safe), "{:?}", shown);
        prop_assert_eq!(shown.lines().filter(|line| line.starts_with("  runs")).count(), 1);
    }
}

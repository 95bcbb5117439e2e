//! Tests of the clients in `mgp status`, over every transport: keys, sessions, and callers of single requests.

use std::time::Duration;

use mgp_client_sdk::{Client, EraChoice};
use mgp_types::mcp::Era;
use serde_json::Value;
use tokio::time::Instant;

use crate::serving::Serving;
use crate::world::World;
use mgp_testkit::until;

const CONFIG: &str = r#"
[[servers]]
id = "notes"
command = "{MGP}"
args = ["__example", "notes"]

[agents.mona]
pinned = ["notes.list"]
"#;

fn of<'a>(all: &'a Value, name: &str, agent: &str) -> Vec<&'a Value> {
    all.as_array().unwrap().iter().filter(|one| one[name] == agent).collect()
}

#[tokio::test]
async fn sessions_over_http_and_single_callers_are_shown() {
    let world = World::new(CONFIG);
    let serving = Serving::new(&world).await;
    let key = |agent: &str| world.json(&["keys", "add", agent])["key"].as_str().unwrap().to_owned();
    let (lena, mona) = (key("lena"), key("mona"));
    world.quietly(&["access", "grant", "mona", "notes"]);
    serving.comes(&lena).await;
    let come = |key: &str, era| Client::builder("host", "1").bearer(key).era(era);
    let legacy = come(&lena, EraChoice::Legacy).connect_url(&serving.url).await.unwrap();
    let modern = come(&mona, EraChoice::Modern).connect_url(&serving.url).await.unwrap();
    modern.list_tools().await.unwrap();
    let here = world.host("sora", Era::Modern, Client::builder("host", "1")).await;
    here.list_tools().await.unwrap();

    let clients = world.json(&["status"])["clients"].take();
    let known = |agent: &str, transport: &str, is_lately: bool| {
        let all = of(&clients, "agent", agent).into_iter();
        let mut fits = all.filter(|one| one["transport"] == transport && one["since"].is_string());
        assert!(fits.any(|one| one["last_seen"].is_string() == is_lately), "{agent}: {clients}");
    };
    known("lena", "http", false);
    known("mona", "http", true);
    known("sora", "socket", false);

    let sessions = world.json(&["sessions"]);
    for (agent, transport, is_lately) in
        [("lena", "http", false), ("mona", "http", true), ("sora", "socket", false)]
    {
        let all = of(&sessions, "agent_id", agent).into_iter();
        let is_it = |one: &&Value| {
            one["transport"] == transport && one["last_seen"].is_string() == is_lately
        };
        assert!(all.filter(is_it).count() >= 1, "{agent}: {sessions}");
    }
    until("its tools are known", async || {
        let own = world.json(&["sessions", "--agent", "mona"]);
        let own = own.as_array().unwrap();
        own.len() == 1 && own[0]["pinned"].as_array().is_some_and(|pinned| pinned.len() == 1)
    })
    .await;
    let table = world.command(&["status"]).output().unwrap().stdout;
    let table = String::from_utf8(table).unwrap();
    assert!(table.contains("LAST SEEN") && table.contains("mona"), "{table}");

    // `mgp status` no longer shows closed sessions and connections.
    legacy.close().await;
    here.close().await;
    until("they are gone", async || {
        let clients = world.json(&["status"])["clients"].take();
        let lena = of(&clients, "agent", "lena");
        lena.iter().all(|one| one["last_seen"].is_string())
            && of(&clients, "agent", "sora").is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_key_that_was_revoked_is_refused_by_a_running_kernel_at_once() {
    let world = World::new(CONFIG);
    let serving = Serving::new(&world).await;
    let made = world.json(&["keys", "add", "ada"]);
    let host = serving.comes(made["key"].as_str().unwrap()).await;
    host.list_tools().await.unwrap();
    world.quietly(&["keys", "revoke", made["id"].as_str().unwrap()]);
    let (revoked, bound) = (Instant::now(), Duration::from_millis(250));
    // The kernel must refuse calls that start after this time.
    loop {
        let began = revoked.elapsed();
        let answer = host.call("mgp_tools_discover").arg("query", "notes").await;
        if began >= bound {
            assert!(answer.is_err(), "it was accepted after {began:?}");
            return;
        }
        if answer.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

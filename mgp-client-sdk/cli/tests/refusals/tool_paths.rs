//! Tests of tools over plain HTTP: `POST /tools/NAME` and `GET /tools` of `mgp serve --http`, as the OpenAPI document
//! of `mgp contract export` describes them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use mgp_testkit::until;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::serving::Serving;
use crate::world::World;

const SERVERS: &str = r#"
[[servers]]
id = "notes"
command = "{MGP}"
args = ["__example", "notes"]
[servers.mgp]
default_policy = "opt-out"

[[servers]]
id = "unruly"
command = "{MGP}"
args = ["__example", "unruly"]
[servers.mgp]
default_policy = "opt-out"
[servers.limits]
calls_per_minute = 5
"#;

/// A caller over plain HTTP.
pub(crate) struct Caller {
    host: String,
    key: String,
}

impl Caller {
    pub(crate) fn new(serving: &Serving, key: &str) -> Self {
        let host = serving.url.strip_prefix("http://").unwrap().trim_end_matches("/mcp");
        Self { host: host.to_owned(), key: key.to_owned() }
    }

    fn send(&self, method: &str, path: &str, body: &str) -> JoinHandle<(u16, Value)> {
        self.send_with("", method, path, body)
    }

    /// Sends a request with additional headers, each of which must end with a line break.
    fn send_with(
        &self,
        headers: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> JoinHandle<(u16, Value)> {
        let (host, key, length) = (self.host.clone(), &self.key, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\
             {headers}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        spawn_blocking(move || {
            let mut stream = TcpStream::connect(host).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").expect(&answer);
            let status = head.split(' ').nth(1).unwrap().parse().unwrap();
            (status, body.parse().unwrap())
        })
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> (u16, Value) {
        self.send("POST", &format!("/tools/{tool}"), &arguments.to_string()).await.unwrap()
    }

    async fn fails(&self, tool: &str, arguments: Value, expected: (u16, i64)) -> String {
        let (status, body) = self.call(tool, arguments).await;
        let error = &body["error"];
        assert_eq!((status, error["code"].as_i64().unwrap()), expected, "{body}");
        // The body has only the member `error`, except for a refused key: the kernel checks the key before it looks at
        // the path, and answers in the form of JSON-RPC.
        let is_plain = status == 401 || body.as_object().unwrap().len() == 1;
        assert!(is_plain, "{body}");
        error["message"].as_str().unwrap().to_owned()
    }
}

/// Starts the kernel, and waits until it knows a new key and the tools.
async fn serving(world: &World) -> (Serving, Caller) {
    let serving = Serving::new(world).await;
    let key = world.json(&["keys", "add", "ada"])["key"].as_str().unwrap().to_owned();
    serving.comes(&key).await;
    let caller = Caller::new(&serving, &key);
    until("both servers are listed", async || {
        let (_, page) = caller.send("GET", "/tools", "").await.unwrap();
        let names: Vec<_> =
            page["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        names.contains(&&json!("notes.list")) && names.contains(&&json!("wipe"))
    })
    .await;
    (serving, caller)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_works_and_a_revoked_one_does_not_once_the_command_ends() {
    let world = World::new(SERVERS);
    let (_serving, ada) = serving(&world).await;
    let status = async |caller: &Caller| caller.send("GET", "/tools", "").await.unwrap().0;
    for _ in 0..3 {
        // The kernel has just looked for changed keys, so it looks again only a moment later. `mgp keys` must wait
        // until the kernel knows the change.
        assert_eq!(status(&ada).await, 200);
        let new = world.json(&["keys", "add", "ben"]);
        let key = new["key"].as_str().unwrap().to_owned();
        let ben = Caller { host: ada.host.clone(), key };
        assert_eq!(status(&ben).await, 200);
        world.quietly(&["keys", "revoke", new["id"].as_str().unwrap()]);
        assert_eq!(status(&ben).await, 401);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_called_by_plain_http_under_the_same_rules() {
    let world = World::new(SERVERS);
    let (_serving, ada) = serving(&world).await;
    let kept = ada.call("notes.keep", json!({"title": "a", "text": "b"})).await;
    assert_eq!(kept, (200, json!({"content": [{"type": "text", "text": "kept"}]})));
    // The response body is the structured content. The name in the path may be percent-encoded, and the request body
    // may be absent.
    let list = ada.send("POST", "/tools/notes%2Elist", "").await.unwrap();
    assert_eq!(list, (200, json!({"titles": ["a"]})));
    assert_eq!(ada.send("POST", "/tools/notes.notes.list", "").await.unwrap(), list);

    let reason = ada.fails("notes.keep", json!({"title": 5}), (400, 4000)).await;
    assert!(reason.contains("`/text`") && reason.contains("`/title`"), "{reason}");
    ada.fails("notes.keep", json!([]), (400, -32602)).await;
    ada.fails("no_such_tool", json!({}), (404, 4001)).await;
    let reason = ada.fails("notes.read", json!({"title": "none"}), (422, 5000)).await;
    assert!(reason.contains("no note `none`"), "{reason}");
    let (status, body) = ada.send("GET", "/tools/notes.list", "").await.unwrap();
    assert_eq!((status, &body["error"]["code"]), (405, &json!(-32600)));
    assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
    let stranger = Caller { key: "mgp_none".to_owned(), ..ada };
    stranger.fails("notes.list", json!({}), (401, 1002)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_use_of_a_key_is_listed() {
    let world = World::new(SERVERS);
    let (_serving, _ada) = serving(&world).await;
    world.json(&["keys", "add", "idle"]);
    let is_used = |agent: &str| {
        let keys = world.json(&["keys", "ls"]);
        keys.as_array().unwrap().iter().any(|key| key["agent"] == agent && key["used"].is_string())
    };
    until("the use is recorded", async || is_used("ada")).await;
    assert!(!is_used("idle"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_permits_what_it_names_and_its_secret_is_in_no_file() {
    let world = World::new(SERVERS);
    let (serving, ada) = serving(&world).await;
    let with = async |name, permission| {
        let added = world.json(&["keys", "add", name, "--permission", permission]);
        let key = added["key"].as_str().unwrap().to_owned();
        serving.comes(&key).await;
        Caller::new(&serving, &key)
    };
    let reader = with("eve", "tools.list").await;
    reader.fails("notes.list", json!({}), (403, 1001)).await;
    let listed = reader.send("GET", "/tools", "").await.unwrap().1.to_string();
    assert!(listed.contains("notes.keep"), "{listed}");
    let one = with("bob", "tools.call:notes.notes.list").await;
    assert_eq!(one.call("notes.list", json!({})).await.0, 200);
    one.fails("notes.keep", json!({"title": "a", "text": "b"}), (403, 1001)).await;

    let mut open = vec![world.path("")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let Ok(text) = std::fs::read(entry.path()) else {
                open.extend(entry.path().is_dir().then(|| entry.path()));
                continue;
            };
            for caller in [&ada, &reader, &one] {
                let secret = caller.key.rsplit('_').next().unwrap().as_bytes();
                let is_in = text.windows(secret.len()).any(|part| part == secret);
                assert!(!is_in, "{}", entry.path().display());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dangerous_tool_by_plain_http_waits_for_a_person() {
    let world = World::new(SERVERS);
    let (_serving, ada) = serving(&world).await;
    for (answer, status) in [("approve", 200), ("deny", 403)] {
        let running = ada.send("POST", "/tools/wipe", r#"{"disk":"sda"}"#);
        let mut waiting = Value::Null;
        until("the call waits", async || {
            let all = world.json(&["approvals", "ls"]);
            let open = all.as_array().unwrap().iter().find(|one| one["state"] == "open");
            waiting = open.map_or(Value::Null, |one| one["id"].clone());
            waiting.is_string()
        })
        .await;
        assert!(!running.is_finished());
        world.json(&["approvals", answer, waiting.as_str().unwrap()]);
        let (answered, body) = running.await.unwrap();
        assert_eq!(answered, status, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_by_plain_http_is_answered_with_the_time_to_wait() {
    let world = World::new(SERVERS);
    let (_serving, ada) = serving(&world).await;
    for _ in 0..20 {
        let (status, body) = ada.call("weather", json!({"city": "Oslo"})).await;
        if status == 429 {
            assert_eq!(body["error"]["code"], 3000, "{body}");
            assert!(body["error"]["data"]["_mgp"]["retry_after_ms"].is_u64(), "{body}");
            return;
        }
        assert_eq!(status, 200, "{body}");
    }
    panic!("the limit was not reached");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_idempotency_header_by_plain_http_is_not_ignored() {
    let world = World::new(SERVERS);
    let (_serving, ada) = serving(&world).await;
    let keep = async |headers: &str, text: &str| {
        let body = json!({"title": "a", "text": text}).to_string();
        ada.send_with(headers, "POST", "/tools/notes.keep", &body).await.unwrap()
    };
    let key = "x-idempotency-key: first\r\n";
    assert_eq!(keep(key, "one").await.0, 200);
    assert_eq!(keep("", "two").await.0, 200);
    // The call with the same key gets the answer of the first call, and does not run.
    let (status, again) = keep(key, "one").await;
    assert_eq!((status, &again["content"][0]["text"]), (200, &json!("kept")), "{again}");
    let (_, read) = ada.call("notes.read", json!({"title": "a"})).await;
    assert_eq!(read["content"][0]["text"], "two", "{read}");
    let (status, refused) = keep(key, "three").await;
    assert_eq!(status, 400, "{refused}");
    assert!(refused.to_string().contains("IDEMPOTENCY_CONFLICT"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_idempotency_header_is_refused_before_a_person_is_asked() {
    let world = World::new(SERVERS);
    let (_serving, ada) = serving(&world).await;
    let key = "x-idempotency-key: bad!key\r\n";
    let answer = ada.send_with(key, "POST", "/tools/wipe", r#"{"disk":"sda"}"#);
    let answer = tokio::time::timeout(Duration::from_secs(30), answer).await;
    let (status, refused) = answer.expect("the call waits for a person").unwrap();
    assert_eq!((status, &refused["error"]["code"]), (400, &json!(-32602)), "{refused}");
    let waiting = world.json(&["approvals", "ls"]).to_string();
    assert!(!waiting.contains("wipe"), "{waiting}");
}

//! Tests of an HTTP server that is down, restarts, loses sessions, refuses, fails or hangs: the kernel reconnects by
//! itself, and meanwhile `mgp servers ls` shows the reason.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use mgp_testkit::{HttpRequest, http_response, unused_address};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::wire::Wire;
use crate::world::{Host, World, within};

/// The time within which calls must work again after the server has recovered.
const BACK_TIMEOUT: Duration = Duration::from_secs(10);

/// A way in which the server misbehaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ailment {
    Away,
    Status(u16),
    Hangs,
}

/// A legacy HTTP server with sessions, which misbehaves as the test demands.
struct RemoteServer {
    address: SocketAddr,
    script: Arc<Mutex<Script>>,
}

#[derive(Default)]
struct Script {
    ailment: Option<Ailment>,
    /// The number of starts of the server, which is part of each session id.
    starts: u32,
    /// The number of requests that the server received.
    requests: u32,
}

impl RemoteServer {
    /// Reserves an address; no server listens there yet.
    fn new() -> Self {
        let address = unused_address();
        let script = Script { ailment: Some(Ailment::Away), ..Script::default() };
        Self { address, script: Arc::new(Mutex::new(script)) }
    }

    /// Makes the server misbehave in this way; with `None`, it works again.
    fn suffer(&self, ailment: Option<Ailment>) {
        let before = std::mem::replace(&mut self.script.lock().unwrap().ailment, ailment);
        if before == Some(Ailment::Away) && ailment != before {
            self.start();
        } else if ailment == Some(Ailment::Away) && before != ailment {
            // Wake the listener thread with a connection, so that it ends.
            let _ = TcpStream::connect(self.address);
            within(|| TcpStream::connect(self.address).is_err().then_some(()));
        }
    }

    /// Restarts the server, which thereby forgets all sessions.
    fn restart(&self) {
        self.suffer(Some(Ailment::Away));
        self.suffer(None);
    }

    fn start(&self) {
        self.script.lock().unwrap().starts += 1;
        let (address, script) = (self.address, Arc::clone(&self.script));
        let listener = within(|| TcpListener::bind(address).ok());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if script.lock().unwrap().ailment == Some(Ailment::Away) {
                    return;
                }
                let script = Arc::clone(&script);
                thread::spawn(move || serve(&stream, &script));
            }
        });
    }
}

/// Answers one request, and closes the connection.
fn serve(mut stream: &TcpStream, script: &Mutex<Script>) {
    let Some(request) = HttpRequest::read(stream) else { return };
    let (ailment, session) = {
        let mut script = script.lock().unwrap();
        script.requests += 1;
        (script.ailment, format!("start-{}", script.starts))
    };
    let (status, answer) = match ailment {
        Some(Ailment::Hangs | Ailment::Away) => return thread::sleep(Duration::from_mins(5)),
        Some(Ailment::Status(status)) => (status, Value::Null),
        None => answer(&request.head, &request.value(), &session),
    };
    let body = if answer.is_null() { String::new() } else { answer.to_string() };
    let headers = format!("content-type: application/json\r\nmcp-session-id: {session}\r\n");
    let _ = stream.write_all(http_response(status, &headers, &body).as_bytes());
}

fn answer(head: &str, body: &Value, session: &str) -> (u16, Value) {
    if head.starts_with("get") {
        return (405, Value::Null);
    }
    let method = body["method"].as_str().unwrap_or_default();
    let result =
        |result: Value| (200, json!({"jsonrpc": "2.0", "id": body["id"], "result": result}));
    if method == "initialize" {
        return result(json!({
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "far", "version": "1"},
        }));
    }
    if !head.contains(&format!("mcp-session-id: {session}\r")) {
        // The official SDKs answer an unknown session with this error.
        let error = json!({"code": -32000, "message": "Bad Request: No valid session ID provided"});
        return (400, json!({"jsonrpc": "2.0", "id": null, "error": error}));
    }
    match method {
        "tools/list" => result(json!({"tools": [{
            "name": "hail", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true},
        }]})),
        "tools/call" => result(json!({"content": [{"type": "text", "text": session}]})),
        _ if body["id"].is_null() => (202, Value::Null),
        _ => result(json!({})),
    }
}

fn configured(server: &RemoteServer) -> World {
    let world = World::empty();
    world.config(&format!(
        "[[servers]]\nid = \"far\"\nurl = \"http://{}/mcp\"\n\
         [servers.mgp]\ndefault_policy = \"opt-out\"\nrisk = {{ hail = \"safe\" }}\n",
        server.address
    ));
    world
}

/// Returns the state and the error of the server, as `mgp servers ls` shows them.
fn listed(operator: &mut Wire) -> (String, String) {
    let all = operator.ask("mgp/kernel/servers", &json!({})).unwrap();
    let text = |name: &str| all["servers"][0][name].as_str().unwrap_or_default().to_owned();
    (text("status"), text("error"))
}

fn hail(host: &mut Host) -> Result<String, Value> {
    host.call("far.hail", &json!({}))
}

/// Calls the tool until it succeeds, and returns the time this took.
fn is_back(host: &mut Host) -> Duration {
    let begun = Instant::now();
    within(|| hail(host).ok());
    begun.elapsed()
}

#[test]
fn a_remote_server_comes_back_by_itself_and_meanwhile_has_a_reason() {
    let server = RemoteServer::new();
    let world = configured(&server);
    let mut host = world.host(&[]);
    let mut operator = world.operator();
    let (state, error) =
        within(|| Some(listed(&mut operator)).filter(|(_, error)| !error.is_empty()));
    assert!(error.contains("cannot reach") && state != "connected", "{state}: {error}");
    hail(&mut host).unwrap_err();
    server.suffer(None);
    let back = is_back(&mut host);
    println!("away at the start: back after {back:?}");
    assert!(back < BACK_TIMEOUT);

    server.restart();
    assert_eq!(hail(&mut host).unwrap(), "start-2", "a lost session is opened again for the call");

    for (ailment, reason) in [
        (Ailment::Away, "cannot reach"),
        (Ailment::Status(400), "HTTP 400"),
        (Ailment::Status(401), "requires a login"),
        (Ailment::Status(404), "HTTP 404"),
        (Ailment::Status(502), "HTTP 502"),
        (Ailment::Hangs, "not answer"),
    ] {
        server.suffer(Some(ailment));
        let error = within(|| Some(listed(&mut operator).1).filter(|error| error.contains(reason)));
        if ailment != Ailment::Hangs {
            let begun = Instant::now();
            let refused = hail(&mut host).unwrap_err();
            assert!(
                begun.elapsed() < BACK_TIMEOUT,
                "{ailment:?}: the caller waits {:?}",
                begun.elapsed()
            );
            let refused = refused.to_string();
            assert!(refused.contains("far") || refused.contains(reason), "{refused}");
        }
        server.suffer(None);
        let back = is_back(&mut host);
        println!("{ailment:?}: {error}; back after {back:?}");
        assert!(back < BACK_TIMEOUT, "{ailment:?}: {back:?}");
        let well = ("connected".to_owned(), String::new());
        within(|| (listed(&mut operator) == well).then_some(()));
    }
}

#[test]
fn a_login_that_is_missing_is_asked_for_once_and_not_five_times() {
    let server = RemoteServer::new();
    server.suffer(Some(Ailment::Status(401)));
    let world = configured(&server);
    let _host = world.host(&[]);
    let mut operator = world.operator();
    within(|| (listed(&mut operator).0 == "error").then_some(()));
    let requests = || server.script.lock().unwrap().requests;
    // Wait, because the kernel makes one further attempt when an operator lists the failed server, and this attempt may
    // still be running.
    thread::sleep(Duration::from_millis(500));
    let before = requests();
    assert!(before <= 2, "{before}");
    thread::sleep(Duration::from_secs(3));
    assert_eq!(requests(), before, "no caller asked for it");
}

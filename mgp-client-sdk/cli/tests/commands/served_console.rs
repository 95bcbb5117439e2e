//! Tests of `mgp serve --http … --console`: an operator at another machine receives a message and answers approvals;
//! the console refuses attackers.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use mgp_testkit::{KilledChild, until_blocking};
use serde_json::{Value, json};

use crate::console::{Browser, TIMEOUT, calling, ended, send, waiting};
use crate::hostile::stub;
use crate::kernel::Kernel;
use crate::program::program;
use crate::world::Home;

/// Starts a kernel that serves the console and sends messages to a webhook. Returns a browser that is not logged in,
/// and a function that waits for the first message.
pub(crate) fn served(home: &Home, more: &str) -> (Browser, impl FnOnce() -> Value) {
    let messages = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = home.write(
        "c.toml",
        &format!(
            "[kernel.notify.chat]\nwebhook = 'http://{}'\nafter = '1ms'\nallow_loopback = true\n\
             [[servers]]\nid = 'desk'\ncommand = '{}'\n[servers.mgp]\ndefault_policy = 'opt-out'\nrisk = {{ echo = 'dangerous' }}\n{more}",
            messages.local_addr().unwrap(),
            program("echo")
        ),
    );
    let ready = home.path("ready.json");
    let mut command = home.command(&["serve", "--http", "127.0.0.1:0", "--console"]);
    command.arg("--config").arg(&config).arg("--ready-file").arg(&ready);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until_blocking("the kernel is ready", || ready.exists());
    let line: Value = serde_json::from_str(&fs::read_to_string(&ready).unwrap()).unwrap();
    let address = line["http"].as_str().unwrap().strip_prefix("http://").unwrap();
    let browser = Browser {
        console: Some(KilledChild(child)),
        address: address.strip_suffix("/mcp").unwrap().to_owned(),
        base: "/console".to_owned(),
        cookie: String::new(),
        token: String::new(),
    };
    until_blocking("the tools are listed", || {
        home.json("servers-ls", &["servers", "ls"])[0]["tools"].as_u64() >= Some(1)
    });
    let first = move || {
        let (mut stream, _) = messages.accept().unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
        while !text.ends_with(b"}") {
            let read = stream.read(&mut buffer).unwrap();
            text.extend_from_slice(&buffer[..read]);
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
        let text = String::from_utf8(text).unwrap();
        serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    (browser, first)
}

pub(crate) fn key(home: &Home, more: &[&str]) -> (String, String) {
    let new = home.json("keys-add", &[&["keys", "add"], more].concat());
    (new["id"].as_str().unwrap().to_owned(), new["key"].as_str().unwrap().to_owned())
}

#[test]
fn a_message_leads_an_operator_elsewhere_to_the_call_after_a_login() {
    let home = &Home::new();
    home.fail(2, &["serve", "--http", "127.0.0.1:0", "--no-auth", "--console"], "--no-auth");
    let (id, admin) = key(home, &["ada", "--admin"]);
    let (spare, _) = key(home, &["ann"]);
    let (_, reader) = key(home, &["eve", "--admin", "--permission", "admin.read"]);
    let (mut browser, message) = served(home, "");
    let call = calling(home, &serde_json::json!({ "message": "a-secret-argument" }));
    let approval = waiting(home);
    let message = message();
    let link = message["link"].as_str().unwrap();
    assert_eq!(link, format!("http://{}/console/call/{approval}", browser.address));
    assert!(!message.to_string().contains("a-secret-argument"), "{message}");

    let path = format!("/call/{approval}");
    let login = browser.get(&path);
    assert!(login.status == 401 && !login.body.contains("a-secret-argument"), "{}", login.body);
    assert!(login.body.contains("<title>mgp</title>"), "{}", login.body);
    assert!(login.body.contains(&format!("name=\"next\" value=\"{path}\"")), "{}", login.body);
    let followed =
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n";
    let again = browser.get_with(&format!("{path}?done=feigned"), followed).body;
    assert!(again.contains(&format!("content=\"0;url=/console{path}\"")), "{again}");
    let form = [("agent", "ada"), ("server", "desk"), ("because", "to \"see\"")];
    let login = browser.with_cookie("").post("/access/grant", &form);
    let next =
        "name=\"next\" value=\"/access?for=ada&amp;server=desk&amp;because=to+%22see%22#grant\"";
    assert!(login.status == 401 && login.body.contains(next), "the input is kept: {}", login.body);
    let agents = browser.with_cookie("").post("/access/key", &[("id", &id)]);
    assert_eq!(agents.status, 401, "an action needs a session");

    let mut other = browser.with_cookie("");
    assert_eq!(
        other.log_in(&[("key", &reader), ("next", "//evil.example")]),
        "/console//evil.example"
    );
    let refused = other.done("/decide", &[("id", &approval), ("answer", "once")]);
    assert!(refused.contains("class=\"failed\""), "one who may only read: {refused}");
    let refused = other.done("/access/key", &[("id", &id)]);
    assert!(refused.contains("class=\"failed\"") && refused.contains(&id), "{refused}");
    let fixed = format!("{}=0000", other.cookie.split_once('=').unwrap().0);
    browser.cookie.clone_from(&fixed);
    assert_eq!(browser.log_in(&[("key", &admin), ("next", &path)]), format!("/console{path}"));
    assert_ne!(browser.cookie, fixed, "no session is fixed in advance");
    assert!(browser.get(&path).text().contains("a-secret-argument"));
    assert_eq!(other.post_with("/decide", &[("token", &browser.token)], "").status, 403);
    browser.done("/decide", &[("id", &approval), ("answer", "once"), ("page", &path)]);
    assert!(ended(call).0);
    let record = browser.get("/record").text();
    assert!(record.contains("ada"), "the record names the operator: {record}");
    let decided = home.json("approvals-ls", &["approvals", "ls"]);
    let decided = decided.as_array().unwrap().iter().find(|one| one["id"] == *approval).unwrap();
    assert_eq!(decided["decided_by"], "ada", "the key's agent, not `local`");
    let found = browser.get("/search?query=echo%20a%20text&agent=default").text();
    assert!(found.contains("desk.echo"), "{found}");

    let (base, cookie, address) = (&browser.base, &browser.cookie, &browser.address);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let head = format!("Host: {address}\r\nCookie: {cookie}\r\nConnection: close");
    write!(stream, "GET {base}/events HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
    browser.done("/access/key", &[("id", &spare)]);
    let keys = home.json("keys-ls", &["keys", "ls"]);
    let spare = keys.as_array().unwrap().iter().find(|key| key["id"] == spare.as_str()).unwrap();
    assert_eq!(spare["status"], "revoked", "{keys}");
    home.succeed(&["keys", "revoke", &id]);
    until_blocking("the session ends", || browser.get("").status == 401);
    stream.read_to_string(&mut String::new()).unwrap();
    assert_eq!(other.get("").status, 200);
}

#[test]
fn a_logout_ends_the_open_pages_of_its_session_and_no_others() {
    let home = &Home::new();
    let (_, admin) = key(home, &["ada", "--admin"]);
    let (mut browser, _messages) = served(home, "");
    browser.log_in(&[("key", &admin)]);
    let mut other = browser.with_cookie("");
    other.log_in(&[("key", &admin)]);
    let open = |page: &Browser| {
        let mut stream = TcpStream::connect(&page.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let head =
            format!("Host: {}\r\nCookie: {}\r\nConnection: close", page.address, page.cookie);
        write!(stream, "GET {}/events HTTP/1.1\r\n{head}\r\n\r\n", page.base).unwrap();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200");
        stream
    };
    let (mut closed, mut kept) = (open(&browser), open(&other));
    let logout = browser.post("/logout", &[]);
    assert_eq!(logout.status, 200);
    let cookie = logout.header("set-cookie").unwrap();
    assert!(cookie.contains("=; Path=/console;") && cookie.ends_with("Max-Age=0"), "{cookie}");
    // Wait for less time than the interval at which comments keep an open stream alive. So a stream that stays open
    // fails the test.
    closed.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    closed.read_to_string(&mut String::new()).unwrap();
    kept.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let error = kept.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "the page of the other session is open");
}

#[test]
fn a_page_of_an_earlier_session_changes_nothing_and_shows_what_to_do() {
    let home = &Home::new();
    let (_, admin) = key(home, &["ada", "--admin"]);
    let (mut browser, _messages) = served(home, "");
    browser.log_in(&[("key", &admin)]);
    let old = browser.token.clone();
    browser.log_in(&[("key", &admin)]);
    let headers = format!("Origin: http://{}\r\n", browser.address);
    let form = [("token", old.as_str()), ("action", "stop")];
    let refused = browser.post_with("/servers/desk", &form, &headers);
    let text = refused.text();
    assert!(refused.status == 403 && text.contains("Go back, load the page again"), "{text}");
    assert!(text.contains("href=\"/console/servers\""), "the page has the navigation: {text}");
    assert_eq!(home.json("servers-ls", &["servers", "ls"])[0]["status"], "connected");
}

#[test]
fn the_count_of_waiting_calls_is_right_without_scripts() {
    let home = &Home::new();
    let (_, admin) = key(home, &["ada", "--admin"]);
    let (mut browser, _messages) = served(home, "");
    browser.log_in(&[("key", &admin)]);
    let count = || {
        let page = browser.get("/servers").body;
        let (_, mark) = page.split_once("data-live=\"count\">").unwrap();
        mark.split('<').next().unwrap().to_owned()
    };
    assert_eq!(count(), "");
    let call = calling(home, &json!({ "message": "a" }));
    let id = waiting(home);
    assert_eq!(count(), "1");
    home.silent(&["approvals", "deny", &id]);
    assert!(!ended(call).0);
    assert_eq!(count(), "");
}

#[test]
fn a_page_has_an_icon_of_its_own_and_a_wrong_address_an_answer() {
    let kernel = Kernel::bench();
    let browser = Browser::new(&kernel.home);
    let icon = format!("rel=\"icon\" type=\"image/svg+xml\" href=\"{}/icon.svg\"", browser.base);
    let stranger = browser.with_cookie("");
    for page in [browser.get(""), stranger.get("")] {
        assert!(page.body.contains(&icon), "{}", page.body);
    }
    let icon = stranger.get("/icon.svg");
    assert_eq!((icon.status, icon.header("content-type")), (200, Some("image/svg+xml")));
    let wrong = browser.get("/gone");
    assert!(wrong.status == 404 && wrong.body.contains("no such page"), "{}", wrong.body);
}

#[test]
fn only_operators_of_the_kernel_log_in_from_elsewhere() {
    let home = &Home::new();
    let (_, agent) = key(home, &["bob"]);
    let (_, foreign) = key(home, &["mia", "--admin", "--tenant", "acme"]);
    let (_, admin) = key(home, &["ada", "--admin"]);
    let (browser, _) = served(home, "");
    for (key, status) in [(agent.as_str(), 403), (&foreign, 403), ("mgp_x_y", 401), ("", 401)] {
        let refused = browser.post("/login", &[("key", key)]);
        assert_eq!((refused.status, refused.header("set-cookie")), (status, None), "{key}");
    }
    let bearer = format!("Authorization: Bearer {agent}\r\n");
    assert_eq!(browser.get_with("/servers", &bearer).status, 401, "the pages know sessions only");
    let events = browser.with_cookie("mgp_console=0000").get("/events");
    assert_eq!(events.status, 401, "an open page learns that its session has ended");
    let login = [("key", agent.as_str())];
    for headers in ["Origin: http://evil.example\r\n", "Origin: null\r\n", ""] {
        assert_eq!(browser.post_with("/login", &login, headers).status, 403, "{headers}");
    }
    let request = "GET /console HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(send(&browser.address, request).status, 403, "a foreign name for this machine");
    let address = &browser.address;
    for path in ["/console", "/healthz", "/mcp"] {
        let hosts = format!("Host: {address}\r\nHost: {address}");
        let request = format!("GET {path} HTTP/1.1\r\n{hosts}\r\nConnection: close\r\n\r\n");
        assert_eq!(send(address, &request).status, 400, "two hosts at {path}");
    }
    let mut wrong = 4;
    let closed = loop {
        let answer = browser.post("/login", &[("key", "mgp_x_y")]);
        wrong += 1;
        if answer.status != 401 || wrong > 20 {
            break answer;
        }
    };
    assert_eq!(closed.status, 429, "{}", closed.body);
    assert!(closed.header("retry-after").is_some());
    let login = [("key", admin.as_str()), ("next", "/servers")];
    let mut ada = browser.with_cookie("");
    assert_eq!(ada.log_in(&login), "/console/servers", "a right key opens it");
    let page = ada.get("/servers").body;
    assert!(
        page.contains("ada</td><td data-label=\"As\">Operator</td>"),
        "the list of clients names the login: {page}"
    );
}

/// Regression test: the first page after the revocation of a key was an error with status 502.
#[test]
fn a_page_asks_for_a_login_as_soon_as_its_key_was_revoked() {
    let home = &Home::new();
    let (id, admin) = key(home, &["ada", "--admin"]);
    let (mut browser, _) = served(home, "");
    browser.log_in(&[("key", &admin)]);
    assert_eq!(browser.get("/servers").status, 200);
    home.succeed(&["keys", "revoke", &id]);
    let mut page = (200, String::new());
    until_blocking("the kernel knows that it was revoked", || {
        let answer = browser.get("/servers");
        page = (answer.status, answer.body);
        page.0 != 200
    });
    assert!(page.0 == 401 && page.1.contains("name=\"key\""), "{page:?}");
}

#[test]
fn the_address_of_the_console_may_end_with_a_slash() {
    let home = &Home::new();
    let (browser, _) = served(home, "");
    let moved = browser.get("/");
    assert_eq!((moved.status, moved.header("location")), (308, Some("/console")));
}

/// Returns an HTTP request that calls a tool with this key.
fn call_request(address: &str, key: &str, tool: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": tool, "arguments": { "message": "a" }, "_meta": meta });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let call = call.to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Authorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {}\r\n\r\n{call}",
        call.len()
    )
}

#[test]
fn a_message_names_no_call_of_another_tenant() {
    let home = &Home::new();
    let (_, key) = key(home, &["eve", "--tenant", "acme"]);
    let (browser, message) = served(home, "");
    let mut foreign = TcpStream::connect(&browser.address).unwrap();
    let request = call_request(&browser.address, &key, "desk.echo");
    foreign.write_all(request.as_bytes()).unwrap();
    until_blocking("the call of the other tenant waits", || {
        let asked = home.json("audit-query", &["audit", "query", "--agent", "eve"]);
        asked.to_string().contains("approval_requested")
    });
    let own = calling(home, &json!({ "message": "a" }));
    let id = waiting(home);
    let message = message();
    let lines = message["lines"].as_array().unwrap();
    assert!(lines.len() == 1 && lines[0].as_str().unwrap().contains(&id), "{message}");
    home.silent(&["approvals", "deny", &id]);
    assert!(!ended(own).0);
}

#[test]
fn a_refused_call_of_another_tenant_has_no_link_that_changes_the_own_one() {
    let (home, files) = (&Home::new(), Home::new());
    let (_, admin) = key(home, &["ada", "--admin"]);
    let (_, foreign) = key(home, &["eve", "--tenant", "acme"]);
    let tools = json!([{
        "name": "write_file", "description": "Writes a file.", "inputSchema": { "type": "object" },
    }]);
    let servers = [
        format!("[[servers]]\nid = 'shut'\ncommand = '{}'\n", program("echo")),
        stub(&files, "files", &tools, &json!({ "content": [] })),
        "[servers.mgp]\ndefault_policy = 'opt-out'\npermission_policy = 'deny_all'\n".to_owned(),
        "risk = { write_file = 'safe' }\n".to_owned(),
    ];
    let (mut browser, _) = served(home, &servers.concat());
    browser.log_in(&[("key", &admin)]);
    let calls = [
        ("shut", "shut.echo", "Show the rule"),
        ("files", "files.write_file", "Grant this permission for an hour"),
    ];
    until_blocking("the tools are listed", || {
        let all = home.succeed(&["tools", "ls"]);
        calls.iter().all(|(_, tool, _)| all.contains(tool))
    });
    for (server, tool, link) in calls {
        send(&browser.address, &call_request(&browser.address, &foreign, tool));
        let mut record = String::new();
        until_blocking("the refusal is recorded", || {
            record = browser.get(&format!("/record?server={server}&agent=eve")).text();
            record.contains("TOOL_BLOCKED</a>")
        });
        assert!(record.contains("acme") && !record.contains(link), "{record}");
    }
}

#[test]
fn a_public_address_that_is_configured_later_is_one_of_the_console() {
    let home = &Home::new();
    let (browser, _) = served(home, "");
    let request = "GET /console HTTP/1.1\r\nHost: mgp.example\r\nConnection: close\r\n\r\n";
    assert_eq!(send(&browser.address, request).status, 403);
    let config = fs::read_to_string(home.path("c.toml")).unwrap();
    let public = "[kernel]\nconsole_url = 'https://mgp.example/console'\n";
    home.write("c.toml", &format!("{config}{public}"));
    home.succeed(&["reload"]);
    assert_eq!(send(&browser.address, request).status, 401, "it asks for a login");
    home.write("c.toml", &config);
    home.succeed(&["reload"]);
    assert_eq!(send(&browser.address, request).status, 403);
}

#[test]
fn a_browser_has_a_session_of_each_console_of_a_host() {
    let homes = [Home::new(), Home::new()];
    let browsers = homes.each_ref().map(|home| {
        let (_, admin) = key(home, &["ada", "--admin"]);
        let (mut browser, _) = served(home, "");
        browser.log_in(&[("key", &admin)]);
        browser
    });
    let both = browsers.each_ref().map(|browser| browser.cookie.clone()).join("; ");
    for browser in &browsers {
        assert_eq!(browser.with_cookie(&both).get("").status, 200, "{both}");
    }
    let names = browsers.each_ref().map(|browser| browser.cookie.split('=').next().unwrap());
    assert_ne!(names[0], names[1]);
}

/// Regression test: an operator who may only read could end the sessions of all others.
#[test]
fn the_logins_of_one_operator_end_no_session_of_another() {
    let home = &Home::new();
    let (_, admin) = key(home, &["ada", "--admin"]);
    let (_, reader) = key(home, &["eve", "--admin", "--permission", "admin.read"]);
    let (mut browser, _) = served(home, "");
    browser.log_in(&[("key", &admin)]);
    let mut first = browser.with_cookie("");
    first.log_in(&[("key", &reader)]);
    for _ in 0..64 {
        assert_eq!(browser.with_cookie("").post("/login", &[("key", &reader)]).status, 303);
    }
    assert_eq!((browser.get("/servers").status, first.get("/servers").status), (200, 401));
}

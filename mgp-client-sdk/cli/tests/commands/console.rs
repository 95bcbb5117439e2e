//! Tests of `mgp console`: requests of a browser, and of an attacker, to the pages of a running kernel.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mgp_testkit::{KilledChild, until_blocking};
use serde_json::Value;

use crate::kernel::Kernel;
use crate::program::program;
use crate::world::Home;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A running console and a browser that has logged in; dropping this value ends the console's process.
pub(crate) struct Browser {
    /// The process of `mgp console`; `None` if another `Browser` of the same console has it.
    pub(crate) console: Option<KilledChild>,
    pub(crate) address: String,
    pub(crate) base: String,
    pub(crate) cookie: String,
    pub(crate) token: String,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// Returns the body with its HTML entities decoded.
    pub(crate) fn text(&self) -> String {
        self.body
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&amp;", "&")
    }
}

/// Sends the text of an HTTP request unchanged, and returns the whole answer.
pub(crate) fn send(address: &str, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { unchunked(body) } else { body.to_owned() };
    Answer { status, head: head.to_owned(), body }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&rest[..size]);
        body = rest[size..].strip_prefix("\r\n").unwrap_or_default();
    }
    whole
}

fn encoded(pairs: &[(&str, &str)]) -> String {
    let mut form = String::new();
    for (name, value) in pairs {
        write!(form, "&{name}=").unwrap();
        value.bytes().for_each(|byte| write!(form, "%{byte:02X}").unwrap());
    }
    form.split_off(form.len().min(1))
}

/// Starts `mgp console` in a home folder, and returns its process and the link that it prints.
fn started(home: &Home, more: &[&str]) -> (Child, String) {
    let mut command = home.command(&["console", "--print"]);
    command.args(more);
    let mut console = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let mut link = String::new();
    BufReader::new(console.stdout.take().unwrap()).read_line(&mut link).unwrap();
    (console, link.trim().to_owned())
}

impl Kernel {
    /// Opens a console of the kernel; returns it together with the kernel's home.
    pub(crate) fn console(&self) -> (&Home, Browser) {
        (&self.home, Browser::new(&self.home))
    }
}

impl Browser {
    pub(crate) fn new(home: &Home) -> Self {
        let (console, link) = started(home, &[]);
        let (address, path) = link.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let (base, key) = path.split_once("/login?key=").unwrap();
        let mut browser = Self {
            console: Some(KilledChild(console)),
            address: address.to_owned(),
            base: format!("/{base}"),
            cookie: String::new(),
            token: String::new(),
        };
        let asked = browser.get(&format!("/login?key={key}"));
        assert!(asked.status == 200 && asked.body.contains("method=\"post\""), "{}", asked.body);
        browser.log_in(&[("key", key)]);
        browser
    }

    /// Logs in with these form fields, and returns the page to which the login leads.
    pub(crate) fn log_in(&mut self, pairs: &[(&str, &str)]) -> String {
        let login = self.post("/login", pairs);
        assert_eq!(login.status, 303, "{}", login.body);
        let cookie = login.header("set-cookie").unwrap();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict"), "{cookie}");
        cookie.split(';').next().unwrap().clone_into(&mut self.cookie);
        let page = self.get("").body;
        let token = page.split("name=\"token\" value=\"").nth(1).unwrap();
        token.split('"').next().unwrap().clone_into(&mut self.token);
        login.header("location").unwrap().to_owned()
    }

    /// Returns another browser for the same console, with this cookie.
    pub(crate) fn with_cookie(&self, cookie: &str) -> Self {
        Self {
            console: None,
            address: self.address.clone(),
            base: self.base.clone(),
            cookie: cookie.to_owned(),
            token: self.token.clone(),
        }
    }

    fn host(&self) -> String {
        format!("Host: {}\r\nConnection: close\r\n", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.get_with(path, "")
    }

    pub(crate) fn get_with(&self, path: &str, headers: &str) -> Answer {
        let (base, host, cookie) = (&self.base, self.host(), &self.cookie);
        send(
            &self.address,
            &format!("GET {base}{path} HTTP/1.1\r\n{host}Cookie: {cookie}\r\n{headers}\r\n"),
        )
    }

    /// Posts a form with these fields and the token of this session.
    pub(crate) fn post(&self, path: &str, pairs: &[(&str, &str)]) -> Answer {
        let mut all = vec![("token", self.token.as_str())];
        all.extend(pairs);
        self.post_with(path, &all, &format!("Origin: http://{}\r\n", self.address))
    }

    pub(crate) fn post_with(&self, path: &str, pairs: &[(&str, &str)], headers: &str) -> Answer {
        let (base, host, cookie) = (&self.base, self.host(), &self.cookie);
        let form = encoded(pairs);
        let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
        let length = form.len();
        send(
            &self.address,
            &format!(
                "POST {base}{path} HTTP/1.1\r\n{host}Cookie: {cookie}\r\n{kind}{headers}Content-Length: {length}\r\n\r\n{form}"
            ),
        )
    }

    /// Posts a form, follows the redirect, and returns the text of that page.
    #[track_caller]
    pub(crate) fn done(&self, path: &str, pairs: &[(&str, &str)]) -> String {
        let answer = self.post(path, pairs);
        assert_eq!(answer.status, 303, "{}", answer.body);
        let next = answer.header("location").unwrap().strip_prefix(&self.base).unwrap();
        let page = self.get(next);
        assert_eq!(page.status, 200, "{}", page.body);
        page.text()
    }
}

/// Starts a kernel whose tool `echo` needs an approval for each call; its configuration begins with `more`.
pub(crate) fn guarded(more: &str) -> Kernel {
    let echo = program("echo");
    let kernel = Kernel::new(&format!(
        "{more}[[servers]]\nid = 'desk'\ncommand = '{echo}'\n[servers.mgp]\ndefault_policy = 'opt-out'\nrisk = {{ echo = 'dangerous' }}\n"
    ));
    until_blocking("the tools are listed", || kernel.server("desk")["tools"].as_u64() >= Some(1));
    kernel
}

/// Calls the tool `desk.echo` in another process, with the arguments on its standard input.
pub(crate) fn calling(home: &Home, arguments: &Value) -> Child {
    call_of(home, "desk.echo", arguments)
}

/// Calls a tool in another process, with the arguments on its standard input.
pub(crate) fn call_of(home: &Home, tool: &str, arguments: &Value) -> Child {
    let mut command = home.command(&["tools", "call", tool, "--arguments", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(arguments.to_string().as_bytes()).unwrap();
    child
}

/// Waits until a call of a tool waits for an approval, and returns the id of this approval.
pub(crate) fn waiting(home: &Home) -> String {
    let mut id = String::new();
    until_blocking("a call waits", || {
        let all = home.json("approvals-ls", &["approvals", "ls"]);
        let open = all.as_array().unwrap().iter().find(|one| one["state"] == "open");
        id = open.map(|open| open["id"].as_str().unwrap().to_owned()).unwrap_or_default();
        !id.is_empty()
    });
    id
}

/// Waits until the process of a call has ended; returns `true` if it succeeded, and its output.
pub(crate) fn ended(child: Child) -> (bool, String) {
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn a_call_is_answered_with_all_its_arguments_on_the_page() {
    let kernel = guarded("");
    let (home, browser) = kernel.console();
    assert!(browser.get("").text().contains("Nothing waits for you."));
    let long = format!("begin {} end", "x".repeat(200 << 10));
    let call = calling(home, &serde_json::json!({ "message": long }));
    let id = waiting(home);
    let inbox = browser.get("").text();
    assert!(inbox.contains("default → desk.echo") && inbox.contains("dangerous"), "{inbox}");
    let whole = browser.get(&format!("/call/{id}")).text();
    assert!(whole.contains(&long), "all arguments are shown");
    let at = |text: &str| whole.find(text).unwrap_or(usize::MAX);
    assert!(at(&long) < at("value=\"once\""), "the buttons come after the arguments");
    assert!(whole.contains("confirmation"), "the rules are shown");
    let page =
        browser.done("/decide", &[("id", &id), ("answer", "once"), ("because", "it is mine")]);
    assert!(page.contains("default → desk.echo: allowed once"), "{page}");
    let (is_done, text) = ended(call);
    assert!(is_done && text.contains("\nbegin xxx"), "{}", &text[..200]);

    let call = calling(home, &serde_json::json!({ "message": "no" }));
    let id = waiting(home);
    browser.done("/decide", &[("id", &id), ("answer", "deny"), ("because", "not on Fridays")]);
    let (is_done, text) = ended(call);
    assert!(!is_done && text.contains("not on Fridays"), "{text}");
    let page = browser.done("/decide", &[("id", &id), ("answer", "once")]);
    assert!(page.contains("desk.echo: allowed once"), "an approval takes the denial back: {page}");

    let call = calling(home, &serde_json::json!({ "message": "like this" }));
    let id = waiting(home);
    browser.done("/decide", &[("id", &id), ("answer", "hour")]);
    assert!(ended(call).0);
    assert!(ended(calling(home, &serde_json::json!({ "message": "another" }))).0, "for an hour");
    let access = browser.get("/access").text();
    assert!(access.contains("call-"), "the approval can be withdrawn: {access}");
    let permission = access.split("name=\"permission\" value=\"").nth(1).unwrap();
    let permission = permission.split('"').next().unwrap();
    browser.done("/access/withdraw", &[("server", "desk"), ("permission", permission)]);
    let call = calling(home, &serde_json::json!({ "message": "again" }));
    let id = waiting(home);
    browser.done("/decide", &[("id", &id), ("answer", "never")]);
    assert!(!ended(call).0);
    let (is_done, text) = ended(calling(home, &serde_json::json!({ "message": "never" })));
    assert!(!is_done && !text.contains("waits"), "{text}");
}

#[test]
fn approval_of_calls_like_one_lets_the_next_like_it_run_and_holds_others() {
    let kernel = guarded("");
    let (home, browser) = kernel.console();
    let call = calling(home, &serde_json::json!({ "message": "a" }));
    let id = waiting(home);
    browser.done("/decide", &[("id", &id), ("answer", "like")]);
    assert!(ended(call).0);
    assert!(ended(calling(home, &serde_json::json!({ "message": "a" }))).0);
    let other = calling(home, &serde_json::json!({ "message": "$(rm -rf /)" }));
    let id = waiting(home);
    home.silent(&["approvals", "deny", &id]);
    assert!(!ended(other).0);
    let decided = ["audit", "query", "--type", "dev.cloto.approval_decided"];
    let table = home.succeed(&decided);
    assert!(table.lines().last().unwrap().contains("  DENIED  "), "{table}");
    let page = browser.done("/decide", &[("id", &id), ("answer", "once")]);
    assert!(page.contains("desk.echo: allowed once"), "an approval takes the denial back: {page}");
}

#[test]
fn texts_of_agents_are_never_markup() {
    let kernel = guarded("");
    let (home, browser) = kernel.console();
    let hostile =
        "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\u{1b}[2J\u{202e}\u{200b}\"'&";
    let call = calling(home, &serde_json::json!({ "message": hostile, "</dt><script>x": 1 }));
    let id = waiting(home);
    for page in ["", &format!("/call/{id}"), "/record"] {
        let body = browser.get(page).body;
        assert!(!body.contains("<script>") && !body.contains("<img"), "{page}");
        assert!(!body.contains(['\u{1b}', '\u{202e}', '\u{200b}']), "{page}");
    }
    browser.done("/decide", &[("id", &id), ("answer", "deny"), ("because", "<b>no</b>")]);
    assert!(!ended(call).0);
    assert!(!browser.get("/record").body.contains("<b>no"), "reasons are text too");
    let odd = browser.get("/story/%3Cscript%3E%22%27");
    assert!(odd.status == 200 && !odd.body.contains("<script>"), "{}", odd.body);
    assert_eq!(browser.get("/call/%3Cscript%3E").status, 404);
    let shown = browser.get("?done=%3Cscript%3Ealert(1)%3C/script%3E").body;
    assert!(!shown.contains("<script>alert"), "{shown}");
}

#[test]
fn only_the_browser_of_the_link_gets_in_and_no_other_site_uses_its_session() {
    let kernel = guarded("");
    let browser = Browser::new(&kernel.home);
    let page = browser.get("");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    assert_eq!(page.header("x-frame-options"), Some("DENY"));
    assert_eq!(page.header("cross-origin-opener-policy"), Some("same-origin"));
    assert_eq!(page.header("cache-control"), Some("no-store"));

    let stranger = browser.with_cookie("");
    for path in ["", "/servers", "/record/export", "/events", "/configuration"] {
        assert_eq!(stranger.get(path).status, 401, "{path}");
    }
    let (name, _) = browser.cookie.split_once('=').unwrap();
    let fixed = browser.with_cookie(&format!("{name}=0000"));
    assert_eq!(fixed.get("").status, 401);
    let (mut second, link) = started(&kernel.home, &["7k/2m"]);
    let (link, item) = link.split_once("&next=").unwrap();
    assert_eq!(item, "%2Fcall%2F7k%252F2m", "an approval to show first");
    let (_, key) = link.split_once("key=").unwrap();
    assert_eq!(browser.post("/login", &[("key", key)]).status, 401, "the link of another console");
    second.kill().unwrap();
    second.wait().unwrap();

    let own = format!("Origin: http://{}\r\n", browser.address);
    let stop = [("token", browser.token.as_str()), ("action", "stop")];
    let refused = |headers: &str, pairs: &[(&str, &str)]| {
        let answer = browser.post_with("/servers/desk", pairs, headers);
        assert_eq!(answer.status, 403, "{headers} {pairs:?}: {}", answer.body);
    };
    refused("Origin: http://evil.example\r\n", &stop);
    refused("Origin: null\r\n", &stop);
    refused("", &stop);
    refused(&format!("{own}Sec-Fetch-Site: cross-site\r\n"), &stop);
    refused(&format!("{own}Sec-Fetch-Site: same-site\r\n"), &stop);
    refused(&own, &stop[1..]);
    refused(&own, &[("token", "0"), ("action", "stop")]);
    let embedded =
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n";
    assert_eq!(browser.get_with("", embedded).status, 403);
    let followed =
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n";
    assert_eq!(browser.get_with("", followed).status, 200);
    let (base, cookie) = (&browser.base, &browser.cookie);
    let twice = format!("{0}\r\nHost: {0}", browser.address);
    for host in ["evil.example", "127.0.0.1", "127.0.0.1:1", "", &twice] {
        let request = format!(
            "GET {base} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        );
        assert!([400, 403].contains(&send(&browser.address, &request).status), "{host}");
    }
    assert_eq!(kernel.server("desk")["status"], "connected");
    let huge = "x".repeat(100 << 10);
    assert_eq!(browser.post("/access/grant", &[("agent", &huge)]).status, 413);
    assert_eq!(browser.post("/logout", &[]).status, 200);
    assert_eq!(browser.get("").status, 401, "logged out");
}

#[test]
fn every_page_shows_the_kernel_and_its_actions_change_it() {
    let kernel = Kernel::bench();
    let (home, browser) = kernel.console();
    assert!(browser.get("/servers").text().contains("bench"));
    assert!(
        browser.get_with("/servers", "Accept-Language: de-CH\r\n").text().contains("Werkzeuge")
    );
    let granted = browser.done(
        "/access/grant",
        &[("agent", "default"), ("server", "bench"), ("answer", "allow"), ("expires", "1h")],
    );
    assert!(granted.contains("default → bench: allow (Until: 1h)"), "{granted}");
    let entry = home.json("access-query", &["access", "query", "default", "bench"]);
    assert!(entry["entries"][0]["expires_at"].is_string(), "{entry}");
    let wrong = [("agent", "default"), ("server", "bensh"), ("answer", "allow")];
    let answer = browser.post("/access/grant", &wrong);
    assert!(
        answer.status == 422 && answer.text().contains("did you mean `bench`?"),
        "the name meant is shown"
    );
    let config = fs::read_to_string(home.path("c.toml")).unwrap();
    home.write("c.toml", &format!("{config}[limits]\ncalls_per_day = 40\n[agents.default]\n"));
    assert!(browser.get("/access").text().contains("0 / 40"), "the quota of an agent");
    let why = browser.get("/access?agent=default&tool=bench.nothing").text();
    assert!(why.contains("class=\"failed\""), "{why}");
    let found = browser.get("/search?query=add%20two%20numbers&agent=default").text();
    assert!(found.contains("bench."), "{found}");
    assert!(found.contains("Nothing is recorded."), "no search was kept: {found}");
    browser.done("/access/revoke", &[("agent", "default"), ("server", "bench")]);
    let entry = home.json("access-query", &["access", "query", "default", "bench"]);
    assert_eq!(entry["entries"].as_array().unwrap().len(), 0, "{entry}");

    let stopped = browser.done("/servers/bench", &[("action", "stop")]);
    assert!(stopped.contains("disconnected"), "{stopped}");
    browser.done("/servers/bench", &[("action", "start")]);
    until_blocking("the server runs again", || kernel.server("bench")["status"] == "connected");
    assert_eq!(browser.get("/servers/gone").status, 404);

    let record = browser.get("/record?type=ACCESS_GRANTED&verify=yes").text();
    assert!(record.contains("ACCESS_GRANTED") && record.contains("records, unchanged"), "{record}");
    assert!(record.contains("class=\"done\" data-keep"), "an open page verifies once: {record}");
    assert!(record.contains("?type=ACCESS_GRANTED&format=jsonl\""), "so does a link: {record}");
    let wrong = browser.get("/record?agent=ada&since=yesterday");
    assert!(wrong.status == 400 && wrong.body.contains("value=\"ada\""), "{}", wrong.body);
    let exported = browser.get("/record/export").body;
    let lines: Vec<Value> =
        exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let granted = lines.iter().find(|line| line["event_type"] == "ACCESS_GRANTED").unwrap();
    let trace = granted["trace_id"].as_str().unwrap();
    assert!(browser.get(&format!("/story/{trace}")).body.contains("<svg"));
    let files = browser.get("/configuration").text();
    assert!(files.contains("[[servers]]") && files.contains("c.toml"), "{files}");
    until_blocking("the changed file is applied", || {
        browser.done("/configuration", &[]).contains("nothing has changed")
    });
    for file in ["/style.css", "/live.js"] {
        assert_eq!(browser.get(file).status, 200, "{file}");
    }
}

#[test]
fn the_search_page_shows_what_an_agent_did_not_find_and_what_its_lists_saved() {
    let (echo, search) = (program("echo"), "[kernel.search]\nlearning = true\n");
    let config = format!(
        "{search}[[servers]]\nid = 'desk'\ncommand = '{echo}'\n[servers.mgp]\ndefault_policy = 'opt-out'\n"
    );
    let kernel = Kernel::new(&config);
    until_blocking("the tools are listed", || kernel.server("desk")["tools"].as_u64() >= Some(1));
    let home = &kernel.home;
    let asked = |method: &str, params: &str, id: u8| {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n")
    };
    let search = |query: &str| {
        format!("{{\"name\":\"mgp_tools_discover\",\"arguments\":{{\"query\":\"{query}\"}}}}")
    };
    let hello = "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"host\",\"version\":\"1\"}}";
    let lines = [
        asked("initialize", hello, 1),
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n".to_owned(),
        asked("tools/list", "{}", 2),
        asked("tools/call", &search("send <b>a fax</b> to Mars"), 3),
        asked("tools/call", &search("echo a text"), 4),
        asked("tools/call", "{\"name\":\"desk.echo\",\"arguments\":{\"message\":\"x\"}}", 5),
    ];
    // Start the console before `mgp serve --stdio`, which makes this test process a host: the kernel does not accept
    // programs of a host as operators.
    let browser = Browser::new(home);
    let mut command = home.command(&["serve", "--stdio"]);
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut host = pipes.spawn().unwrap();
    let (mut input, output) = (host.stdin.take().unwrap(), host.stdout.take().unwrap());
    let mut output = BufReader::new(output).lines();
    // Send each line after the answer to the previous one, because the call must follow its search.
    for line in lines {
        input.write_all(line.as_bytes()).unwrap();
        let id = serde_json::from_str::<Value>(&line).unwrap()["id"].clone();
        let is_answer = |answer: &Value| answer["id"] == id && answer.get("method").is_none();
        while !id.is_null() {
            let line = output.next().unwrap().unwrap();
            if is_answer(&serde_json::from_str(&line).unwrap()) {
                break;
            }
        }
    }
    let page = browser.get("/search?agent=default");
    assert!(page.text().contains("send <b>a fax</b> to Mars"), "{}", page.body);
    assert!(!page.body.contains("<b>a fax"), "a query is text: {}", page.body);
    assert!(!page.text().contains("echo a text"), "a call followed: {}", page.body);
    assert!(page.body.contains("(1 list)"), "the list of today: {}", page.body);
    drop(input);
    assert!(host.wait().unwrap().success());
}

#[test]
fn an_open_page_learns_of_a_waiting_call_at_once() {
    let kernel = guarded("");
    let (home, browser) = kernel.console();
    let mut stream = TcpStream::connect(&browser.address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let (base, cookie, address) = (&browser.base, &browser.cookie, &browser.address);
    write!(stream, "GET {base}/events HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n")
        .unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    lines.by_ref().find(|line| line == "x-accel-buffering: no").unwrap();
    lines.by_ref().find(|line| line == "event: waiting").unwrap();
    assert_eq!(lines.by_ref().find(|line| line.starts_with("data: ")).unwrap(), "data: 0");
    let call = calling(home, &serde_json::json!({ "message": "a" }));
    let count = lines.find(|line| line == "data: 1");
    assert_eq!(count.as_deref(), Some("data: 1"));
    home.silent(&["approvals", "deny", &waiting(home)]);
    assert!(!ended(call).0);
}

#[test]
fn the_script_of_a_page_holds_no_connection_while_the_page_is_hidden() {
    let kernel = Kernel::bench();
    let script = Browser::new(&kernel.home).get("/live.js").body;
    for part in ["visibilitychange", "source.close()", "AbortSignal.timeout(10000)"] {
        assert!(script.contains(part), "{part}");
    }
}

#[test]
fn a_page_shows_that_its_connection_is_lost_and_leads_to_the_login_once_its_session_has_ended() {
    let kernel = Kernel::bench();
    let browser = Browser::new(&kernel.home);
    let page = browser.get("").body;
    let lost = page.split(" id=\"lost\"").nth(1).unwrap().split("</p>").next().unwrap();
    assert!(lost.contains(" hidden>This page has no connection"), "{lost}");
    let script = browser.get("/live.js").body;
    let parts = [
        "answer.status === 401",
        "answer.ok || answer.status === 404",
        "location.reload()",
        "lost.hidden = false",
    ];
    for part in parts.iter().chain(&["own.readyState === EventSource.CLOSED) late = true"]) {
        assert!(script.contains(part), "{part}");
    }
    // While a person types into a form, the page does not load again, but still reconnects to the event stream of
    // changes.
    let (_, kept) = script.split_once("if (isInUse() || document.hidden) {").unwrap();
    assert!(kept.split('}').next().unwrap().contains("reconnect();"), "{kept}");
}

#[test]
fn the_console_serves_while_the_program_that_opened_the_browser_runs() {
    let home = Home::new();
    let script = "#!/bin/sh\necho $$ > \"$HOME/opener\"\ncp \"$1\" \"$HOME/part\" && mv \"$HOME/part\" \"$HOME/opened\"\nexec sleep 30\n";
    for name in ["xdg-open", "open"] {
        let program = home.write(&format!("bin/{name}"), script);
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = home.command(&["console"]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", home.path("bin").display()));
    let mut console = command.spawn().unwrap();
    let mut page = String::new();
    until_blocking("the browser is opened", || {
        page = fs::read_to_string(home.path("opened")).unwrap_or_default();
        !page.is_empty()
    });
    let (_, link) = page.split_once("url=http://").unwrap();
    let (address, path) = link.split('"').next().unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut status = String::new();
    BufReader::new(stream).read_line(&mut status).unwrap();
    assert!(status.contains(" 200 "), "{status}");
    console.kill().unwrap();
    console.wait().unwrap();
    let opener = fs::read_to_string(home.path("opener")).unwrap();
    Command::new("kill").arg(opener.trim()).status().unwrap();
    home.run(&["stop"]);
}

#[test]
fn the_console_starts_a_kernel_if_none_runs_and_ends_with_it() {
    let home = Home::new();
    let mut browser = Browser::new(&home);
    let servers = browser.get("/servers");
    assert!(servers.status == 200 && servers.body.contains("`mgp servers add"), "{}", servers.body);
    home.silent(&["stop"]);
    let mut code = None;
    until_blocking("the console ends", || {
        code = browser.console.as_mut().unwrap().try_wait().unwrap();
        code.is_some()
    });
    assert_eq!(code.unwrap().code(), Some(3));
}

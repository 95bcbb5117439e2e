//! Tests of `mgp servers login` against a real authorization server; the tests act as the browser.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use mgp_testkit::{KilledChild, until_blocking};
use serde_json::{Value, json};

use crate::kernel::Kernel;
use crate::world::{CommandOutput, Home};

/// An authorization server, an MCP server that requires its tokens, and a kernel that connects to the MCP server.
struct World {
    issuer: TestServer,
    kernel: Kernel,
}

/// A running test server of the workspace, which prints its address at the start.
pub(crate) struct TestServer {
    pub(crate) origin: String,
    _child: KilledChild,
}

impl TestServer {
    pub(crate) fn new(name: &str) -> Self {
        Self::with(name, &[])
    }

    /// Starts a server with arguments.
    pub(crate) fn with(name: &str, arguments: &[&str]) -> Self {
        let program = mgp_testkit::program(name);
        let mut command = Command::new(program);
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { origin: line.trim().to_owned(), _child: KilledChild(child) }
    }

    fn control(&self, what: &str) -> String {
        get(&format!("{}/test/{what}", self.origin)).1
    }
}

impl World {
    fn new(more: &str) -> Self {
        let issuer = TestServer::new("oauth_server");
        let home = Home::new();
        home.write("secret", "s3cret\n");
        let config = format!(
            "[[servers]]\nid = 'tracker'\nurl = '{}/mcp'\n{more}\n\
             [servers.mgp]\ndefault_policy = 'opt-out'\nrisk = {{ whoami = 'safe' }}\n",
            issuer.origin
        );
        home.configure(&config);
        Self { kernel: Kernel::on(home, None), issuer }
    }

    fn home(&self) -> &Home {
        &self.kernel.home
    }

    fn call(&self, agent: &str) -> CommandOutput {
        self.home().run(&["tools", "call", "tracker.whoami", "--agent", agent])
    }

    #[track_caller]
    fn answers(&self, agent: &str, user: &str) {
        let ended = self.call(agent);
        assert_eq!((ended.code, ended.out.trim()), (Some(0), user), "{ended:?}");
    }

    #[track_caller]
    fn refuses(&self, agent: &str, remedy: &str) {
        let ended = self.call(agent);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!((ended.out.clone() + &ended.err).contains(remedy), "{remedy}: {ended:?}");
    }

    /// Starts `mgp servers login`; returns its process, the first line of its output that `fits` accepts, and a reader
    /// for the output after this line.
    fn begin(
        &self,
        more: &[&str],
        fits: fn(&str) -> bool,
    ) -> (Child, BufReader<ChildStderr>, String) {
        let arguments = [&["servers", "login", "tracker"], more].concat();
        let mut login = self.home().command(&arguments);
        let mut login = login.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(login.stderr.take().unwrap());
        let mut line = String::new();
        while !fits(&line) {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the login printed no address");
        }
        (login, output, line.trim().to_owned())
    }

    /// Runs `mgp servers login` to its end, and logs in as a user by following the redirects like a browser.
    #[track_caller]
    fn log_in(&self, user: &str, more: &[&str]) {
        let (login, output, page) = self.begin(more, |line| line.contains("/authorize?"));
        enter(&page, user);
        succeeded(login, output);
    }

    fn server(&self) -> Value {
        self.kernel.server("tracker")
    }

    /// Returns the token revocations that the authorization server has logged since its log was last read.
    fn revoked(&self) -> Vec<String> {
        let log = self.issuer.control("log");
        log.lines().filter(|line| line.starts_with("revoke ")).map(str::to_owned).collect()
    }
}

/// Opens the page of a login as a user, and follows the redirect back to the command.
#[track_caller]
fn enter(page: &str, user: &str) {
    let (head, _) = get(&format!("{page}&user={user}"));
    let back = head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap();
    let page = get(back).1;
    assert!(page.contains("the terminal shows the result") && !page.contains("complete"), "{page}");
}

#[track_caller]
fn succeeded(mut login: Child, mut output: BufReader<ChildStderr>) {
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(login.wait().unwrap().success(), "{rest}");
}

/// Sends a GET request; returns the head and the body of the response.
pub(crate) fn get(url: &str) -> (String, String) {
    exchange("GET", url, &[], "")
}

/// Sends JSON in a POST request; returns the body of the response.
pub(crate) fn post_json(url: &str, headers: &[&str], body: &Value) -> String {
    let accepts = ["content-type: application/json", "accept: application/json, text/event-stream"];
    exchange("POST", url, &[&accepts, headers].concat(), &body.to_string()).1
}

fn exchange(method: &str, url: &str, headers: &[&str], body: &str) -> (String, String) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let headers = [headers, &[""]].concat().join("\r\n");
    let length = body.len();
    write!(
        stream,
        "{method} /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let (head, body) = page.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn a_login_lasts_until_it_is_revoked_and_then_names_its_remedy() {
    const LOGIN: &str = "run `mgp servers login tracker`";
    let world = World::new("");
    until_blocking("the lack of a login is shown", || {
        let server = world.server();
        server["status"] == "error" && server["error"].to_string().contains(LOGIN)
    });
    let (report, _) = world.home().any_json("doctor", &["doctor", "tracker"]);
    let fixes = report["checks"].as_array().unwrap().iter().map(|check| &check["fix"]);
    assert!(fixes.into_iter().any(|fix| fix == LOGIN), "{report}");

    world.issuer.control("ttl?seconds=1");
    world.log_in("ada", &[]);
    world.answers("x", "ada");
    let file = world.home().path(".local/state/mgp/logins/tracker.json");
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    sleep(Duration::from_millis(1100));
    world.issuer.control("log");
    world.answers("x", "ada");
    assert!(world.issuer.control("log").contains("refresh ada"), "an expired token is renewed");
    world.issuer.control("ttl?seconds=3600");
    world.issuer.control("expire");
    world.answers("x", "ada");

    world.issuer.control("revoke?user=ada");
    world.refuses("x", LOGIN);
    let server = world.server();
    assert_eq!(server["status"], "error", "{server}");
    assert!(server["error"].to_string().contains("expired or was revoked"), "{server}");
    let checked = world.home().run(&["doctor", "tracker"]);
    assert!(checked.err.contains("refresh token refused"), "the log has the reason: {checked:?}");
    world.log_in("bob", &[]);
    world.answers("x", "bob");
    assert_eq!(world.server()["error"], Value::Null);

    world.issuer.control("log");
    world.home().succeed(&["servers", "logout", "tracker"]);
    assert_eq!(world.revoked(), ["revoke refresh bob", "revoke access bob"]);
    world.refuses("x", LOGIN);
    world.home().fail(1, &["servers", "logout", "tracker"], "there is no login");
}

#[test]
fn a_login_whose_tokens_are_refused_fails_with_the_status() {
    let world = World::new("");
    let (mut login, mut output, page) = world.begin(&[], |line| line.contains("/authorize?"));
    world.issuer.control("token-fault?status=400");
    enter(&page, "ada");
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(login.wait().unwrap().code(), Some(1), "{rest}");
    assert!(rest.contains("refused to issue a token (status 400) ("), "{rest}");
}

#[test]
fn a_login_that_needs_another_one_gives_the_reason() {
    let world = World::new("");
    world.issuer.control("needs?scope=read");
    let (login, mut output, page) = world.begin(&[], |line| line.contains("/authorize?"));
    enter(&page, "ada");
    let mut shown = String::new();
    while !shown.contains("/authorize?") {
        assert_ne!(output.read_line(&mut shown).unwrap(), 0, "no second address: {shown}");
    }
    assert!(shown.contains("did not suffice"), "{shown}");
    enter(shown.lines().last().unwrap().trim(), "ada");
    succeeded(login, output);
}

#[test]
fn a_logout_deletes_tokens_that_cannot_be_revoked_and_reports_them() {
    let world = World::new("");
    world.log_in("ada", &[]);
    world.issuer.control("token-fault?status=503");
    let ended = world.home().run(&["servers", "logout", "tracker"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("not all were revoked") && ended.err.contains("503"), "{ended:?}");
    assert!(!world.home().path(".local/state/mgp/logins/tracker.json").exists());
    world.refuses("x", "run `mgp servers login tracker`");
}

#[test]
fn a_repeated_login_revokes_the_tokens_that_it_replaces() {
    let world = World::new("");
    world.log_in("ada", &[]);
    world.answers("x", "ada");
    world.issuer.control("log");
    world.log_in("bob", &[]);
    assert_eq!(world.revoked(), ["revoke refresh ada", "revoke access ada"]);
    world.answers("x", "bob");
}

#[test]
fn a_logout_at_a_disabled_server_revokes_its_tokens() {
    let world = World::new("");
    world.log_in("ada", &[]);
    world.home().silent(&["servers", "disable", "tracker"]);
    world.issuer.control("log");
    world.home().silent(&["servers", "logout", "tracker"]);
    assert_eq!(world.revoked(), ["revoke refresh ada", "revoke access ada"]);
}

#[test]
fn removing_a_server_revokes_and_deletes_all_logins_there() {
    let world = World::new("login = 'agent'");
    world.log_in("kernel", &[]);
    world.log_in("ada", &["--agent", "a"]);
    world.issuer.control("log");
    let ended = world.home().run(&["servers", "rm", "tracker"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("removed with it: 2 logins"), "{ended:?}");
    let revoked = world.revoked();
    for token in ["refresh kernel", "access kernel", "refresh ada", "access ada"] {
        assert!(revoked.contains(&format!("revoke {token}")), "{revoked:?}");
    }
    let left = fs::read_dir(world.home().path(".local/state/mgp/logins")).unwrap();
    let left: Vec<_> = left.map(|file| file.unwrap().path()).collect();
    assert!(!left.iter().any(|file| file.extension().is_some_and(|end| end == "json")), "{left:?}");
}

#[test]
fn removing_a_tenant_revokes_the_logins_of_its_agents_only() {
    let world = World::new("login = 'agent'");
    world.log_in("bob", &["--agent", "a"]);
    for is_disabled in [false, true] {
        world.log_in("ada", &["--agent", "a", "--tenant", "acme"]);
        world.home().succeed(&["keys", "add", "a", "--tenant", "acme"]);
        if is_disabled {
            world.home().silent(&["servers", "disable", "tracker"]);
        }
        world.issuer.control("log");
        let ended = world.home().run(&["tenants", "rm", "acme", "--yes"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.err.contains("tracker: removed with it: 1 login"), "{ended:?}");
        assert_eq!(world.revoked(), ["revoke refresh ada", "revoke access ada"]);
    }
}

#[test]
fn a_tenant_whose_keys_are_revoked_is_still_listed_and_removed_with_its_logins() {
    let world = World::new("login = 'agent'");
    world.home().succeed(&["keys", "add", "a", "--tenant", "acme"]);
    world.log_in("ada", &["--agent", "a", "--tenant", "acme"]);
    world.home().succeed(&["keys", "revoke", "--tenant", "acme", "--yes"]);
    let listed = world.home().json("tenants-ls", &["tenants", "ls"]);
    assert_eq!((&listed[0]["keys"], &listed[0]["logins"]), (&json!(0), &json!(1)), "{listed}");
    world.home().succeed(&["tenants", "rm", "acme", "--yes"]);
    assert_eq!(world.revoked(), ["revoke refresh ada", "revoke access ada"]);
    assert_eq!(world.home().json("tenants-ls", &["tenants", "ls"]), json!([]));
}

#[test]
fn a_kernel_uses_no_login_of_a_removed_tenant_even_if_its_tokens_are_still_valid() {
    let World { issuer, kernel } = World::new("login = 'agent'");
    let home = kernel.killed();
    fs::remove_file(home.path("ready.json")).unwrap();
    // Unlike the killed kernel, this one requires keys.
    let serve = home.command(&["serve", "--http", "127.0.0.1:0"]);
    let world = World { issuer, kernel: Kernel::start(home, serve) };
    let ready = fs::read_to_string(world.home().path("ready.json")).unwrap();
    let ready: Value = serde_json::from_str(&ready).unwrap();
    let origin = ready["http"].as_str().unwrap().strip_suffix("/mcp").unwrap();
    let call = || {
        let made = world.home().json("keys-add", &["keys", "add", "a", "--tenant", "acme"]);
        let key = format!("authorization: Bearer {}", made["key"].as_str().unwrap());
        post_json(&format!("{origin}/tools/tracker.whoami"), &[&key], &json!({}))
    };
    world.log_in("kernel", &[]);
    until_blocking("the tools are listed", || world.server()["tools"] == 1);
    world.log_in("ada", &["--agent", "a", "--tenant", "acme"]);
    until_blocking("the call uses the login", || call().contains(r#""ada""#));
    // Tokens of a server whose entry cannot be read are not revoked.
    world.home().configure("[[servers\n");
    let ended = world.home().run(&["tenants", "rm", "acme", "--yes"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("tracker: removed with it: 1 login"), "{ended:?}");
    assert_eq!(world.revoked(), [""; 0], "{ended:?}");
    let answer = call();
    assert!(answer.contains("tracker --agent a --tenant acme"), "{answer}");
}

#[test]
fn a_server_whose_tokens_cannot_be_revoked_is_removed_and_they_are_reported() {
    let world = World::new("");
    world.log_in("ada", &[]);
    world.issuer.control("token-fault?status=503");
    let ended = world.home().run(&["servers", "rm", "tracker"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("not all were revoked") && ended.err.contains("503"), "{ended:?}");
    assert!(!world.home().path(".local/state/mgp/logins/tracker.json").exists());
}

#[test]
fn a_logout_does_not_start_a_server_that_an_operator_stopped() {
    let world = World::new("");
    world.log_in("ada", &[]);
    world.answers("x", "ada");
    world.home().succeed(&["servers", "stop", "tracker"]);
    until_blocking("the server is stopped", || world.server()["status"] == "disconnected");
    world.home().succeed(&["servers", "logout", "tracker"]);
    assert_eq!(world.server()["status"], "disconnected");
}

#[test]
fn two_agents_with_their_own_logins_never_share_a_token() {
    let world = World::new("login = 'agent'");
    world.log_in("kernel", &[]);
    until_blocking("the tools are listed", || world.server()["tools"] == 1);
    world.issuer.control("log");
    world.log_in("ada", &["--agent", "a"]);
    world.refuses("b", "mgp servers login tracker --agent b");
    world.log_in("bob", &["--agent", "b"]);
    for _ in 0..3 {
        world.answers("a", "ada");
        world.answers("b", "bob");
    }
    let log = world.issuer.control("log");
    let tokens = |user: &str| -> Vec<String> {
        let calls = log.lines().filter_map(|line| line.strip_prefix(&format!("call {user} ")));
        calls.map(str::to_owned).collect()
    };
    let (ada, bob, kernel) = (tokens("ada"), tokens("bob"), tokens("kernel"));
    assert!(ada.len() >= 3 && bob.len() >= 3, "{log}");
    assert!(ada.iter().all(|token| !bob.contains(token) && !kernel.contains(token)), "{log}");
    world.home().succeed(&["servers", "logout", "tracker", "--agent", "a"]);
    world.refuses("a", "--agent a");
    world.answers("b", "bob");
}

#[test]
fn a_kernel_has_credentials_of_its_own_by_configuration() {
    let world = World::new(
        "auth = { grant = 'client_credentials', client_id = 'nightly', client_secret = '${file:~/secret}' }",
    );
    until_blocking("the tools are listed", || world.server()["tools"] == 1);
    world.answers("x", "nightly");
    world.issuer.control("expire");
    world.answers("x", "nightly");
    world.issuer.control("forget-machine");
    world.refuses("x", "check its `auth`");
    world.home().fail(2, &["servers", "login", "tracker"], "mgp logs in itself");
}

#[test]
fn a_kernel_proves_with_its_private_key_who_it_is() {
    let configured = |key_id: &str| {
        let key = include_str!("../../../tests/auth/keys/es256.pem");
        World::new(&format!(
            "auth = {{ grant = 'client_credentials', client_id = 'nightly', key_id = '{key_id}',\
             private_key = \"\"\"{key}\"\"\" }}"
        ))
    };
    let world = configured("k1");
    until_blocking("the tools are listed", || world.server()["tools"] == 1);
    world.answers("x", "nightly");
    configured("k2").refuses("x", "check its `auth`");
}

#[test]
fn a_login_that_a_configured_header_would_replace_is_refused() {
    let world = World::new("headers = { authorization = 'Bearer x' }");
    world.home().fail(2, &["servers", "login", "tracker"], "used instead of a login");
}

#[test]
fn a_reload_gives_a_kernel_credentials_of_its_own_and_takes_them_away() {
    const LOGIN: &str = "run `mgp servers login tracker`";
    let world = World::new("");
    let lacks_login = || world.server()["error"].to_string().contains(LOGIN);
    until_blocking("the lack of a login is shown", lacks_login);
    let file = world.home().path(".config/mgp/servers.toml");
    let without = fs::read_to_string(&file).unwrap();
    let auth = "auth = { grant = 'client_credentials', client_id = 'nightly', client_secret = '${file:~/secret}' }";
    fs::write(&file, without.replacen("[servers.mgp]", &format!("{auth}\n[servers.mgp]"), 1))
        .unwrap();
    world.home().succeed(&["reload"]);
    until_blocking("the tools are listed", || world.server()["tools"] == 1);
    world.answers("x", "nightly");
    fs::write(&file, without).unwrap();
    world.home().succeed(&["reload"]);
    world.refuses("x", LOGIN);
}

#[test]
fn a_person_without_a_browser_here_logs_in_on_another_device() {
    let world = World::new("");
    let (login, output, line) = world.begin(&["--no-browser"], |line| line.contains("enter"));
    assert!(line.contains("WDJB-MJHT") && line.contains("/test/device"), "{line}");
    world.issuer.control("device?user=bob");
    succeeded(login, output);
    world.answers("x", "bob");
}

#[test]
fn a_failing_token_endpoint_is_not_a_login_that_has_expired() {
    let world = World::new("");
    world.log_in("ada", &[]);
    world.answers("x", "ada");
    world.issuer.control("expire");
    world.issuer.control("token-fault?status=503");
    let ended = world.call("x");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let text = ended.out.clone() + &ended.err;
    assert!(text.contains("503") && !text.contains("servers login"), "{ended:?}");
    assert_eq!(world.server()["error"], Value::Null);
    world.issuer.control("token-fault");
    world.answers("x", "ada");
}

#[test]
fn each_refusal_for_lack_of_scopes_names_all_scopes_of_the_next_login() {
    let world = World::new("");
    world.log_in("ada", &[]);
    let step_up = |needs: &str, scopes: &str, calls: usize| {
        world.issuer.control(&format!("needs?scope={needs}"));
        for _ in 0..calls {
            world.refuses("x", &format!("mgp servers login tracker --scopes {scopes}"));
        }
    };
    step_up("read", "read", 1);
    world.log_in("ada", &["--scopes", "read"]);
    world.answers("x", "ada");
    step_up("write", "'read write'", 1);
    world.log_in("ada", &["--scopes", "read write"]);
    world.answers("x", "ada");
    step_up("admin", "'read write admin'", 5);
}

#[test]
fn a_client_that_was_registered_by_hand_logs_in_with_one_redirect_uri() {
    let world = World::new("auth = { client_id = 'x' }");
    // Occupy the port for the first attempt. No other test uses this port; if another program does, the test ends after
    // this attempt.
    let taken = TcpListener::bind("127.0.0.1:8976");
    world.home().fail(1, &["servers", "login", "tracker"], "cannot listen on port 8976");
    if taken.is_err() {
        return;
    }
    drop(taken);
    let (login, output, page) = world.begin(&[], |line| line.contains("/authorize?"));
    assert!(page.contains("127.0.0.1%3A8976%2Fcallback"), "{page}");
    enter(&page, "ada");
    succeeded(login, output);
    world.answers("x", "ada");
}

#[test]
fn where_no_client_can_register_the_error_names_the_key_for_one() {
    let world = World::new("");
    world.issuer.control("no-registration");
    let ended = world.home().run(&["servers", "login", "tracker"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("write its `client_id` into `auth` of `tracker`"), "{ended:?}");
    assert!(!ended.err.contains("preregistered"), "{ended:?}");
}

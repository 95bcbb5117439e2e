//! Tests of connections to servers through an HTTP proxy, and of the secrets that are sent to servers.

use std::io::{BufRead as _, BufReader, Write as _, copy};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;

use mgp_testkit::{http_response, serve_http, until_blocking};
use serde_json::Value;

use crate::kernel::Kernel;
use crate::login::TestServer;
use crate::program::program;
use crate::world::Home;

/// A proxy that connects every tunnel to one fixed target on this machine, and records the requests for tunnels.
struct TunnelProxy {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl TunnelProxy {
    fn to(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://ann:pw@{}", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (target, log) = (target.to_owned(), Arc::clone(&requests));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (target, log) = (target.clone(), Arc::clone(&log));
                thread::spawn(move || tunnel(client, &target, &log));
            }
        });
        Self { url, requests }
    }

    fn log(&self) -> String {
        self.requests.lock().unwrap().concat()
    }
}

fn tunnel(mut client: TcpStream, target: &str, log: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    log.lock().unwrap().push(head);
    let mut server = TcpStream::connect(target).unwrap();
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    let mut back = server.try_clone().unwrap();
    let mut to_client = client.try_clone().unwrap();
    thread::spawn(move || {
        let _ = copy(&mut back, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let _ = copy(&mut reader, &mut server);
    let _ = server.shutdown(Shutdown::Both);
}

fn config(kernel: &str, server: &str) -> String {
    format!(
        "{kernel}\n[[servers]]\nid = 'old'\nurl = 'http://mcp.test/sse'\ntransport = 'sse'\n{server}\n\
         [servers.mgp]\ndefault_policy = 'opt-out'\nrisk = {{ echo = 'safe' }}\n"
    )
}

#[test]
fn a_server_is_reached_over_the_configured_proxy() {
    let server = TestServer::new("sse_server");
    let proxy = TunnelProxy::to(server.origin.strip_prefix("http://").unwrap());
    let home = Home::new();
    let of_kernel = format!("[kernel]\nproxy = '{}'", proxy.url);
    home.configure(&config(&of_kernel, ""));
    let kernel = Kernel::on(home, None);
    until_blocking("the tools are listed", || kernel.server("old")["tools"] == 1);
    let said = kernel.home.succeed(&["tools", "call", "old.echo", "text=far"]);
    assert_eq!(said.trim(), "far");
    let log = proxy.log();
    assert!(log.contains("CONNECT mcp.test:80 "), "{log}");
    assert!(log.contains("Proxy-Authorization: Basic YW5uOnB3"), "{log}");
}

#[test]
fn the_proxy_of_the_environment_is_used_unless_the_configuration_says_no() {
    let server = TestServer::new("sse_server");
    let proxy = TunnelProxy::to(server.origin.strip_prefix("http://").unwrap());
    let tools = |text: &str, no_proxy: &str| {
        let home = Home::new();
        home.configure(text);
        let mut doctor = home.command(&["--json", "doctor", "old"]);
        doctor.env("http_proxy", &proxy.url).env("no_proxy", no_proxy);
        let output = doctor.stderr(Stdio::null()).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        report["tools"].clone()
    };
    assert_eq!(tools(&config("", ""), ""), 1);
    assert_eq!(tools(&config("", ""), "mcp.test:81"), 1);
    for direct in [".test", "*.test", "mcp.test:80"] {
        assert_eq!(tools(&config("", ""), direct), 0, "{direct}");
    }
    assert_eq!(tools(&config("[kernel]\nproxy = 'none'", ""), ""), 0);
}

#[test]
fn a_proxy_that_opens_no_connection_is_named_with_the_remedy() {
    let refusing = |status: &'static str| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (mut reader, mut line) = (BufReader::new(client), String::new());
                while reader.read_line(&mut line).unwrap_or(0) > "\r\n".len() {}
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                let _ = reader.get_mut().write_all(answer.as_bytes());
            }
        });
        address
    };
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let unused = mgp_testkit::unused_address();
    for (address, reason) in [
        (silent.local_addr().unwrap(), "it does not answer"),
        (refusing("407 Proxy Authentication Required"), "(HTTP 407)"),
        (refusing("502 Bad Gateway"), "it refuses the address, or cannot reach it"),
        (unused, "Connection refused"),
    ] {
        let home = Home::new();
        let config = format!(
            "[kernel]\nproxy = 'http://ann:s3cret@{address}'\n[[servers]]\nid = 'far'\nurl = 'http://mcp.test/mcp'\n"
        );
        home.configure(&config);
        let (report, _) = home.any_json("doctor", &["doctor", "far"]);
        let checks = report["checks"].as_array().unwrap();
        let failed = |check: &&Value| check["server"] == "far" && check["level"] == "fail";
        let check = checks.iter().find(failed).unwrap();
        let (what, fix) = (check["what"].as_str().unwrap(), check["fix"].as_str().unwrap());
        assert!(what.contains(&format!("the proxy http://{address}")), "{check}");
        assert!(what.contains(reason) && fix.contains("`kernel.proxy`"), "{check}");
        assert!(!report.to_string().contains("s3cret"), "{report}");
    }
}

#[test]
fn a_webhook_uses_the_configured_proxy_and_changes_it_with_the_configuration() {
    // The target never answers, so the kernel repeats the delivery of the events.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = silent.local_addr().unwrap().to_string();
    let (first, second) = (TunnelProxy::to(&target), TunnelProxy::to(&target));
    let bench = program("workbench");
    let home = Home::new();
    let write = |home: &Home, proxy: &TunnelProxy| {
        let text = format!(
            "[kernel]\nproxy = '{}'\n[kernel.webhooks.far]\nurl = 'https://hook.test/x'\n\
             channels = ['system.*']\n[[servers]]\nid = 'bench'\ncommand = '{bench}'\n",
            proxy.url
        );
        home.configure(&text);
    };
    write(&home, &first);
    let kernel = Kernel::on(home, None);
    until_blocking("an event is sent", || first.log().contains("CONNECT hook.test:443 "));
    assert_eq!(second.log(), "");
    write(&kernel.home, &second);
    until_blocking("it is sent over the other proxy", || {
        second.log().contains("CONNECT hook.test:443 ")
    });
}

#[test]
fn a_webhook_that_cannot_be_sent_to_is_found_before_a_kernel_runs() {
    let home = Home::new();
    home.configure(
        r#"
[kernel.webhooks.keyless]
url = "https://hook.example/in"
secret = "${file:~/no-such-key}"
[kernel.webhooks.plain]
url = "http://hook.example/h0ok-secret"
[kernel.webhooks.here]
url = "http://127.0.0.1:9/in"
allow_loopback = true
[kernel.webhooks.inside]
url = "http://10.0.0.5/in"
allow_private = true
[kernel.webhooks.blocked]
url = "https://10.0.0.5/in"
allow_loopback = true
[kernel.notify.phone]
ntfy = "http://ntfy.example/topic"
[kernel.notify.chat]
webhook = "http://chat.internal/hook"
allow_private = true
"#,
    );
    let report = home.json("doctor", &["doctor", "--no-start"]);
    let found = |key: &str| {
        let checks = report["checks"].as_array().unwrap();
        let of_key = |check: &&Value| check["what"].to_string().contains(key);
        checks.iter().find(of_key).map(ToString::to_string)
    };
    let [keyless, plain, phone] =
        ["webhooks.keyless`", "webhooks.plain`", "notify.phone`"].map(|key| found(key).unwrap());
    assert!(keyless.contains("no-such-key") && keyless.contains("\"warn\""), "{keyless}");
    assert!(plain.contains("not https") && plain.contains("allow_loopback"), "{plain}");
    assert!(phone.contains("not https"), "{phone}");
    let blocked = found("webhooks.blocked`").unwrap();
    assert!(blocked.contains("private") && blocked.contains("allow_private"), "{blocked}");
    for allowed in ["webhooks.here`", "webhooks.inside`", "notify.chat`"] {
        assert_eq!(found(allowed), None);
    }
    assert!(!report.to_string().contains("h0ok-secret"), "{report}");
}

#[test]
fn a_secret_is_in_no_file_that_others_read() {
    let home = Home::new();
    let server = "[[servers]]\nid = 's'\ncommand = '/bin/sh'\n\
        args = ['-c', 'echo got $TOKEN >&2; exit 1']\nenv = { TOKEN = '${keyring:token}' }\n";
    home.configure(server);
    home.fail(1, &["doctor", "s"], "1 check failed");
    assert!(home.run(&["doctor", "s"]).out.contains("mgp secrets set token"));
    assert_eq!(home.run_fed(&["secrets", "set", "token"], "hunter2-hunter2\n").code, Some(0));
    assert_eq!(home.json("secrets-ls", &["secrets", "ls"]), serde_json::json!(["token"]));
    // The server has received the secret, but no output shows it.
    let report = home.run(&["doctor", "s"]);
    assert!(report.out.contains("got") && !report.out.contains("hunter2"), "{report:?}");
    let file = home.path(".local/state/mgp/secrets.json");
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    home.succeed(&["secrets", "rm", "token"]);
    home.fail(1, &["secrets", "rm", "token"], "there is no secret");
}

#[test]
fn a_refused_header_is_explained_in_words_of_the_configuration() {
    let home = Home::new();
    let url = serve_http(|_| http_response(401, "", "")) + "/mcp";
    let header = ["--header", "Authorization: Bearer old"];
    let add = [&["servers", "add", "tracker", "--url", &url][..], &header].concat();
    let added = home.succeed(&add);
    assert!(added.contains("correct the `headers` of its entry"), "{added}");
    assert!(added.contains("`mgp servers login tracker`") && !added.contains(".bearer"), "{added}");
}

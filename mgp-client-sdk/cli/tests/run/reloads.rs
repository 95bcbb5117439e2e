//! Tests of the effects of keys in `mgp.toml`: before and after a reload changes them, or after the restart that the
//! reload demands.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

use mgp_client_sdk::Client;
use serde_json::{Value, json};

use crate::events::receiver;
use crate::exports::{Collector, rank};
use crate::notify::{mail_server, next};
use crate::reach::{agent, blocks, call, configure, listed, text, world};
use crate::serving::Serving;
use crate::world::{Host, World, kill, within};

/// Applies the changed file immediately, as `mgp reload` does; returns the text of the answer.
fn apply(world: &World) -> String {
    world.operator().ask("mgp/kernel/reload", &json!({})).unwrap().to_string()
}

/// Replaces the lines after the server's entry in `mgp.toml`, and applies the file.
fn reload(world: &World, more: &str) -> String {
    configure(world, more);
    apply(world)
}

/// Inserts keys before `[servers.mgp]` in the server's entry, replaces the lines after the entry, and applies the file.
fn reload_entry(world: &World, keys: &str, more: &str) -> String {
    configure(world, more);
    let file = fs::read_to_string(world.config_file()).unwrap();
    world.config(&file.replacen("[servers.mgp]", &format!("{keys}\n[servers.mgp]"), 1));
    apply(world)
}

/// Checks that the answer of a reload and the status of the kernel both state that the key takes effect at the next
/// start of the kernel.
fn waits_for_a_restart(world: &World, reloaded: &str, key: &str) {
    let what = format!("`{key}` takes effect at the next start of the kernel");
    assert!(reloaded.contains(&what), "{reloaded}");
    let status = world.operator().ask("mgp/kernel/info", &json!({})).unwrap().to_string();
    assert!(status.contains(&what), "{status}");
}

/// Kills the kernel, and returns a host of the next kernel. Checks that its status names no key that waits for a
/// restart.
fn restarted(world: &World, mut host: Host) -> Host {
    kill("-KILL", world.kernel().unwrap());
    host.end();
    let mut host = agent(world, "ann");
    works(&mut host);
    let status = world.operator().ask("mgp/kernel/info", &json!({})).unwrap().to_string();
    assert!(!status.contains("takes effect at the next start"), "{status}");
    host
}

/// Waits until the tool `log` answers.
fn works(host: &mut Host) {
    within(|| host.call("log", &json!({})).ok());
}

/// Returns the entry of a server in `mgp servers ls`.
fn server(world: &World, id: &str) -> Value {
    let servers = world.operator().ask("mgp/kernel/servers", &json!({})).unwrap();
    let servers = servers["servers"].as_array().unwrap().iter();
    servers.clone().find(|one| one["id"] == id).cloned().unwrap_or_default()
}

/// Changes the script of the server before it is started.
fn edit_script(world: &World, from: &str, to: &str) {
    let path = world.folder.join("server.sh");
    let script = fs::read_to_string(&path).unwrap();
    assert!(script.contains(from), "{script}");
    fs::write(path, script.replacen(from, to, 1)).unwrap();
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

const LOOP: &str = "while IFS= read -r line; do";

#[test]
fn a_reload_changes_the_pinned_tools_the_surface_and_the_budget_of_an_agent() {
    let search = |agent: &str| format!("[kernel]\nsurface = \"search\"\n[agents.ann]\n{agent}\n");
    let tools = [("log", text("a")), ("rows", text("b")), ("sums", text("c"))];
    let world = world(&tools, &search("pinned = [\"log\"]"));
    let mut ann = agent(&world, "ann");
    within(|| listed(&mut ann).contains("log").then_some(()));
    assert!(!listed(&mut ann).contains("rows"));
    let session = || {
        let all = world.operator().ask("mgp/kernel/sessions", &json!({})).unwrap();
        let all = all["sessions"].as_array().unwrap().clone();
        all.into_iter().find(|one| one["agent_id"] == "ann").unwrap()
    };
    assert_eq!((&session()["pinned"], &session()["max_tokens"]), (&json!(["log"]), &json!(8000)));

    reload(&world, &search("pinned = [\"rows\"]\nbudget = 3000"));
    assert!(listed(&mut ann).contains("rows"));
    assert_eq!((&session()["pinned"], &session()["max_tokens"]), (&json!(["rows"]), &json!(3000)));

    let budget = "[kernel.tool_context_budget]\nmax_tokens = 6000\npinned_reserve = 1000\n\
        discovery_reserve = 1000\ncache_limit = 1000\n";
    reload(&world, &(search("surface = \"direct\"") + budget));
    assert_eq!(listed(&mut ann), ["log", "rows", "sums"].map(str::to_owned).into());
    assert_eq!((&session()["pinned"], &session()["max_tokens"]), (&json!([]), &json!(6000)));
}

#[test]
fn a_reload_changes_access_risk_trust_and_permissions_of_a_server_that_keeps_running() {
    let granted = "permissions_required = [\"camera\"]\npermissions = [\"camera\"]\n";
    let kernel = "[kernel]\napproval_timeout = \"1s\"\n";
    let world = world(&[("log", text("a"))], &format!("{granted}{kernel}"));
    let mut ann = agent(&world, "ann");
    works(&mut ann);
    let before = server(&world, "files");
    assert_eq!(before["trust_level"], "trusted");
    let file = fs::read_to_string(world.config_file()).unwrap();
    let mut after = |changed: &str| {
        world.config(changed);
        apply(&world);
        ann.call("log", &json!({})).map_err(|refused| refused.to_string())
    };
    let refused = after(&file.replace("opt-out", "opt-in")).unwrap_err();
    assert!(refused.contains("1001"), "{refused}");
    after(&file).unwrap();
    let risky = file.replace("[kernel]", "risk = { log = 'dangerous' }\n[kernel]");
    let refused = after(&risky).unwrap_err();
    assert!(refused.contains("approv"), "{refused}");
    let denied =
        file.replace("permissions = [\"camera\"]\n", "") + "permission_policy = \"deny_all\"\n";
    let refused = after(&denied).unwrap_err();
    assert!(refused.contains("camera"), "{refused}");
    after(&denied.replace("[kernel]", "permission_policy = \"auto_approve\"\n[kernel]")).unwrap();
    // The kernel does not rely on what an untrusted server declares, so the call needs an approval.
    let refused = after(&file.replace("\"trusted\"", "\"sandboxed\"")).unwrap_err();
    assert!(refused.contains("approv"), "{refused}");
    let now = server(&world, "files");
    assert_eq!((&now["trust_level"], &now["pid"]), (&json!("sandboxed"), &before["pid"]));
}

#[test]
fn a_reload_decides_whether_a_server_without_its_permissions_is_closed() {
    let lacks = "permission_policy = \"deny_all\"\nrestart_policy = \"never\"\n";
    let world = world(&[("log", text("a"))], lacks);
    let mgp = r#"{"version":"0.6.1","extensions":["permissions","lifecycle"],"permissions_required":["camera"]}"#;
    edit_script(&world, r#"{"tools":{}}"#, &format!(r#"{{"tools":{{}},"mgp":{mgp}}}"#));
    let mut ann = agent(&world, "ann");
    reload_entry(&world, "era = \"legacy\"", lacks);
    within(|| (server(&world, "files")["status"] == "connected").then_some(()));
    let refused = within(|| ann.call("log", &json!({})).err());
    assert!(refused.to_string().contains("camera"), "{refused}");

    reload_entry(&world, "era = \"legacy\"", &format!("{lacks}on_ungranted = \"close\"\n"));
    let closed = within(|| Some(server(&world, "files")).filter(|one| one["status"] == "error"));
    assert!(closed["error"].as_str().unwrap().contains("camera"), "{closed}");

    let granted = format!("{lacks}on_ungranted = \"close\"\npermissions = [\"camera\"]\n");
    reload_entry(&world, "era = \"legacy\"", &granted);
    works(&mut ann);
}

#[test]
fn a_reload_changes_how_many_calls_of_an_agent_run_at_once() {
    let world = world(&[("log", text("a")), ("rows", text("b"))], "");
    let answer =
        r#"printf '{"jsonrpc":"2.0","id":%s,"result":' "$id"; cat "$1/$tool.json"; printf '}\n'"#;
    let later = r#"( n=0; while [ ! -e "$1/go" ] && [ $n -lt 400 ]; do sleep 0.05; n=$((n + 1)); done
      printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$(cat "$1/$tool.json")" ) &"#;
    edit_script(&world, answer, later);
    let (go, begun) = (world.folder.join("go"), world.folder.join("calls"));
    fs::write(&go, "").unwrap();
    let (mut one, mut two, mut bob) =
        (agent(&world, "ann"), agent(&world, "ann"), agent(&world, "bob"));
    works(&mut one);
    let begun = |tool: &str| read(&begun).lines().filter(|line| *line == tool).count();
    for (limit, at_once) in [("", 2), ("[limits]\nrunning = 1\n", 1)] {
        reload(&world, limit);
        fs::remove_file(&go).unwrap();
        let before = begun("log");
        thread::scope(|scope| {
            let first = scope.spawn(|| one.call("log", &json!({})).unwrap());
            let second = scope.spawn(|| two.call("log", &json!({})).unwrap());
            within(|| (begun("log") == before + at_once).then_some(()));
            let other = begun("rows");
            let of_bob = scope.spawn(|| bob.call("rows", &json!({})).unwrap());
            // The limit applies to each agent separately, so a call of `bob` runs too.
            within(|| (begun("rows") > other).then_some(()));
            assert_eq!(begun("log"), before + at_once, "{limit}");
            fs::write(&go, "").unwrap();
            for running in [first, second, of_bob] {
                running.join().unwrap();
            }
        });
        assert_eq!(begun("log"), before + 2, "{limit}");
    }
}

#[test]
fn a_reload_changes_how_much_of_a_result_reaches_an_agent() {
    let kernel = |most: u32| format!("[kernel.results]\nmax_text = {most}\n");
    let world = world(&[("log", text(&"a line\n".repeat(3000)))], &kernel(900));
    let mut ann = agent(&world, "ann");
    works(&mut ann);
    let mut length = || {
        let (blocks, handle) = blocks(&call(&mut ann, "log", &json!({})).unwrap());
        assert!(handle.is_some());
        blocks[0]["text"].as_str().unwrap().len()
    };
    assert!((400..=902).contains(&length()));
    reload(&world, &kernel(4000));
    assert!((2000..=4002).contains(&length()));
    reload(&world, &(kernel(4000) + "[servers.results]\nmax_text = 1500\n"));
    assert!((1000..=1502).contains(&length()));
}

#[test]
fn a_reload_names_the_search_that_learns_and_a_restart_begins_it() {
    let names = ["amber", "basil", "cedar", "dahlia", "elder", "fennel", "hazel", "log"];
    let tools: Vec<_> = names.iter().map(|name| (*name, text(name))).collect();
    let world = world(&tools, "");
    let mut ann = agent(&world, "ann");
    works(&mut ann);
    let query = |n: usize| format!("a file with the gizmo forecast of quarter {n}");
    let uses = |host: &mut Host| {
        for n in 1..40 {
            rank(host, &query(n), "hazel");
            host.call("hazel", &json!({})).unwrap();
            rank(host, &format!("a file with the roster of team {n}"), "basil");
            host.call("basil", &json!({})).unwrap();
        }
    };
    let before = rank(&mut ann, &query(99), "hazel");
    let reloaded = reload(&world, "[kernel.search]\nlearning = true\n");
    waits_for_a_restart(&world, &reloaded, "kernel.search");
    uses(&mut ann);
    assert!(before > 0 && rank(&mut ann, &query(99), "hazel") == before, "{before}");
    let mut ann = restarted(&world, ann);
    uses(&mut ann);
    within(|| (rank(&mut ann, &query(99), "hazel") == 0).then_some(()));
}

#[test]
fn a_reload_names_the_changed_audit_log_and_a_restart_applies_it() {
    let world = world(&[("log", text("a"))], "");
    let mut ann = agent(&world, "ann");
    works(&mut ann);
    let (sink, folder) = (world.state().join("events.jsonl"), world.state().join("elsewhere"));
    let reloaded = reload(
        &world,
        "[kernel.audit]\ndir = \"elsewhere\"\narguments = \"full\"\n[kernel.audit.sinks.lines]\nfile = \"events.jsonl\"\n",
    );
    waits_for_a_restart(&world, &reloaded, "kernel.audit");
    let recorded = |host: &mut Host, word: &str| {
        host.call("log", &json!({"word": word})).unwrap();
        let filter = json!({"limit": 500, "event_type": "TOOL_EXECUTED"});
        let all = world.operator().ask("mgp/kernel/audit", &filter).unwrap();
        assert!(!all["events"].as_array().unwrap().is_empty(), "{all}");
        all.to_string().contains(word)
    };
    assert!(!recorded(&mut ann, "before the restart"), "the values of arguments are recorded");
    assert!(!sink.exists() && !folder.exists());
    let mut ann = restarted(&world, ann);
    assert!(recorded(&mut ann, "after the restart"));
    within(|| read(&sink).contains("after the restart").then_some(()));
    assert!(folder.exists());
}

#[test]
fn a_reload_begins_the_health_checks_of_a_server() {
    let world = world(&[("log", text("a"))], "");
    edit_script(&world, LOOP, &format!("{LOOP}\n  printf '%s\\n' \"$line\" >>\"$1/lines\""));
    let mut ann = agent(&world, "ann");
    works(&mut ann);
    let is_checked = || read(&world.folder.join("lines")).contains(r#""ping""#);
    // The test waits longer than the interval that the reload sets below.
    thread::sleep(Duration::from_millis(1500));
    assert!(!is_checked());
    reload_entry(&world, "health_interval = \"1s\"", "");
    works(&mut ann);
    within(|| is_checked().then_some(()));
}

#[test]
fn a_reload_changes_whether_a_server_that_ended_is_restarted() {
    let world = world(&[("log", text("a"))], "restart_policy = \"never\"\n");
    let mut ann = agent(&world, "ann");
    works(&mut ann);
    let end = || {
        let pid = server(&world, "files")["pid"].as_u64().unwrap();
        kill("-KILL", u32::try_from(pid).unwrap());
        pid
    };
    end();
    let ended = within(|| Some(server(&world, "files")).filter(|one| one["status"] == "error"));
    assert_eq!(ended["restarts"].as_u64().unwrap_or(0), 0, "{ended}");
    reload(&world, "restart_policy = \"always\"\nbackoff_base_ms = 10\n");
    works(&mut ann);
    let ended = end();
    let is_new = |one: &Value| one["pid"].as_u64().is_some_and(|pid| pid != ended);
    let next = within(|| Some(server(&world, "files")).filter(is_new));
    assert!(next["restarts"].as_u64() >= Some(1), "{next}");
    works(&mut ann);
}

#[test]
fn a_reload_starts_a_changed_server_again_and_leaves_the_others_running() {
    let world = world(&[("log", text("first"))], "");
    let folder = world.folder.display().to_string();
    let second = world.folder.join("second");
    fs::create_dir(&second).unwrap();
    fs::copy(world.folder.join("tools.json"), second.join("tools.json")).unwrap();
    fs::write(second.join("log.json"), text("second").to_string()).unwrap();
    configure(&world, &world.server("other", &format!("exec sh {folder}/server.sh {folder}")));
    let before = fs::read_to_string(world.config_file()).unwrap();
    let after = before.replacen("server.sh ", &format!("server.sh {folder}/second "), 1);
    let mut ann = agent(&world, "ann");
    let mut says = |tool: &str, word: &str| {
        within(|| ann.call(tool, &json!({})).ok().filter(|text| text == word));
    };
    says("files.log", "first");
    says("other.log", "first");
    let pid = |id: &str| server(&world, id)["pid"].clone();
    let pids = (pid("files"), pid("other"));

    world.config(&after);
    let reloaded = apply(&world);
    assert!(reloaded.contains("\"files\"") && !reloaded.contains("\"other\""), "{reloaded}");
    says("files.log", "second");
    assert!(pid("files") != pids.0 && pid("other") == pids.1);

    world.config("[[servers\n");
    let refused = world.operator().ask("mgp/kernel/reload", &json!({})).unwrap_err();
    assert!(refused.to_string().contains("mgp.toml:1:"), "{refused}");
    says("files.log", "second");
    // No command applies the file here: the kernel finds the change by itself.
    world.config(&before);
    says("files.log", "first");
    assert_eq!(pid("other"), pids.1);
}

#[test]
fn a_changed_server_stays_listed_until_its_calls_have_ended() {
    let world = world(&[("log", text("first"))], "");
    let pause = r#"[ -e "$1/seconds" ] && sleep "$(cat "$1/seconds")""#;
    edit_script(&world, pause, r#"while [ -e "$1/wait" ]; do sleep 0.05; done"#);
    let (wait, begun) = (world.folder.join("wait"), world.folder.join("calls"));
    let (mut ann, mut bob) = (agent(&world, "ann"), agent(&world, "bob"));
    works(&mut ann);
    works(&mut bob);
    let before = read(&begun).lines().count();
    fs::write(&wait, "").unwrap();
    thread::scope(|scope| {
        let running = scope.spawn(|| ann.call("log", &json!({})).unwrap());
        within(|| (read(&begun).lines().count() > before).then_some(()));
        let file = fs::read_to_string(world.config_file()).unwrap();
        let keys = "health_interval = \"1h\"\n[servers.mgp]";
        world.config(&file.replacen("[servers.mgp]", keys, 1));
        within(|| (server(&world, "files")["status"] == "draining").then_some(()));
        let refused = bob.call("log", &json!({})).unwrap_err().to_string();
        assert!(refused.contains("starts again with its changed configuration"), "{refused}");
        assert!(listed(&mut bob).contains("log"), "its tool is still listed");
        fs::remove_file(&wait).unwrap();
        assert_eq!(running.join().unwrap(), "first");
    });
    works(&mut bob);
}

#[test]
fn a_reload_changes_the_variables_that_a_program_gets() {
    let world = world(&[("log", text("a"))], "");
    edit_script(&world, LOOP, &format!("env >\"$1/env\"\n{LOOP}"));
    let mut ann = agent(&world, "ann");
    let mut has = |name: &str| {
        works(&mut ann);
        read(&world.folder.join("env")).lines().any(|line| line.starts_with(&format!("{name}=")))
    };
    let restart = || {
        let files = json!({"server_id": "files"});
        world.operator().ask("mgp/kernel/servers/restart", &files).unwrap();
    };
    assert!(!has("CARGO_PKG_NAME"));
    reload_entry(&world, "pass_env = [\"CARGO_PKG_NAME\"]", "");
    assert!(has("CARGO_PKG_NAME"));
    reload(&world, "");
    assert!(!has("CARGO_PKG_NAME"));
    reload(&world, "[kernel]\npass_env = [\"CARGO_PKG_*\"]\n");
    restart();
    assert!(has("CARGO_PKG_NAME"));
}

#[test]
fn a_change_of_the_references_is_logged_and_waits_for_a_restart() {
    let world = world(&[("log", text("a"))], "");
    edit_script(&world, LOOP, &format!("env >\"$1/env\"\n{LOOP}"));
    let mut ann = agent(&world, "ann");
    works(&mut ann);
    // No command applies the file here: the kernel finds the change by itself.
    configure(&world, "[kernel.references]\nenabled = true\n");
    let named = "`kernel.references` takes effect at the next start";
    within(|| read(&world.state().join("kernel.log")).contains(named).then_some(()));
    waits_for_a_restart(&world, &apply(&world), "kernel.references");
    let address = || read(&world.folder.join("env")).contains("MGP_REFERENCES=http://127.0.0.1:");
    assert!(!address());
    let _ann = restarted(&world, ann);
    assert!(address(), "the server does not know the address of references");
}

#[test]
fn a_reload_names_the_collector_and_a_restart_sends_to_it() {
    let world = world(&[("log", text("a"))], "");
    let mut ann = agent(&world, "ann");
    works(&mut ann);
    let collector = Collector::default();
    let url = collector.start();
    let reloaded = reload(&world, &format!("[kernel.telemetry]\notlp = \"{url}\"\n"));
    waits_for_a_restart(&world, &reloaded, "kernel.telemetry");
    let traced = |host: &mut Host, trace: &str| {
        let meta = json!({"traceparent": format!("00-{trace}-00f067aa0ba902b7-01")});
        host.ask("tools/call", &json!({"name": "log", "arguments": {}, "_meta": meta})).unwrap();
    };
    let (before, after) = ("1".repeat(32), "2".repeat(32));
    traced(&mut ann, &before);
    let mut ann = restarted(&world, ann);
    traced(&mut ann, &after);
    within(|| collector.spans().iter().any(|span| span["traceId"] == after).then_some(()));
    assert!(collector.spans().iter().all(|span| span["traceId"] != before));
}

#[test]
fn a_reload_changes_the_places_where_a_person_learns_that_decisions_wait() {
    let ((url, posted), (smtp, mails)) = (receiver(|_, _| 204), mail_server());
    let risky = |place: &str| {
        format!("risk = {{ log = 'dangerous' }}\n[kernel]\napproval_timeout = \"1s\"\n{place}")
    };
    let world = world(&[("log", text("a"))], &risky(""));
    let mut ann = agent(&world, "ann");
    let mut ask = |number: u32| {
        let refused = within(|| ann.call("log", &json!({"number": number})).err());
        assert!(refused.to_string().contains("approv"), "{refused}");
    };
    within(|| (server(&world, "files")["status"] == "connected").then_some(()));
    ask(1);
    let chat = format!(
        "[kernel.notify.chat]\nwebhook = \"{url}\"\nafter = \"1s\"\nallow_loopback = true\n"
    );
    reload(&world, &risky(&chat));
    ask(2);
    assert_eq!(next(&posted).value()["title"], "mgp: a decision waits for you");

    let mail = format!(
        "[kernel.notify.mail]\nemail = \"ada@example.com\"\nsmtp = \"{smtp}\"\nafter = \"1s\"\n"
    );
    reload(&world, &risky(&mail));
    ask(3);
    let mail = mails.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(mail.contains("RCPT TO:<ada@example.com>"), "{mail}");
    assert!(posted.try_recv().is_err(), "the place was removed");
}

#[test]
fn a_reload_changes_the_proxy_to_servers_elsewhere() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let far = "[[servers]]\nid = \"far\"\nurl = \"http://mcp.test/mcp\"\n\
        [servers.mgp]\nbackoff_base_ms = 50\nbackoff_max_ms = 200\n";
    let kernel = |proxy: &str| format!("{far}[kernel]\nproxy = \"{proxy}\"\n");
    let world = world(&[("log", text("a"))], &kernel("none"));
    let mut ann = agent(&world, "ann");
    works(&mut ann);
    within(|| server(&world, "far")["error"].as_str().map(str::to_owned));
    assert!(proxy.accept().is_err(), "the proxy is used without its key");
    reload(&world, &kernel(&format!("http://{}", proxy.local_addr().unwrap())));
    let (stream, _) = within(|| proxy.accept().ok());
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut first = String::new();
    BufReader::new(stream).read_line(&mut first).unwrap();
    assert!(first.starts_with("CONNECT mcp.test:80 "), "{first}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_names_tokens_and_tls_of_http_and_a_restart_applies_them() {
    let tokens: Value = include_str!("../refusals/access/tokens.json").parse().unwrap();
    let connect = async |serving: &Serving| {
        let builder = Client::builder("host", "1").bearer(tokens["good"].as_str().unwrap());
        let builder = builder.http(|http| {
            http.root_certificates(include_str!("../refusals/access/first.root.pem"));
        });
        builder.connect_url(&serving.url()).await.map(drop)
    };
    let world = world(&[("log", text("a"))], "");
    let file = |name: &str, text: &str| {
        fs::write(world.folder.join(name), text).unwrap();
        format!("\"{}\"", world.folder.join(name).display())
    };
    let access = format!(
        "[kernel.http.tokens]\nissuer = \"https://issuer.example\"\n\
         resource = \"https://mgp.example/mcp\"\nscopes = [\"tools\"]\nkeys = {}\n",
        file("jwks.json", include_str!("../refusals/access/jwks.json"))
    );
    let serving = Serving::start(&world, &[]);
    assert!(connect(&serving).await.is_err());
    waits_for_a_restart(&world, &reload(&world, &access), "kernel.http");
    assert!(connect(&serving).await.is_err());
    drop(serving);

    let serving = Serving::start(&world, &[]);
    connect(&serving).await.unwrap();
    let tls = format!(
        "[kernel.http]\ntls_cert = {}\ntls_key = {}\n{access}",
        file("server.pem", include_str!("../refusals/access/first.pem")),
        file("server.key.pem", include_str!("../refusals/access/first.key.pem"))
    );
    waits_for_a_restart(&world, &reload(&world, &tls), "kernel.http");
    connect(&serving).await.unwrap();
    assert!(serving.url().starts_with("http://"));
    drop(serving);

    let serving = Serving::start(&world, &[]);
    assert!(serving.url().starts_with("https://"), "{}", serving.url());
    connect(&serving).await.unwrap();
}

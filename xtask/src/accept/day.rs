//! The acceptance check `day.again`: with empty caches, one command puts ten servers of npm and `PyPI` behind `mgp` for
//! a user of Claude Code, and their tools can then be called. The check repeats this with certificates of the user,
//! behind a proxy, and with servers that start slowly.

use super::{
    Options, Verdict,
    contract::installed,
    kernel::{Kernel, path_text},
    setup::Peer,
};
use crate::packages::{self, Node};
use crate::run::{Context, Outcome, Program, now};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeSet,
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
};

/// The package with `uvx`, which runs servers of `PyPI`.
const UV: &str = "uv==0.13.9";

/// The configuration file of Claude Code in the home folder.
const FILE: &str = ".claude.json";

/// A server in a host's file: its id, its command, and a harmless call that stays on the machine, as tool and
/// arguments. `None` if the server has no such call.
type Server = (&'static str, &'static [&'static str], Option<(&'static str, &'static str)>);

const SERVERS: [Server; 10] = [
    (
        "everything",
        &["npx", "-y", "@modelcontextprotocol/server-everything@2026.8.31"],
        Some(("echo", r#"{"message":"hello"}"#)),
    ),
    (
        "files",
        &["npx", "-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "WORK"],
        Some(("list_allowed_directories", "{}")),
    ),
    (
        "memory",
        &["npx", "-y", "@modelcontextprotocol/server-memory@2026.8.31"],
        Some(("read_graph", "{}")),
    ),
    (
        "thinking",
        &["npx", "-y", "@modelcontextprotocol/server-sequential-thinking@2026.8.31"],
        Some((
            "sequentialthinking",
            r#"{"thought":"one","thoughtNumber":1,"totalThoughts":1,"nextThoughtNeeded":false}"#,
        )),
    ),
    ("context7", &["npx", "-y", "@upstash/context7-mcp"], None),
    ("fetch", &["uvx", "mcp-server-fetch==2026.10.10"], None),
    (
        "git",
        &["uvx", "mcp-server-git==2026.10.10", "--repository", "WORK"],
        Some(("git_status", r#"{"repo_path":"WORK"}"#)),
    ),
    // These tools declare nothing about what they do, so a person must confirm each call.
    (
        "sqlite",
        &["uvx", "--with", "mcp<2", "mcp-server-sqlite==2025.4.25", "--db-path", "WORK/data.db"],
        None,
    ),
    ("calculator", &["uvx", "mcp-server-calculator"], None),
    (
        "time",
        &["uvx", "mcp-server-time==2026.10.10", "--local-timezone=UTC"],
        Some(("get_current_time", r#"{"timezone":"UTC"}"#)),
    ),
];

/// The environment variables that name certificates.
const CERTIFICATES: [&str; 6] = [
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// The kind of machine on which the check runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Machine {
    Plain,
    /// The certificates are in a file of the user, and only two environment variables name this file.
    OwnCertificates,
    /// The registries are reached through a proxy, which two environment variables name.
    Proxy,
    /// Each server sleeps for 15 seconds before it starts.
    Slow,
}

/// Runs the check, which needs access to npm and `PyPI`.
pub(super) fn day_again(options: &Options) -> Outcome<Verdict> {
    let mut figures = Vec::new();
    let mut wrong = Vec::new();
    for machine in [Machine::Plain, Machine::OwnCertificates, Machine::Proxy, Machine::Slow] {
        let day = Day::new(machine)?;
        if let Some(skipped) = installed(options, "day.again", || day.install())? {
            return Ok(skipped);
        }
        let begun = now();
        let faults = day.play().unwrap_or_else(|failure| vec![failure.to_string()]);
        let _ = day.kernel.run(&["stop"]);
        figures.push(format!("{machine:?} {:.0} s", begun.elapsed().as_secs_f64()));
        wrong.extend(faults.into_iter().map(|fault| format!("{machine:?}: {fault}")));
    }
    for line in &wrong {
        println!("  {line}");
    }
    Ok(Verdict {
        pass: wrong.is_empty(),
        figure: format!("{}; {} faults", figures.join(", "), wrong.len()),
        bound: "after one command, ten servers offer their tools; six are found and called"
            .to_owned(),
    })
}

/// A run of the check on one kind of machine, for a person who has never used `mgp`, npm or uv.
struct Day {
    kernel: Kernel,
    folder: PathBuf,
    work: PathBuf,
    machine: Machine,
    proxy: Option<Proxy>,
}

impl Day {
    fn new(machine: Machine) -> Outcome<Self> {
        let mut kernel = Kernel::new("day")?;
        let (folder, work) = kernel.person()?;
        kernel.env.push(("XDG_CACHE_HOME", folder.join(".cache").into()));
        kernel.env.push(("UV_PYTHON_DOWNLOADS", "never".into()));
        let bundle = CERTIFICATES.iter().filter_map(std::env::var_os).map(PathBuf::from);
        let system = PathBuf::from("/etc/ssl/certs/ca-certificates.crt");
        if machine == Machine::OwnCertificates {
            let bundle = bundle.into_iter().find(|path| path.is_file()).unwrap_or(system);
            let own = folder.join("certificates.pem");
            fs::copy(&bundle, &own).context(bundle.display())?;
            kernel.unset.extend(CERTIFICATES);
            kernel.env.push(("NODE_EXTRA_CA_CERTS", own.clone().into()));
            kernel.env.push(("SSL_CERT_FILE", own.into()));
        }
        let proxy = (machine == Machine::Proxy).then(Proxy::start).transpose()?;
        if let Some(proxy) = &proxy {
            for name in ["HTTPS_PROXY", "HTTP_PROXY"] {
                kernel.env.push((name, format!("http://127.0.0.1:{}", proxy.port).into()));
            }
        }
        let python = kernel.place.join("python");
        let rest = Node::of_at_least(20)?.path()?;
        let path = std::iter::once(python.join("bin")).chain(std::env::split_paths(&rest));
        kernel.env.push(("PATH", std::env::join_paths(path).context("PATH")?));
        Ok(Self { kernel, folder, work, machine, proxy })
    }

    fn install(&self) -> Outcome {
        packages::python(&self.kernel.place.join("python"), &[UV.to_owned()], &self.kernel.home())?;
        Program::new("git").args(&["init", "--quiet"]).args(&[&self.work]).run()
    }

    /// Writes the file of the host, runs `mgp setup`, uses the servers as the host does, and runs `mgp undo`; returns
    /// the faults found.
    fn play(&self) -> Outcome<Vec<String>> {
        let text = format!("{:#}\n", json!({ "numStartups": 7, "mcpServers": self.entries() }));
        let file = self.folder.join(FILE);
        fs::write(&file, &text).context(FILE)?;
        self.kernel.run(&["setup", "--yes"])?;
        let mut wrong = self.use_servers()?;
        self.kernel.run(&["undo"])?;
        if fs::read_to_string(&file).context(FILE)? != text {
            wrong.push("`mgp undo` does not restore the file".to_owned());
        }
        if let Some(proxy) = &self.proxy {
            for host in ["registry.npmjs.org", "pypi.org"] {
                if !proxy.hosts().contains(host) {
                    wrong.push(format!("{host} was not reached through the proxy"));
                }
            }
        }
        Ok(wrong)
    }

    fn entries(&self) -> Map<String, Value> {
        let entry = |(id, command, _): &Server| {
            let command = command.iter().map(|word| self.filled(word));
            let sleep = ["sh", "-c", "sleep 15; exec \"$0\" \"$@\""].map(str::to_owned);
            let sleep = sleep.into_iter().filter(|_| self.machine == Machine::Slow);
            let words: Vec<String> = sleep.chain(command).collect();
            ((*id).to_owned(), json!({ "command": words[0], "args": words[1..] }))
        };
        SERVERS.iter().map(entry).collect()
    }

    fn filled(&self, text: &str) -> String {
        text.replace("WORK", &path_text(&self.work))
    }

    fn use_servers(&self) -> Outcome<Vec<String>> {
        let mut wrong = Vec::new();
        let entry = fs::read_to_string(self.folder.join(FILE)).context(FILE)?;
        let entry: Value = serde_json::from_str(&entry).context(FILE)?;
        let mut peer = Peer::start(&self.kernel, &entry["mcpServers"]["mgp"], "2025-11-25")?;
        let listed = peer.request("tools/list", json!({}))?;
        if listed["tools"].as_array().is_none_or(Vec::is_empty) {
            wrong.push("the first list is empty".to_owned());
        }
        for (id, _, call) in &SERVERS {
            let Some((tool, arguments)) = call else { continue };
            let wish = json!({ "query": format!("{id} {}", tool.replace('_', " ")) });
            let search = json!({ "name": "mgp_tools_discover", "arguments": wish });
            let found = peer.request("tools/call", search)?.to_string();
            if !found.contains(tool) {
                wrong.push(format!("{id}.{tool} is not found: {found}"));
            }
            let arguments: Value = serde_json::from_str(&self.filled(arguments)).context(tool)?;
            let call = json!({ "name": format!("{id}.{tool}"), "arguments": arguments });
            match peer.request("tools/call", call) {
                Ok(result) if result["isError"] != true => {}
                Ok(result) => wrong.push(format!("{id}.{tool}: {result}")),
                Err(failure) => wrong.push(format!("{id}.{tool}: {failure}")),
            }
        }
        let known = self.kernel.json(&["servers", "ls"])?;
        for (id, _, _) in &SERVERS {
            let mut all = known.as_array().into_iter().flatten();
            let server = all.find(|server| server["id"] == *id).unwrap_or(&Value::Null);
            if server["tools"].as_u64().is_none_or(|tools| tools == 0) {
                wrong.push(format!("{id} offers no tools: {server}"));
            }
        }
        Ok(wrong)
    }
}

/// A proxy for HTTPS connections, on a port of loopback; it runs until the program ends.
struct Proxy {
    port: u16,
    hosts: Arc<Mutex<BTreeSet<String>>>,
}

impl Proxy {
    fn start() -> Outcome<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let proxy = Self { port: listener.local_addr()?.port(), hosts: Arc::default() };
        let hosts = Arc::clone(&proxy.hosts);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let hosts = Arc::clone(&hosts);
                thread::spawn(move || forward(client, &hosts));
            }
        });
        Ok(proxy)
    }

    /// Returns the names of the hosts to which the proxy has connected.
    fn hosts(&self) -> BTreeSet<String> {
        self.hosts.lock().map(|hosts| hosts.clone()).unwrap_or_default()
    }
}

/// Connects a client to the host that it asks for with `CONNECT`, and copies bytes until both sides have ended.
fn forward(mut client: TcpStream, hosts: &Mutex<BTreeSet<String>>) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") && reader.read_line(&mut request)? > 0 {}
    let Some(target) = request.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next())
    else {
        return client.write_all(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n");
    };
    let mut server = TcpStream::connect(target)?;
    if let (Ok(mut hosts), Some((host, _))) = (hosts.lock(), target.split_once(':')) {
        hosts.insert(host.to_owned());
    }
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let (mut up, mut down) = (server.try_clone()?, client.try_clone()?);
    let sends = thread::spawn(move || {
        let _ = io::copy(&mut reader, &mut up);
        up.shutdown(std::net::Shutdown::Write)
    });
    let _ = io::copy(&mut server, &mut down);
    let _ = down.shutdown(std::net::Shutdown::Write);
    let _ = sends.join();
    Ok(())
}

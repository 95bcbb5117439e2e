//! A state folder, hosts on standard streams, and a look at the processes there are.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

/// How long is waited for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// An example of this workspace, built if it is not there.
pub(crate) fn example(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples");
    path.push(name);
    if !path.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "-q", "-p", "mgp-server-sdk", "--example", name])
            .args(path.iter().any(|part| part == "release").then_some("--release"))
            .status()
            .unwrap();
        assert!(built.success() && path.exists(), "{}", path.display());
    }
    path
}

/// A folder with a configuration and a state; whatever runs on it ends with it.
pub(crate) struct World {
    pub(crate) folder: PathBuf,
}

impl World {
    /// With the server `echo`, which everybody may call, and further lines of configuration.
    pub(crate) fn new(name: &str, more: &str) -> Self {
        let script = format!("exec {}", example("echo").display());
        let this = Self::empty(name);
        this.config(&(this.server("echo", &script) + more));
        this
    }

    pub(crate) fn empty(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("mgp-run-{name}-{process}-{next}"));
        let _ = fs::remove_dir_all(&folder);
        fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
        Self { folder }
    }

    pub(crate) fn config(&self, text: &str) {
        fs::write(self.config_file(), text).unwrap();
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.folder.join("mgp.toml")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.state().join("mgp.sock")
    }

    pub(crate) fn ready_file(&self) -> PathBuf {
        self.folder.join("ready.json")
    }

    /// The entry of a server that is a script of the shell; all its processes carry our mark.
    pub(crate) fn server(&self, id: &str, script: &str) -> String {
        let mark = self.folder.display();
        format!(
            "[[servers]]\nid = \"{id}\"\ncommand = \"/bin/sh\"\nargs = [\"-c\", '''{script}''']\n\
             env = {{ MGP_TEST_MARK = \"{mark}\" }}\n[servers.mgp]\ndefault_policy = \"opt-out\"\n\n"
        )
    }

    /// The program, with the configuration and the state of this world.
    pub(crate) fn mgp(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
        command.arg("serve").arg("--config").arg(self.config_file());
        command.arg("--state").arg(self.state()).args(args);
        // What runs the tests may have settings of its own.
        for name in ["MGP_STATE", "MGP_CONFIG", "MGP_CONFIG_PATH", "MGP_LOG"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs it to its end, without a host.
    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.mgp(args).stdin(Stdio::null()).output().unwrap()
    }

    /// A host that was greeted.
    pub(crate) fn host(&self, args: &[&str]) -> Host {
        let mut host = Host::start(self, args);
        host.hello();
        host
    }

    /// The kernel that has the state.
    pub(crate) fn kernel(&self) -> Option<u32> {
        let pid = fs::read_to_string(self.state().join("kernel.lock")).ok()?.trim().parse().ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let state = self.state();
        let state = state.as_os_str().as_encoded_bytes();
        (lives(pid) && line.windows(state.len()).any(|part| part == state)).then_some(pid)
    }

    /// The processes that came of our servers, and their keepers.
    pub(crate) fn marked(&self) -> Vec<u32> {
        let mark = format!("MGP_TEST_MARK={}", self.folder.display());
        let mut marked = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let is_ours = environment.split(|byte| *byte == 0).any(|set| set == mark.as_bytes());
            if is_ours && lives(pid) {
                marked.push(pid);
            }
        }
        marked
    }

    /// Waits until nothing of our servers is left.
    pub(crate) fn nothing_is_left(&self) {
        within(|| self.marked().is_empty().then_some(()));
    }

    /// The line of the ready file, once it is there.
    pub(crate) fn ready(&self) -> Value {
        within(|| fs::read_to_string(self.ready_file()).ok()).parse().unwrap()
    }

    /// A connection to the socket that was let in, or what was said instead.
    pub(crate) fn connect(&self, preface: &str) -> Result<Wire, Value> {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // Whoever is turned away at the door can say nothing any more, and hears why.
        let _ = stream.write_all(preface.as_bytes());
        let mut wire =
            Wire { reader: BufReader::new(stream.try_clone().unwrap()), stream, next: 0 };
        let greeting = wire.line();
        if greeting["ok"] == true { Ok(wire) } else { Err(greeting) }
    }

    pub(crate) fn operator(&self) -> Wire {
        self.wire("{\"mgp\":1,\"as\":\"operator\"}\n")
    }

    /// A connection that was let in and has shaken hands.
    pub(crate) fn wire(&self, preface: &str) -> Wire {
        let mut wire = self.connect(preface).unwrap();
        wire.ask("initialize", &hello()).unwrap();
        wire.tell("notifications/initialized");
        wire
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(pid) = self.kernel() {
            kill("-KILL", pid);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn hello() -> Value {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {"mgp": {"version": "0.6.0", "extensions": ["access_control", "discovery", "lifecycle"]}},
        "clientInfo": {"name": "test", "version": "1"},
    })
}

/// A connection to the socket.
pub(crate) struct Wire {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
    next: u64,
}

impl Wire {
    pub(crate) fn line(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or(Value::Null)
    }

    pub(crate) fn tell(&mut self, method: &str) {
        let line = json!({"jsonrpc": "2.0", "method": method}).to_string() + "\n";
        self.stream.write_all(line.as_bytes()).unwrap();
    }

    /// The result, or the error; a null where the kernel has gone.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.next += 1;
        let line = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        if self.stream.write_all((line.to_string() + "\n").as_bytes()).is_err() {
            return Err(Value::Null);
        }
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap_or(0) == 0 {
                return Err(Value::Null);
            }
            let mut answer: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
            if answer["id"] == self.next {
                return if answer["error"].is_null() {
                    Ok(answer["result"].take())
                } else {
                    Err(answer["error"].take())
                };
            }
        }
    }
}

/// A host that started `mgp serve --stdio`.
pub(crate) struct Host {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    next: u64,
}

impl Host {
    pub(crate) fn start(world: &World, args: &[&str]) -> Self {
        let mut command = world.mgp(&["--stdio"]);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { input: child.stdin.take(), child, lines, next: 0 }
    }

    pub(crate) fn hello(&mut self) {
        let greeted = self.ask("initialize", &hello()).unwrap();
        assert_eq!(greeted["serverInfo"]["name"], "mgp");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    fn send(&mut self, line: &Value) -> bool {
        let line = line.to_string() + "\n";
        self.input.as_mut().is_some_and(|input| input.write_all(line.as_bytes()).is_ok())
    }

    /// The result, or the error; a null where the other side has gone.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.next += 1;
        let line = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        if !self.send(&line) {
            return Err(Value::Null);
        }
        loop {
            let line = match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => return Err(Value::Null),
                Err(RecvTimeoutError::Timeout) => panic!("no answer to {method} {params}"),
            };
            let mut answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == self.next {
                return if answer["error"].is_null() {
                    Ok(answer["result"].take())
                } else {
                    Err(answer["error"].take())
                };
            }
        }
    }

    /// The text of a call's result, or its error.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<String, Value> {
        self.called(&json!({"name": tool, "arguments": arguments}))
    }

    /// The same with a trace, which stands in the log.
    pub(crate) fn call_as(
        &mut self,
        trace: &str,
        tool: &str,
        arguments: &Value,
    ) -> Result<String, Value> {
        let meta = json!({"trace_id": trace});
        self.called(&json!({"name": tool, "arguments": arguments, "_meta": meta}))
    }

    fn called(&mut self, params: &Value) -> Result<String, Value> {
        let result = self.ask("tools/call", params)?;
        let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        if result["isError"] == true { Err(result) } else { Ok(text) }
    }

    /// Has `echo` repeat a word, as soon as it is found.
    pub(crate) fn echoes(&mut self, word: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.call("echo", &json!({"message": word})) {
                Ok(answer) => return assert_eq!(answer, word),
                Err(error) => assert!(Instant::now() < until && !error.is_null(), "{error}"),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Closes its side, and waits.
    pub(crate) fn leave(mut self) -> ExitStatus {
        self.input = None;
        self.ended()
    }

    pub(crate) fn ended(&mut self) -> ExitStatus {
        within(|| self.child.try_wait().unwrap())
    }

    pub(crate) fn said(mut self) -> String {
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.child.stderr.take().unwrap(), &mut said).unwrap();
        said
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something is there.
#[track_caller]
pub(crate) fn within<T>(look: impl FnMut() -> Option<T>) -> T {
    within_so_long(PATIENCE, look)
}

/// The same with another patience.
#[track_caller]
pub(crate) fn within_so_long<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + patience;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "it took too long");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process is there and no zombie.
pub(crate) fn lives(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

/// The state and the parent of a process.
pub(crate) fn stat(pid: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = text.rsplit(')').next()?.split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// Signals one process that we started.
pub(crate) fn kill(signal: &str, pid: u32) {
    let _ = Command::new("kill").args([signal, &pid.to_string()]).stderr(Stdio::null()).status();
}

/// What of the memory of a process is its own or there for it, in KiB.
pub(crate) fn rss(pid: u32) -> Option<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let figure = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some((figure("VmRSS:")?, figure("RssAnon:")?))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

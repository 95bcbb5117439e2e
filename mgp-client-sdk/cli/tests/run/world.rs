//! The fixture of these tests: a state folder, hosts that run `mgp serve --stdio`, and functions about processes.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use mgp_testkit::{KilledChild, TempDir, process_memory};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::host::below_host;
use crate::program::program;
use crate::wire::{OPERATOR, Wire, initialize_params};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Environment variables of the test run that must not affect the programs that the tests start.
const SETTINGS: [&str; 5] =
    ["MGP_STATE", "MGP_CONFIG", "MGP_CONFIG_PATH", "MGP_LOG", "XDG_CONFIG_HOME"];

/// A folder with a configuration and a state; dropping this value kills the kernel.
pub(crate) struct World {
    pub(crate) folder: PathBuf,
    pub(crate) program: PathBuf,
    _temp: TempDir,
}

impl World {
    /// Creates a folder with the server `echo`, open to every agent, and further lines of configuration.
    pub(crate) fn new(more: &str) -> Self {
        let script = format!("exec {}", program("echo"));
        let this = Self::empty();
        this.config(&(this.server("echo", &script) + more));
        this
    }

    pub(crate) fn empty() -> Self {
        let temp = mgp_testkit::temp_dir();
        let program = PathBuf::from(env!("CARGO_BIN_EXE_mgp"));
        Self { folder: temp.path().to_owned(), program, _temp: temp }
    }

    pub(crate) fn config(&self, text: &str) {
        // The file is replaced in one step, so that the kernel never reads a half-written one.
        let new = self.folder.join("mgp.toml.new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.config_file()).unwrap();
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

    /// Returns the entry of a server that runs a shell script; an environment variable marks all its processes.
    pub(crate) fn server(&self, id: &str, script: &str) -> String {
        let mark = self.folder.display();
        format!(
            "[[servers]]\nid = \"{id}\"\ncommand = \"/bin/sh\"\nargs = [\"-c\", '''{script}''']\n\
             env = {{ MGP_TEST_MARK = \"{mark}\" }}\n[servers.mgp]\ndefault_policy = \"opt-out\"\n\n"
        )
    }

    /// Builds `mgp serve` with the configuration and the state of this folder.
    pub(crate) fn mgp(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("serve").arg("--config").arg(self.config_file());
        command.arg("--state").arg(self.state()).args(args);
        for name in SETTINGS {
            command.env_remove(name);
        }
        command
    }

    /// Builds the same command as [`mgp`](Self::mgp), but starts it from a shell that first runs `line`.
    pub(crate) fn mgp_after(&self, line: &str, args: &[&str]) -> Command {
        let serve = self.mgp(args);
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(format!("{line}; exec \"$0\" \"$@\""));
        shell.arg(serve.get_program()).args(serve.get_args());
        for (name, _) in serve.get_envs() {
            shell.env_remove(name);
        }
        shell
    }

    /// Builds the command of the kernel that `mgp service` runs.
    pub(crate) fn service(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["__kernel", "--linger", "3600", "--service"]);
        command.arg("--config").arg(self.config_file()).arg("--state").arg(self.state());
        for name in SETTINGS {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs `mgp serve` without a host until it exits.
    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.mgp(args).stdin(Stdio::null()).output().unwrap()
    }

    /// Starts a host, and performs the MCP handshake.
    pub(crate) fn host(&self, args: &[&str]) -> Host {
        let mut host = Host::start(self, args);
        host.hello();
        host
    }

    /// Returns the process id of the kernel that uses the state folder.
    pub(crate) fn kernel(&self) -> Option<u32> {
        let lock = fs::read_to_string(self.state().join("kernel.lock")).ok()?;
        let pid = lock.lines().next()?.parse().ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let state = self.state();
        let state = state.as_os_str().as_encoded_bytes();
        (lives(pid) && line.windows(state.len()).any(|part| part == state)).then_some(pid)
    }

    /// Returns the processes that this world's servers have started, and their keepers.
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

    /// Waits until no process of this world's servers is left.
    pub(crate) fn nothing_is_left(&self) {
        self.waits_until_left(Vec::is_empty);
    }

    /// Waits until no process of a killed kernel's servers is left. A host that sent something meanwhile has started
    /// another kernel, whose servers may run.
    pub(crate) fn nothing_is_left_of(&self, killed: u32) {
        let next = || self.kernel().filter(|kernel| *kernel != killed);
        let is_below = |pid: u32, kernel: u32| {
            let parents = std::iter::successors(Some(pid), |pid| stat(*pid).map(|(_, of)| of));
            parents.take(4).any(|pid| pid == kernel)
        };
        self.waits_until_left(|left| {
            next().map_or(left.is_empty(), |next| left.iter().all(|pid| is_below(*pid, next)))
        });
    }

    fn waits_until_left(&self, fits: impl Fn(&Vec<u32>) -> bool) {
        let until = Instant::now() + TIMEOUT;
        loop {
            let left = self.marked();
            if fits(&left) {
                return;
            }
            assert!(Instant::now() < until, "left, kernel {:?}: {left:?}", self.kernel());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the ready file, and returns its content.
    pub(crate) fn ready(&self) -> Value {
        within(|| fs::read_to_string(self.ready_file()).ok()).parse().unwrap()
    }

    /// Connects to the local socket; returns the kernel's reply as an error if it refuses.
    pub(crate) fn connect(&self, hello: &str) -> Result<Wire, Value> {
        Wire::connect(&self.socket(), hello)
    }

    /// Connects to the local socket, and performs the MCP handshake.
    pub(crate) fn wire(&self, hello: &str) -> Wire {
        Wire::open(&self.socket(), hello)
    }

    pub(crate) fn operator(&self) -> Wire {
        self.wire(OPERATOR)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(pid) = self.kernel() {
            kill("-KILL", pid);
        }
    }
}

/// A host that has started `mgp serve --stdio`.
pub(crate) struct Host {
    pub(crate) child: KilledChild,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    next: u64,
    notified: Vec<String>,
}

impl Host {
    pub(crate) fn start(world: &World, args: &[&str]) -> Self {
        let mut command = world.mgp(&["--stdio"]);
        command.args(args);
        // A standalone kernel must be a direct child, so that tests can send it signals.
        let is_kernel = args.contains(&"--standalone");
        Self::spawn(if is_kernel { command } else { below_host(&command) })
    }

    /// Starts a standalone kernel below a host that is not the test process, so that the test process may act as an
    /// operator.
    pub(crate) fn standalone(world: &World, args: &[&str]) -> Self {
        let mut command = world.mgp(&["--stdio", "--standalone"]);
        let mut host = Self::spawn(below_host(command.args(args)));
        host.hello();
        host
    }

    /// Starts this command, which must serve its standard streams, as the server of a host.
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = KilledChild(command.spawn().unwrap());
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { input: child.stdin.take(), child, lines, next: 0, notified: Vec::new() }
    }

    pub(crate) fn hello(&mut self) {
        let greeted = self.ask("initialize", &initialize_params()).unwrap();
        assert_eq!(greeted["serverInfo"]["name"], "mgp");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    fn send(&mut self, line: &Value) -> bool {
        let line = line.to_string() + "\n";
        self.input.as_mut().is_some_and(|input| input.write_all(line.as_bytes()).is_ok())
    }

    /// Sends a request; returns its result or its error, which is null if the peer has exited.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.next += 1;
        let line = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        if !self.send(&line) {
            return Err(Value::Null);
        }
        loop {
            let line = match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => return Err(Value::Null),
                Err(RecvTimeoutError::Timeout) => panic!("no answer to {method} {params}"),
            };
            let mut answer: Value = serde_json::from_str(&line).unwrap();
            self.notified.extend(answer["method"].as_str().map(str::to_owned));
            if answer["id"] == self.next {
                return if answer["error"].is_null() {
                    Ok(answer["result"].take())
                } else {
                    Err(answer["error"].take())
                };
            }
        }
    }

    /// Calls `echo` with each word, in separate writes and without waiting for answers in between; returns the answers
    /// in the order in which they arrive.
    pub(crate) fn calls_at_once(&mut self, words: &[&str]) -> Vec<Value> {
        let before = self.next;
        for word in words {
            self.next += 1;
            let params = json!({"name": "echo", "arguments": {"message": word}});
            let id = self.next;
            let line =
                json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
            assert!(self.send(&line));
            thread::sleep(Duration::from_millis(10));
        }
        let mut answers = Vec::new();
        while answers.len() < words.len() {
            let line = self.lines.recv_timeout(TIMEOUT).unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["method"].is_null() && answer["id"].as_u64() > Some(before) {
                answers.push(answer);
            }
        }
        answers
    }

    /// Calls a tool; returns the text of its result, or its error.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<String, Value> {
        self.called(&json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool with a trace id, which the audit log then contains.
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

    /// Returns the methods of the notifications received since the last call.
    pub(crate) fn notified(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notified)
    }

    /// Calls `echo` with a word until the tool answers, and checks the answer.
    pub(crate) fn echoes(&mut self, word: &str) {
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.call("echo", &json!({"message": word})) {
                Ok(answer) => return assert_eq!(answer, word),
                Err(error) => assert!(Instant::now() < until && !error.is_null(), "{error}"),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Closes the standard input of `mgp serve`, and waits until it exits.
    pub(crate) fn leave(mut self) -> ExitStatus {
        self.end()
    }

    /// Does the same as [`leave`](Self::leave), but does not consume the host.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.input = None;
        self.wait()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        within(|| self.child.try_wait().unwrap())
    }
}

/// Waits until the closure returns a value.
#[track_caller]
pub(crate) fn within<T>(look: impl FnMut() -> Option<T>) -> T {
    within_time(TIMEOUT, look)
}

/// Waits like [`within`], with another time limit.
#[track_caller]
pub(crate) fn within_time<T>(timeout: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + timeout;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "timed out");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns whether a process exists and is not a zombie.
pub(crate) fn lives(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

/// Returns the state and the parent of a process.
pub(crate) fn stat(pid: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = text.rsplit(')').next()?.split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// Sends a signal to a process.
pub(crate) fn kill(signal: &str, pid: u32) {
    let _ = Command::new("kill").args([signal, &pid.to_string()]).stderr(Stdio::null()).status();
}

/// Returns the resident and the anonymous memory of a process, in KiB.
pub(crate) fn rss(pid: u32) -> Option<(u64, u64)> {
    Some((process_memory(pid, "VmRSS")? >> 10, process_memory(pid, "RssAnon")? >> 10))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

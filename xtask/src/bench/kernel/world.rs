//! The programs of `bench kernel`: `mgp` with all its policies and the audit log, the programs it is compared with, and
//! configurations with state folders.

use super::super::programs::{Generator, Server, last_processor, workspace};
use crate::{
    corpus,
    run::{Context, Failure, Outcome, Program, now, target},
    serving::{Served, own_group},
};
use serde_json::Value;
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// The agent that makes the calls; the configurations grant it access to the servers.
const AGENT: &str = "bench";

/// The time limit for a kernel to become ready, to know its servers, and to exit.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The interval between two checks whether the kernel is ready; short, because a start takes only milliseconds.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// The built programs of the benchmark, and the folder for their configurations.
pub(super) struct World {
    pub(super) generator: Generator,
    pub(super) echo: String,
    pub(super) mgp: String,
    peers: PathBuf,
    scratch: PathBuf,
}

/// A configuration file and a state folder for one kernel.
pub(super) struct Place {
    config: PathBuf,
    pub(super) state: PathBuf,
}

/// A running kernel, which is stopped on drop.
pub(super) struct Running {
    child: Child,
    /// The time from the start of the process until it has written its ready file, in milliseconds.
    pub(super) ready_ms: f64,
}

impl World {
    /// Builds all programs as a user would, with `--release`.
    pub(super) fn build() -> Outcome<Self> {
        Program::cargo(&["build", "--quiet", "--release", "-p", "mgp"]).run()?;
        Self::of(&target()?.join("release/mgp"))
    }

    /// Builds the programs that are needed to measure the program `mgp`.
    pub(super) fn of(mgp: &Path) -> Outcome<Self> {
        let mgp = mgp.to_string_lossy().into_owned();
        let echo = corpus::echo()?;
        let scratch = target()?.join("scratch/kernel");
        let mut generator = Generator::build()?;
        generator.processor = Some(last_processor()?);
        fs::create_dir_all(&scratch).context(scratch.display())?;
        Ok(Self { generator, echo, mgp, peers: workspace("peers")?, scratch })
    }

    /// Starts an echo server over HTTP, on the same processor as the load generator.
    pub(super) fn upstream(&self) -> Outcome<Served> {
        let processor = self.generator.processor.as_deref().unwrap_or("0");
        let words = ["taskset", "--cpu-list", processor, &self.echo, "--http", "127.0.0.1:PORT"];
        Served::words(&words.map(Into::into), &self.scratch.join("upstream.log"))
    }

    /// Creates a configuration with servers to which the agent has access; the kernel does not know their tools yet.
    pub(super) fn place(&self, name: &str, servers: &[(String, String)]) -> Outcome<Place> {
        let place = self.bare(name, servers)?;
        for (id, _) in servers {
            self.run(&place, &["access", "grant", AGENT, id, "--force"])?;
        }
        Ok(place)
    }

    /// Creates a configuration with servers, each given by its id and its command or URL, and with an empty state
    /// folder.
    pub(super) fn bare(&self, name: &str, servers: &[(String, String)]) -> Outcome<Place> {
        let folder = self.scratch.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).context(folder.display())?;
        }
        let place = Place { config: folder.join("mgp.toml"), state: folder.join("state") };
        fs::create_dir_all(&folder)?;
        let mut text = String::new();
        for (id, reach) in servers {
            // Declare the risk as the operator, because a server's own declarations about its tools do not remove any
            // check.
            let mgp = "[servers.mgp]\nrisk = { echo = \"safe\" }\n";
            let _ = writeln!(text, "[[servers]]\nid = \"{id}\"\n{reach}\n{mgp}");
        }
        fs::write(&place.config, text)?;
        Ok(place)
    }

    /// Creates a configuration with servers, and runs a kernel once so that it learns and stores their tools.
    pub(super) fn known(&self, name: &str, servers: &[(String, String)]) -> Outcome<Place> {
        let place = self.place(name, servers)?;
        let _running = self.start_until_known(&place, servers.len())?;
        Ok(place)
    }

    /// Starts a kernel and waits until it knows the tools of all its servers.
    pub(super) fn start_until_known(&self, place: &Place, servers: usize) -> Outcome<Running> {
        let running = self.start(place)?;
        self.wait_until_known(place, servers)?;
        Ok(running)
    }

    /// Waits up to [`TIMEOUT`] until a running kernel knows the tools of all its servers.
    pub(super) fn wait_until_known(&self, place: &Place, servers: usize) -> Outcome {
        let end = now() + TIMEOUT;
        loop {
            let all = self.run(place, &["servers", "ls", "--json"])?;
            let all: Value = serde_json::from_str(&all).context("servers ls")?;
            let servers_known = all.as_array().into_iter().flatten();
            if servers_known.filter(|server| server["tools"].as_u64() >= Some(1)).count() == servers
            {
                return Ok(());
            }
            if now() > end {
                return Err(Failure::new(format!("not all servers are known: {all}")));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts a kernel over HTTP, and waits until it is ready.
    pub(super) fn start(&self, place: &Place) -> Outcome<Running> {
        self.start_under(&[], place)
    }

    /// Starts a kernel over HTTP, and waits until it is ready; `tool` is put before the command of the kernel, e.g.
    /// valgrind.
    pub(super) fn start_under(&self, tool: &[&str], place: &Place) -> Outcome<Running> {
        let ready = place.state.with_file_name("ready");
        let _ = fs::remove_file(&ready);
        let mut words = self.serve(place, &["--http", "127.0.0.1:0", "--no-auth"]);
        words.splice(0..0, tool.iter().map(ToString::to_string));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("--ready-file").arg(&ready);
        own_group(&mut command);
        let begun = now();
        let [input, output, errors] = std::array::from_fn(|_| Stdio::null());
        let child = command.stdin(input).stdout(output).stderr(errors).spawn().context("mgp")?;
        let mut running = Running { child, ready_ms: f64::NAN };
        while !ready.exists() {
            if now() > begun + TIMEOUT || running.child.try_wait()?.is_some() {
                return Err(Failure::new("the kernel did not become ready"));
            }
            thread::sleep(POLL_INTERVAL);
        }
        running.ready_ms = begun.elapsed().as_secs_f64() * 1000.0;
        Ok(running)
    }

    /// Runs a command of `mgp` on a state folder, and returns its output.
    fn run(&self, place: &Place, words: &[&str]) -> Outcome<String> {
        Program::new(&self.mgp).args(&["--state"]).args(&[&place.state]).args(words).output()
    }

    fn serve(&self, place: &Place, more: &[&str]) -> Vec<String> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut words = vec![self.mgp.clone(), "serve".to_owned()];
        words.extend(["--config".to_owned(), text(&place.config)]);
        words.extend(["--state".to_owned(), text(&place.state)]);
        words.extend(["--agent", AGENT].map(str::to_owned));
        words.extend(more.iter().map(ToString::to_string));
        words
    }

    /// Returns the command of a kernel over HTTP; `ADDR` is replaced by the address.
    pub(super) fn hop_http(&self, place: &Place) -> Server {
        let command = self.serve(place, &["--http", "ADDR", "--no-auth", "--standalone"]);
        Server { name: "mgp", command }
    }

    /// Returns the command of a kernel that serves stdio itself, without a connection to a kernel that several hosts
    /// share.
    pub(super) fn hop_stdio(&self, place: &Place) -> Server {
        Server { name: "mgp", command: self.serve(place, &["--stdio", "--standalone"]) }
    }

    /// Returns the command that forwards stdio to a shared kernel (the shim).
    pub(super) fn shim(&self, place: &Place) -> Server {
        Server { name: "shim", command: self.serve(place, &["--stdio", "--linger", "1"]) }
    }

    /// Returns the command of a proxy that makes no decisions; `ADDR` is replaced by the address.
    pub(super) fn floor_http(&self, upstream: &Served) -> Server {
        let to = format!("127.0.0.1:{}", upstream.port());
        Server { name: "bare-proxy", command: vec![self.peer("bare-proxy"), "ADDR".into(), to] }
    }

    /// Returns the command of a program that copies pipes to and from an echo server.
    pub(super) fn floor_stdio(&self) -> Server {
        Server { name: "floor-hop", command: vec![self.peer("floor-hop"), self.echo.clone()] }
    }

    fn peer(&self, name: &str) -> String {
        self.peers.join(name).to_string_lossy().into_owned()
    }
}

impl Running {
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Stops the kernel with SIGTERM, so that it stores its knowledge of tools and stops its child processes.
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let end = now() + TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if now() > end {
                let _ = self.child.kill();
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

//! Builds the programs of the benchmarks: the load generator, the peers and our own server.

use crate::{
    corpus::echo,
    run::{Context, Outcome, Program, target},
};
use std::path::PathBuf;

/// A command that starts a server, and the name to show for it.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) command: Vec<String>,
}

/// The load generator, and the processor on which it runs.
#[derive(Debug)]
pub(super) struct Generator {
    pub(super) program: PathBuf,
    /// The processor that the load generator and the server share; `None` for any.
    ///
    /// With one call in flight, waking a process on another processor costs several times more than on the same
    /// processor. The scheduler might choose other processors in each run, so the figures of runs could not be
    /// compared.
    pub(super) processor: Option<String>,
    /// The folder for temporary files of measurements.
    pub(super) scratch: PathBuf,
}

impl Generator {
    pub(super) fn build() -> Outcome<Self> {
        let built = workspace("loadgen")?;
        let scratch = built.with_file_name("scratch");
        std::fs::create_dir_all(&scratch)?;
        Ok(Self { program: built.join("loadgen"), processor: None, scratch })
    }
}

/// Builds the workspace `xtask/NAME`; returns the folder of its programs.
pub(super) fn workspace(name: &str) -> Outcome<PathBuf> {
    let folder = target()?.join("bench");
    let manifest = format!("xtask/{name}/Cargo.toml");
    let build = ["build", "--quiet", "--release", "--locked", "--manifest-path"];
    Program::cargo(&build).args(&[&manifest]).env("CARGO_TARGET_DIR", &folder).run()?;
    Ok(folder.join("release"))
}

/// All programs of a benchmark over stdio or HTTP.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) generator: Generator,
    /// Our server on a current-thread runtime; the bounds apply to it.
    pub(super) ours: Server,
    /// Our server on a multi-thread runtime, for comparison only.
    pub(super) ours_multi: Server,
    /// The rmcp server over `stdio()`, as its documentation starts it.
    pub(super) rmcp_stdio: Server,
    /// The rmcp server over `stdio_pipes()`, its fastest configuration.
    pub(super) rmcp_pipes: Server,
    /// A server without a framework, with the same tool.
    pub(super) bare: Server,
    /// The rmcp server over HTTP; the caller adds its arguments.
    pub(super) rmcp_http: Server,
    /// A server on hyper without a framework, with the same tool; the caller adds the address.
    pub(super) bare_http: Server,
}

impl Programs {
    /// Builds all programs; `command`, if not empty, replaces our own server.
    pub(super) fn build(command: &[String]) -> Outcome<Self> {
        let (generator, built) = (Generator::build()?, workspace("peers")?);
        let server = |name, program: &str, arguments: &[&str]| {
            let mut command = vec![built.join(program).to_string_lossy().into_owned()];
            command.extend(arguments.iter().map(ToString::to_string));
            Server { name, command }
        };
        let ours = if command.is_empty() { vec![echo()?] } else { command.to_vec() };
        let with = |name, runtime: &str| {
            let mut command = ours.clone();
            command.extend(["--rt".to_owned(), runtime.to_owned()]);
            Server { name, command }
        };
        Ok(Self {
            generator,
            ours: with("ours", "current"),
            ours_multi: with("ours, multi-thread", "multi"),
            rmcp_stdio: server("rmcp stdio()", "rmcp-echo", &["stdio"]),
            rmcp_pipes: server("rmcp stdio_pipes()", "rmcp-echo", &["pipes", "--rt", "current"]),
            bare: server("bare loop", "bare-stdio", &[]),
            rmcp_http: server("rmcp HTTP", "rmcp-echo", &[]),
            bare_http: server("bare hyper", "bare-http", &[]),
        })
    }

    /// Restricts the load generator and the server to one common processor.
    ///
    /// With separate processors, a message sometimes has to wake the processor of its receiver. On a virtual machine,
    /// this costs several times more than an echo, so the figures of every server fall into two groups (4 or 18 µs per
    /// call).
    pub(super) fn pinned(mut self) -> Outcome<Self> {
        self.generator.processor = Some(last_processor()?);
        Ok(self)
    }
}

/// Returns the number of the last processor that this process is allowed to use.
pub(super) fn last_processor() -> Outcome<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let last = allowed.and_then(|list| list.rsplit([',', '-']).next()).context("a processor")?;
    Ok(last.trim().to_owned())
}

impl Server {
    /// Returns the same server with `count` additional tools.
    pub(super) fn with_tools(&self, count: usize) -> Self {
        let mut server = self.clone();
        server.command.extend(["--tools".to_owned(), count.to_string()]);
        server
    }
}

//! Builds the load generator, the peers and our server, one after the other.

use crate::{
    corpus::echo,
    run::{Context, Outcome, Program, target},
};
use std::path::PathBuf;

/// A command that starts a server, with a name.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) command: Vec<String>,
}

/// The load generator.
#[derive(Debug)]
pub(super) struct Generator {
    pub(super) program: PathBuf,
    /// The processor that generator and server share; `None` for any.
    ///
    /// With one call in flight, waking the other process costs several times more on another processor than on the
    /// same one, and the scheduler may decide differently in each run.
    pub(super) processor: Option<String>,
    /// The folder for files of measurements.
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

/// Builds one of the separate workspaces; returns the folder of its programs.
pub(super) fn workspace(name: &str) -> Outcome<PathBuf> {
    let folder = target()?.join("bench");
    let manifest = format!("xtask/{name}/Cargo.toml");
    let build = ["build", "--quiet", "--release", "--locked", "--manifest-path"];
    Program::cargo(&build).args(&[&manifest]).env("CARGO_TARGET_DIR", &folder).run()?;
    Ok(folder.join("release"))
}

/// All programs of a benchmark.
#[derive(Debug)]
pub(super) struct Programs {
    /// The load generator.
    pub(super) generator: Generator,
    /// Ours on a current-thread runtime: the one that is judged.
    pub(super) ours: Server,
    /// Ours on a multi-thread runtime: shown.
    pub(super) ours_multi: Server,
    /// rmcp as its documentation starts it.
    pub(super) rmcp_stdio: Server,
    /// rmcp in its best configuration.
    pub(super) rmcp_pipes: Server,
    /// The same tool without a framework.
    pub(super) bare: Server,
    /// rmcp over HTTP, without its arguments.
    pub(super) rmcp_http: Server,
    /// The same tool on bare hyper, without the address.
    pub(super) bare_http: Server,
}

impl Programs {
    /// Builds all; `command`, if given, replaces our own server.
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
            bare: server("bare loop", "bare-stdio", &["pipes"]),
            rmcp_http: server("rmcp HTTP", "rmcp-echo", &[]),
            bare_http: server("bare hyper", "bare-http", &[]),
        })
    }
}

impl Programs {
    /// Makes generator and server share one processor.
    ///
    /// On separate processors a reply may find the other side asleep, and waking a sleeping processor of a virtual
    /// machine costs several times more than an echo: the figures then fall into two groups, 4 or 18 µs a call, for
    /// every server.
    pub(super) fn pinned(mut self) -> Outcome<Self> {
        self.generator.processor = Some(last_processor()?);
        Ok(self)
    }
}

/// Returns the last of the allowed processors.
pub(super) fn last_processor() -> Outcome<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let last = allowed.and_then(|list| list.rsplit([',', '-']).next()).context("a processor")?;
    Ok(last.trim().to_owned())
}

impl Server {
    /// Returns the same server with this many more tools.
    pub(super) fn with_tools(&self, count: usize) -> Self {
        let mut server = self.clone();
        server.command.extend(["--tools".to_owned(), count.to_string()]);
        server
    }
}

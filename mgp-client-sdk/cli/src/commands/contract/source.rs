//! Reads definitions from files, standard input and servers.

use std::fs;
use std::io::{self, Read as _};

use mgp_contract::{Contract, read_contracts};
use mgp_discovery::{LoadedConfig, ServerConfig};
use mgp_security::Governance;
use mgp_types::Payload;

use super::super::known_names::no_server;
use super::super::probe::{ProbedServer, Prober};
use super::{CommonArgs, SourceArgs};
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::state;

/// The maximum size of a file with tool definitions, in bytes.
const MAX_BYTES: u64 = 64 << 20;

pub(super) async fn read_all(global: &Global, args: &SourceArgs) -> CliResult<Vec<Contract>> {
    let mut tools = Vec::new();
    for source in &args.sources {
        tools.extend(read(global, source, &args.common).await?);
    }
    Ok(tools)
}

/// Reads the definitions of all sources of a command. A tool of a server is named `SERVER.TOOL`, which a kernel accepts
/// even if several servers have a tool of that name. Tools from files keep their names.
pub(super) async fn read_all_with_server(
    global: &Global,
    args: &SourceArgs,
) -> CliResult<Vec<Contract>> {
    let mut all = Vec::new();
    for source in &args.sources {
        let mut tools = read(global, source, &args.common).await?;
        if is_server(source) {
            for tool in &mut tools {
                tool.name = format!("{source}.{}", tool.name);
            }
        }
        all.extend(tools);
    }
    Ok(all)
}

/// Returns whether a source is a server, i.e. not standard input, a file or a pipe, e.g. `<(…)` of a shell.
fn is_server(source: &str) -> bool {
    source != "-" && !fs::metadata(source).is_ok_and(|found| !found.is_dir())
}

/// Returns the sources of a command, and its other options.
pub(super) fn names(args: &SourceArgs) -> (&[String], &CommonArgs) {
    (&args.sources, &args.common)
}

pub(super) async fn read(
    global: &Global,
    source: &str,
    common: &CommonArgs,
) -> CliResult<Vec<Contract>> {
    if let Some(text) = read_text(source)? {
        return parse(source, &text);
    }
    let loaded = common.config.load(global).await?;
    let server = find(&loaded, source)?;
    let probed = probe(global, &loaded, server, common).await?;
    contracts(source, &probed.raw)
}

/// Reads the text of a source; `None` if the source is a server. Fails for the path of a file that does not exist.
pub(super) fn read_text(source: &str) -> CliResult<Option<String>> {
    let failed = |error| Failure::failed(format!("`{source}` cannot be read: {error}"));
    let mut text = String::new();
    if source == "-" {
        io::stdin().take(MAX_BYTES).read_to_string(&mut text).map_err(failed)?;
        return Ok(Some(text));
    }
    if is_server(source) {
        let is_path = source.contains(std::path::is_separator) || source.contains(".json");
        let missing = || Failure::failed(format!("there is no file `{source}`"));
        return if is_path { Err(missing()) } else { Ok(None) };
    }
    let file = fs::File::open(source).map_err(failed)?;
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(failed)?;
    Ok(Some(text))
}

pub(super) fn parse(source: &str, text: &str) -> CliResult<Vec<Contract>> {
    read_contracts(text).map_err(|error| Failure::failed(format!("`{source}`: {error}")))
}

/// Finds a configured server by its id; fails if no server has this id.
pub(in crate::commands) fn find<'a>(
    loaded: &'a LoadedConfig,
    id: &str,
) -> CliResult<&'a ServerConfig> {
    let servers = &loaded.config.servers;
    let found = servers.iter().find(|server| server.id.as_str() == id);
    found.ok_or_else(|| no_server(id, servers.iter().map(|server| server.id.as_str())))
}

/// Starts a server and lists its tools.
pub(in crate::commands) async fn probe(
    global: &Global,
    loaded: &LoadedConfig,
    server: &ServerConfig,
    common: &CommonArgs,
) -> CliResult<ProbedServer> {
    let folder = state::folder(global).unwrap_or_default();
    let prober = Prober::new(common.timeout, &loaded.config.kernel, &folder);
    let governance = Governance::builder().build();
    let probed = prober.probe(server, governance.definitions()).await;
    probed.map_err(|error| Failure::failed(format!("`{}` does not start: {error}", server.id)))
}

/// Reads the definitions that a server has listed.
pub(in crate::commands) fn contracts(source: &str, raw: &[Payload]) -> CliResult<Vec<Contract>> {
    let list = format!("[{}]", raw.iter().map(Payload::as_str).collect::<Vec<_>>().join(","));
    parse(source, &list)
}

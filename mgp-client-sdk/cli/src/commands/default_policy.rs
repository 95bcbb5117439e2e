//! The `default_policy` of a server, which decides if no access entry does.

use mgp_discovery::{Config, Sources};
use mgp_types::mgp::{AccessPermission, AccessQueryParams, AccessSource, DefaultPolicy};

use crate::args::Global;
use crate::backend::Backend;
use crate::exit::CliResult;
use crate::output::print_note;
use crate::state;

/// Returns what the `default_policy` of a server decides; `?` if the configuration cannot be loaded.
pub(super) async fn resolve(
    global: &Global,
    server: &str,
    backend: &Backend,
) -> CliResult<&'static str> {
    if let Some(decided) = of_kernel(server, backend).await? {
        return Ok(decided);
    }
    let trust = state::trust(global).await?;
    Ok(match Sources::from_env().load(&trust).await {
        Ok(loaded) => of_config(&loaded.config, server),
        Err(error) => {
            print_note(global, &format!("mgp: the configuration cannot be loaded: {error}"));
            "?"
        }
    })
}

/// Returns what the `default_policy` of a server decides in the running kernel, which may use other configuration files
/// than this command. Returns `None` without a kernel, or if an entry for every agent decides.
pub(super) async fn of_kernel(server: &str, backend: &Backend) -> CliResult<Option<&'static str>> {
    let Backend::Kernel(_) = backend else { return Ok(None) };
    // No agent and no tool has the name `?`. So, besides the `default_policy`, only an entry for every agent can decide
    // about this query.
    let mut params = AccessQueryParams::new("?", server);
    params.tool_name = Some("?".to_owned());
    let result = backend.query(params).await?;
    let is_default = result.source == Some(AccessSource::DefaultPolicy);
    let allows = result.permission == Some(AccessPermission::Allow);
    Ok(is_default.then_some(if allows { "allow" } else { "deny" }))
}

/// Returns what the `default_policy` of a server decides if no access entry matches.
pub(super) fn of_config(config: &Config, server: &str) -> &'static str {
    let policy = config.server(server).and_then(|server| server.mgp.as_ref());
    match policy.map(|mgp| &mgp.default_policy) {
        Some(DefaultPolicy::OptOut) => "allow",
        _ => "deny",
    }
}

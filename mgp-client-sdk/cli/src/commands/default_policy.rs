//! The `default_policy` of a server, which decides if no access entry does, and its `tenants`, which no entry
//! overrides.

use mgp_discovery::{Config, Sources};
use mgp_types::mgp::{AccessPermission, AccessQueryParams, AccessSource, DefaultPolicy};
use mgp_types::service::Principal;

use crate::args::Global;
use crate::backend::Backend;
use crate::exit::CliResult;
use crate::output::print_note;
use crate::state;

/// The word that commands show in place of `allow` or `deny` if a server is not for the tenant of the agents.
pub(super) const EXCLUDED: &str = "excluded";

/// Returns what the `default_policy` of a server decides for the agents of a tenant (`None` for `local`): `allow` or
/// `deny`, [`EXCLUDED`] if no entry can allow access, or `?` if the configuration cannot be loaded.
pub(super) async fn resolve(
    global: &Global,
    server: &str,
    tenant: Option<&str>,
    backend: &Backend,
) -> CliResult<&'static str> {
    if let Some(decided) = of_kernel(server, tenant, backend).await? {
        return Ok(decided);
    }
    let trust = state::trust(global).await?;
    Ok(match Sources::from_env().load(&trust).await {
        Ok(loaded) => of_config(&loaded.config, server, tenant),
        Err(error) => {
            print_note(global, &format!("mgp: the configuration cannot be loaded: {error}"));
            "?"
        }
    })
}

/// Asks the running kernel what the `default_policy` of a server decides for the agents of a tenant, because the kernel
/// may use other configuration files than this command. Returns `None` without a kernel, or if an entry for every agent
/// decides.
pub(super) async fn of_kernel(
    server: &str,
    tenant: Option<&str>,
    backend: &Backend,
) -> CliResult<Option<&'static str>> {
    let Backend::Kernel(_) = backend else { return Ok(None) };
    // Use a name that no agent and no tool has, so that only the `default_policy` and entries for every agent can
    // decide about this query.
    let mut params = AccessQueryParams::new("?", server);
    params.tool_name = Some("?".to_owned());
    if let Some(tenant) = tenant {
        params.extra.encode("tenant", tenant)?;
    }
    let result = backend.query(params).await?;
    if result.source == Some(AccessSource::Other("tenants".into())) {
        return Ok(Some(EXCLUDED));
    }
    let is_default = result.source == Some(AccessSource::DefaultPolicy);
    let allows = result.permission == Some(AccessPermission::Allow);
    Ok(is_default.then_some(if allows { "allow" } else { "deny" }))
}

/// Returns what the `default_policy` of a server decides for the agents of a tenant if no access entry matches.
pub(super) fn of_config(config: &Config, server: &str, tenant: Option<&str>) -> &'static str {
    let (server, local) = (config.server(server), Principal::local());
    let tenant = tenant.unwrap_or_else(|| local.tenant().as_str());
    let tenants = server.and_then(|server| server.tenants.as_ref());
    if tenants.is_some_and(|tenants| tenants.iter().all(|one| one != tenant)) {
        return EXCLUDED;
    }
    let policy = server.and_then(|server| server.mgp.as_ref());
    match policy.map(|mgp| &mgp.default_policy) {
        Some(DefaultPolicy::OptOut) => "allow",
        _ => "deny",
    }
}

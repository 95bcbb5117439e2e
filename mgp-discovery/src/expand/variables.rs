//! The environment variables that the entries of servers name.

use std::collections::{BTreeMap, BTreeSet};

use super::Template;
use crate::config::{Config, TargetConfig};

/// Returns the environment variables that a configuration names: in a `${…}` of a server's entry, or as a name without
/// a wildcard in `pass_env` of a server or of the kernel. The value is `true` if this process has the variable; an
/// empty variable counts as missing, and `HOME` as present if the user's home folder is known.
///
/// ```
/// use mgp_discovery::{Config, named_variables};
///
/// let text = "servers = [{ id = 'a', command = 'a', env = { KEY = '${NO_SUCH_KEY:-}' }, pass_env = ['PATH'] }]";
/// let config = Config::parse("mgp.toml", text).unwrap().config;
/// let named = named_variables(&config);
/// assert_eq!((named["NO_SUCH_KEY"], named["PATH"], named.len()), (false, true, 2));
/// ```
#[must_use]
pub fn named_variables(config: &Config) -> BTreeMap<String, bool> {
    let mut names = BTreeSet::new();
    let passed = config.servers.iter().flat_map(|server| &server.pass_env);
    let passed = passed.chain(&config.kernel.pass_env).filter(|name| !name.ends_with('*'));
    names.extend(passed.cloned());
    for text in config.servers.iter().flat_map(|server| texts(&server.target)) {
        if let Ok(template) = Template::parse(text) {
            names.extend(template.variables().map(str::to_owned));
        }
    }
    let with_state = |name: String| {
        let is_set = std::env::var_os(&name).is_some_and(|value| !value.is_empty());
        // Count a missing `HOME` as set, because the user's home folder replaces it.
        let is_home = name == "HOME" && std::env::home_dir().is_some();
        (name, is_set || is_home)
    };
    names.into_iter().map(with_state).collect()
}

/// Returns the texts of a target whose `${…}` are expanded.
fn texts(target: &TargetConfig) -> Vec<&String> {
    match target {
        TargetConfig::Program { command, args, cwd, env } => {
            [command].into_iter().chain(args).chain(cwd).chain(env.values()).collect()
        }
        TargetConfig::Url { url, headers, auth, .. } => {
            let login = auth.texts().map(|(_, text)| text);
            [url].into_iter().chain(headers.values()).chain(login).collect()
        }
        TargetConfig::InProcess => Vec::new(),
    }
}

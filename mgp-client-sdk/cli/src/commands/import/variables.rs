//! The variables that an import would give to a server, for a person who reads the plan.

use std::collections::BTreeSet;

use mgp_discovery::{ServerConfig, TargetConfig, Template, describe_target};

/// Returns the variables and headers of a server, as the plan shows them. References such as `${TOKEN}` in parts that
/// the plan does not show, e.g. the query of a URL, are added: the server would receive their values.
pub(super) fn settings(server: &ServerConfig) -> Vec<String> {
    let mut sets = mgp_discovery::settings(server);
    let shown = format!("{} {}", describe_target(server), sets.join(" "));
    let texts: Vec<&String> = match &server.target {
        TargetConfig::Program { args, env, .. } => args.iter().chain(env.values()).collect(),
        TargetConfig::Url { url, headers, .. } => {
            [url].into_iter().chain(headers.values()).collect()
        }
        _ => Vec::new(),
    };
    let named = texts.into_iter().filter_map(|text| Template::parse(text).ok());
    let unseen: BTreeSet<String> = named
        .flat_map(|template| template.needs())
        .filter(|reference| {
            let with_default = reference.replace('}', ":-");
            !shown.contains(reference.as_str()) && !shown.contains(&with_default)
        })
        .collect();
    let noted = unseen.into_iter().map(|reference| format!("{reference} in a part not shown here"));
    sets.extend(noted);
    sets
}

//! The bill of materials: every crate on which the program depends, in the format `CycloneDX`.

use super::Release;
use crate::run::{Context, Outcome, Program};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) fn write(release: &Release) -> Outcome<Vec<u8>> {
    let arguments =
        ["metadata", "--locked", "--format-version", "1", "--filter-platform", &release.target];
    let metadata: Value = serde_json::from_str(&Program::cargo(&arguments).output()?)?;
    let used = used(&metadata)?;
    let packages = metadata["packages"].as_array().context("packages")?;
    let mut components: Vec<Value> = packages
        .iter()
        .filter(|package| {
            package["id"].as_str().is_some_and(|id| used.contains(id)) && package["name"] != "mgp"
        })
        .map(component)
        .collect();
    components.sort_by_key(|component| component["bom-ref"].to_string());
    let bom = json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": { "type": "application", "name": "mgp", "version": release.version } },
        "components": components,
    });
    Ok((serde_json::to_string_pretty(&bom)? + "\n").into_bytes())
}

fn component(package: &Value) -> Value {
    let text = |name: &str| package[name].as_str().unwrap_or_default();
    let (name, version) = (text("name"), text("version"));
    json!({
        "type": "library", "bom-ref": format!("{name}@{version}"), "name": name, "version": version,
        "purl": format!("pkg:cargo/{name}@{version}"),
        "licenses": [{ "expression": text("license").replace('/', " OR ") }],
    })
}

/// Returns the packages on which the program depends, directly or not, including procedural macros, but without the
/// dependencies of tests and build scripts.
fn used(metadata: &Value) -> Outcome<BTreeSet<String>> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("resolve")?;
    let packages = metadata["packages"].as_array().context("packages")?;
    let program = packages.iter().find(|package| package["name"] == "mgp").context("mgp")?;
    let mut open = vec![program["id"].as_str().context("id")?.to_owned()];
    let mut used = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !used.insert(id.clone()) {
            continue;
        }
        let node = nodes.iter().find(|node| node["id"] == *id).context(id)?;
        for dependency in node["deps"].as_array().into_iter().flatten() {
            let mut kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
            if kinds.any(|kind| kind["kind"].is_null()) {
                open.extend(dependency["pkg"].as_str().map(str::to_owned));
            }
        }
    }
    Ok(used)
}

//! The rules of `tidy` about dependencies between the workspace's packages ("arrows"): ARCHITECTURE.md lists all of
//! them. The layers depend on `mgp-types` but not on each other, and the SDKs combine the layers.

use super::Violation;
use serde_json::Value;
use std::collections::BTreeSet;

/// Dependencies that must be optional, as package and dependency.
const OPTIONAL: [(&str, &str); 2] =
    [("mgp-security", "mgp-validators"), ("mgp-server-sdk", "mgp-macros")];

/// Refuses dependencies in [`OPTIONAL`] that are declared without `optional = true`.
pub(super) fn optional(packages: &Value) -> Vec<Violation> {
    dependencies(packages)
        .filter(|(from, to, optional)| !optional && OPTIONAL.contains(&(*from, *to)))
        .map(|(from, to, _)| Violation::new(from, format!("must not always depend on {to}")))
        .collect()
}

/// Refuses dependencies between workspace packages for which ARCHITECTURE.md has no line `from → to, to`.
pub(super) fn written_down(packages: &Value, architecture: Option<&str>) -> Vec<Violation> {
    let Some(text) = architecture else {
        return vec![Violation::new("ARCHITECTURE.md", "is missing")];
    };
    let text = text.replace("->", "→");
    let written = |(from, to): &(&str, &str)| {
        text.lines().filter_map(|line| line.split_once('→')).any(|(left, right)| {
            names(left).any(|name| name == *from) && names(right).any(|name| name == *to)
        })
    };
    let unwritten = arrows(packages).into_iter().filter(|arrow| !written(arrow));
    unwritten
        .map(|(from, to)| Violation::new("ARCHITECTURE.md", format!("has no line `{from} → {to}`")))
        .collect()
}

/// Refuses dependencies on catch-all error crates, because our errors are typed.
pub(super) fn no_anyhow(packages: &Value) -> Vec<Violation> {
    let banned = |name: &str| matches!(name, "anyhow" | "eyre" | "color-eyre");
    dependencies(packages)
        .filter(|(_, to, _)| banned(to))
        .map(|(from, to, _)| Violation::new(from, format!("must not depend on {to}")))
        .collect()
}

/// Returns the dependencies between workspace packages, each once.
fn arrows(packages: &Value) -> BTreeSet<(&str, &str)> {
    let ours: Vec<_> = list(packages, "packages").filter_map(|p| p["name"].as_str()).collect();
    // Leave out dependencies of a package on itself, which enable a feature in its tests, and dependencies on
    // `mgp-testkit`, which the tests of every package are allowed to use.
    dependencies(packages)
        .filter(|(from, to, _)| from != to && *to != "mgp-testkit" && ours.contains(to))
        .map(|(from, to, _)| (from, to))
        .collect()
}

/// Returns all dependencies of the members, as package, dependency and whether it is optional.
fn dependencies(packages: &Value) -> impl Iterator<Item = (&str, &str, bool)> {
    list(packages, "packages").flat_map(|package| {
        let from = package["name"].as_str().unwrap_or_default();
        list(package, "dependencies").map(move |dependency| {
            let optional = dependency["optional"].as_bool().unwrap_or(false);
            (from, dependency["name"].as_str().unwrap_or_default(), optional)
        })
    })
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

/// Returns the words in a text that can be package names.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn packages(from: &str, to: &str, optional: bool) -> Value {
        json!({"packages": [
            {"name": from, "dependencies": [{"name": to, "kind": "dev", "optional": optional}]},
            {"name": to, "dependencies": []},
        ]})
    }

    #[test]
    fn an_optional_arrow_must_be_optional() {
        assert_eq!(optional(&packages("mgp-server-sdk", "mgp-macros", true)), []);
        assert_eq!(optional(&packages("mgp-server-sdk", "mgp-macros", false)).len(), 1);
    }

    #[test]
    fn an_unwritten_arrow_is_refused() {
        let packages = packages("mgp-stream", "mgp-types", false);
        assert_eq!(written_down(&packages, Some("- `mgp-stream` → `mgp-types`: words")), []);
        assert_eq!(written_down(&packages, Some("mgp-stream and mgp-types -> nothing")).len(), 1);
        assert_eq!(written_down(&packages, None).len(), 1);
    }

    #[test]
    fn anyhow_is_refused() {
        assert_eq!(no_anyhow(&packages("mgp-stream", "anyhow", false)).len(), 1);
        assert_eq!(no_anyhow(&packages("mgp-stream", "thiserror", false)), []);
    }
}

//! The rule of `tidy` about dependencies between the workspace's packages ("arrows").

use super::Violation;
use serde_json::Value;

/// A package, and the packages of the workspace on which it is allowed to depend, dev-dependencies included.
struct Arrows {
    from: &'static str,
    to: &'static [&'static str],
    /// Packages that are allowed as optional dependencies only.
    optional: &'static [&'static str],
}

/// All allowed dependencies: the layers depend on `mgp-types` but not on each other, and the SDKs combine the layers.
#[rustfmt::skip]
const ALLOWED: &[Arrows] = &[
    Arrows { from: "mgp-types", to: &[], optional: &[] },
    Arrows { from: "mgp-testkit", to: &["mgp-types"], optional: &[] },
    Arrows { from: "mgp-transport", to: &["mgp-types"], optional: &[] },
    Arrows { from: "mgp-security", to: &["mgp-types"], optional: &["mgp-validators"] },
    Arrows { from: "mgp-validators", to: &["mgp-types"], optional: &[] },
    Arrows { from: "mgp-lifecycle", to: &["mgp-types"], optional: &[] },
    Arrows { from: "mgp-stream", to: &["mgp-types"], optional: &[] },
    Arrows { from: "mgp-discovery", to: &["mgp-types"], optional: &[] },
    Arrows { from: "mgp-toolindex", to: &["mgp-types"], optional: &[] },
    Arrows { from: "mgp-server-sdk", to: &["mgp-types", "mgp-transport", "mgp-security",
        "mgp-lifecycle", "mgp-stream"], optional: &["mgp-macros"] },
    // The code that the macros generate uses the server SDK, but the package `mgp-macros` itself depends on no package
    // of the workspace.
    Arrows { from: "mgp-macros", to: &[], optional: &[] },
    Arrows { from: "mgp-contract", to: &["mgp-types"], optional: &[] },
    Arrows { from: "mgp-openapi", to: &["mgp-types", "mgp-server-sdk"], optional: &[] },
    // The tests of `mgp-client-sdk` use the server SDK for the servers to which they connect.
    Arrows { from: "mgp-client-sdk", to: &["mgp-types", "mgp-transport", "mgp-security",
        "mgp-lifecycle", "mgp-stream", "mgp-server-sdk"], optional: &[] },
    Arrows { from: "mgp-kernel", to: &["mgp-types", "mgp-transport", "mgp-security",
        "mgp-lifecycle", "mgp-contract", "mgp-discovery", "mgp-toolindex", "mgp-server-sdk",
        "mgp-client-sdk"], optional: &[] },
    Arrows { from: "mgp", to: &["mgp-types", "mgp-transport", "mgp-security", "mgp-lifecycle",
        "mgp-contract", "mgp-discovery", "mgp-toolindex", "mgp-server-sdk", "mgp-client-sdk",
        "mgp-kernel", "mgp-openapi", "mgp-validate"], optional: &[] },
    // The tests of this package check a server that is written with the SDK.
    Arrows { from: "mgp-validate", to: &["mgp-types", "mgp-server-sdk", "mgp-transport"],
        optional: &[] },
    // The test programs in `xtask/programs`.
    Arrows { from: "mgp-programs", to: &["mgp-types", "mgp-transport", "mgp-security",
        "mgp-toolindex", "mgp-server-sdk"], optional: &[] },
    // `docs/config.md` is generated from the table of keys in `mgp-discovery`.
    Arrows { from: "xtask", to: &["mgp-types", "mgp-discovery"], optional: &[] },
];

/// A dependency of one package of the workspace on another.
struct Arrow<'a> {
    from: &'a str,
    to: &'a str,
    optional: bool,
}

/// Refuses dependencies between workspace packages that the table does not allow.
pub(super) fn allowed(packages: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    for Arrow { from, to, optional } in arrows(packages) {
        let Some(row) = ALLOWED.iter().find(|row| row.from == from) else {
            found.push(Violation::new(from, "is not in the table of arrows"));
            continue;
        };
        let listed = row.to.contains(&to) || (optional && row.optional.contains(&to));
        if !listed {
            found.push(Violation::new(from, format!("must not depend on {to}")));
        }
    }
    found
}

/// Refuses dependencies between workspace packages for which ARCHITECTURE.md has no line `from → to, to`.
pub(super) fn written_down(packages: &Value, architecture: Option<&str>) -> Vec<Violation> {
    let Some(text) = architecture else {
        return vec![Violation::new("ARCHITECTURE.md", "is missing")];
    };
    let text = text.replace("->", "→");
    let written = |arrow: &Arrow<'_>| {
        text.lines().filter_map(|line| line.split_once('→')).any(|(left, right)| {
            names(left).any(|name| name == arrow.from) && names(right).any(|name| name == arrow.to)
        })
    };
    let unwritten = arrows(packages).into_iter().filter(|arrow| !written(arrow));
    unwritten
        .map(|Arrow { from, to, .. }| {
            Violation::new("ARCHITECTURE.md", format!("has no line `{from} → {to}`"))
        })
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

/// Returns the dependencies between workspace packages, each once; a dependency counts as optional only if all its
/// declarations are optional.
fn arrows(packages: &Value) -> Vec<Arrow<'_>> {
    let ours: Vec<_> = list(packages, "packages").filter_map(|p| p["name"].as_str()).collect();
    let mut arrows: Vec<Arrow<'_>> = Vec::new();
    // Leaves out dependencies of a package on itself, which enable a feature in its tests, and those on `mgp-testkit`,
    // which the tests of every package are allowed to use.
    let between = |(from, to, _): &(&str, &str, bool)| {
        from != to && *to != "mgp-testkit" && ours.contains(to)
    };
    for (from, to, optional) in dependencies(packages).filter(between) {
        match arrows.iter_mut().find(|arrow| arrow.from == from && arrow.to == to) {
            Some(arrow) => arrow.optional &= optional,
            None => arrows.push(Arrow { from, to, optional }),
        }
    }
    arrows
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
    fn a_layer_on_a_layer_is_refused() {
        assert_eq!(allowed(&packages("mgp-stream", "mgp-types", false)), []);
        assert_eq!(allowed(&packages("mgp-stream", "mgp-security", false)).len(), 1);
        assert_eq!(allowed(&packages("mgp-new", "mgp-types", false)).len(), 1);
        assert_eq!(allowed(&packages("mgp-types", "mgp-types", false)), []);
    }

    #[test]
    fn an_optional_arrow_must_be_optional() {
        assert_eq!(allowed(&packages("mgp-server-sdk", "mgp-macros", true)), []);
        assert_eq!(allowed(&packages("mgp-server-sdk", "mgp-macros", false)).len(), 1);
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

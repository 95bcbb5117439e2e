//! The rules of `tidy` about features: heavy dependencies must need a feature that is off by default, and the program
//! `mgp` must have the default features of its crates.

use super::Violation;
use serde_json::Value;
use std::collections::BTreeSet;

/// The crates of the sentence encoder, whose build takes minutes and includes C++.
const HEAVY: [&str; 3] = ["fastembed", "ort", "tokenizers"];

const PROGRAM: &str = "mgp";

/// The default features that the program `mgp` does not enable, as crate and feature.
const NOT_IN_PROGRAM: [(&str, &str); 1] = [
    // The tokenizer takes 50 MB while it counts; instead of exact counts, the kernel uses upper bounds.
    ("mgp-toolindex", "tokens"),
];

/// Requires that the program enables the default features of its crates. Tests cannot show that a feature is missing,
/// because tests of the whole workspace enable more features than the program.
pub(super) fn complete_program(packages: &Value) -> Vec<Violation> {
    let mut build = Build::new(packages, false);
    let Some(program) = build.ours(PROGRAM) else { return Vec::new() };
    build.package(program, true);
    let mut found = Vec::new();
    for (package, _) in build.on.iter().filter(|(_, feature)| feature.is_empty()) {
        let Some(defaults) = build.ours(package).map(|one| &one["features"]["default"]) else {
            continue;
        };
        let is_missing = |feature: &&str| {
            !build.on.contains(&(*package, *feature))
                && !NOT_IN_PROGRAM.contains(&(*package, *feature))
        };
        let missing = list(defaults).map(text).filter(is_missing);
        found.extend(missing.map(|feature| {
            let what = format!("does not enable the default feature `{feature}` of {package}");
            Violation::new(PROGRAM, what)
        }));
    }
    found
}

/// Refuses heavy dependencies in a build of the workspace with default features, including tests.
pub(super) fn light_by_default(packages: &Value) -> Vec<Violation> {
    let mut build = Build::new(packages, true);
    for package in list(&packages["packages"]) {
        build.package(package, true);
    }
    let violation = |(package, heavy)| {
        Violation::new(package, format!("must not depend on {heavy} by default"))
    };
    build.found.into_iter().map(violation).collect()
}

/// The packages and features that a build enables, found by following features from package to package.
struct Build<'a> {
    packages: &'a Value,
    with_tests: bool,
    /// The enabled features, as package and feature; an empty feature is the package itself.
    on: BTreeSet<(&'a str, &'a str)>,
    /// The violations, as package and heavy dependency.
    found: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Build<'a> {
    fn new(packages: &'a Value, with_tests: bool) -> Self {
        Self { packages, with_tests, on: BTreeSet::new(), found: BTreeSet::new() }
    }

    fn package(&mut self, package: &'a Value, defaults: bool) {
        if self.on.insert((text(&package["name"]), "")) {
            let with_tests = self.with_tests;
            let is_built = |dependency: &&Value| {
                dependency["optional"] != true && (with_tests || dependency["kind"] != "dev")
            };
            for dependency in list(&package["dependencies"]).filter(is_built) {
                self.dependency(package, dependency);
            }
        }
        if defaults {
            self.feature(package, "default");
        }
    }

    fn dependency(&mut self, package: &'a Value, dependency: &'a Value) {
        let name = text(&dependency["name"]);
        if HEAVY.contains(&name) {
            self.found.insert((text(&package["name"]), name));
        }
        let Some(other) = self.ours(name) else { return };
        self.package(other, dependency["uses_default_features"] == true);
        for feature in list(&dependency["features"]) {
            self.feature(other, text(feature));
        }
    }

    fn feature(&mut self, package: &'a Value, feature: &'a str) {
        let parts = &package["features"][feature];
        if parts.is_null() || !self.on.insert((text(&package["name"]), feature)) {
            return;
        }
        for part in list(parts).map(text) {
            let (name, of_it) = part.split_once('/').map_or((part, None), |(n, f)| (n, Some(f)));
            // `name?/feature` does not enable the dependency, but adds the feature if something else enables the
            // dependency.
            let (name, weak) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
            if of_it.is_none() && !name.starts_with("dep:") {
                self.feature(package, name);
                continue;
            }
            let name = name.trim_start_matches("dep:");
            let named = |dependency: &&Value| called(dependency) == name;
            for dependency in list(&package["dependencies"]).filter(named) {
                if !weak {
                    self.dependency(package, dependency);
                }
                if let Some((other, feature)) = self.ours(text(&dependency["name"])).zip(of_it) {
                    self.feature(other, feature);
                }
            }
        }
    }

    fn ours(&self, name: &str) -> Option<&'a Value> {
        list(&self.packages["packages"]).find(|package| package["name"] == name)
    }
}

/// Returns the name that features use for a dependency.
fn called(dependency: &Value) -> &str {
    dependency["rename"].as_str().unwrap_or_else(|| text(&dependency["name"]))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dependency(name: &str, optional: bool, features: &[&str]) -> Value {
        let (rename, uses_default_features) = (Value::Null, true);
        json!({"name": name, "rename": rename, "optional": optional, "features": features,
            "uses_default_features": uses_default_features})
    }

    /// Checks a package `index` with these features, and a package `user` that depends on it.
    #[track_caller]
    fn check(features: &Value, optional: bool, asks: &[&str], expected: usize) {
        let packages = json!({"packages": [
            {"name": "index", "features": features, "dependencies": [
                dependency("ort", optional, &[]),
                dependency("index", false, &["small"]),
            ]},
            {"name": "user", "features": {}, "dependencies": [dependency("index", false, asks)]},
        ]});
        assert_eq!(light_by_default(&packages).len(), expected);
    }

    #[test]
    fn the_program_has_the_default_features_of_its_crates() {
        let check = |features: &[&str], kind: &str, expected: usize| {
            let index = json!({"default": ["lexicon", "tokens"], "lexicon": [], "tokens": []});
            let uses = json!({"name": "mgp-toolindex", "rename": null, "optional": false,
                "features": features, "uses_default_features": false, "kind": kind});
            let packages = json!({"packages": [
                {"name": "mgp-toolindex", "features": index, "dependencies": []},
                {"name": "mgp", "features": {}, "dependencies": [dependency("mgp-kernel", false, &[]), uses]},
                {"name": "mgp-kernel", "features": {}, "dependencies": [
                    {"name": "mgp-toolindex", "rename": null, "optional": false, "features": [],
                        "uses_default_features": false},
                ]},
            ]});
            assert_eq!(complete_program(&packages).len(), expected, "{features:?} {kind}");
        };
        check(&["lexicon"], "", 0);
        check(&[], "", 1);
        check(&["lexicon"], "dev", 1);
    }

    #[test]
    fn an_encoder_by_default_is_refused() {
        let features =
            json!({"default": [], "small": [], "encoder": ["dep:ort"], "hub": ["encoder"]});
        check(&features, false, &[], 1);
        check(&features, true, &["hub"], 1);
    }

    #[test]
    fn a_default_feature_or_a_test_that_turns_it_on_is_refused() {
        for features in [
            json!({"default": ["hub"], "hub": ["encoder"], "encoder": ["dep:ort"]}),
            json!({"default": ["ort/load"]}),
            json!({"default": [], "small": ["ort"], "ort": ["dep:ort"]}),
        ] {
            check(&features, true, &[], 1);
        }
        let weak = json!({"default": ["ort?/load"], "ort": ["dep:ort"]});
        check(&weak, true, &[], 0);
    }
}

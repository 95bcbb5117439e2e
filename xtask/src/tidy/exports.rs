//! The rule of `tidy` about names at the root of a crate: no two published crates may export the same name. Also parses
//! `use` statements for other rules and for the command `api`.

use super::{Violation, source::Source, source::closing};
use std::collections::BTreeMap;

/// One imported or re-exported item: its path without the last part, the item, and the name under which it is visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Export {
    pub(crate) path: Vec<String>,
    pub(crate) item: String,
    pub(crate) name: String,
}

/// Names of modules that several crates are allowed to export, because users write them with the name of the crate:
/// `mgp_security::auth` authenticates callers, `mgp_client_sdk::auth` obtains credentials, and no program imports both
/// by name.
const SHARED: &[&str] = &["auth", "prelude"];

/// Refuses names that the roots of two published crates export; re-exports of another crate's items do not count.
pub(super) fn twice(libraries: &[(&str, &Source)]) -> Vec<Violation> {
    let mut owners: BTreeMap<String, Vec<(&str, &Source)>> = BTreeMap::new();
    for (package, source) in libraries {
        for name in own_names(source) {
            owners.entry(name).or_default().push((package, source));
        }
    }
    let mut found = Vec::new();
    for (name, owners) in owners {
        if owners.len() > 1 && !SHARED.contains(&name.as_str()) {
            let packages: Vec<&str> = owners.iter().map(|(package, _)| *package).collect();
            for (_, source) in &owners {
                let what = format!("`{name}` is exported by {}", packages.join(" and "));
                found.push(Violation::new(&source.path, what));
            }
        }
    }
    found
}

/// Returns the names that a `lib.rs` exports from its own crate, without duplicates.
fn own_names(source: &Source) -> Vec<String> {
    let modules = modules(source);
    let own = |export: &Export| {
        let first = export.path.first().map_or(export.item.as_str(), String::as_str);
        matches!(first, "crate" | "self") || modules.iter().any(|(name, _)| name == first)
    };
    let mut names: Vec<String> = uses(source)
        .into_iter()
        .filter(|found| found.public)
        .flat_map(|found| found.exports)
        .filter(|export| own(export) && export.name != "*")
        .map(|export| export.name)
        .collect();
    names.extend(modules.into_iter().filter(|(_, public)| *public).map(|(name, _)| name));
    names.sort();
    names.dedup();
    names
}

/// Returns the modules that a file declares at its top level, and whether each is public.
pub(crate) fn modules(source: &Source) -> Vec<(String, bool)> {
    let mut modules = Vec::new();
    for statement in statements(source) {
        let (public, rest) = visibility(statement.text);
        if let Some(rest) = rest.strip_prefix("mod ") {
            let name = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
            modules.push((name.unwrap_or_default().to_owned(), public));
        }
    }
    modules
}

/// A `use` statement at the top level of a file.
pub(crate) struct Use {
    pub(crate) public: bool,
    pub(crate) exports: Vec<Export>,
}

/// Returns the `use` statements at the top level of a file, except those in tests.
pub(crate) fn uses(source: &Source) -> Vec<Use> {
    let mut found = Vec::new();
    for statement in statements(source) {
        let (public, rest) = visibility(statement.text);
        if let Some(tree) = rest.strip_prefix("use ")
            && !source.is_test(statement.at)
        {
            let mut exports = Vec::new();
            expand(&[], tree.trim_end_matches(';').trim(), &mut exports);
            found.push(Use { public, exports });
        }
    }
    found
}

/// A top-level item of a file: the position of its first byte, and its text up to its `;` or its block `{…}`.
pub(crate) struct Statement<'a> {
    pub(crate) at: usize,
    pub(crate) text: &'a str,
}

/// Splits a file into its top-level items, without their attributes.
pub(crate) fn statements(source: &Source) -> Vec<Statement<'_>> {
    let code = &source.code;
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(skip) = code[at..].find(|c: char| !c.is_whitespace()) {
        at += skip;
        let rest = &code[at..];
        if rest.starts_with('#') {
            let open = rest.find('[').map(|open| at + open);
            at = open.and_then(|open| closing(code, open)).map_or(code.len(), |end| end + 1);
            continue;
        }
        let is_use = visibility(rest).1.starts_with("use ");
        let stop = rest.find(if is_use { &[';'][..] } else { &[';', '{'][..] });
        let stop = stop.map_or(code.len(), |stop| at + stop);
        found.push(Statement { at, text: &code[at..stop] });
        let block = code[stop..].starts_with('{').then(|| closing(code, stop)).flatten();
        at = (block.unwrap_or(stop) + 1).min(code.len());
    }
    found
}

/// Splits an item into its visibility and the remaining text; only a plain `pub` counts as public.
pub(crate) fn visibility(item: &str) -> (bool, &str) {
    match item.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => {
            (false, rest.split_once(')').map_or(rest, |(_, rest)| rest.trim_start()))
        }
        Some(rest) if rest.starts_with(char::is_whitespace) => (true, rest.trim_start()),
        _ => (false, item),
    }
}

/// Expands a nested `use` such as `a::{B, c::D as E}` into single exports.
pub(crate) fn expand(before: &[String], tree: &str, exports: &mut Vec<Export>) {
    let tree = tree.trim();
    if let Some(open) = tree.find('{') {
        let mut path = before.to_vec();
        path.extend(parts(tree[..open].trim_end().trim_end_matches("::")));
        let inside = tree[open + 1..].trim_end().trim_end_matches('}');
        for part in split_at_commas(inside) {
            expand(&path, part, exports);
        }
        return;
    }
    let (tree, name) =
        tree.split_once(" as ").map_or((tree, None), |(tree, name)| (tree, Some(name)));
    let mut path = before.to_vec();
    path.extend(parts(tree));
    // `use a::{self}` imports the module `a` itself.
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if let Some(item) = path.pop() {
        let name = name.map_or_else(|| item.clone(), |name| name.trim().to_owned());
        exports.push(Export { path, item, name });
    }
}

fn parts(path: &str) -> impl Iterator<Item = String> {
    let parts = path.split("::").map(|part| part.trim().to_owned());
    parts.filter(|part| !part.is_empty())
}

fn split_at_commas(inside: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                found.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&inside[start..]);
    found.retain(|part| !part.trim().is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(one: &str, other: &str, expected: usize) {
        let one = Source::new("one/src/lib.rs", one);
        let other = Source::new("other/src/lib.rs", other);
        let found = twice(&[("one", &one), ("other", &other)]);
        assert_eq!(found.len(), expected, "{found:?}");
    }

    #[test]
    fn a_name_of_two_crates_is_refused_at_both() {
        check("mod a;\npub use a::{Fleet, b::C};", "mod b;\npub use b::D as Fleet;", 2);
        check("pub mod store;", "mod s;\npub use s::store;", 2);
    }

    #[test]
    fn foreign_and_private_names_do_not_count() {
        let types = "pub use mgp_types as types;\npub use mgp_types::Id;\npub mod prelude {}";
        check(types, types, 0);
        check("mod a;\nuse a::B;\npub(crate) use a::C;", "mod a;\npub use a::{B, C};", 0);
    }

    #[test]
    fn trees_are_expanded() {
        let source = Source::new("a.rs", "pub use a::{self, b::{C, D as E}, *};");
        let exports = uses(&source).remove(0).exports;
        let shown: Vec<_> = exports
            .iter()
            .map(|export| format!("{}::{}={}", export.path.join("::"), export.item, export.name))
            .collect();
        assert_eq!(shown, ["::a=a", "a::b::C=C", "a::b::D=E", "a::*=*"]);
    }
}

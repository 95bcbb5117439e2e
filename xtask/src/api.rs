//! The command `api`: lists the public items of each published crate, one per line, in `docs/api`.
//!
//! The command reads the source text, and follows `pub mod` and `pub use`. It ignores `cfg` attributes of features.

use crate::{
    flags::Flags,
    run::{Context, Failure, Outcome, root},
    tidy::{
        Tree,
        exports::{Export, modules, statements, uses, visibility},
        source::Source,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// The maximum length of a chain of modules and re-exports; stops cycles.
const MAX_DEPTH: usize = 8;

/// The keywords of the items that the command `api` lists.
const KINDS: &[&str] =
    &["const", "enum", "fn", "macro", "static", "struct", "trait", "type", "union"];

/// Keywords that can come between `pub` and the keyword of an item.
const QUALIFIERS: &[&str] = &["async ", "unsafe ", "const fn "];

/// Compares the lists with the files in `docs/api` and fails if one differs; with `--write`, updates the files.
pub(crate) fn api(flags: &Flags) -> Outcome {
    let tree = Tree::read(&root())?;
    let folder = root().join("docs/api");
    let mut stale = Vec::new();
    for (package, text) in listings(&tree) {
        let file = folder.join(format!("{package}.txt"));
        let before = fs::read_to_string(&file).unwrap_or_default();
        if before == text {
            continue;
        }
        if flags.has("--write") {
            fs::create_dir_all(&folder).context(folder.display())?;
            fs::write(&file, text).context(file.display())?;
            println!("wrote {}", file.display());
            continue;
        }
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        let (before, after) = (lines(&before), lines(&text));
        before.difference(&after).for_each(|line| println!("{package}: - {line}"));
        after.difference(&before).for_each(|line| println!("{package}: + {line}"));
        stale.push(package);
    }
    if stale.is_empty() {
        return Ok(());
    }
    let stale = stale.join(", ");
    Err(Failure::new(format!("the public API of {stale} differs; run `cargo xtask api --write`")))
}

/// Returns the name and the list of public items of each published package.
fn listings(tree: &Tree) -> Vec<(String, String)> {
    let mut listings = Vec::new();
    for (package, lib) in tree.libraries() {
        let folder = lib.path.trim_end_matches("lib.rs");
        let files = tree.rust().iter().filter_map(|source| {
            let module = source.path.strip_prefix(folder)?.trim_end_matches(".rs");
            let module = module.trim_end_matches("/mod").to_owned();
            Some((if module == "lib" { String::new() } else { module }, source))
        });
        let listing = Listing { files: files.collect() };
        let mut lines = BTreeSet::new();
        listing.module("", "", 0, &mut lines);
        let lines: Vec<String> = lines.into_iter().collect();
        listings.push((package.to_owned(), lines.join("\n") + "\n"));
    }
    listings
}

/// The source files of one crate, by module path with slashes, e.g. `a/b`.
struct Listing<'a> {
    files: BTreeMap<String, &'a Source>,
}

impl Listing<'_> {
    /// Adds the public items of a module to the lines; `shown` is the path under which users name the module.
    fn module(&self, module: &str, shown: &str, depth: usize, lines: &mut BTreeSet<String>) {
        let Some(source) = self.files.get(module).filter(|_| depth < MAX_DEPTH) else { return };
        for statement in statements(source) {
            if let Some((kind, name)) = public_item(statement.text)
                && !source.is_test(statement.at)
            {
                lines.insert(format!("{kind} {}", join(shown, name, "::")));
            }
        }
        for (name, public) in modules(source) {
            if public {
                lines.insert(format!("mod {}", join(shown, &name, "::")));
                self.module(&join(module, &name, "/"), &join(shown, &name, "::"), depth + 1, lines);
            }
        }
        for found in uses(source).into_iter().filter(|found| found.public) {
            for export in found.exports {
                self.export(module, shown, &export, depth, lines);
            }
        }
    }

    /// Adds to `lines` the items that a `pub use` exports: all items of a module for `*`, a module with its items, one
    /// item, or the path of an item of another crate.
    fn export(
        &self,
        module: &str,
        shown: &str,
        export: &Export,
        depth: usize,
        lines: &mut BTreeSet<String>,
    ) {
        let name = join(shown, &export.name, "::");
        let Some(target) = self.target(module, &export.path) else {
            let path = export.path.join("::");
            lines.insert(format!("use {name} = {}", join(&path, &export.item, "::")));
            return;
        };
        if export.item == "*" {
            return self.module(&target, shown, depth + 1, lines);
        }
        let child = join(&target, &export.item, "/");
        if self.files.contains_key(&child) {
            lines.insert(format!("mod {name}"));
            return self.module(&child, &name, depth + 1, lines);
        }
        let kind = self.kind(&target, &export.item, depth).unwrap_or("use");
        lines.insert(format!("{kind} {name}"));
    }

    /// Returns the module of this crate to which a path refers; `None` if the path leads to another crate.
    fn target(&self, module: &str, path: &[String]) -> Option<String> {
        let mut at = module.to_owned();
        for (number, part) in path.iter().enumerate() {
            match part.as_str() {
                "crate" => at = String::new(),
                "self" => {}
                "super" => at = at.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned(),
                name => {
                    at = join(&at, name, "/");
                    if !self.files.contains_key(&at) && number == 0 {
                        return None;
                    }
                }
            }
        }
        Some(at)
    }

    /// Returns the keyword of an item, e.g. `struct`, that a module declares or re-exports.
    fn kind(&self, module: &str, item: &str, depth: usize) -> Option<&'static str> {
        let source = self.files.get(module).filter(|_| depth < MAX_DEPTH)?;
        let declared = statements(source).into_iter().find_map(|statement| {
            public_item(statement.text).filter(|(_, name)| *name == item).map(|(kind, _)| kind)
        });
        declared.or_else(|| {
            let mut exports = uses(source).into_iter().flat_map(|found| found.exports);
            let export = exports.find(|export| export.name == item)?;
            self.kind(&self.target(module, &export.path)?, &export.item, depth + 1)
        })
    }
}

/// Returns the keyword and the name of a public item.
fn public_item(text: &str) -> Option<(&'static str, &str)> {
    let (public, mut rest) = visibility(text);
    if !public {
        return None;
    }
    for qualifier in QUALIFIERS {
        if let Some(after) = rest.strip_prefix(qualifier) {
            rest = if qualifier.ends_with("fn ") { &rest["const ".len()..] } else { after };
        }
    }
    let kind = KINDS.iter().find(|kind| rest.split(' ').next() == Some(**kind))?;
    let name = rest[kind.len()..].trim_start();
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    Some((kind, &name[..end]))
}

fn join(before: &str, name: &str, separator: &str) -> String {
    if before.is_empty() { name.to_owned() } else { format!("{before}{separator}{name}") }
}

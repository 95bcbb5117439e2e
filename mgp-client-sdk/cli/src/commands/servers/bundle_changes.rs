//! Compares the manifests of two versions of a bundle.

use std::collections::BTreeMap;
use std::path::Path;

use mgp_discovery::import::{Answer, Answers, Bundle, Entry};
use mgp_discovery::{ServerConfig, TargetConfig, changes_code};

use super::unpack::{MAX_MANIFEST_BYTES, parse_manifest};
use crate::output::first_line;

/// The changes of a server's entry for another version of its bundle.
#[derive(Default)]
pub(super) struct BundleChanges {
    /// The texts of the entry that name the earlier folder, each with its replacement.
    pub(super) replacements: BTreeMap<String, String>,
    /// The environment variables that the new version needs and the entry lacks.
    pub(super) added: BTreeMap<String, String>,
    /// The changes as lines for the user.
    pub(super) lines: Vec<String>,
}

impl BundleChanges {
    /// Compares a server with the new version of its bundle, whose files will be in `folder`. Only what the publisher
    /// has changed counts, so the user's own arguments and variables stay.
    ///
    /// Returns the reason as an error if the entry cannot be changed for the new version.
    pub(super) fn new(
        server: &ServerConfig,
        bundle: &Bundle,
        folder: &Path,
    ) -> Result<Self, String> {
        let TargetConfig::Program { command, args, cwd, env } = &server.target else {
            return Err("its entry does not start a program".to_owned());
        };
        let before = cwd.as_deref().ok_or("its entry has no `cwd`, so its files are not known")?;
        let old = installed(Path::new(&before.replace("$$", "$"))).ok_or(
            "the manifest of its earlier version cannot be read; remove it and add it again",
        )?;
        // Both versions get the same settings, so that another default does not count as a change.
        let needs = old.needs().into_iter().chain(bundle.needs());
        let answers: Answers = needs.map(|need| (need.variable, vec![Answer::text("-")])).collect();
        let (from, to) = (entry(&old, folder, &answers), entry(bundle, folder, &answers));
        let unset = entry(bundle, folder, &Answers::new());
        if (&from.command, &from.args) != (&to.command, &to.args) {
            let words = unset.command.iter().chain(&unset.args);
            let words: Vec<&str> = words.map(String::as_str).collect();
            let words = first_line(&words.join(" "), 200);
            return Err(format!("it is started by `{words}` now; remove it and add it again"));
        }
        let mut changes = Self::default();
        let after = folder.to_string_lossy().replace('$', "$$");
        for text in [command, &before.to_owned()].into_iter().chain(args).chain(env.values()) {
            if text.contains(before) {
                changes.replacements.insert(text.clone(), text.replace(before, &after));
            }
        }
        changes.lines.push(format!("runs the files in {}", folder.display()));
        for (name, value) in &to.env {
            match from.env.get(name) {
                Some(earlier) if earlier == value => {}
                Some(_) => {
                    let name = first_line(name, 60);
                    return Err(format!(
                        "it sets `{name}` to another value now; remove it and add it again"
                    ));
                }
                None if env.contains_key(name) => {}
                None => changes.add_variable(name, &unset)?,
            }
        }
        changes.add_needs(&old, bundle);
        Ok(changes)
    }

    /// Adds a variable with the value that it has in `unset`, i.e. in the new version's entry for a user who has given
    /// no settings.
    fn add_variable(&mut self, name: &str, unset: &Entry) -> Result<(), String> {
        if changes_code(name) {
            return Err(format!(
                "it sets `{}` now, which can change the code that runs; remove it and add it again",
                first_line(name, 60)
            ));
        }
        let value = unset.env.get(name).cloned().unwrap_or_default();
        let (shown, text) = (first_line(name, 60), first_line(&value, 200));
        self.lines.push(format!("sets {shown} = {text}"));
        self.added.insert(name.to_owned(), value);
        Ok(())
    }

    /// Adds a line for each setting that only the new version requires.
    fn add_needs(&mut self, old: &Bundle, new: &Bundle) {
        let earlier = old.needs();
        for need in new.needs() {
            let is_new = !earlier.iter().any(|one| one.variable == need.variable);
            if is_new && need.is_required && need.default.is_none() {
                let name = &need.variable;
                self.lines.push(format!("needs the variable `{name}`; set it before it starts"));
            }
        }
    }
}

/// Returns the manifest of the bundle whose files are in a folder; `None` if it cannot be read.
fn installed(folder: &Path) -> Option<Bundle> {
    let file = folder.join("manifest.json");
    let metadata = std::fs::metadata(&file).ok()?;
    if !metadata.is_file() || metadata.len() > MAX_MANIFEST_BYTES {
        return None;
    }
    let manifest = parse_manifest(&std::fs::read_to_string(file).ok()?).ok()?;
    Bundle::new(&manifest).ok()
}

fn entry(bundle: &Bundle, folder: &Path, answers: &Answers) -> Entry {
    let servers = bundle.import(folder, answers).servers.into_iter();
    servers.map(|server| server.entry).next().unwrap_or_default()
}

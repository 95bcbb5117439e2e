//! The table of contents, `docs/SUMMARY.md`, in the format of mdBook.

use crate::run::{Context, Failure, Outcome, root};
use std::{collections::BTreeSet, fs, path::PathBuf};

/// A part of the table of contents, e.g. "Use".
pub(super) struct Part {
    pub(super) title: String,
    pub(super) entries: Vec<Entry>,
}

/// A page in the table of contents.
pub(super) struct Entry {
    /// The title, as Markdown.
    pub(super) title: String,
    /// The file, relative to the root of the workspace.
    pub(super) file: PathBuf,
}

/// Reads the table of contents. Returns an error if a document of `docs/` is missing in it, or if it names a document
/// that does not exist.
pub(super) fn read() -> Outcome<Vec<Part>> {
    let text = fs::read_to_string(root().join("docs/SUMMARY.md")).context("docs/SUMMARY.md")?;
    let mut parts = vec![Part { title: String::new(), entries: Vec::new() }];
    for line in text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(title) = line.strip_prefix("# ") {
            parts.push(Part { title: title.to_owned(), entries: Vec::new() });
            continue;
        }
        let link = line.trim_start_matches("- ").strip_prefix('[');
        let link = link.and_then(|link| link.strip_suffix(')')?.split_once("]("));
        let (title, file) = link.context(format!("a link in `{line}`"))?;
        let file = match file.strip_prefix("../") {
            Some(file) => PathBuf::from(file),
            None => PathBuf::from("docs").join(file),
        };
        let part = parts.last_mut().context("a part")?;
        part.entries.push(Entry { title: title.to_owned(), file });
    }
    check(&parts)?;
    Ok(parts)
}

fn check(parts: &[Part]) -> Outcome {
    let listed: BTreeSet<_> =
        parts.iter().flat_map(|part| &part.entries).map(|entry| &entry.file).collect();
    if let Some(file) = listed.iter().find(|file| !root().join(file).is_file()) {
        return Err(Failure::new(format!("docs/SUMMARY.md: dead link `{}`", file.display())));
    }
    for entry in fs::read_dir(root().join("docs")).context("docs")? {
        let file = PathBuf::from("docs").join(entry.context("docs")?.file_name());
        let is_page = file.extension().is_some_and(|kind| kind == "md");
        if is_page && !file.ends_with("SUMMARY.md") && !listed.contains(&file) {
            return Err(Failure::new(format!("docs/SUMMARY.md lacks {}", file.display())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_without_a_file_is_refused() {
        let mut parts = read().unwrap();
        let file = PathBuf::from("docs/missing.md");
        parts[0].entries.push(Entry { title: "Missing".to_owned(), file });
        let refused = check(&parts).unwrap_err().to_string();
        assert_eq!(refused, "docs/SUMMARY.md: dead link `docs/missing.md`");
    }
}

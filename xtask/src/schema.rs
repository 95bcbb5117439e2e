//! The command `schema`: writes the documents that are generated from our types, e.g. `docs/schema/` and
//! `docs/methods.md`; with `--check`, only checks that they are current.

use crate::{
    flags::Flags,
    run::{Context, Failure, Outcome, root},
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Writes the generated files; with `--check`, fails if a file is outdated, missing or superfluous.
pub(crate) fn schema(flags: &Flags) -> Outcome {
    let files: BTreeMap<PathBuf, String> = generated()?.into_iter().collect();
    let stale = stale(&root(), &files)?;
    if flags.has("--check") {
        for path in &stale {
            println!("{} is stale", path.display());
        }
        println!("schema: {} generated files, {} stale", files.len(), stale.len());
        return if stale.is_empty() {
            Ok(())
        } else {
            Err(Failure::new("run `cargo xtask schema` and commit what changes"))
        };
    }
    for path in &stale {
        let place = root().join(path);
        if let Some(text) = files.get(path) {
            fs::create_dir_all(place.parent().context("folder")?)?;
            fs::write(&place, text).context(path.display())?;
            println!("wrote {}", path.display());
        } else {
            fs::remove_file(&place).context(path.display())?;
            println!("removed {}", path.display());
        }
    }
    println!("schema: {} generated files, {} changed", files.len(), stale.len());
    Ok(())
}

/// Returns the path and the text of every generated file.
fn generated() -> Outcome<Vec<(PathBuf, String)>> {
    let messages = serde_json::to_string_pretty(&mgp_types::schema::message_schemas())?;
    let config = serde_json::to_string_pretty(&mgp_discovery::config_schema())?;
    Ok(vec![
        ("docs/methods.md".into(), mgp_types::schema::methods_markdown()),
        ("docs/config.md".into(), mgp_discovery::config_markdown()),
        ("docs/schema/messages.json".into(), messages + "\n"),
        ("docs/schema/mgp.toml.json".into(), config + "\n"),
    ])
}

/// Returns the files whose text differs, and the schema files that are no longer generated.
fn stale(root: &Path, files: &BTreeMap<PathBuf, String>) -> Outcome<Vec<PathBuf>> {
    let changed = |path: &Path, text: &str| {
        fs::read_to_string(root.join(path)).map_or(true, |there| there != text)
    };
    let mut stale: Vec<PathBuf> = files
        .iter()
        .filter(|(path, text)| changed(path, text))
        .map(|(path, _)| path.clone())
        .collect();
    let folder = Path::new("docs/schema");
    if let Ok(entries) = fs::read_dir(root.join(folder)) {
        for entry in entries {
            let path = folder.join(entry?.file_name());
            if !files.contains_key(&path) && path.extension().is_some_and(|e| e == "json") {
                stale.push(path);
            }
        }
    }
    Ok(stale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_missing_and_left_over_files_are_stale() {
        let root = std::env::temp_dir().join(format!("xtask-schema-{}", std::process::id()));
        fs::create_dir_all(root.join("docs/schema")).unwrap();
        for (name, text) in [("same", "1"), ("changed", "1"), ("left_over", "1")] {
            fs::write(root.join(format!("docs/schema/{name}.json")), text).unwrap();
        }
        let wanted = [("same", "1"), ("changed", "2"), ("missing", "3")];
        let files = wanted.map(|(name, text)| {
            (PathBuf::from(format!("docs/schema/{name}.json")), text.to_owned())
        });
        let stale = stale(&root, &files.into()).unwrap();
        fs::remove_dir_all(&root).unwrap();
        let names: Vec<_> = stale.iter().filter_map(|path| path.file_stem()).collect();
        assert_eq!(names, ["changed", "missing", "left_over"]);
    }
}

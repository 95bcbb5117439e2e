//! Creates and builds a crate outside the workspace that depends on our packages by path, as a user's crate would.

use crate::run::{Context, Failure, Outcome, Program, root, target};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folder of a generated crate with some programs.
#[derive(Debug)]
pub(super) struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// Creates the crate; each program is given by its name and its text.
    pub(super) fn new(name: &str, programs: &[(&str, &str)]) -> Outcome<Self> {
        let folder = target()?.join("scratch").join(name);
        let bin = folder.join("src/bin");
        if bin.exists() {
            fs::remove_dir_all(&bin).context(bin.display())?;
        }
        fs::create_dir_all(&bin).context(bin.display())?;
        fs::write(folder.join("Cargo.toml"), manifest(name, &root()))?;
        // Copies the lock file, so that the crate uses the dependency versions of the workspace and needs no download.
        fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
        for (program, text) in programs {
            fs::write(bin.join(program).with_extension("rs"), text).context(program)?;
        }
        Ok(Self { folder })
    }

    /// Builds the programs with `--release`; returns the folder of the binaries.
    pub(super) fn build(&self) -> Outcome<PathBuf> {
        // Uses one target folder for all such crates, so that our packages are built only once.
        let built = self.folder.with_file_name("target");
        let build = ["build", "--quiet", "--release"];
        Program::cargo(&build).dir(&self.folder).env("CARGO_TARGET_DIR", &built).run()?;
        Ok(built.join("release"))
    }
}

/// Returns a manifest with the dependencies that the README names, as paths into this checkout.
fn manifest(name: &str, root: &Path) -> String {
    let path =
        |package: &str| format!("{package} = {{ path = '{}' }}", root.join(package).display());
    format!(
        r#"[package]
name = "{name}"
version = "0.1.0"
edition = "2024"

[workspace]

[dependencies]
{}
{}
schemars = "1"
serde = {{ version = "1", features = ["derive"] }}
tokio = {{ version = "1", features = ["macros", "rt-multi-thread"] }}

[profile.release]
debug = "line-tables-only"
lto = "thin"
codegen-units = 4
"#,
        path("mgp-server-sdk"),
        path("mgp-client-sdk"),
    )
}

/// Returns the first Rust code block below a heading of a Markdown text.
pub(super) fn program_below(markdown: &str, heading: &str) -> Outcome<String> {
    let missing = || Failure::new(format!("the README has no program below `{heading}`"));
    let mut lines = markdown.lines().skip_while(|line| *line != heading).skip(1);
    let start = lines.by_ref().find(|line| line.starts_with("```rust") || line.starts_with("## "));
    if start.is_none_or(|line| line.starts_with("## ")) {
        return Err(missing());
    }
    let program: Vec<_> = lines.take_while(|line| *line != "```").collect();
    // Rejects lines that begin with `# `: rustdoc hides them, so readers would see an incomplete program.
    if program.is_empty() || program.iter().any(|line| line.starts_with("# ")) {
        return Err(missing());
    }
    Ok(program.join("\n") + "\n")
}

/// Returns the number of non-blank lines of a program.
pub(super) fn lines(program: &str) -> usize {
    program.lines().filter(|line| !line.trim().is_empty()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# a\n\n## One\n\ntext\n\n```rust,no_run\nfn main() {}\n\n// x\n```\n\n## Two\n\n## Three\n```toml\na = 1\n```\n```rust\n# hidden\n```\n";

    #[test]
    fn programs_are_found_below_their_headings() {
        let one = program_below(PAGE, "## One").unwrap();
        assert_eq!((one.as_str(), lines(&one)), ("fn main() {}\n\n// x\n", 2));
        for heading in ["## Two", "## Three", "## Four"] {
            assert!(program_below(PAGE, heading).is_err(), "{heading}");
        }
    }
}

//! The command `dist`: packs the program `mgp` in every form in which users install it.
//!
//! The command publishes nothing. Two runs with the same program and `SOURCE_DATE_EPOCH` produce the same bytes.

mod archive;
mod deb;
mod npm;
mod pgo;
mod sbom;
mod texts;
mod wheel;

use crate::flags::Flags;
use crate::run::{Context, Failure, Outcome, Program, root, target};
use archive::{Entry, gzip, tar_gz};
use std::{fs, path::Path, path::PathBuf};

/// The maximum size of the stripped program, in bytes.
const MAX_PROGRAM: usize = 25 << 20;

/// The shells that get a completion script, each with the name of the file that the shell expects.
const COMPLETIONS: [(&str, &str); 4] =
    [("bash", "mgp.bash"), ("zsh", "_mgp"), ("fish", "mgp.fish"), ("powershell", "_mgp.ps1")];

/// The contents of a release, from which all packages are made.
struct Release {
    version: String,
    /// The target as rustc names it, e.g. `x86_64-unknown-linux-gnu`.
    target: String,
    /// The address below which the files of the release will be published.
    url: String,
    epoch: u64,
    program: Vec<u8>,
    /// The man pages: name and text.
    manuals: Vec<(String, Vec<u8>)>,
    /// The completion scripts: shell, file name and text.
    completions: Vec<(&'static str, &'static str, Vec<u8>)>,
    readme: Vec<u8>,
    licences: [(&'static str, Vec<u8>); 2],
}

/// Makes all packages in a folder.
pub(crate) fn dist(flags: &Flags) -> Outcome {
    let program = match flags.value("--bin") {
        Some(path) => PathBuf::from(path),
        None if flags.has("--pgo") => pgo::build()?,
        None => build()?,
    };
    let folder = match flags.value("--out") {
        Some(folder) => PathBuf::from(folder),
        None => target()?.join("packages"),
    };
    let files = make(&program, flags.value("--url"), &folder)?;
    for (name, bytes) in files {
        println!("{:>10}  {}", bytes, folder.join(name).display());
    }
    Ok(())
}

/// Writes all packages of a program into a folder, and returns their names and lengths.
pub(crate) fn make(
    program: &Path,
    url: Option<&str>,
    folder: &Path,
) -> Outcome<Vec<(String, usize)>> {
    let release = Release::read(program, url)?;
    let mut files = release.packages()?;
    files.push(("SHA256SUMS".to_owned(), texts::checksums(&files).into_bytes()));
    fs::create_dir_all(folder).context(folder.display())?;
    for (name, bytes) in &files {
        fs::write(folder.join(name), bytes).context(name)?;
    }
    Ok(files.into_iter().map(|(name, bytes)| (name, bytes.len())).collect())
}

/// Builds the program with all optimisations, and without paths of this machine in it; returns the path of the program.
pub(crate) fn build() -> Outcome<PathBuf> {
    build_with("")
}

/// Builds the program as [`build`] does, with a further flag of the compiler. The target is named, so that the flags do
/// not apply to build scripts and macros.
fn build_with(flag: &str) -> Outcome<PathBuf> {
    let home = std::env::var("CARGO_HOME")
        .or_else(|_| Ok::<_, Failure>(format!("{}/.cargo", std::env::var("HOME")?)))?;
    let flags = format!(
        "--remap-path-prefix={home}=cargo --remap-path-prefix={}=mgp {flag}",
        root().display()
    );
    let host = host_target()?;
    let build = ["build", "--locked", "--profile", "dist", "-p", "mgp", "--target", &host];
    Program::cargo(&build).env("RUSTFLAGS", flags.trim_end()).run()?;
    Ok(target()?.join(host).join("dist/mgp"))
}

impl Release {
    fn read(program: &Path, url: Option<&str>) -> Outcome<Self> {
        let run = |arguments: &[&str]| Program::new(program).args(arguments).output();
        let version = run(&["--version"])?.trim().trim_start_matches("mgp ").to_owned();
        let mut completions = Vec::new();
        for (shell, file) in COMPLETIONS {
            completions.push((shell, file, run(&["completions", shell])?.into_bytes()));
        }
        let bytes = fs::read(program).context(program.display())?;
        if bytes.len() > MAX_PROGRAM {
            println!(
                "note: the program has {} bytes; a release has at most {MAX_PROGRAM}",
                bytes.len()
            );
        }
        let read = |name: &str| fs::read(root().join(name)).context(name);
        Ok(Self {
            url: url.map_or_else(|| texts::release_url(&version), str::to_owned),
            version,
            target: host_target()?,
            epoch: epoch()?,
            manuals: manuals(program)?,
            program: bytes,
            completions,
            readme: read("README.md")?,
            licences: [
                ("LICENSE-APACHE", read("LICENSE-APACHE")?),
                ("LICENSE-MIT", read("LICENSE-MIT")?),
            ],
        })
    }

    /// Returns all packages with their file names, in a fixed order.
    fn packages(&self) -> Outcome<Vec<(String, Vec<u8>)>> {
        let archive = tar_gz(&self.archive()?, self.epoch)?;
        let sum = texts::sha256(&archive);
        let mut files = vec![(format!("{}.tar.gz", self.name()), archive)];
        files.push(wheel::pack(self)?);
        files.extend(npm::pack(self)?);
        files.push(deb::pack(self)?);
        files.push(("mgp.rb".to_owned(), texts::formula(self, &sum).into_bytes()));
        files.push(("Containerfile".to_owned(), texts::CONTAINERFILE.into()));
        files.push((format!("{}.cdx.json", self.name()), sbom::write(self)?));
        Ok(files)
    }

    /// Returns the name of the archive, which is also the name of the folder in it.
    fn name(&self) -> String {
        format!("mgp-{}-{}", self.version, self.target)
    }

    fn archive(&self) -> Outcome<Vec<Entry>> {
        let name = self.name();
        let mut entries = vec![
            Entry::program(format!("{name}/mgp"), self.program.clone()),
            Entry::file(format!("{name}/README.md"), self.readme.clone()),
        ];
        for (licence, text) in &self.licences {
            entries.push(Entry::file(format!("{name}/{licence}"), text.clone()));
        }
        for (_, file, text) in &self.completions {
            entries.push(Entry::file(format!("{name}/completions/{file}"), text.clone()));
        }
        for (file, text) in &self.manuals {
            entries.push(Entry::file(format!("{name}/man/{file}.gz"), gzip(text)?));
        }
        Ok(entries)
    }
}

/// Returns the time stored for all files: `SOURCE_DATE_EPOCH`, or else the time of the last commit.
fn epoch() -> Outcome<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => Program::new("git").args(&["log", "-1", "--format=%ct"]).output()?,
    };
    text.trim().parse().context("SOURCE_DATE_EPOCH")
}

fn host_target() -> Outcome<String> {
    let about = Program::new("rustc").args(&["-vV"]).output()?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV: host")?.to_owned())
}

/// Returns the man pages that the program writes.
fn manuals(program: &Path) -> Outcome<Vec<(String, Vec<u8>)>> {
    let folder = target()?.join("man");
    let _ = fs::remove_dir_all(&folder);
    Program::new(program).args(&["man"]).args(&[&folder]).output()?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder).context(folder.display())? {
        let path = entry?.path();
        let name = path.file_name().context("man")?.to_string_lossy().into_owned();
        pages.push((name, fs::read(&path)?));
    }
    pages.sort();
    Ok(pages)
}

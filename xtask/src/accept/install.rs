//! The acceptance check `ten.install`: each package, installed into an empty home folder without Rust, provides a
//! working `mgp`.

use super::Verdict;
use crate::run::{Context, Failure, Outcome, Program, has, target};
use crate::{dist, packages::Node};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The `PATH` with which an installed program is run; it contains only programs of the system.
const PATH: &str = "/usr/bin:/bin";

/// The folder that contains the packages and the installations, and the version of the packaged program.
struct Place {
    folder: PathBuf,
    version: String,
}

/// A function that installs a package into its own folder.
type Way = fn(&Place) -> Outcome<Installed>;

/// An installed program with its completion script and its man page.
struct Installed {
    program: PathBuf,
    completion: PathBuf,
    manual: PathBuf,
}

/// Makes all packages twice and compares them; then installs each package and runs the installed program.
pub(super) fn ten_install() -> Outcome<Verdict> {
    let program = dist::build()?;
    let folder = target()?.join("ten-install");
    if folder.exists() {
        fs::remove_dir_all(&folder).context(folder.display())?;
    }
    let files = dist::make(&program, None, &folder.join("packages"))?;
    dist::make(&program, None, &folder.join("again"))?;
    for (name, _) in &files {
        let read = |place: &str| fs::read(folder.join(place).join(name)).context(name);
        if read("packages")? != read("again")? {
            return Err(Failure::new(format!("{name} differs from run to run")));
        }
    }
    let version = Program::new(&program).args(&["--version"]).output()?;
    let version = version.trim().trim_start_matches("mgp ").to_owned();
    let place = Place { folder, version };
    let ways: [(&str, Way); 4] =
        [("archive", archive), ("wheel", wheel), ("npm", npm), ("deb", deb)];
    let mut works = Vec::new();
    for (name, install) in ways {
        let installed = install(&place).context(name)?;
        place.check(&installed).context(name)?;
        works.push(name);
    }
    let length = fs::metadata(&program)?.len();
    Ok(Verdict {
        pass: length <= 25 << 20,
        figure: format!(
            "{} play the demo; {} packages with equal bytes twice; a program of {:.1} MiB",
            works.join(", "),
            files.len(),
            f64::from(u32::try_from(length)?) / f64::from(1 << 20)
        ),
        bound: "archive, wheel, npm, deb; a program of 25 MiB".to_owned(),
    })
}

impl Place {
    /// Returns the package whose name has this beginning and this end.
    fn package(&self, begin: &str, end: &str) -> Outcome<PathBuf> {
        let folder = self.folder.join("packages");
        for entry in fs::read_dir(&folder).context(folder.display())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(begin) && name.ends_with(end) {
                return Ok(path);
            }
        }
        Err(Failure::new(format!("there is no package {begin}…{end}")))
    }

    fn empty(&self, name: &str) -> Outcome<PathBuf> {
        let folder = self.folder.join(name);
        fs::create_dir_all(folder.join("home")).context(folder.display())?;
        Ok(folder)
    }

    /// Checks that the installed program, its completion script and its man page work in an empty home folder.
    fn check(&self, installed: &Installed) -> Outcome {
        let home = self.folder.join("home");
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home)?;
        let run = |arguments: &[&str]| {
            let program = Program::new(&installed.program).args(arguments).dir(&home);
            program.env("HOME", &home).quietly("PATH", PATH).without("CARGO_HOME").output()
        };
        if !run(&["--version"])?.contains(&self.version) {
            return Err(Failure::new("another version runs"));
        }
        if !run(&["demo"])?.contains("✓") {
            return Err(Failure::new("the demo shows nothing"));
        }
        let script = format!(". '{}' && complete -p mgp", installed.completion.display());
        Program::new("bash").args(&["--norc", "-c", &script]).output()?;
        // The check of one man page is enough, because all pages are generated in the same way.
        if has("man") {
            let manual = Program::new("man").args(&["-l"]).args(&[&installed.manual]);
            let text = manual.quietly("PAGER", "cat").quietly("LC_ALL", "C.UTF-8").output()?;
            if !text.contains("mgp") {
                return Err(Failure::new("the man page is empty"));
            }
        }
        Ok(())
    }
}

fn archive(place: &Place) -> Outcome<Installed> {
    let (file, folder) = (place.package("mgp-", ".tar.gz")?, place.empty("archive")?);
    Program::new("tar").args(&["-xzf"]).args(&[&file]).dir(&folder).output()?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let inner = folder.join(name.trim_end_matches(".tar.gz"));
    Ok(Installed {
        program: inner.join("mgp"),
        completion: inner.join("completions/mgp.bash"),
        manual: inner.join("man/mgp.1.gz"),
    })
}

fn wheel(place: &Place) -> Outcome<Installed> {
    let (file, folder) = (place.package("mgp-", ".whl")?, place.empty("wheel")?);
    let venv = folder.join("venv");
    let home = |program: Program| program.env("HOME", folder.join("home"));
    home(Program::new("python3").args(&["-m", "venv"]).args(&[&venv])).run()?;
    let pip = Program::new(venv.join("bin/pip")).args(&["install", "--quiet", "--no-index"]);
    home(pip.args(&[&file])).run()?;
    Ok(Installed {
        program: venv.join("bin/mgp"),
        completion: venv.join("share/bash-completion/completions/mgp"),
        manual: venv.join("share/man/man1/mgp.1"),
    })
}

fn npm(place: &Place) -> Outcome<Installed> {
    let folder = place.empty("npm")?;
    let starter = place.package(&format!("mgp-{}", place.version), ".tgz")?;
    let carrier = place.package("mgp-linux-", ".tgz")?;
    let prefix = folder.join("prefix");
    let node = Node::of_at_least(18)?;
    let install = ["install", "--global", "--offline", "--no-audit", "--no-fund", "--silent"];
    let npm = Program::new("npm").args(&install).args(&["--prefix"]).args(&[&prefix]);
    let npm = npm.args(&[&carrier, &starter]).env("HOME", folder.join("home"));
    npm.quietly("PATH", node.path()?).run()?;
    let inner = prefix.join("lib/node_modules/mgp");
    Ok(Installed {
        program: prefix.join("bin/mgp"),
        // npm packages cannot install completion scripts, so the program prints its own.
        completion: printed(&prefix.join("bin/mgp"), &folder)?,
        manual: inner.join("man/mgp.1"),
    })
}

/// Stores in a file the completion script that a program prints; returns the path of the file.
fn printed(program: &Path, folder: &Path) -> Outcome<PathBuf> {
    let script = Program::new(program).args(&["completions", "bash"]).output()?;
    let file = folder.join("completion");
    fs::write(&file, script)?;
    Ok(file)
}

fn deb(place: &Place) -> Outcome<Installed> {
    let (file, folder) = (place.package("mgp_", ".deb")?, place.empty("deb")?);
    let system = folder.join("root");
    for inner in ["var/lib/dpkg/info", "var/lib/dpkg/updates"] {
        fs::create_dir_all(system.join(inner))?;
    }
    fs::write(system.join("var/lib/dpkg/status"), "")?;
    // The dpkg database of this check is empty, so packages of the system, e.g. libc6, count as missing.
    let dpkg = Program::new("dpkg").args(&["--force-depends", "--force-not-root", "--root"]);
    dpkg.args(&[&system]).args(&["--install"]).args(&[&file]).output()?;
    Ok(Installed {
        program: system.join("usr/bin/mgp"),
        completion: system.join("usr/share/bash-completion/completions/mgp"),
        manual: system.join("usr/share/man/man1/mgp.1.gz"),
    })
}

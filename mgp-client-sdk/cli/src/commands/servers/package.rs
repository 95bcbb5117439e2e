//! The packages that `npx` and `uvx` start for servers that did not come from a registry.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use mgp_discovery::{ServerConfig, TargetConfig};
use mgp_kernel::named_package;
use mgp_types::clip;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::exit::{CliResult, Failure};
use crate::hosts::home;

/// The time for a package manager to look up a version.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum length of a package manager's error that is shown.
const MAX_ERROR: usize = 300;

/// The beginnings of the names of variables that choose where packages are looked up, in lower case.
const CHOOSING_VARIABLES: [&str; 6] =
    ["npm_config_", "uv_", "pip_", "home", "userprofile", "xdg_config_home"];

/// A package and its version, as named in the arguments of a server.
pub(super) struct VersionedPackage {
    /// The argument that names the package, e.g. `--package=name@1.2.3`.
    pub(super) argument: String,
    /// The package with its version, e.g. `name@1.2.3`.
    spec: String,
    pub(super) name: String,
    /// The text between name and version, e.g. `@` or `==`.
    mark: &'static str,
    pub(super) version: String,
}

/// Returns the package that npx or uvx starts for a server, in the form in which the arguments name it.
pub(super) fn package_of(server: &ServerConfig) -> Option<String> {
    let TargetConfig::Program { command, args, cwd, .. } = &server.target else { return None };
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    named_package(command, &words, Path::new(cwd.as_deref().unwrap_or("/")))
}

impl VersionedPackage {
    /// Returns the package of a server; `None` if its arguments name no package, or a package without a version.
    pub(super) fn of(server: &ServerConfig) -> Option<Self> {
        let spec = package_of(server)?;
        let TargetConfig::Program { args, .. } = &server.target else { return None };
        let names_it = |argument: &&String| match argument.strip_suffix(&*spec) {
            Some("") => true,
            Some(option) => option.starts_with('-') && option.ends_with('='),
            None => false,
        };
        let argument = args.iter().find(names_it)?.clone();
        let (name, mark, version) = if let Some((name, version)) = spec.rsplit_once("==") {
            (name, "==", version)
        } else {
            let (name, version) = spec.rsplit_once('@')?;
            (name, "@", version)
        };
        // Refuse other specifications of a package, e.g. a URL or a range of versions.
        let fits = |c: char| c.is_ascii_alphanumeric() || "@/._-[],".contains(c);
        if name.is_empty() || version.is_empty() || !name.chars().all(fits) {
            return None;
        }
        let (name, version) = (name.to_owned(), version.to_owned());
        Some(Self { argument, spec, name, mark, version })
    }

    /// Returns `argument` with the package in another version.
    pub(super) fn with_version(&self, version: &str) -> CliResult<String> {
        let is_first = |c: char| {
            if self.mark == "==" { c.is_ascii_digit() } else { c.is_ascii_alphanumeric() }
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || ".+-_!".contains(c);
        if !version.starts_with(is_first) || !version.chars().all(fits) {
            let version = version.escape_debug();
            return Err(Failure::usage(format!("`{version}` is not a version, e.g. 1.2.3")));
        }
        let option = self.argument.strip_suffix(&*self.spec).unwrap_or_default();
        Ok(format!("{option}{}{}{version}", self.name, self.mark))
    }

    /// Returns the newest version of the package of a server, but never an older version than the server starts.
    /// Relative paths in the server's entry start at `folder`.
    ///
    /// Asks the package manager of the server for the version, because only this program knows the registries of the
    /// user: other registries can have other packages of this name.
    pub(super) async fn newest(
        &self,
        server: &ServerConfig,
        folder: &Path,
    ) -> Result<String, String> {
        let TargetConfig::Program { command, args, cwd, env } = &server.target else {
            return Err("it is not started as a program".to_owned());
        };
        let is_npm = matches!(program_name(command), Some("npx" | "npm"));
        self.check_lookup(is_npm, command, args)?;
        let manager = if is_npm && cfg!(windows) { "npm.cmd" } else { "npm" };
        let manager = if is_npm { manager } else { "uv" };
        let mut lookup = Command::new(Path::new(command).with_file_name(manager));
        for (name, value) in env {
            let lower = name.to_ascii_lowercase();
            if !CHOOSING_VARIABLES.iter().any(|begin| lower.starts_with(begin)) {
                continue;
            }
            if value.contains("${") {
                return Err(format!("its variable `{name}` is only known when it starts"));
            }
            lookup.env(name, value);
        }
        let input = if is_npm {
            lookup.args(["view", format!("{}@latest", self.name).as_str(), "version"]);
            ""
        } else {
            // Use `--no-build`, without which uv would run the code of a package that has no wheel.
            let options = ["--no-deps", "--no-build", "--no-header", "--no-annotate", "-q"];
            lookup.args(["pip", "compile", "-"]).args(options);
            self.name.as_str()
        };
        // Run npx in the working folder of the server, because it reads the settings there. uvx reads only the settings
        // of the user.
        lookup.current_dir(working_folder(cwd.as_deref().filter(|_| is_npm), folder)?);
        let answer = output(lookup, input).await?;
        let version = answer.lines().map(str::trim).find_map(|line| match line.rsplit_once("==") {
            Some((_, version)) => Some(version),
            None => Some(line).filter(|line| is_npm && !line.is_empty()),
        });
        let version = version.filter(|version| self.is_version(version));
        let version = version.ok_or("the package manager printed no version")?;
        let is_older = is_older(version, &self.version);
        Ok(if is_older { self.version.clone() } else { version.to_owned() })
    }

    /// Checks that the package manager will look up the server's own package, and that the lookup runs no code.
    fn check_lookup(&self, is_npm: bool, command: &str, args: &[String]) -> Result<(), String> {
        // Refuse a range of versions, because the user may want the range to stay. An exact version of npm has three
        // numbers.
        let numbers = self.version.splitn(3, '.').filter(|part| begins_with_digit(part)).count();
        if is_npm && numbers < 3 || !self.is_version(&self.version) {
            return Err(format!("`{}` is not the number of one version", self.version));
        }
        // Refuse a folder or a repository in place of a name, because the package manager would run its code.
        let slashes = usize::from(is_npm && self.name.starts_with('@'));
        if self.name.starts_with('-') || self.name.matches('/').count() != slashes {
            return Err(format!("`{}` is not the name of a package", self.name));
        }
        if names_registry(args, &self.argument) {
            return Err("its `args` choose where packages are looked up".to_owned());
        }
        let command = Path::new(command);
        if command.is_relative() && command.components().count() > 1 {
            return Err("its `command` is a relative path".to_owned());
        }
        Ok(())
    }

    /// Returns whether a text is the number of a version, and not e.g. a tag or a range.
    fn is_version(&self, text: &str) -> bool {
        begins_with_digit(text) && self.with_version(text).is_ok()
    }
}

fn begins_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns whether a version is older than another; `false` if it does not begin with a number.
pub(super) fn is_older(version: &str, than: &str) -> bool {
    let version = release(version);
    !version.is_empty() && version < release(than)
}

/// Returns the numbers at the start of a version, e.g. 1, 2 and 3 of `1.2.3-beta.4` or `v1.2.3`.
fn release(version: &str) -> Vec<u64> {
    let version = version.trim_start_matches('v');
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    version[..end].split('.').map_while(|part| part.parse().ok()).collect()
}

/// Returns the working folder of a server with this `cwd`; without a `cwd`, that is the user's home folder.
fn working_folder(cwd: Option<&str>, folder: &Path) -> Result<PathBuf, String> {
    let home = || home().map_err(|failure| failure.to_string());
    match cwd {
        None | Some("~") => home(),
        Some(cwd) if cwd.contains("${") => Err("its `cwd` is only known when it starts".to_owned()),
        Some(cwd) => match cwd.strip_prefix("~/") {
            Some(rest) => Ok(home()?.join(rest)),
            None => Ok(folder.join(cwd)),
        },
    }
}

/// Returns whether options of a package runner choose a registry or a configuration. Arguments after the package belong
/// to the server, unless an option names the package.
fn names_registry(args: &[String], package: &str) -> bool {
    let at = args.iter().position(|argument| argument == package).unwrap_or(args.len());
    let is_option = |argument: &str| argument.starts_with('-');
    let is_named_by_option =
        is_option(package) || at > 0 && matches!(&*args[at - 1], "-p" | "--package" | "--from");
    let own = if is_named_by_option { args } else { &args[..at] };
    let options = own.iter().filter(|argument| is_option(argument));
    // Look only at the name of an option: its value can be the name of a package, which can contain these words too.
    options.map(|option| option.split('=').next().unwrap_or_default()).any(|name| {
        ["registry", "index", "config", "links", "prefix"].iter().any(|part| name.contains(part))
            || name.starts_with("-i")
            || name.starts_with("-f")
    })
}

/// Runs a package manager; returns what it writes to standard output.
async fn output(mut command: Command, input: &str) -> Result<String, String> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let failed = |why: String| format!("`{program}` failed: {why}");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.kill_on_drop(true).spawn().map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Ignore an error: a program that does not read its input reports the reason itself.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = timeout(LOOKUP_TIMEOUT, child.wait_with_output());
    let output = output.await.map_err(|_| failed("it did not answer in time".to_owned()))?;
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Err(failed(if lines.is_empty() {
        output.status.to_string()
    } else {
        clip(&lines.join(" "), MAX_ERROR)
    }))
}

/// Returns the name of a program without its folder and ending.
fn program_name(command: &str) -> Option<&str> {
    Path::new(command).file_stem()?.to_str()
}

/// Returns how to update the package of a server by an edit of its entry; `None` if the server starts no package.
pub(super) fn how_to_update(server: &ServerConfig) -> Option<String> {
    let TargetConfig::Program { command, args, .. } = &server.target else { return None };
    let (id, program) = (&server.id, program_name(command)?);
    let package = args.iter().find(|argument| !argument.starts_with('-'))?;
    // Skip the first character, because the scope of an npm package begins with `@` too.
    let bare = package.get(1..)?.split('@').next()?.split("==").next()?;
    let name = format!("{}{bare}", &package[..1]);
    let (newest, pinned) = match program {
        "npx" | "bunx" => (format!("write `{name}@latest`"), format!("{name}@VERSION")),
        "uvx" => (format!("put `--refresh` before `{package}`"), format!("{name}==VERSION")),
        _ => return None,
    };
    let after = "in the `args` of its entry, then run `mgp reload`";
    if package.ends_with("@latest") {
        return Some(format!(
            "`{id}` starts the newest version of `{name}` each time, so `mgp servers restart {id}` updates it; for a certain one write `{pinned}` {after}"
        ));
    }
    Some(if *package == name {
        format!(
            "`{id}` runs the copy of `{name}` that {program} has stored; for the newest one {newest}, or for a certain one `{pinned}`, {after}"
        )
    } else {
        format!("`{id}` runs `{package}`; to update it, write another version {after}")
    })
}

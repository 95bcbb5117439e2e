//! The packages that `npx` and `uvx` start for servers that did not come from a registry.

use std::path::Path;

use mgp_discovery::{ServerConfig, TargetConfig};
use mgp_kernel::named_package;

use crate::exit::{CliResult, Failure};

/// A package that the arguments of a server name with a version.
pub(super) struct VersionedPackage {
    /// The argument that names the package, e.g. `--package=name@1.2.3`.
    pub(super) argument: String,
    /// The package with its version, e.g. `name@1.2.3`.
    spec: String,
    pub(super) name: String,
    /// The text between name and version.
    mark: &'static str,
    pub(super) version: String,
}

impl VersionedPackage {
    /// Returns the package of a server; `None` if its arguments name none, or one without a version.
    pub(super) fn of(server: &ServerConfig) -> Option<Self> {
        let TargetConfig::Program { command, args, cwd, .. } = &server.target else { return None };
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let spec = named_package(command, &words, Path::new(cwd.as_deref().unwrap_or("/")))?;
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
        // The specification of a package can also be a URL or a range of versions.
        let fits = |c: char| c.is_ascii_alphanumeric() || "@/._-[],".contains(c);
        if name.is_empty() || version.is_empty() || !name.chars().all(fits) {
            return None;
        }
        let (name, version) = (name.to_owned(), version.to_owned());
        Some(Self { argument, spec, name, mark, version })
    }

    /// Returns the argument with another version of the package.
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
}

/// Returns how to update the package of a server that did not come from the registry; `None` if it starts no package.
pub(super) fn how_to_update(server: &ServerConfig) -> Option<String> {
    let package = VersionedPackage::of(server).filter(|package| package.version != "latest");
    if let Some(VersionedPackage { spec, .. }) = package {
        let id = &server.id;
        return Some(format!(
            "`{id}` runs `{spec}`; to update it, name the new version: `mgp servers update {id} --version VERSION`"
        ));
    }
    let TargetConfig::Program { command, args, .. } = &server.target else { return None };
    let (id, program) = (&server.id, Path::new(command).file_stem()?.to_str()?);
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
    let is_pinned = *package != name && !package.ends_with("@latest");
    Some(if is_pinned {
        format!("`{id}` runs `{package}`; to update it, write another version {after}")
    } else {
        format!(
            "`{id}` runs the copy of `{name}` that {program} has stored; for the newest one {newest}, or for a certain one `{pinned}`, {after}"
        )
    })
}

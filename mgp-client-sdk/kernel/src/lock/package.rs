//! Finds the installed packages that `npx` and `uvx` would start, and reads their versions and hashes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use mgp_contract::LockedPackage;
use mgp_discovery::code_arguments;
use mgp_types::Sha256Hash;
use serde_json::Value;

use super::tree;

/// The maximum number of installed packages that are searched.
const MAX_INSTALLED: usize = 5000;

/// The options of a package runner (`npx` or `uvx`). They must be known to find the package among the arguments.
struct Runner {
    /// The options that name the package; if such an option is repeated, it names additional packages. Without such an
    /// option, the first argument that is not an option names the package.
    package: &'static [&'static str],
    /// The options that name additional packages, to be installed in the same environment.
    beside: &'static [&'static str],
    /// The options that are followed by a value, except those in `package` and `beside`.
    values: &'static [&'static str],
}

static NPX: Runner = Runner {
    package: &["-p", "--package"],
    beside: &[],
    values: &[
        "--registry",
        "--cache",
        "--prefix",
        "--userconfig",
        "--workspace",
        "-w",
        "--call",
        "-c",
        "--node-options",
    ],
};

static UVX: Runner = Runner {
    package: &["--from"],
    beside: &["--with", "-w"],
    values: &[
        "--with-editable",
        "--with-requirements",
        "--python",
        "-p",
        "--index",
        "--default-index",
        "--index-url",
        "-i",
        "--extra-index-url",
        "--find-links",
        "-f",
        "--env-file",
        "--cache-dir",
        "--directory",
        "--project",
        "--config-file",
        "--constraints",
        "-c",
        "--overrides",
        "--build-constraints",
        "-b",
        "--refresh-package",
        "--upgrade-package",
        "-P",
        "--reinstall-package",
        "--resolution",
        "--prerelease",
        "--exclude-newer",
        "--link-mode",
        "--index-strategy",
        "--keyring-provider",
        "--config-setting",
        "-C",
        "--color",
    ],
};

/// A function that looks up an environment variable of the server.
type Variable<'a> = dyn Fn(&str) -> Option<OsString> + 'a;

/// A package that is named in the arguments of a package runner, such as `npx`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Package {
    /// A package of npm, as `name` or `name@version`, and the additional packages, in the same form.
    Npm(String, Vec<String>),
    /// A package of PyPI, as `name`, `name==version` or `name@version`, and the names of the additional packages.
    Pypi(String, Vec<String>),
}

impl Package {
    /// Returns the package that a command starts; `None` if the command is not `npx` or `uvx` (or their long forms),
    /// names no package, or starts a local file.
    pub(super) fn of(command: &str, args: &[&str], cwd: &Path) -> Option<Self> {
        let name = Path::new(command).file_stem()?.to_str()?;
        let (name, args) = match (name, args) {
            ("npm", ["exec", rest @ ..]) => ("npx", rest),
            ("uv", ["tool", "run", rest @ ..] | ["x", rest @ ..]) => ("uvx", rest),
            (name, args) => (name, args),
        };
        let runner = match name {
            "npx" => &NPX,
            "uvx" => &UVX,
            _ => return None,
        };
        let (package, beside) = named(args, runner)?;
        // Return nothing if the argument is the path of a local file, and not a package of a registry.
        if package.starts_with(['.', '/']) || cwd.join(&package).is_file() {
            return None;
        }
        let is_npm = name == "npx";
        Some(if is_npm { Self::Npm(package, beside) } else { Self::Pypi(package, beside) })
    }

    /// Reads the version and the hash of the installed package.
    pub(super) fn read(
        &self,
        cwd: &Path,
        variable: &Variable<'_>,
    ) -> Result<LockedPackage, String> {
        match self {
            Self::Npm(spec, beside) => read_npm(spec, beside, cwd, variable),
            Self::Pypi(spec, beside) => read_pypi(spec, beside, variable),
        }
    }
}

/// Returns the package that a command with `npx` or `uvx` starts, in the form in which the arguments name it. Returns
/// `None` for any other command, and for a local file.
///
/// ```
/// let args = ["--python", "3.12", "mcp-server-git==2.0", "--verbose"];
/// let package = mgp_kernel::named_package("uvx", &args, "/".as_ref());
/// assert_eq!(package.as_deref(), Some("mcp-server-git==2.0"));
/// ```
#[must_use]
pub fn named_package(command: &str, args: &[&str], cwd: &Path) -> Option<String> {
    match Package::of(command, args, cwd)? {
        Package::Npm(package, _) | Package::Pypi(package, _) => Some(package),
    }
}

/// Returns the package that is named in the arguments of a runner, and the additional packages.
fn named(args: &[&str], runner: &Runner) -> Option<(String, Vec<String>)> {
    let (mut package, mut beside) = (None, Vec::new());
    let mut args = args.iter().copied();
    while let Some(arg) = args.next() {
        if !arg.starts_with('-') {
            package = package.or(Some(arg));
            break;
        }
        let (option, value) =
            arg.split_once('=').map_or((arg, None), |(option, value)| (option, Some(value)));
        let is_one_of = |options: &[&str]| options.contains(&option);
        if ![runner.package, runner.beside, runner.values].into_iter().any(is_one_of) {
            continue;
        }
        let Some(value) = value.or_else(|| args.next()) else { break };
        if is_one_of(runner.package) && package.is_some() {
            beside.push(value.to_owned());
        } else if is_one_of(runner.package) {
            package = Some(value);
        } else if is_one_of(runner.beside) {
            beside.extend(names_of(value));
        }
    }
    package.map(|package| (package.to_owned(), beside))
}

/// Returns the names of the packages in a list such as `a>=1,<2,b[x,y]`. A URL without a name is left out.
fn names_of(list: &str) -> Vec<String> {
    let mut is_inside = false;
    let specs = list.split(|c| {
        is_inside = c == '[' || is_inside && c != ']';
        c == ',' && !is_inside
    });
    let names = specs.map(|spec| split_pypi(spec.trim()).0);
    // Skip a part without a name: a part such as `<2` belongs to the version of the package before it.
    let names = names.filter(|name| !name.is_empty() && !name.contains([':', '/']));
    names.map(str::to_owned).collect()
}

/// Returns the name of the first code file among the arguments of a program, and a hash over all code files among them.
/// Other files among the arguments are data, which the server may change.
pub(super) fn script(
    command: &str,
    args: &[&str],
    cwd: &Path,
) -> Result<Option<LockedPackage>, String> {
    let files = code_arguments(command, args, cwd);
    let hashes = files.iter().map(|file| tree::hash_file(&cwd.join(file)));
    let hashes = hashes.collect::<Result<Vec<_>, _>>()?;
    let Some(first) = files.first() else { return Ok(None) };
    let (version, hash) = match &hashes[..] {
        [only] => (String::new(), only.clone()),
        all => {
            let hash = Sha256Hash::digest(all.join(" ").as_bytes());
            (format!("and {} more", all.len() - 1), hash.to_string())
        }
    };
    let (kind, name) = ("file".to_owned(), (*first).to_owned());
    Ok(Some(LockedPackage { kind, name, version, hash }))
}

/// Splits `@scope/name@1.2` into name and version.
fn split_npm(spec: &str) -> (&str, Option<&str>) {
    let at = spec.get(1..).and_then(|rest| rest.find('@')).map(|at| at + 1);
    at.map_or((spec, None), |at| (&spec[..at], Some(&spec[at + 1..])))
}

/// Returns the version of a PyPI package that a requirement demands exactly; `rest` is the part of the requirement
/// after the name. Returns `None` if the requirement demands no version, e.g. because it has only extras.
///
/// # Errors
/// Returns an error if the requirement is a range, or a tag such as `latest`, because neither determines the version
/// that `uvx` starts.
fn exact_pypi(spec: &str, rest: &str) -> Result<Option<String>, String> {
    let rest = rest.split(';').next().unwrap_or_default().trim();
    let extras = rest.strip_prefix('[').and_then(|extras| extras.split_once(']'));
    let rest = extras.map_or(rest, |(_, rest)| rest.trim());
    if rest.is_empty() {
        return Ok(None);
    }
    let version = rest.strip_prefix("===").or_else(|| rest.strip_prefix("=="));
    let version = version.or_else(|| rest.strip_prefix('@')).map_or("", str::trim);
    let is_exact = version.starts_with(|c: char| c.is_ascii_digit())
        && !version.contains([',', '*', '/', ':']);
    if is_exact {
        return Ok(Some(version.to_owned()));
    }
    Err(format!("`{spec}` does not name one version; name the exact version, e.g. `==1.2.3`"))
}

/// Splits `name==1.2` or `name[extra]@1.2` into the name and the rest.
fn split_pypi(spec: &str) -> (&str, &str) {
    spec.split_at(spec.find(|c: char| "=<>!~@[; ".contains(c)).unwrap_or(spec.len()))
}

/// Reads a package from the project's folder or from the cache of `npx`.
fn read_npm(
    spec: &str,
    beside: &[String],
    cwd: &Path,
    variable: &Variable<'_>,
) -> Result<LockedPackage, String> {
    let (name, wanted) = split_npm(spec);
    let local = cwd.join("node_modules");
    let cache = variable("npm_config_cache").map(PathBuf::from);
    let cache = cache.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".npm")));
    let modules = if is_local(&local, name, wanted)? {
        Some(local)
    } else {
        cache.and_then(|cache| find_npx(&cache.join("_npx"), spec, beside))
    };
    let modules = modules.ok_or_else(|| not_installed(spec))?;
    let version = npm_version(&modules, name).ok_or_else(|| not_installed(spec))?;
    let hash = tree::hash_folder(&modules)?;
    Ok(LockedPackage { kind: "npm".to_owned(), name: name.to_owned(), version, hash })
}

/// Returns whether `npx` starts a package from the folder `node_modules` of the project, and not from its cache.
///
/// # Errors
/// Returns an error if the package is in that folder, but the wanted version is a range or a tag such as `latest`. With
/// such a version, it is unknown whether `npx` uses the folder.
fn is_local(local: &Path, name: &str, wanted: Option<&str>) -> Result<bool, String> {
    if !local.join(name).join("package.json").is_file() {
        return Ok(false);
    }
    let Some(wanted) = wanted else { return Ok(true) };
    let version = npm_version(local, name);
    let is_wanted = version.as_deref() == Some(wanted);
    if is_wanted || is_exact(wanted) {
        return Ok(is_wanted);
    }
    Err(format!(
        "`{name}` is in `{}`, and `npx` may start another copy of `{name}@{wanted}`; name the exact version",
        local.display()
    ))
}

/// Returns whether a version of npm is a single version such as `1.2.3` or `1.2.3-beta.1`, and not a range or a tag.
fn is_exact(version: &str) -> bool {
    let numbers = version.split(['-', '+']).next().unwrap_or_default();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    numbers.split('.').count() == 3 && numbers.split('.').all(is_number)
}

fn npm_version(modules: &Path, name: &str) -> Option<String> {
    let package = json_of(&modules.join(name).join("package.json"))?;
    Some(package.get("version")?.as_str()?.to_owned())
}

/// Finds the folder in the cache of `npx` that contains a package together with exactly these additional packages.
fn find_npx(cache: &Path, spec: &str, beside: &[String]) -> Option<PathBuf> {
    let folders = fs::read_dir(cache).ok()?.take(MAX_INSTALLED).filter_map(Result::ok);
    let mut wanted: Vec<_> = beside.iter().map(String::as_str).chain([spec]).collect();
    wanted.sort_unstable();
    let is_for = |folder: &PathBuf| {
        let packages = json_of(&folder.join("package.json"))?.get("_npx")?.get("packages")?.clone();
        let mut packages: Vec<_> =
            packages.as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?;
        packages.sort_unstable();
        Some(packages == wanted)
    };
    let mut found = folders.map(|entry| entry.path());
    found.find(|folder| is_for(folder) == Some(true)).map(|folder| folder.join("node_modules"))
}

fn json_of(file: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(file).ok()?).ok()
}

/// Reads a package that `uv` has installed as a tool or in its cache, in one environment with the additional packages.
fn read_pypi(
    spec: &str,
    beside: &[String],
    variable: &Variable<'_>,
) -> Result<LockedPackage, String> {
    let (name, rest) = split_pypi(spec);
    let wanted = exact_pypi(spec, rest)?;
    let home = |below: &str| variable("HOME").map(|home| PathBuf::from(home).join(below));
    let below =
        |folder: Option<OsString>, part: &str| folder.map(|it| PathBuf::from(it).join(part));
    let tools = variable("UV_TOOL_DIR").map(PathBuf::from);
    let tools = tools.or_else(|| below(variable("XDG_DATA_HOME"), "uv/tools"));
    let cache = variable("UV_CACHE_DIR").map(PathBuf::from);
    let cache = cache.or_else(|| below(variable("XDG_CACHE_HOME"), "uv"));
    let tools = tools
        .or_else(|| home(".local/share/uv/tools"))
        .map(|folder| folder.join(tool_folder(name)));
    let cache = cache.or_else(|| home(".cache/uv")).map(|folder| folder.join("archive-v0"));
    let in_cache = cache.and_then(|cache| fs::read_dir(cache).ok()).into_iter().flatten();
    let in_cache = in_cache.take(MAX_INSTALLED).filter_map(Result::ok).map(|entry| entry.path());
    let has_all = |root: &PathBuf| beside.iter().all(|other| installed(root, other).is_some());
    let environments = tools.into_iter().chain(in_cache).filter(has_all);
    let found = environments.filter_map(|root| installed(&root, name));
    let found = found.filter(|(_, version)| wanted.as_ref().is_none_or(|wanted| wanted == version));
    // Prefer an installed tool to one in the cache, and a newer installation to an older one.
    let newest = found.max_by_key(|(folder, _)| {
        let time = fs::metadata(folder).and_then(|metadata| metadata.modified()).ok();
        (!folder.components().any(|part| part.as_os_str() == "archive-v0"), time)
    });
    let (folder, version) = newest.ok_or_else(|| not_installed(spec))?;
    let hash = tree::hash_folder(&folder)?;
    Ok(LockedPackage { kind: "pypi".to_owned(), name: name.to_owned(), version, hash })
}

/// Returns the name of the folder in which `uv` installs a tool: the name of the package in the form of PyPI, i.e. in
/// lower case with `-`.
fn tool_folder(name: &str) -> String {
    let mut folder = String::new();
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if folder.ends_with('-') => {}
            '-' | '_' | '.' => folder.push('-'),
            c => folder.push(c.to_ascii_lowercase()),
        }
    }
    folder
}

/// Returns the `site-packages` folder of a virtual environment, and the version of a package in it.
fn installed(root: &Path, name: &str) -> Option<(PathBuf, String)> {
    let python = fs::read_dir(root.join("lib")).ok()?.find_map(Result::ok)?;
    let packages = python.path().join("site-packages");
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '.'], "_");
    let mut entries = fs::read_dir(&packages).ok()?.take(MAX_INSTALLED).filter_map(Result::ok);
    let version = entries.find_map(|entry| {
        let file = entry.file_name().into_string().ok()?;
        let (found, version) = file.strip_suffix(".dist-info")?.rsplit_once('-')?;
        (plain(found) == plain(name)).then(|| version.to_owned())
    })?;
    Some((packages, version))
}

fn not_installed(spec: &str) -> String {
    format!("the package `{spec}` is not installed; start the server once without --locked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_of_a_runner_is_found_in_its_arguments() {
        let of = |command: &str, args: &[&str]| Package::of(command, args, Path::new("/"));
        let npm = |name: &str| Some(Package::Npm(name.to_owned(), Vec::new()));
        let beside = |name: &str, others: &[&str]| {
            let others = others.iter().map(|&other| other.to_owned()).collect();
            Some(Package::Pypi(name.to_owned(), others))
        };
        let pypi = |name: &str| beside(name, &[]);
        assert_eq!(of("npx", &["-y", "@a/b@1.0.0", "/srv"]), npm("@a/b@1.0.0"));
        assert_eq!(of("/usr/bin/npx", &["--package=x", "bin"]), npm("x"));
        assert_eq!(of("npm", &["exec", "x"]), npm("x"));
        let both = Some(Package::Npm("x".to_owned(), vec!["y@2".to_owned()]));
        assert_eq!(of("npx", &["-p", "x", "--package=y@2", "bin"]), both);
        assert_eq!(of("uvx", &["mcp-server-git", "--from", "y"]), pypi("mcp-server-git"));
        assert_eq!(of("uvx", &["--from", "y==2", "bin"]), pypi("y==2"));
        assert_eq!(of("uv", &["tool", "run", "z"]), pypi("z"));
        assert_eq!(of("npx", &["--registry", "https://r", "y"]), npm("y"));
        assert_eq!(of("uvx", &["--python", "3.12", "x"]), pypi("x"));
        assert_eq!(of("uvx", &["--python=3.12", "-q", "x", "--with", "y"]), pypi("x"));
        let time = beside("mcp-server-time", &["pandas"]);
        assert_eq!(of("uvx", &["--with", "pandas", "mcp-server-time"]), time);
        let several = ["--with=a>=1,<2,b[x,y]", "--from", "y==2", "--with", "c", "bin"];
        assert_eq!(of("uvx", &several), beside("y==2", &["a", "b", "c"]));
        assert_eq!(of("uvx", &["--with", "git+https://g/x", "z"]), pypi("z"));
        assert_eq!(of("node", &["server.js"]), None);
        assert_eq!(of("npx", &["./local"]), None);
        assert_eq!(split_npm("@a/b@1"), ("@a/b", Some("1")));
    }

    #[test]
    fn the_code_among_the_arguments_is_hashed_and_data_is_not() {
        let folder = mgp_testkit::temp_dir();
        for name in ["data.db", ".env", "init", "prog.sh", "server.js", "server.ts", "plain"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let check = |command: &str, args: &[&str], expected: Option<(&str, &str)>| {
            let found = script(command, args, folder.path()).unwrap();
            let found = found.as_ref().map(|found| (&*found.name, &*found.version));
            assert_eq!(found, expected, "{command} {args:?}");
        };
        check("mcp-server-sqlite", &["--db-path", "data.db"], None);
        check("uvx", &["mcp-server-sqlite", "--db-path", "data.db"], None);
        check("python3", &["-m", "server", "data.db"], None);
        check("bash", &["--init-file", "init", "prog.sh"], Some(("prog.sh", "")));
        check("/usr/bin/node", &["--env-file", ".env", "server.js"], Some(("server.js", "")));
        check("npx", &["tsx", "server.ts"], Some(("server.ts", "")));
        check("bash", &["plain", "data.db"], Some(("plain", "")));
        check("bash", &["-e", "plain"], Some(("plain", "")));
        check("node", &["--import=server.ts", "server.js"], Some(("server.ts", "and 1 more")));

        let both = || script("node", &["server.js", "server.ts"], folder.path()).unwrap();
        let before = both();
        fs::write(folder.path().join("server.ts"), "changed").unwrap();
        assert_ne!(both(), before, "each file counts");
    }

    /// Writes a file, and creates its folder if necessary.
    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn an_installed_package_has_a_version_and_a_hash_that_follows_its_files() {
        let home = mgp_testkit::temp_dir();
        let write = |name: &str, text: &str| write(&home.path().join(name), text);
        let variable = |name: &str| (name == "HOME").then(|| home.path().as_os_str().to_owned());
        let read = |package: Package| package.read(home.path(), &variable);
        let npm = || read(Package::Npm("@a/b".to_owned(), Vec::new()));
        assert!(npm().unwrap_err().contains("not installed"));
        write(".npm/_npx/0f/package.json", r#"{"_npx":{"packages":["@a/b"]}}"#);
        write(".npm/_npx/0f/node_modules/@a/b/package.json", r#"{"version":"1.2.3"}"#);
        write(".npm/_npx/0f/node_modules/@a/b/index.js", "1");
        let first = npm().unwrap();
        assert_eq!((&*first.name, &*first.version), ("@a/b", "1.2.3"));
        write(".npm/_npx/0f/node_modules/dependency/index.js", "2");
        assert_ne!(npm().unwrap().hash, first.hash);

        // `npx` installs a package together with an additional package in a separate folder. This folder must not count
        // as an installation of the package alone.
        write(".npm/_npx/00/package.json", r#"{"_npx":{"packages":["x","@a/b"]}}"#);
        write(".npm/_npx/00/node_modules/@a/b/package.json", r#"{"version":"1.0.0"}"#);
        assert_eq!(npm().unwrap().version, "1.2.3");
        let both = read(Package::Npm("@a/b".to_owned(), vec!["x".to_owned()]));
        assert_eq!(both.unwrap().version, "1.0.0");

        let pypi = |spec: &str| read(Package::Pypi(spec.to_owned(), Vec::new()));
        write(
            ".cache/uv/archive-v0/x/lib/python3.12/site-packages/mcp_server_git-2.0.dist-info/RECORD",
            "",
        );
        assert_eq!(pypi("mcp-server-git").unwrap().version, "2.0");
        assert_eq!(pypi("mcp-server-git==2.0").unwrap().version, "2.0");
        assert!(pypi("mcp-server-git==3.0").unwrap_err().contains("not installed"));
        for spec in ["mcp-server-git[cli]", "mcp-server-git[a,b]==2.0", "mcp-server-git[cli]@2.0"] {
            assert_eq!(pypi(spec).unwrap().version, "2.0", "{spec}");
        }
        for spec in ["mcp-server-git>=1.0", "mcp-server-git@latest", "mcp-server-git==2.*"] {
            assert!(pypi(spec).unwrap_err().contains("name the exact version"), "{spec}");
        }
        let with = || read(Package::Pypi("mcp-server-git".to_owned(), vec!["pandas".to_owned()]));
        assert!(with().unwrap_err().contains("not installed"), "no environment has both");
        let both = ".cache/uv/archive-v0/y/lib/python3.12/site-packages";
        write(&format!("{both}/mcp_server_git-2.1.dist-info/RECORD"), "");
        write(&format!("{both}/pandas-3.0.dist-info/RECORD"), "");
        assert_eq!(with().unwrap().version, "2.1");
        let tool = ".local/share/uv/tools/mcp-server-git/lib/python3.12/site-packages";
        write(&format!("{tool}/mcp_server_git-1.9.dist-info/RECORD"), "");
        assert_eq!(pypi("MCP_Server.Git").unwrap().version, "1.9", "`uvx` starts installed tools");
    }

    #[test]
    fn a_package_of_the_project_counts_only_if_npx_starts_it() {
        let home = mgp_testkit::temp_dir();
        let write = |name: &str, text: &str| write(&home.path().join(name), text);
        let variable = |name: &str| (name == "HOME").then(|| home.path().as_os_str().to_owned());
        let version = |spec: &str| {
            let read = Package::Npm(spec.to_owned(), Vec::new()).read(home.path(), &variable);
            read.map(|package| package.version)
        };
        write("node_modules/foo/package.json", r#"{"version":"1.5.0"}"#);
        assert_eq!(version("foo").unwrap(), "1.5.0");
        assert_eq!(version("foo@1.5.0").unwrap(), "1.5.0");
        assert!(version("foo@2.0.0").unwrap_err().contains("not installed"));
        write(".npm/_npx/0f/package.json", r#"{"_npx":{"packages":["foo@2.0.0"]}}"#);
        write(".npm/_npx/0f/node_modules/foo/package.json", r#"{"version":"2.0.0"}"#);
        assert_eq!(version("foo@2.0.0").unwrap(), "2.0.0");
        for range in ["foo@^1.0.0", "foo@1", "foo@1.x.0", "foo@latest"] {
            assert!(version(range).unwrap_err().contains("exact version"), "{range}");
        }
    }
}

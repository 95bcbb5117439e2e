//! The program of a registration, and the files that determine what it does (MGP §15.4).
//!
//! Most functions here read files, and so block.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use mgp_types::to_hex;
use sha2::{Digest as _, Sha256};

use super::config::RegistrationConfig;
use super::params::{RegisterRequest, unfit};
use super::record::{BoundFile, Proposal};
use super::refusal::RegistrationError as Refused;
use crate::version_shim::VersionShim;

/// The maximum size of a program or code file whose content is hashed, in bytes.
const MAX_PROGRAM_BYTES: u64 = 256 << 20;

/// The interpreters, i.e. programs whose first argument names the script to run, each with the file extension of its
/// scripts.
const INTERPRETERS: &[(&str, &str)] = &[
    ("bash", "sh"),
    ("bun", "mjs"),
    ("dash", "sh"),
    ("ksh", "sh"),
    ("lua", "lua"),
    ("luajit", "lua"),
    ("node", "mjs"),
    ("nodejs", "mjs"),
    ("perl", "pl"),
    ("php", "php"),
    ("pypy", "py"),
    ("python", "py"),
    ("ruby", "rb"),
    ("sh", "sh"),
    ("zsh", "sh"),
];

/// Programs that run code named by their arguments: a package, another program, a module or a command.
///
/// The list includes editors, archivers and similar programs, because their options can run commands, e.g.
/// `tar --checkpoint-action`.
#[rustfmt::skip]
const RUNNERS: &[&str] = &[
    "ant", "ash", "at", "awk", "batch", "bazel", "bsdtar", "bundle", "bunx", "busybox", "bwrap",
    "cabal", "capsh", "cargo", "chroot", "chrt", "cmake", "cmd", "conda", "corepack", "cpulimit",
    "crontab", "csh", "dbus-run-session", "deno", "direnv", "doas", "docker", "dotnet", "eatmydata",
    "ed", "elixir", "elvish", "emacs", "entr", "env", "erl", "ex", "expect", "fakeroot", "faketime",
    "find", "firejail", "fish", "flock", "gawk", "gdb", "gem", "ghc", "git", "go", "gradle",
    "groovy", "guile", "hyperfine", "iex", "ionice", "ip", "ipython", "irb", "java", "julia",
    "just", "kotlin", "less", "lldb", "logrotate", "ltrace", "make", "man", "mawk", "meson", "mono",
    "mvn", "mysql", "nawk", "nc", "ncat", "newgrp", "nice", "ninja", "nix", "nohup", "nox", "npm",
    "npx", "nsenter", "nu", "numactl", "nvim", "ocaml", "octave", "openssl", "osascript",
    "parallel", "perf", "php-cgi", "php-fpm", "pip", "pipx", "pkexec", "pnpm", "podman", "poetry",
    "powershell", "proot", "proxychains", "psql", "pwsh", "pytest", "pythonw", "qemu-user", "r",
    "racket", "rake", "rlwrap", "rscript", "rsync", "runghc", "runuser", "rustc", "scala", "scheme",
    "screen", "script", "sed", "setarch", "setpriv", "setsid", "sg", "socat", "sort", "split",
    "sqlite", "ssh", "stack", "start-stop-daemon", "stdbuf", "strace", "su", "sudo", "swift",
    "systemd-run", "tar", "task", "taskset", "tclsh", "tcsh", "time", "timeout", "tmux", "torsocks",
    "tox", "ts-node", "tsx", "unshare", "uv", "uvx", "valgrind", "vi", "view", "vim", "vimdiff",
    "wasmtime", "watch", "wget", "wine", "wish", "xargs", "xonsh", "xvfb-run", "yarn", "zip",
];

/// The programs among `RUNNERS` that callers who are not operators may name; they may also name the interpreters.
const COMMON: &[&str] = &["bunx", "deno", "npx", "uv", "uvx"];

/// The extensions of code files.
const CODE: &[&str] = &[
    "bash", "cjs", "cts", "jar", "js", "lua", "mjs", "mts", "php", "pl", "ps1", "py", "pyz", "rb",
    "sh", "ts", "wasm", "zsh",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A compiled program, whose code does not depend on its arguments.
    Built,
    /// A text file that begins with `#!` and names its interpreter.
    Script,
    /// An interpreter, which runs the script that its first argument names.
    Interpreter,
    /// A program that runs code named by its arguments, see `RUNNERS`.
    Runner,
}

/// The code of a registration, as it is given to a judge.
#[derive(Debug)]
pub(super) enum Code {
    /// No separate code: only the program itself runs.
    None,
    /// The text of the only script that runs, and its language.
    Text { language: String, text: String },
    /// Code that a judge cannot see completely.
    Unreadable,
}

/// Finds the program of a request and the files that determine what it does, and returns the proposal to approve.
pub(super) fn find(
    mut request: RegisterRequest,
    config: &RegistrationConfig,
) -> Result<Proposal, Refused> {
    if request.remote.is_some() {
        return Ok(proposal(request, [String::new(), String::new(), String::new()], Vec::new()));
    }
    let cwd = config.folder.join(request.cwd.as_deref().unwrap_or_default());
    if !cwd.is_dir() {
        return unfit(format!("there is no folder `{}`; name one in `cwd`", shown(&cwd)));
    }
    let command = program(&request.command, &cwd, config)?;
    if let Some(programs) = &request.programs
        && !is_allowed(&command, programs, config)
    {
        return Err(Refused::Unavailable {
            server: request.id.as_str().into(),
            reason: format!("`{}` is not a program that agents may register", shown(&command)),
            remedy: "ask an operator to add it to `kernel.registration.programs`, or to register the server",
        });
    }
    let command = without_shim(command, &mut request.notes);
    let real = dunce::canonicalize(&command).map_err(|error| unreadable(&command, &error))?;
    let kind = kind(&command, &real)?;
    if request.source.is_some() && !matches!(kind, Kind::Interpreter) {
        let known: Vec<&str> = INTERPRETERS.iter().map(|(name, _)| *name).collect();
        return unfit(format!(
            "`source` is run by an interpreter: make `command` one of {}",
            known.join(", ")
        ));
    }
    let mut files = Vec::new();
    let metadata = fs::metadata(&real).map_err(|error| unreadable(&real, &error))?;
    if !is_of_system(&metadata) {
        files.push(bind(&command)?);
    }
    if request.source.is_none() && matches!(kind, Kind::Interpreter | Kind::Runner) {
        files.extend(named(&request.args, &cwd)?);
        if kind == Kind::Runner || !is_script(request.args.first(), &cwd) {
            request.notes.push(format!(
                "`{}` runs what its arguments name; that code can change without another approval",
                name_of(&command)
            ));
        }
    }
    let paths = [path_text(&command)?, path_text(&real)?, path_text(&cwd)?];
    Ok(proposal(request, paths, files))
}

/// Creates the proposal of a request with the paths of its program, of the real program, and of the working directory.
fn proposal(request: RegisterRequest, paths: [String; 3], files: Vec<BoundFile>) -> Proposal {
    let [command, real, cwd] = paths;
    Proposal {
        id: request.id,
        command,
        real,
        args: request.args,
        cwd,
        env: request.env,
        source: request.source,
        published: request.published,
        remote: request.remote,
        files,
        mgp: request.mgp,
        trust: request.trust,
        notes: request.notes,
    }
}

/// Returns the interpreter that the shim of a version manager starts by default, because the shim itself would choose
/// an interpreter at each start, possibly from a file in `cwd`. Returns any other program unchanged, and also a shim
/// without a default, which gets a note.
fn without_shim(command: PathBuf, notes: &mut Vec<String>) -> PathBuf {
    let Some(shim) = VersionShim::at(&command) else { return command };
    if let Some(program) = shim.default_program() {
        return program;
    }
    notes.push(format!(
        "`{}` may choose another program at each start; that program can change without another approval",
        shown(&command)
    ));
    command
}

/// Returns the code that a proposal runs: none for a compiled program, else the text of a single script, else
/// `Unreadable`.
pub(super) fn code(proposal: &Proposal, config: &RegistrationConfig) -> Result<Code, Refused> {
    let (command, cwd) = (Path::new(&proposal.command), Path::new(&proposal.cwd));
    let language = name_of(command);
    Ok(match (kind(command, Path::new(&proposal.real))?, &proposal.source) {
        (_, Some(source)) => Code::Text { language, text: source.clone() },
        (Kind::Built, None) => Code::None,
        (Kind::Script, None) => {
            Code::Text { language, text: text(command, &proposal.files, config)? }
        }
        (Kind::Interpreter, None) if is_script(proposal.args.first(), cwd) && !is_bun(proposal) => {
            let script = cwd.join(&proposal.args[0]);
            Code::Text { language, text: text(&script, &proposal.files, config)? }
        }
        (Kind::Interpreter | Kind::Runner, None) => Code::Unreadable,
    })
}

/// Returns whether the program of a registry entry starts a container.
pub(super) fn is_container(proposal: &Proposal) -> bool {
    name_of(Path::new(&proposal.command)) == "docker"
}

pub(super) fn is_python(proposal: &Proposal) -> bool {
    matches!(name_of(Path::new(&proposal.command)).as_str(), "python" | "pypy")
}

/// Returns whether a proposal runs `bun`, which also runs code that a `bunfig.toml` in the working directory names.
fn is_bun(proposal: &Proposal) -> bool {
    [&proposal.command, &proposal.real].iter().any(|program| name_of(Path::new(program)) == "bun")
}

fn is_script(first: Option<&String>, cwd: &Path) -> bool {
    first.is_some_and(|first| !first.starts_with('-') && cwd.join(first).is_file())
}

/// The result of comparing the files of a proposal with the current files on the disk.
pub(super) enum FileCheck {
    /// The files are unchanged.
    Same,
    /// The files changed; the value is the proposal with the current files.
    Changed(Box<Proposal>),
}

/// Compares the files of a proposal with the current files on the disk.
pub(super) fn compare_files(proposal: &Proposal) -> Result<FileCheck, String> {
    if proposal.remote.is_some() {
        return Ok(FileCheck::Same);
    }
    let text = |refused: Refused| refused.to_string();
    let command = Path::new(&proposal.command);
    let real =
        dunce::canonicalize(command).map_err(|error| unreadable(command, &error)).map_err(text)?;
    let mut now = proposal.clone();
    now.real = path_text(&real).map_err(text)?;
    // If the path of the command now leads to another program, the approval must cover the content of that program,
    // even if only the administrator can change it.
    if now.real != proposal.real && !now.files.iter().any(|file| file.path == command) {
        now.files.push(bind(command).map_err(text)?);
    }
    for file in &mut now.files {
        *file = bind(&file.path).map_err(text)?;
    }
    if now == *proposal { Ok(FileCheck::Same) } else { Ok(FileCheck::Changed(Box::new(now))) }
}

/// Returns the name of the file that stores the script of a request.
pub(super) fn source_name(proposal: &Proposal) -> String {
    let name = name_of(Path::new(&proposal.command));
    let ending =
        INTERPRETERS.iter().find(|(known, _)| *known == name).map_or("txt", |(_, end)| end);
    format!("{}.{ending}", proposal.id)
}

/// Returns the absolute path of the program, so that later changes of `PATH` have no effect.
fn program(command: &str, cwd: &Path, config: &RegistrationConfig) -> Result<PathBuf, Refused> {
    let names = || [command.to_owned(), format!("{command}{}", std::env::consts::EXE_SUFFIX)];
    let is_path = command.contains(['/', std::path::MAIN_SEPARATOR]);
    let folders: Vec<PathBuf> = if is_path {
        vec![cwd.to_owned()]
    } else {
        config.path.iter().filter(|folder| folder.is_absolute()).cloned().collect()
    };
    let places = folders.iter().flat_map(|folder| names().map(|name| folder.join(name)));
    for place in places {
        if fs::metadata(&place).is_ok_and(|metadata| metadata.is_file() && may_run(&metadata)) {
            return Ok(place);
        }
    }
    let whole = if is_path { "" } else { " on `PATH`; write its whole path" };
    unfit(format!("there is no program `{}`{whole}", command.escape_debug()))
}

/// Returns whether callers who are not operators may name a program: one of [`COMMON`] or [`INTERPRETERS`] on `PATH`,
/// or an entry of `programs`. An entry without a folder means a program on `PATH`.
fn is_allowed(command: &Path, programs: &[String], config: &RegistrationConfig) -> bool {
    let is_found = config.path.iter().any(|folder| command.parent() == Some(folder));
    let name = command.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(std::env::consts::EXE_SUFFIX).unwrap_or(&name);
    let plain = name_of(command);
    let is_common =
        COMMON.contains(&plain.as_str()) || INTERPRETERS.iter().any(|(known, _)| *known == plain);
    (is_found && is_common)
        || programs.iter().any(|entry| Path::new(entry) == command || (is_found && entry == name))
}

fn kind(command: &Path, real: &Path) -> Result<Kind, Refused> {
    // Check both the name and the target of a link, because `sh` and all programs of busybox are links to other
    // programs.
    for name in [name_of(command), name_of(real)] {
        // The system's dynamic loader is a runner too, because it runs the program that its argument names.
        let is_loader = name.starts_with("ld-") || name.starts_with("ld.so") || name == "ld";
        if is_loader || RUNNERS.contains(&name.as_str()) {
            return Ok(Kind::Runner);
        }
        if INTERPRETERS.iter().any(|(known, _)| *known == name) {
            return Ok(Kind::Interpreter);
        }
    }
    let mut begin = Vec::new();
    let file = File::open(real).map_err(|error| unreadable(real, &error))?;
    file.take(2).read_to_end(&mut begin).map_err(|error| unreadable(real, &error))?;
    Ok(if begin == b"#!" { Kind::Script } else { Kind::Built })
}

/// Returns the name of a program without its folder, extension and version: `python` for `/usr/bin/python3.11`, `perl`
/// for `perl5.36-x86_64-linux-gnu`.
fn name_of(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    let version = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let plain = name[..version].trim_end_matches(['.', '-', '_']);
    if plain.is_empty() { name.to_owned() } else { plain.to_owned() }
}

/// Returns the files among the arguments that can contain code: the first argument that is a file, and every file with
/// an extension of code.
fn named(args: &[String], cwd: &Path) -> Result<Vec<BoundFile>, Refused> {
    let mut files: Vec<BoundFile> = Vec::new();
    for arg in args {
        // `--require=./code.js` names a file as well.
        let value = arg.strip_prefix('-').and_then(|option| option.split_once('='));
        for text in [Some(arg.as_str()), value.map(|(_, value)| value)].into_iter().flatten() {
            let place = cwd.join(text);
            let is_first = files.is_empty() && !text.starts_with('-');
            if (is_first || is_code_file(&place)) && place.is_file() {
                files.push(bind(&place)?);
            }
        }
    }
    Ok(files)
}

/// Returns the arguments of a program that name the code that it runs, in their order. These are the files with an
/// extension of code, and the script of an interpreter, which can have any extension. The call blocks.
#[must_use]
pub fn code_arguments<'a>(command: &str, args: &[&'a str], cwd: &Path) -> Vec<&'a str> {
    let name = name_of(Path::new(command));
    let is_interpreter = INTERPRETERS.iter().any(|(known, _)| *known == name);
    let is_file = |text: &&str| cwd.join(text).is_file();
    let mut files = Vec::new();
    for (at, arg) in args.iter().copied().enumerate() {
        // `--require=./code.js` names a file as well.
        let value = arg.strip_prefix('-').and_then(|option| option.split_once('='));
        let text = value.map_or(arg, |(_, value)| value);
        let is_script = at == 0 && is_interpreter && !arg.starts_with('-');
        if is_script || is_code_file(Path::new(text)) {
            files.extend(Some(text).filter(is_file));
        }
    }
    if files.is_empty() && is_interpreter {
        let first = args.iter().copied().find(|arg| !arg.starts_with('-'));
        files.extend(first.filter(is_file));
    }
    files
}

pub(crate) fn is_code_file(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    CODE.contains(&ending.as_str())
}

/// Returns whether a program runs code that one of its arguments names.
pub(crate) fn runs_arguments(program: &Path) -> bool {
    let name = name_of(program);
    RUNNERS.contains(&name.as_str()) || INTERPRETERS.iter().any(|(known, _)| *known == name)
}

/// Reads a file, and returns its path with the hash of its content.
pub(crate) fn bind(path: &Path) -> Result<BoundFile, Refused> {
    let failed = |error: io::Error| unreadable(path, &error);
    // Check this before opening the file: opening a named pipe would block until it has a writer.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return unfit(format!("`{}` is not a plain file", shown(path)));
    }
    let (mut file, mut hash) =
        (File::open(path).map_err(failed)?.take(MAX_PROGRAM_BYTES + 1), Sha256::new());
    let (mut read, mut buffer) = (0, vec![0; 64 * 1024]);
    loop {
        let bytes = file.read(&mut buffer).map_err(failed)?;
        if bytes == 0 {
            break;
        }
        read += bytes as u64;
        hash.update(&buffer[..bytes]);
    }
    if read > MAX_PROGRAM_BYTES {
        return unfit(format!("`{}` is longer than {MAX_PROGRAM_BYTES} bytes", shown(path)));
    }
    Ok(BoundFile { path: path.to_owned(), sha256: to_hex(&hash.finalize()) })
}

/// Returns the text of a script; returns an error if its hash differs from its hash in `files`.
fn text(path: &Path, files: &[BoundFile], config: &RegistrationConfig) -> Result<String, Refused> {
    let mut bytes = Vec::new();
    let failed = |error: io::Error| unreadable(path, &error);
    let file = File::open(path).map_err(failed)?;
    file.take(config.max_script_bytes as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > config.max_script_bytes {
        return unfit(format!(
            "`{}` is longer than {} bytes",
            shown(path),
            config.max_script_bytes
        ));
    }
    let sha256 = to_hex(&Sha256::digest(&bytes));
    if files.iter().any(|file| file.path == path && file.sha256 != sha256) {
        return unfit(format!("`{}` was changed meanwhile; try again", shown(path)));
    }
    String::from_utf8(bytes)
        .or_else(|_| unfit(format!("`{}` is a script that is not UTF-8 text", shown(path))))
}

fn path_text(path: &Path) -> Result<String, Refused> {
    match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => unfit(format!("`{}` is not UTF-8 text", shown(path))),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Refused {
    Refused::InvalidParams(format!("`{}` cannot be read: {error}", shown(path)))
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}

/// Returns whether only the system's administrator can change a program; `false` if this process runs as root. An
/// approval covers only the path of such a program, not its content, so that updates need no new approval.
#[cfg(unix)]
fn is_of_system(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    metadata.uid() == 0 && metadata.mode() & 0o022 == 0 && !rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_of_system(_: &Metadata) -> bool {
    false
}

#[cfg(unix)]
fn may_run(metadata: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn may_run(_: &Metadata) -> bool {
    true
}

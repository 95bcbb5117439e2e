//! The rules for tools that build programs: options and variables that name other programs, or code to load.

use super::{
    argv::{Args, Refusal},
    environment,
};
use crate::words::Words;

static MAKES: Words = Words::new("make gmake bmake remake");
static COMPILERS: Words = Words::new("gcc g++ cc c++ clang clang++ cpp gfortran tcc");

/// Settings of cargo that are allowed on the command line. Any other setting might name a program or a file to run.
static SETTINGS: Words = Words::new(
    "\
    build.incremental build.jobs build.target build.warnings cache. future-incompat-report. http. \
    net. profile. resolver. term.",
);

/// Checks a command by the rules for its program.
pub(super) fn check(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    match name {
        "cmake" => cmake(args),
        "cargo" if sets_program(args) => {
            Err("a setting of `cargo` can name a program or a file to run".to_owned())
        }
        "cargo" | "rustc" | "rustdoc" => rust(name, args),
        "java"
            if args.texts().any(|arg| {
                arg.starts_with("-agent") || arg.starts_with("-javaagent") || arg.contains(":On")
            }) =>
        {
            Err("an option of `java` loads or runs something".to_owned())
        }
        "go" if args.first() == "run" && args.texts().any(is_remote) => {
            Err("`go` downloads or loads code".to_owned())
        }
        "go" if args.texts().any(names_linker) => {
            Err("an option of `go` names a program to run".to_owned())
        }
        _ if MAKES.has(name) => make(args),
        _ if COMPILERS.has(name) && args.texts().any(loads) => {
            Err(format!("an option of `{name}` loads code, or names a folder of programs"))
        }
        _ => Ok(()),
    }
}

/// Returns whether an argument of `go` names a linker. Unlike `-extld`, `-extldflags` names no program.
fn names_linker(arg: &str) -> bool {
    arg.split([' ', '=', '"', '\'']).any(|word| word.ends_with("-extld"))
}

/// Returns whether an argument of a compiler loads code, or names the folder from which the compiler runs programs.
fn loads(arg: &str) -> bool {
    ["-Wl,-plugin", "-fplugin", "-specs", "-B"].iter().any(|option| arg.starts_with(option))
}

fn is_remote(arg: &str) -> bool {
    arg.contains('@') && arg.contains('.') && !arg.starts_with('-')
}

fn cmake(args: Args<'_>) -> Result<(), Refusal> {
    let is_harmless = |arg: &str| {
        matches!(
            arg,
            "echo"
                | "sha256sum"
                | "md5sum"
                | "compare_files"
                | "capabilities"
                | "environment"
                | "cat"
                | "make_directory"
                | "copy"
                | "touch"
        )
    };
    if args.any(&["-E"]) && !args.texts().any(is_harmless) {
        return Err("`cmake -E` runs or removes something".to_owned());
    }
    if args.texts().any(launches) {
        return Err("a variable of `cmake` names a program to run".to_owned());
    }
    Ok(())
}

/// Returns whether an argument sets a variable of `cmake` to a program that runs each compiler, linker or test, e.g.
/// `CMAKE_C_COMPILER_LAUNCHER`. Usual caches of compiled files are allowed.
fn launches(arg: &str) -> bool {
    const CACHES: [&str; 6] = ["", "ccache", "sccache", "distcc", "icecc", "buildcache"];
    let Some((name, value)) = arg.split_once('=') else { return false };
    let name = name.split(':').next().unwrap_or(name);
    let runs = ["_LAUNCHER", "_LAUNCH_COMPILE", "_LAUNCH_LINK", "_LAUNCH_CUSTOM", "_EMULATOR"];
    runs.iter().any(|end| name.ends_with(end))
        && !CACHES.contains(&value.strip_prefix("/usr/bin/").unwrap_or(value))
}

/// Returns whether an option `--config` of cargo names a file, or a setting that is not in [`SETTINGS`]. Options after
/// `--` do not count, because they belong to the program that cargo runs. Options of the subcommands `deny` and
/// `tarpaulin` do not count either, because there `--config` has another meaning.
fn sets_program(args: Args<'_>) -> bool {
    let end = args.texts().position(|arg| arg == "--").unwrap_or(args.0.len());
    let is_listed = |set: &str| {
        let set = set.trim_start();
        set.contains('=') && SETTINGS.iter().any(|known| is_setting(set, known))
    };
    !matches!(args.first(), "deny" | "tarpaulin")
        && Args(&args.0[..end]).values(&["--config"]).any(|set| !is_listed(set))
}

/// Returns whether a text `NAME=VALUE` sets `known`, or a setting below it if `known` ends with a dot.
fn is_setting(set: &str, known: &str) -> bool {
    let rest = set.strip_prefix(known);
    rest.is_some_and(|rest| known.ends_with('.') || rest.trim_start().starts_with('='))
}

fn rust(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    let linker = |value: &str| {
        ["linker", "codegen-backend", "link-self-contained", "rustc-wrapper", "runner", "alias."]
            .iter()
            .any(|key| value.contains(key))
    };
    let options = args.values(&["-C", "-Z", "--codegen", "--config"]).any(linker)
        || args.values(&["--config"]).any(|set| set.contains("rustc") || set.contains("rustdoc"))
        || args.texts().any(|arg| arg.starts_with("-Clinker"));
    if options || args.any(&["--test-runtool", "--runtool"]) {
        return Err(format!("an option of `{name}` names a program to run"));
    }
    Ok(())
}

fn make(args: Args<'_>) -> Result<(), Refusal> {
    let variable = |arg: &str| {
        let Some((name, value)) = arg.split_once('=') else { return false };
        let name = name.trim_end_matches([':', '+', '?', '!']);
        // `ENV` is exempt from the check of the environment: only an interactive shell runs the file that it names, and
        // makefiles use it for the name of a stage.
        matches!(name, "SHELL" | ".SHELLFLAGS" | "MAKEFLAGS" | "MAKE" | "MAKEFILES")
            || name != "ENV" && environment::check(name, value).is_err()
            || value.contains("$(")
            || value.contains('`')
            || value.contains(';')
            || value.contains('|')
            || value.contains('\n')
    };
    let input = args
        .values(&["-f", "--file", "--makefile"])
        .any(|file| file == "-" || file.starts_with("/dev/") || file.starts_with("/proc/"));
    if input || args.texts().any(variable) {
        return Err("`make` executes text of its arguments".to_owned());
    }
    Ok(())
}

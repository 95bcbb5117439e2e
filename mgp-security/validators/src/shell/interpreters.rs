//! The rules for interpreters: code in arguments, and programs from standard input.

use super::{
    argv::{Args, Refusal, long_name},
    filters::{awk, sed},
    paths::is_system,
};
use crate::words::{Words, has};
use std::path::Path;

/// Returns whether a command is an interpreter. The options of an interpreter end at the name of the program that it
/// runs.
pub(super) fn is_interpreter(name: &str) -> bool {
    SHELLS.has(name)
        || INPUT.has(name)
        || matches!(name, "rscript" | "elixir" | "erl" | "java" | "coffee")
}

/// Arguments with which an interpreter needs neither a file nor a program from standard input, e.g. because it only
/// prints information.
const INFORMATION: &[&str] = &[
    "-V",
    "-VV",
    "-h",
    "--help",
    "--version",
    "version",
    "-version",
    "--test",
    "--info",
    "test",
    "--check",
];
/// Returns further arguments with which the interpreter `name` only prints information. Other interpreters still read a
/// program from standard input if they get these arguments, e.g. `perl -i` and `python -v`.
fn information_of(name: &str) -> &'static [&'static str] {
    match name {
        "php" => &["-i", "-m", "-v"],
        "python" | "pypy" | "ipython" => &[],
        _ => &["-v"],
    }
}

/// Interpreters other than shells for which the table of risky options has the letters of all short options with a
/// value.
const LISTED: &str = "\
    python pypy ipython micropython perl ruby node nodejs php lua luajit julia deno bun";
/// Options of Node.js that take the next argument as their value, without their dashes.
const NODE_VALUED: &str = "\
    allow-fs-read allow-fs-write build-snapshot-config conditions cpu-prof-dir cpu-prof-interval \
    cpu-prof-name debug-port diagnostic-dir disable-proto disable-warning dns-result-order env-file \
    env-file-if-exists experimental-config-file experimental-default-type experimental-loader \
    experimental-policy experimental-sea-config experimental-test-isolation heap-prof-dir \
    heap-prof-interval heap-prof-name heapsnapshot-near-heap-limit heapsnapshot-signal icu-data-dir \
    import input-type inspect-port inspect-publish-uid loader localstorage-file \
    max-http-header-size max-old-space-size-percentage network-family-autoselection-attempt-timeout \
    openssl-config policy-integrity redirect-warnings report-dir report-directory report-filename \
    report-signal require secure-heap secure-heap-min snapshot-blob test-concurrency \
    test-coverage-branches test-coverage-exclude test-coverage-functions test-coverage-include \
    test-coverage-lines test-global-setup test-isolation test-name-pattern test-reporter \
    test-reporter-destination test-rerun-failures test-shard test-skip-pattern test-timeout title \
    tls-cipher-list tls-keylog trace-event-categories trace-event-file-pattern trace-require-module \
    unhandled-rejections use-largepages v8-pool-size watch-kill-signal watch-path";
const PHP_VALUED: &str = "bindpath docroot file php-ini rfile zend-extension";
const RUBY_VALUED: &str = "\
    backtrace-limit disable dump enable encoding external-encoding internal-encoding parser";
/// Options of Node.js that name a module to load before the program.
const PRELOADS: &[&str] =
    &["-r", "--require", "--import", "--loader", "--experimental-loader", "--experimental_loader"];
/// Options of other interpreters that take no value, without their dashes.
const PLAIN: &str = "\
    debugger disable-debugger dump-po-strings dump-strings help no norc norcs noediting noinform \
    non-interactive noprofile noprint posix private project protected quiet restricted silent slave \
    vanilla verbose version";

static SHELLS: Words = Words::new(
    "\
    sh bash dash zsh ksh mksh ash rbash yash fish csh tcsh elvish nu xonsh pwsh powershell cmd \
    oksh posh",
);
/// Interpreters that read a program from standard input if no file is named.
static INPUT: Words = Words::new(
    "\
    python pypy ipython perl ruby node nodejs php lua luajit tclsh r guile racket swift julia \
    deno bun groovy scala sbcl ocaml octave",
);
/// Python modules that run code from their arguments or from standard input.
static PYTHON_MODULES: Words = Words::new(
    "\
    timeit code pdb pty trace cProfile profile runpy idlelib IPython asyncio bdb doctest smtpd \
    zipapp ensurepip",
);
/// Python modules that are also programs with the same arguments.
static PROGRAMS: Words = Words::new("pip pipx pipenv poetry uv httpie ansible");

/// Checks the arguments of an interpreter.
pub(super) fn check(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    let inline = Err(format!("`{name}` runs code in its arguments, or from standard input"));
    if SHELLS.has(name) {
        return shell(name, args);
    }
    // Also recognize the name of a module that follows the letter without a blank, as in `-mjson.tool`.
    let has_module = matches!(name, "python" | "pypy" | "ipython")
        && args.first().strip_prefix("-m").is_some_and(|module| !module.is_empty());
    let information = args.any(INFORMATION) || args.any(information_of(name)) || has_module;
    let file = file(name, args);
    if INPUT.has(name) && (file.is_none() && !information || file.is_some_and(stdin)) {
        return inline;
    }
    match name {
        "python" | "pypy" | "ipython" | "micropython" => {
            if runs_module(name, args) {
                inline
            } else {
                Ok(())
            }
        }
        "node" | "nodejs" => {
            let preload = args.values(PRELOADS).any(|module| {
                module.starts_with(['/', '~'])
                    || module.contains("..")
                    || module.contains([':', '%', '$', '\\'])
            });
            if preload || args.any(&["-pe", "-ep"]) { inline } else { Ok(()) }
        }
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => awk(args),
        "sed" | "gsed" | "ssed" => sed(args),
        "vi" | "vim" | "view" | "nvim" | "less" | "more" | "most" | "gvim" => {
            if args.texts().any(is_editor_command) {
                Err(format!("`{name}` runs a command of its arguments"))
            } else {
                Ok(())
            }
        }
        "wp" | "rails" | "artisan" | "drush"
            if matches!(
                args.first(),
                "eval"
                    | "eval-file"
                    | "runner"
                    | "r"
                    | "console"
                    | "c"
                    | "tinker"
                    | "php:eval"
                    | "shell"
            ) =>
        {
            inline
        }
        "php" if args.operands().any(|arg| arg == "tinker") => inline,
        _ => Ok(()),
    }
}

/// Returns the file or module that an interpreter runs, if its arguments name one.
fn file<'a>(name: &str, args: Args<'a>) -> Option<&'a str> {
    // The letters of the options that take the next argument as their value.
    let valued = match name {
        "python" | "pypy" | "ipython" | "micropython" => "WXQ",
        "perl" => "IMm",
        "ruby" => "rIEC",
        "node" | "nodejs" => "Cr",
        "php" => "cztd",
        "julia" => "pCJt",
        _ => return args.operands().next(),
    };
    args.skip(own_options(name, args, valued).0.len()).operands().next()
}

/// Returns whether an argument is the path of a shell that every Unix system has, with or without arguments.
pub(super) fn is_shell_path(arg: &str) -> bool {
    let path = arg.split([' ', '\t', '\n', ';', ',']).next().unwrap_or_default();
    let path = path.strip_prefix("/usr").unwrap_or(path);
    let path = path.strip_prefix("/local").unwrap_or(path);
    path.strip_prefix("/bin/").is_some_and(|name| SHELLS.has(name))
}

/// Returns whether an argument of an editor or pager is a command for it to run, and not a position in the file.
fn is_editor_command(arg: &str) -> bool {
    arg.strip_prefix('+').is_some_and(|rest| {
        let is_line = rest.bytes().all(|b| b.is_ascii_digit());
        !is_line && !rest.starts_with('/') && !matches!(rest, "F" | "G")
    })
}

/// Returns whether an argument makes an interpreter read its program from standard input, a device or an address.
fn stdin(arg: &str) -> bool {
    arg == "-" || arg.starts_with("/dev/") || arg.starts_with("/proc/") || arg.contains("://")
}

/// Returns the options of an interpreter with their values, i.e. the arguments before the program that it runs. The
/// options whose letters are in `valued` take the next argument as their value.
pub(super) fn own_options<'a>(name: &str, args: Args<'a>, valued: &str) -> Args<'a> {
    args.leading(valued, |option| takes_next(name, option))
}

/// Returns whether an option of an interpreter may take the next argument as its value. An unknown option counts as
/// such an option, unless all options of the interpreter are known here.
fn takes_next(name: &str, option: &str) -> bool {
    let Some(long) = long_name(option) else {
        let is_listed = SHELLS.has(name) || has(LISTED, name);
        return !is_listed && option.starts_with('-');
    };
    match name {
        "node" | "nodejs" => has(NODE_VALUED, &long.replace('_', "-")),
        "php" => has(PHP_VALUED, long),
        "ruby" => has(RUBY_VALUED, long),
        "perl" | "lua" | "luajit" => false,
        _ => !long.starts_with("no-") && !has(PLAIN, long),
    }
}

fn shell(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    let inline = Err(format!("`{name}` runs code in its arguments, or from standard input"));
    let lower: Vec<String> = args.texts().map(str::to_ascii_lowercase).collect();
    let own = own_options(name, args, if name == "fish" { "oOdDpf" } else { "oO" });
    let script = args.skip(own.0.len()).operands().next();
    let windows = matches!(name, "pwsh" | "powershell" | "cmd")
        && lower
            .iter()
            .any(|arg| ["-c", "-e", "/c", "/k", "/r"].iter().any(|flag| arg.starts_with(flag)));
    let long =
        ["--command", "--init-command", "--init-file", "--rcfile", "--interactive", "--login"];
    let code = own.short("csiCl", "oO") || own.any(&long) || windows;
    if code || script.is_none_or(stdin) && !own.short("n", "") {
        return inline;
    }
    Ok(())
}

/// Returns whether a Python module only measures a script, and runs no other code.
fn profiles(module: &str, args: Args<'_>) -> bool {
    let script = args.after_options(&["-o", "--outfile", "-s", "--sort"]);
    let is_python =
        Path::new(script.first()).extension().is_some_and(|end| end.eq_ignore_ascii_case("py"));
    let mut own = args.texts().take(args.0.len() - script.0.len());
    // Python also accepts abbreviations of long options. So any long option other than these two counts as another
    // option.
    let is_other = |option: &str| {
        let name = option.split('=').next().unwrap_or(option);
        option.starts_with("-m")
            || option.starts_with("--") && !matches!(name, "--outfile" | "--sort")
    };
    matches!(module, "cProfile" | "profile")
        && is_python
        && !own.any(is_other)
        && !args.values(&["-o", "--outfile"]).any(is_system)
}

/// Returns whether Python runs code from its arguments, or a module that runs such code.
fn runs_module(name: &str, args: Args<'_>) -> bool {
    match started(name, args) {
        Started::Code => true,
        Started::Module("http.server", own) => serves_system(own),
        Started::Module(module, own) => PYTHON_MODULES.has(module) && !profiles(module, own),
        Started::Other => false,
    }
}

/// Returns whether `http.server` runs scripts, or serves a folder of the system or the home of a user.
fn serves_system(args: Args<'_>) -> bool {
    let mut folders = args.values(&["-d"]).chain(args.long_values("directory", 1));
    args.long("cgi", 1) || folders.any(is_system)
}

/// Returns the program that a Python module starts, e.g. `pip` for `python -m pip`, with its arguments.
pub(super) fn program_of_module<'a>(name: &str, args: Args<'a>) -> Option<(&'a str, Args<'a>)> {
    if !matches!(name, "python" | "pypy") {
        return None;
    }
    match started(name, args) {
        Started::Module(module, own) if PROGRAMS.has(module) => Some((module, own)),
        _ => None,
    }
}

/// The code that Python runs.
enum Started<'a> {
    /// Code in the arguments.
    Code,
    /// A module. The arguments after it belong to the module.
    Module(&'a str, Args<'a>),
    Other,
}

fn started<'a>(name: &str, args: Args<'a>) -> Started<'a> {
    let mut rest = args;
    loop {
        let text = rest.first();
        if !text.starts_with('-') || matches!(text, "-" | "--") {
            return Started::Other;
        }
        let letter = text.char_indices().skip(1).find(|(_, c)| "cimWXQ".contains(*c));
        let letter = letter.filter(|_| !text.starts_with("--"));
        let is_last = letter.is_some_and(|(at, _)| at + 1 == text.len());
        let takes = match letter {
            Some((_, 'c' | 'i')) => return Started::Code,
            Some((at, 'm')) => {
                let module = if is_last { rest.skip(1).first() } else { &text[at + 1..] };
                return Started::Module(module, rest.skip(1 + usize::from(is_last)));
            }
            Some(_) => is_last,
            None => !text.contains('=') && takes_next(name, text),
        };
        rest = rest.skip(1 + usize::from(takes));
    }
}

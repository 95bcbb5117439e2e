//! Interpreters: code in arguments, programs from standard input, and the languages of awk and sed.

#![expect(clippy::match_same_arms, reason = "a row for each program")]

use super::argv::{Args, Refusal};

/// Returns whether a command is an interpreter. The options of an interpreter end at the name of the program that it
/// runs.
pub(super) fn is_interpreter(name: &str) -> bool {
    SHELLS.contains(&name)
        || INPUT.contains(&name)
        || matches!(name, "rscript" | "elixir" | "erl" | "java" | "coffee")
}

/// Arguments with which an interpreter needs no file and reads no program from standard input, e.g. because it only
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
/// Returns further arguments with which this interpreter only prints information. Other interpreters still read a
/// program from standard input with the same arguments, e.g. `perl -i` and `python -v`.
fn information_of(name: &str) -> &'static [&'static str] {
    match name {
        "php" => &["-i", "-m", "-v"],
        "python" | "pypy" | "ipython" => &[],
        _ => &["-v"],
    }
}

/// Options with which awk loads or writes something.
const AWK_OPTIONS: &[&str] = &[
    "--load",
    "--source",
    "--exec",
    "--include",
    "--dump-variables",
    "--debug",
    "--pretty-print",
    "--profile",
];
const SHELLS: &[&str] = &[
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "mksh",
    "ash",
    "rbash",
    "yash",
    "fish",
    "csh",
    "tcsh",
    "elvish",
    "nu",
    "xonsh",
    "pwsh",
    "powershell",
    "cmd",
    "oksh",
    "posh",
];
/// Interpreters that read a program from standard input if no file is named.
const INPUT: &[&str] = &[
    "python", "pypy", "ipython", "perl", "ruby", "node", "nodejs", "php", "lua", "luajit", "tclsh",
    "r", "guile", "racket", "swift", "julia", "deno", "bun", "groovy", "scala", "sbcl", "ocaml",
    "octave",
];
/// Python modules that run code from their arguments or from standard input.
const PYTHON_MODULES: &[&str] = &[
    "timeit",
    "code",
    "pdb",
    "pty",
    "trace",
    "cProfile",
    "profile",
    "runpy",
    "idlelib",
    "IPython",
    "asyncio",
    "bdb",
    "doctest",
    "http.server",
    "smtpd",
    "zipapp",
    "ensurepip",
];

/// Checks the arguments of an interpreter.
pub(super) fn check(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    let inline = Err(format!("`{name}` runs code in its arguments, or from standard input"));
    if SHELLS.contains(&name) {
        return shell(name, args);
    }
    let information = args.any(INFORMATION) || args.any(information_of(name));
    if INPUT.contains(&name)
        && (args.operands().next().is_none() && !information
            || args.operands().next().is_some_and(stdin))
    {
        return inline;
    }
    match name {
        "python" | "pypy" | "ipython" | "micropython" => {
            if runs_module(args) {
                inline
            } else {
                Ok(())
            }
        }
        "node" | "nodejs" => {
            let preload = args
                .values(&["-r", "--require"])
                .any(|module| module.starts_with('/') || module.contains(".."));
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

/// Returns whether an argument of an editor or pager is a command to run, and not a position in the file.
fn is_editor_command(arg: &str) -> bool {
    arg.strip_prefix('+').is_some_and(|rest| {
        let is_line = rest.bytes().all(|b| b.is_ascii_digit());
        !is_line && !rest.starts_with('/') && !matches!(rest, "F" | "G")
    })
}

/// Returns whether the program that an interpreter runs would come from standard input, a device or an address.
fn stdin(arg: &str) -> bool {
    arg == "-" || arg.starts_with("/dev/") || arg.starts_with("/proc/") || arg.contains("://")
}

fn shell(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    let inline = Err(format!("`{name}` runs code in its arguments, or from standard input"));
    let script = args.skip(args.leading("oO").0.len()).operands().next();
    let lower: Vec<String> = args.texts().map(str::to_ascii_lowercase).collect();
    let args = args.leading("oO");
    let windows = matches!(name, "pwsh" | "powershell" | "cmd")
        && lower
            .iter()
            .any(|arg| ["-c", "-e", "/c", "/k", "/r"].iter().any(|flag| arg.starts_with(flag)));
    let long =
        ["--command", "--init-command", "--init-file", "--rcfile", "--interactive", "--login"];
    let code = args.short("csiCl", "oO") || args.any(&long) || windows;
    if code || script.is_none_or(stdin) && !args.short("n", "") {
        return inline;
    }
    Ok(())
}

/// Returns whether Python runs code from its arguments, or a module that does so.
fn runs_module(args: Args<'_>) -> bool {
    let module = args.0.iter().position(|word| word.text.starts_with("-m")).map(|at| {
        let glued = &args.0[at].text[2..];
        if glued.is_empty() { args.skip(at + 1).first() } else { glued }
    });
    let code = args.leading("WXQm").short("ci", "WXmQ");
    let module = module.filter(|_| args.leading("WXQm").texts().any(|arg| arg.starts_with("-m")));
    code || module.is_some_and(|module| PYTHON_MODULES.contains(&module))
}

fn awk(args: Args<'_>) -> Result<(), Refusal> {
    let refuse = |what: &str| Err(format!("{what} in an awk program"));
    if args.short("leEiodpD", "Fvf") || args.any(AWK_OPTIONS) {
        return refuse("an option that loads or writes");
    }
    let from_file = args.short("f", "Fv") || args.any(&["--file"]);
    let rest = args.after_options(&["-F", "-v", "--field-separator", "--assign"]);
    let program = rest.first();
    if from_file || program.is_empty() { Ok(()) } else { awk_program(program) }
}

/// Checks an awk program; it is refused if it executes, loads or writes something.
pub(super) fn awk_program(program: &str) -> Result<(), Refusal> {
    let refuse = |what: &str| Err(format!("{what} in an awk program"));
    let (mut chars, mut word, mut printing, mut depth) =
        (program.chars().peekable(), String::new(), false, 0usize);
    let mut before = '\n';
    while let Some(c) = chars.next() {
        if c.is_ascii_alphanumeric() || c == '_' {
            word.push(c);
            before = c;
            continue;
        }
        let name = std::mem::take(&mut word);
        printing |= matches!(name.as_str(), "print" | "printf");
        match c {
            '"' => skip_to('"', &mut chars),
            '#' => while chars.next_if(|&c| c != '\n').is_some() {},
            '/' if !(before.is_ascii_alphanumeric() || matches!(before, ')' | ']' | '_'))
                || matches!(name.as_str(), "print" | "return") =>
            {
                skip_to('/', &mut chars);
            }
            '(' if name == "system" => return refuse("`system(`"),
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if chars.next_if_eq(&'|').is_none() => {
                return refuse("a pipe to or from a command");
            }
            '>' if printing && depth == 0 => {
                let standard = chars
                    .clone()
                    .skip_while(|c| *c == '>' || *c == ' ')
                    .take(13)
                    .collect::<String>();
                if !standard.starts_with("\"/dev/stderr\"")
                    && !standard.starts_with("\"/dev/stdout\"")
                {
                    return refuse("a redirection");
                }
            }
            '@' => return refuse("a directive or an indirect call"),
            ';' | '}' | '\n' | '{' => printing = false,
            ' ' if name == "system" => word = name,
            _ => {}
        }
        if !c.is_whitespace() {
            before = c;
        }
    }
    Ok(())
}

/// Skips to the end of a quoted text in which a backslash escapes the next character.
fn skip_to(end: char, chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            c if c == end => return,
            _ => {}
        }
    }
}

fn sed(args: Args<'_>) -> Result<(), Refusal> {
    let mut scripts: Vec<&str> = args.values(&["-e", "--expression"]).collect();
    scripts.extend(args.texts().filter_map(|arg| {
        let cluster = arg.strip_prefix('-')?;
        (cluster.ends_with('e') && cluster.len() > 1 && !cluster.starts_with(['-', 'i', 'e']))
            .then_some(())?;
        let at = args.texts().position(|other| std::ptr::eq(other, arg))?;
        args.texts().nth(at + 1)
    }));
    if scripts.is_empty() && !args.short("f", "iel") && !args.any(&["--file"]) {
        scripts.extend(args.after_options(&["-l", "--line-length"]).texts().next());
    }
    scripts.into_iter().try_for_each(sed_script)
}

/// Checks the commands of a sed script. Commands that execute or write are refused, and so are unknown commands.
pub(super) fn sed_script(script: &str) -> Result<(), Refusal> {
    let refuse =
        |c: char| Err(format!("the command `{c}` of sed executes or writes, or is unknown"));
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            _ if c.is_whitespace() || c.is_ascii_digit() => {}
            ';' | '{' | '}' | '!' | ',' | '$' | '~' | '+' | 'I' | 'M' => {}
            '/' => skip_to('/', &mut chars),
            '\\' => {
                let Some(end) = chars.next() else { return refuse('\\') };
                skip_to(end, &mut chars);
            }
            's' | 'y' => {
                let Some(end) = chars.next() else { return refuse(c) };
                skip_to(end, &mut chars);
                skip_to(end, &mut chars);
                while let Some(flag) = chars.next_if(char::is_ascii_alphanumeric) {
                    if matches!(flag, 'e' | 'w') {
                        return refuse(flag);
                    }
                }
            }
            'a' | 'i' | 'c' | 'r' | 'R' | 'b' | 't' | 'T' | ':' | 'v' | '#' => {
                let to_line = matches!(c, 'a' | 'i' | 'c' | 'r' | 'R' | '#');
                while chars
                    .next_if(|&next| next != '\n' && (to_line || !matches!(next, ';' | '}')))
                    .is_some()
                {}
            }
            'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | '=' | 'F'
            | 'q' | 'Q' | 'l' => {}
            'w' | 'W' if chars.clone().collect::<String>().trim().starts_with("/dev/std") => {
                return Ok(());
            }
            other => return refuse(other),
        }
    }
    Ok(())
}

//! Decides about an argument vector, and about the commands that it runs.

use super::{
    argv::{Args, Refusal, long_name, plain_name, without_ending},
    braces, environment, files, folder,
    frame::Frame,
    interpreters::{self, is_interpreter, is_shell_path, own_options},
    lex::{Word, assignment},
    paths::is_system,
    powershell, programs, reading, runners, settings, stdin, stores, tables, targets,
};
use crate::hidden::imitates_ascii;
use crate::words::{Words, has};

/// Checks an argument vector.
///
/// # Errors
/// A description of the reason why the command is refused.
pub(super) fn judge(words: &[Word], frame: Frame<'_>) -> Result<(), Refusal> {
    judge_form(words, frame)?;
    match with_unset_variables(words) {
        // Also check the words that result if no variable is set. This counts as a nested command, so that the number
        // of such checks is limited.
        Some(words) => judge_form(&words, frame.inner()?),
        None => Ok(()),
    }
}

/// Checks an argument vector, and the one that brace expansion makes of it.
fn judge_form(words: &[Word], frame: Frame<'_>) -> Result<(), Refusal> {
    judge_list(words, frame)?;
    match braces::expanded(words)? {
        Some(words) => judge_list(&words, frame.inner()?),
        None => Ok(()),
    }
}

/// Returns the words that a shell passes to the command if no variable is set, e.g. `-rf` for `-${X}rf`; `None` if this
/// reveals no option. The last word is kept even if it is empty: its removal would not turn another word into an
/// option.
fn with_unset_variables(words: &[Word]) -> Option<Vec<Word>> {
    if words.iter().all(|word| word.unset.is_none()) {
        return None;
    }
    let mut is_changed = false;
    let mut all = Vec::with_capacity(words.len());
    for (at, word) in words.iter().enumerate() {
        match &word.unset {
            Some(unset) if unset.is_empty() && !word.quoted && at + 1 < words.len() => {
                is_changed = true;
            }
            // A brace expansion can also result in an option, so keep it too.
            Some(unset) if unset.starts_with(['-', '{']) => {
                is_changed = true;
                all.push(Word { text: unset.clone(), unset: None, ..word.clone() });
            }
            _ => all.push(word.clone()),
        }
    }
    is_changed.then_some(all)
}

fn judge_list(words: &[Word], frame: Frame<'_>) -> Result<(), Refusal> {
    let mut words = words;
    while let Some((word, rest)) = words.split_first() {
        match assignment(word) {
            Some((name, value)) => {
                environment::check(name, value)?;
                settings::variable(name, value, frame.network)?;
            }
            None => break,
        }
        words = rest;
    }
    let Some((command, rest)) = words.split_first() else { return Ok(()) };
    let name = command_name(command)?;
    let args = Args(rest);
    if let Some(word) = words.iter().find(|word| word.imitates) {
        return Err(format!("`{}` has look-alikes of operators or dashes", word.text));
    }
    if rest
        .iter()
        .any(|word| word.expands && (word.text.starts_with("{-") || word.text.starts_with("-{")))
    {
        return Err("options made by brace expansion".to_owned());
    }
    if matches!(args.0, [only] if only_prints(&name, &only.text)) {
        return Ok(());
    }
    named(&name, args, frame)?;
    // A script such as `npx.cmd` is also judged as the command that it starts on Windows. It was judged under its full
    // name before, so an ending cannot make a command allowed.
    match without_ending(&name) {
        Some(short) => named(&plain_name(short), args, frame),
        None => Ok(()),
    }
}

/// Returns whether a command with this single option prints its version or help.
fn only_prints(name: &str, option: &str) -> bool {
    match option {
        "--version" | "--help" => true,
        "-V" => name == "sudo" || name.starts_with("mkfs"),
        "-h" => name == "sudo",
        // The launcher on Windows lists the installed versions. Python itself refuses these options.
        "-0" | "-0p" | "--list" | "--list-paths" => name == "python",
        _ => false,
    }
}

fn named(name: &str, args: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    if let Some((name, words)) = runners::as_npx(name, args) {
        return named(name, Args(&words), frame.inner()?);
    }
    if let Some((module, own)) = interpreters::program_of_module(name, args) {
        named(module, own, frame.inner()?)?;
    }
    exports(name, args)?;
    for (why, names) in tables::NEVER {
        if has(names, name) {
            return Err(format!("`{name}` {why}"));
        }
    }
    if name.starts_with("mkfs") || name.starts_with("fsck") || name.starts_with("newfs") {
        return Err(format!("`{name}` changes disks or file systems"));
    }
    forms(name, args)?;
    passes_shell(name, args)?;
    for risky in tables::RISKY.iter().filter(|risky| has(risky.names, name)) {
        // Options after the name of the program that an interpreter runs belong to that program, so do not check them
        // here.
        let args = if is_interpreter(name) { own_options(name, args, risky.valued) } else { args };
        // For these programs, the first letter of the option suffices.
        let is_unique = matches!(name, "rm" | "split" | "date" | "sysctl" | "wipefs");
        let least = if is_unique { 1 } else { 2 };
        let long = |long: &&str| {
            args.texts().any(|arg| is_long(arg, long, risky.safe, least))
                && !(long.starts_with("del") && is_dry_run(name, args))
        };
        if let Some(long) = risky.long.split_ascii_whitespace().find(long) {
            return Err(format!(
                "the option `{long}` of `{name}` executes, deletes or loads something"
            ));
        }
        if args.short(risky.short, risky.valued) {
            return Err(format!(
                "an option of `{name}` among `{}` executes, deletes or loads something",
                risky.short
            ));
        }
    }
    runners::check(name, args, frame)?;
    files::check(name, args)?;
    folder::check(name, args, frame)?;
    powershell::check(name, args, frame.network)?;
    programs::check(name, args, frame)?;
    stores::check(name, args)?;
    targets::check(name, args, frame.network)?;
    stdin::check(name, args, frame)
}

/// Programs that do not run the shell whose path they get as an argument.
static MENTIONS: Words = Words::new(
    "\
    ls stat file cat head tail grep egrep fgrep rg sed awk which whereis whatis type command test [ \
    readlink realpath basename dirname namei ldd nm objdump readelf strings size wc du df tree md5sum \
    sha1sum sha256sum sha512sum cksum b2sum cmp diff cp mv ln rm unlink touch mkdir install chmod chown \
    getfacl getcap echo printf git gh ps pgrep pidof lsof fuser jq od xxd hexdump base64 tee sort uniq \
    cut tr export declare typeset readonly local docker podman nerdctl kubectl oc crictl ssh scp rsync \
    dpkg-query shellcheck shfmt configure npm checksec rabin2 binwalk clamscan yara patchelf",
);

/// Returns whether the rules for arguments know a program.
pub(super) fn is_known(name: &str) -> bool {
    MENTIONS.has(name)
        || is_interpreter(name)
        || runners::runs_commands(name)
        || tables::RISKY.iter().any(|risky| has(risky.names, name))
        || tables::NEVER.iter().any(|(_, names)| has(names, name))
}

/// Refuses the path of a shell as an argument of a program that the rules do not know, because the program may run the
/// shell.
fn passes_shell(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    match args.texts().find(|arg| is_shell_path(arg)) {
        Some(shell) if !is_known(name) => Err(format!("`{name}` may run the shell `{shell}`")),
        _ => Ok(()),
    }
}

/// Checks a command that is allowed only in some of its forms.
fn forms(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    let refused = || Err(format!("this form of `{name}` changes the system"));
    if reading::only_reads(name, args) == Some(false) {
        return refused();
    }
    let Some((_, allowed)) = tables::ONLY.iter().find(|(only, _)| *only == name) else {
        return Ok(());
    };
    let mut words = args.texts().skip_while(|arg| {
        matches!(*arg, "--no-pager" | "--user" | "-a" | "-n") && args.0.len() > 1
    });
    let first = words.next().unwrap_or_default();
    // In the table `ONLY`, `()` means no arguments.
    let fits = |word: &str| match word.strip_suffix('*') {
        Some(start) => first.starts_with(start),
        None => first == word || word == "()" && first.is_empty(),
    };
    // A semicolon ends a command of these programs, and any other command can follow it. So an argument with one is
    // refused. `tmux` also executes `#(COMMAND)` in names and formats.
    let continues = match name {
        "tmux" => args.texts().any(|arg| arg.ends_with(';') || arg.contains("#(")),
        "nft" | "virsh" => args.texts().any(|arg| arg.contains([';', '\n'])),
        _ => false,
    };
    let second = tables::SECOND.iter().find(|(only, word, _)| *only == name && *word == first);
    let next = words.next().unwrap_or_default();
    let is_other = second.is_some_and(|(_, _, allowed)| !has(allowed, next));
    if continues || is_other || !allowed.split_ascii_whitespace().any(fits) {
        return refused();
    }
    Ok(())
}

/// Returns whether `rsync` only lists what it would delete.
fn is_dry_run(name: &str, args: Args<'_>) -> bool {
    name == "rsync"
        && (args.short("n", "efTBM") || args.long("dry-run", 3))
        && !args.texts().any(|arg| arg.starts_with("--no-"))
}

/// Checks the variables that a command sets for the commands that follow.
fn exports(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    const INDEXED: &str = "\
        export declare typeset readonly local read printf unset test [ wait mapfile readarray getopts";
    // Refuse such arguments: these commands execute the command substitutions in the index of an array, e.g. in
    // `a[$(id)]`.
    let executes = |arg: &str| {
        arg.split_once('[').is_some_and(|(before, index)| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            before.ends_with(is_part) && (index.contains("$(") || index.contains('`'))
        })
    };
    if has(INDEXED, name) && args.texts().any(executes) {
        return Err(format!("`{name}` executes a command in the index of an array"));
    }
    // These commands set variables to values that are computed at run time, so only the names can be checked.
    let unknown: Vec<&str> = match name {
        "printf" => args.values(&["-v"]).collect(),
        "read" => args.operands().collect(),
        _ => Vec::new(),
    };
    unknown.into_iter().try_for_each(|name| environment::check(name, "?"))?;
    let is_shell = has("export declare typeset readonly local", name);
    let is_setter = is_shell || name == "go" && args.any(&["env"]);
    if !is_setter {
        return Ok(());
    }
    let is_made = |word: &&Word| {
        let variable = word.text.split('=').next().unwrap_or_default();
        word.expands && variable.contains(['$', '{'])
    };
    if let Some(word) = args.0.iter().find(is_made).filter(|_| is_shell) {
        return Err(format!("an expansion makes the name of the variable in `{}`", word.text));
    }
    let mut set = args.0.iter().filter_map(assignment);
    set.try_for_each(|(name, value)| environment::check(name, value))
}

/// Returns whether an argument is the long option `long`. After one dash, the name must be complete; after two dashes,
/// it can be abbreviated to `least` letters.
fn is_long(arg: &str, long: &str, safe: &str, least: usize) -> bool {
    let written = arg.strip_prefix('-').and_then(|name| name.strip_prefix(long));
    let abbreviated = long_name(arg).is_some_and(|given| {
        given.len() >= least.min(long.len()) && long.starts_with(given) && !has(safe, given)
    });
    abbreviated || written.is_some_and(|rest| rest.is_empty() || rest.starts_with(['=', ':']))
}

/// Returns the name under which the rules list a command: in lower case, without its folder and version.
fn command_name(command: &Word) -> Result<String, Refusal> {
    let text = command.text.as_str();
    if command.expands && text != "[" {
        return Err("the name of the command is made by an expansion".to_owned());
    }
    if text.is_empty() {
        return Err("the name of the command is empty".to_owned());
    }
    let base = text.rsplit(['/', '\\']).next().unwrap_or(text);
    // Zsh reads `=rm` as the path of `rm`. Windows drops `^`, and puts a variable in the place of `%NAME%`.
    if (text.contains('\\') || text.starts_with('=')) && !command.quoted
        || base.contains(['%', '^'])
        || base.chars().any(imitates_ascii)
        || !text.contains('/') && !text.is_ascii()
    {
        return Err(format!("the name of the command, `{text}`, imitates another"));
    }
    if base.chars().any(char::is_whitespace) || is_system(text) && text.starts_with("/dev") {
        return Err("the name of the command is not that of a program".to_owned());
    }
    if !command.quoted && tables::RESERVED.contains(&text) {
        return Err(format!("the reserved word `{text}` begins a compound command"));
    }
    // These names are commands of Windows and Solaris. A program of a project can have the same name, so a relative
    // path is allowed.
    let is_below = text.contains('/') && !text.starts_with('/');
    let is_relative = is_below && !text.contains("..") && !text.contains([':', '~', '\\']);
    let stem = without_ending(base).unwrap_or(base);
    if is_relative && matches!(stem, "format" | "del" | "erase" | "rd") {
        return Ok(text.to_owned());
    }
    Ok(plain_name(base))
}

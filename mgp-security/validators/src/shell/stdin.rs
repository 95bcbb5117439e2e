//! Checks code in the standard input of commands.

use super::{
    argv::{Args, Refusal, plain_name},
    filters::{awk_program, sed_script},
    frame::{Frame, Stdin},
    interpreters::is_interpreter,
    judge::judge,
    lex::Word,
    programs::{database_text, ssh_command},
    script::script,
};
use crate::words::{Words, has};

/// The maximum number of words of the input that `xargs` can append; a longer input is refused.
const MAX_WORDS: usize = 1_000;
/// The maximum number of words that are checked. The words of the command are checked again for each appended word, and
/// count each time.
const MAX_JUDGED: usize = 10_000;

/// Keys of arguments that contain the standard input for the command in the same object.
pub(super) static KEYS: Words = Words::new(
    "\
    stdin input stdininput stdindata stdintext stdincontent standardinput inputdata inputtext \
    inputstring inputcontent heredoc pipe pipein piped",
);

/// Programs that execute commands in their input, in a language that cannot be checked here.
static OTHERS: Words = Words::new(
    "\
    m4 gnuplot ftp lftp bpftrace gp maxima swipl gforth smbclient sqlplus isql sqlcmd vim vi nvim",
);
static SQL: Words = Words::new("sqlite3 sqlite duckdb psql mysql mariadb redis-cli mongosh");
/// Options of `redis-cli` that take the next argument as their value.
const REDIS_VALUED: &[&str] = &[
    "-h",
    "-p",
    "-t",
    "-s",
    "-a",
    "-u",
    "-r",
    "-i",
    "-d",
    "-D",
    "-n",
    "-X",
    "--user",
    "--pass",
    "--sni",
    "--cacert",
    "--cacertdir",
    "--cert",
    "--key",
];
/// Options of `sqlite3` and `duckdb` that take the next argument as their value, without their dashes.
const SQLITE_VALUED: &str = "\
    separator nullvalue newline cmd init vfs mmap maxsize lookaside pagecache heap nonce escape \
    storage-version";

/// The language in which a command reads its standard input.
enum Language {
    Sed,
    Awk,
    Sql,
    Shell,
    /// The input is not code. The program appends the words of the input to the command in its own arguments.
    Arguments,
    Unknown,
}

/// Checks the standard input of a command, if the command executes it as code.
///
/// # Errors
/// A description of the reason why the input is refused or cannot be checked.
pub(super) fn check(name: &str, args: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    let Some(language) = language(name, args) else { return Ok(()) };
    let text = match frame.stdin {
        Stdin::Text(text) => text,
        // Without input, a database client ends without running a statement, and `xargs` has no arguments to append. So
        // the command passes.
        Stdin::Unnamed if !matches!(language, Language::Sed | Language::Awk) => return Ok(()),
        // Accept a file with SQL, because the content of files is never judged: `psql -f` could run the same file.
        Stdin::File if matches!(language, Language::Sql) => return Ok(()),
        Stdin::Processes if matches!(language, Language::Arguments) => {
            return appended(name, args, "4321", frame);
        }
        Stdin::File | Stdin::Unreadable if matches!(language, Language::Arguments) => {
            return probed(name, args, frame);
        }
        Stdin::Unnamed | Stdin::File | Stdin::Processes | Stdin::Unreadable => {
            return Err(format!("`{name}` reads its program from an input that cannot be judged"));
        }
    };
    let judged = match language {
        Language::Sed => sed_script(text),
        Language::Awk => awk_program(text),
        Language::Sql => text.lines().chain([text]).try_for_each(|line| database_text(name, line)),
        Language::Shell => script(text, Frame::new(frame.network), judge),
        Language::Arguments => appended(name, args, text, frame),
        Language::Unknown => Err("commands in a language that is not read".to_owned()),
    };
    judged.map_err(|why| format!("the standard input of `{name}`: {why}"))
}

fn language(name: &str, args: Args<'_>) -> Option<Language> {
    let file = |options| args.values(options).any(is_stdin);
    match name {
        "sed" | "gsed" | "ssed" => {
            let clustered = args
                .texts()
                .zip(args.texts().skip(1))
                .any(|(option, value)| is_cluster_of_f(option) && is_stdin(value));
            (clustered || file(&["-f", "--file"])).then_some(Language::Sed)
        }
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => {
            file(&["-f", "--file", "-E", "--exec", "-i", "--include"]).then_some(Language::Awk)
        }
        "xargs" | "gxargs" | "parallel" | "sem" => Some(Language::Arguments),
        _ if SQL.has(name) => {
            (!has_statement(name, args) || file(&["-f", "--file"])).then_some(Language::Sql)
        }
        // Without a command for `ssh`, the remote machine starts a shell that reads the input. So judge the input as a
        // script.
        "ssh" => ssh_command(args).0.is_empty().then_some(Language::Shell),
        "docker" | "podman" | "nerdctl" | "kubectl" | "oc" | "crictl" => {
            let runs = args.operands().any(|word| matches!(word, "exec" | "run" | "attach"));
            let program = args.operands().last().map(plain_name).filter(|_| runs)?;
            match program.rsplit('/').next().unwrap_or_default() {
                "sh" | "bash" | "ash" | "dash" | "zsh" => Some(Language::Shell),
                other => is_interpreter(other).then_some(Language::Unknown),
            }
        }
        _ if OTHERS.has(name) => Some(Language::Unknown),
        _ if is_interpreter(name) && args.operands().next().is_none_or(is_stdin) => {
            Some(Language::Unknown)
        }
        _ => None,
    }
}

/// Returns whether the arguments of a database client have a statement, so that it reads none from its input.
fn has_statement(name: &str, args: Args<'_>) -> bool {
    match name {
        "psql" => args.short("c", "dfFhLopPRTUv") || args.long("command", 3),
        "mysql" | "mariadb" => args.short("e", "DhpPSu") || args.long("execute", 3),
        "mongosh" => args.any(&["--eval"]),
        "redis-cli" => !args.after_options(REDIS_VALUED).0.is_empty(),
        // The first operand is the database, so only a second operand is a statement.
        _ => {
            let before = [""].into_iter().chain(args.texts());
            let is_value = |before: &str| has(SQLITE_VALUED, before.trim_start_matches('-'));
            let is_operand =
                |(text, before): &(&str, &str)| !text.starts_with('-') && !is_value(before);
            name == "duckdb" && args.any(&["-c", "-s"])
                || args.texts().zip(before).filter(is_operand).count() > 1
        }
    }
}

/// Checks the command of `xargs` together with the words of the input that are appended to it.
fn appended(name: &str, args: Args<'_>, text: &str, frame: Frame<'_>) -> Result<(), Refusal> {
    let mut words = vec![Word::literal(name)];
    words.extend_from_slice(args.0);
    let input: Vec<&str> =
        text.split(['\n', '\0', ' ', '\t']).filter(|word| !word.is_empty()).collect();
    if input.len() > MAX_WORDS || input.len() * words.len() > MAX_JUDGED {
        return Err(format!("more than {MAX_WORDS} words become arguments"));
    }
    // Check each word separately: this covers every way in which `xargs` can group the words, and every position at
    // which it can insert a word.
    let inner = frame.inner()?.without_input();
    let mark = replaced(args);
    for word in &input {
        let word = word.trim_matches(['"', '\'']);
        let mut with = words.clone();
        let mut placed = false;
        for at in &mut with {
            if !mark.is_empty()
                && at.text.contains(mark)
                && !at.text.starts_with('-')
                && at.text != *name
            {
                at.text = at.text.replace(mark, word);
                placed = true;
            }
        }
        if !placed {
            with.push(Word::literal(word));
        }
        judge(&with, inner)?;
    }
    words.extend(input.iter().map(|word| Word::literal(word.trim_matches(['"', '\'']))));
    judge(&words, inner)
}

/// Returns the text that `xargs` replaces by words of its input.
fn replaced(args: Args<'_>) -> &str {
    let next = args.texts().skip(1).chain([""]);
    let marks = args.texts().zip(next).find_map(|(text, next)| match text {
        "-I" => Some(next),
        "-i" | "--replace" => Some("{}"),
        _ => {
            let glued = text.strip_prefix("-I").or_else(|| text.strip_prefix("-i"));
            glued.or_else(|| text.strip_prefix("--replace="))
        }
    });
    marks.unwrap_or("{}")
}

/// Checks the command of `xargs` if the words of the input are unknown. Appends words that make many commands
/// dangerous; the command must stay harmless with each of them.
fn probed(name: &str, args: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    const PROBES: &[&str] = &["-rf", "sudo"];
    const CODE: &[&str] = &["-c", "-e", "-ccore.pager=id", "-exec", "-delete"];
    // Without a command, `xargs` only prints its input, so it passes.
    let is_value = |word: &str| word.parse::<u32>().is_ok();
    if matches!(name, "xargs" | "gxargs") && args.operands().all(is_value) {
        return Ok(());
    }
    let program = |word: &str| plain_name(word.rsplit('/').next().unwrap_or(word));
    let executes = |word: &str| {
        let program = program(word);
        is_interpreter(&program) || matches!(program.as_str(), "git" | "find" | "fd")
    };
    let code = if args.texts().any(executes) { CODE } else { &[] };
    let kills = args.texts().any(|word| program(word) == "kill");
    let ends: &[&str] = if kills { &["-1"] } else { &[] };
    PROBES.iter().chain(code).chain(ends).try_for_each(|probe| {
        appended(name, args, probe, frame)
            .map_err(|why| format!("`{name}` appends words of an input that is not known: {why}"))
    })
}

/// Returns whether an option is a group of short options that ends with `f`, the option for a file, e.g. `-nf`.
fn is_cluster_of_f(option: &str) -> bool {
    option.strip_prefix('-').is_some_and(|rest| !rest.starts_with('-') && rest.ends_with('f'))
}

fn is_stdin(path: &str) -> bool {
    matches!(path, "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
}

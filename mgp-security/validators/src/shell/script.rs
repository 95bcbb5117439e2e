//! Scripts of a shell: several commands, with variables and pipelines.

use super::{
    argv::{Refusal, plain_name},
    braces,
    changes::Changes,
    frame::{Frame, Stdin},
    lex::{Grammar, MAX_COMMAND, Word, assignment, read},
    paths::{is_device, is_secret, is_system, system_path_in},
    variables::Variables,
};
use crate::hidden::hidden;
use crate::words::Words;

/// Programs that send their input to another machine.
static SENDERS: Words = Words::new(
    "\
    curl wget http https xh xhs httpie lwp-request nc ncat netcat telnet socat openssl websocat wscat \
    mail mailx s-nail sendmail msmtp mutt swaks ssh ftp lftp tftp smbclient aws gsutil gcloud rclone mc",
);

/// Programs that print the files in their arguments.
static PRINTERS: Words = Words::new(
    "\
    cat tac nl head tail grep egrep fgrep rg sed awk gawk base64 base32 xxd od hexdump strings sort uniq \
    cut paste rev gzip zstd xz bzip2 tar zip jq yq gpg dd openssl",
);

/// Checks each command of a script with `judge`, in the context `frame`. Redirections may read any file except devices,
/// and may write to files of the project, but not to system files.
pub(super) fn script(
    text: &str,
    frame: Frame<'_>,
    judge: impl Fn(&[Word], Frame<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    if let Some(c) = hidden(text, true) {
        return Err(format!("the control character U+{:04X}", u32::from(c)));
    }
    let (mut variables, mut changes) = (Variables::default(), Changes::default());
    let (mut has_secrets, mut length) = (false, 0);
    for simple in read(&text.replace("\r\n", "\n"), Grammar::Script)? {
        let folders = changes.folders_of(&simple);
        let is_of_system = |path: &str| {
            is_system(path) || folders.iter().any(|own| system_path_in(own, path).is_some())
        };
        if let Some(target) =
            simple.writes.iter().find(|word| word.expands || is_of_system(&word.text))
        {
            return Err(format!("a redirection to `{}`", target.text));
        }
        if let Some(source) = simple.reads.iter().find(|word| word.expands || is_device(&word.text))
        {
            return Err(format!("a redirection from `{}`", source.text));
        }
        let frame = frame.with_input(simple.stdin);
        let mut judge_all = |words: &[Word]| {
            // This limit keeps the checks in several folders short.
            length += words.iter().map(|word| word.text.len() + 1).sum::<usize>() * folders.len();
            if length > MAX_COMMAND {
                return Err("the script is too long for its working folders".to_owned());
            }
            judge(words, frame)?;
            let mut frames = folders.iter().map(|folder| frame.within(Some(folder.as_str())));
            frames.try_for_each(|frame| judge(words, frame))
        };
        judge_all(&simple.words)?;
        let forms = variables.forms(&simple.words)?;
        forms.iter().try_for_each(|words| judge_all(words))?;
        let reads_file = matches!(simple.stdin, Stdin::File) && !simple.is_piped;
        let is_private = |word: &Word| is_secret(&word.text) || is_system(&word.text);
        let input = reads_file && simple.reads.iter().any(is_private);
        has_secrets = has_secrets && simple.is_piped || input;
        let forms = if forms.is_empty() { vec![simple.words.clone()] } else { forms };
        let forms: Vec<Vec<Word>> = forms
            .into_iter()
            .map(|words| braces::expanded(&words).map(|made| made.unwrap_or(words)))
            .collect::<Result<_, _>>()?;
        let sends = |words: &Vec<Word>| name_of(words).is_some_and(|name| SENDERS.has(&name));
        if has_secrets && forms.iter().any(sends) {
            return Err("a pipeline sends keys, passwords or the environment".to_owned());
        }
        has_secrets |= forms.iter().any(|words| prints_secrets(words));
        changes.keep(&simple, &forms)?;
        variables.keep_set(&simple.words, simple.is_sure)?;
        variables.keep_last(&forms, simple.is_sure);
    }
    Ok(())
}

/// Returns the name of the program that a command runs. Assignments of variables before it are skipped.
fn name_of(words: &[Word]) -> Option<String> {
    let command = words.iter().find(|word| assignment(word).is_none())?;
    command.text.rsplit('/').next().map(plain_name)
}

/// Returns whether a command prints a file with secrets, or the environment.
fn prints_secrets(words: &[Word]) -> bool {
    let Some(name) = name_of(words) else { return false };
    let own = words.iter().take_while(|word| assignment(word).is_some()).count();
    let mut arguments = words.iter().skip(own + 1).map(|word| word.text.as_str());
    match name.as_str() {
        "env" | "printenv" | "set" | "export" => {
            arguments.all(|argument| argument.starts_with('-'))
        }
        name => {
            PRINTERS.has(name)
                && arguments.any(|text| is_secret(text.strip_prefix("if=").unwrap_or(text)))
        }
    }
}

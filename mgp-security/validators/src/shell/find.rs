//! The actions of `find`.

use super::{
    argv::{Args, Refusal},
    lex::Word,
};
use crate::words::Words;

/// Programs that only read the files in their arguments, whatever options and names they get.
static READERS: Words = Words::new(
    "\
    grep egrep fgrep cat zcat head tail wc ls stat du nl cut cmp cksum md5sum sha1sum sha256sum \
    sha512sum basename dirname realpath readlink echo printf test true",
);

/// Returns the commands that `find` runs on the found files. Refuses programs that may do more than read, and actions
/// that execute, delete or write.
pub(super) fn commands(args: Args<'_>) -> Result<Vec<Args<'_>>, Refusal> {
    let (mut rest, mut found) = (args, Vec::new());
    while !rest.0.is_empty() {
        let word = rest.first();
        rest = rest.skip(1);
        if word == "-exec" {
            let length = length_of_command(rest)?;
            let command = Args(&rest.0[..length]);
            let program = command.first();
            if !READERS.has(program) {
                return Err(format!("`find` runs `{program}`, which may do more than read"));
            }
            found.push(command);
            rest = rest.skip(length + 1);
        } else if acts(word) {
            return Err(format!("the action `{word}` of `find` executes, deletes or writes"));
        }
    }
    Ok(found)
}

/// Returns whether a word is an action that executes, deletes or writes.
fn acts(word: &str) -> bool {
    let name = word.strip_prefix('-').unwrap_or_default();
    name == "delete"
        || name == "fls"
        || ["exec", "ok", "fprint"].iter().any(|start| name.starts_with(start))
}

/// Returns the number of words before the end of the command of `-exec`. The command ends at a `;`, or at a `+` after
/// `{}`.
///
/// Refuses a command with a word that is an action of `find` or that a shell expands, because the command might end
/// before that word: `BusyBox` ends it at each `+`, a word can expand to `;`, and after `-D` no command begins at all.
fn length_of_command(args: Args<'_>) -> Result<usize, Refusal> {
    let mut before = "";
    for (at, word) in args.0.iter().enumerate() {
        let text = word.text.as_str();
        if text == ";" || text == "+" && before == "{}" {
            return Ok(at);
        }
        if acts(text) || is_expanded(word) {
            return Err(format!("the command of `-exec` has `{text}`, which might act"));
        }
        before = text;
    }
    Err("the command of `-exec` does not end".to_owned())
}

/// Returns whether a shell would change a word. The text `{}`, which `find` replaces by names, does not count.
fn is_expanded(word: &Word) -> bool {
    word.expands && word.text.replace("{}", "").contains(['$', '*', '?', '[', '{'])
}

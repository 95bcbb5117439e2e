//! Checks programs in the languages of awk and sed, in arguments and in standard input.

use super::argv::{Args, Refusal, long_name};
use std::{collections::BTreeSet, iter::Peekable, str::Chars};

/// Options with which awk loads or writes something, without their dashes.
const AWK_REFUSED: &[&str] =
    &["load", "source", "exec", "include", "dump-variables", "debug", "pretty-print", "profile"];
/// Other options of awk, in the format of [`Args::operand_starts`].
const AWK_OPTIONS: &str = "\
    -F= -v= -f= -W= -b -c -C -O -s -S -n -N -r -t -V -h -P -g -M -k -I -L --assign= --bignum \
    --characters-as-bytes --copyright --csv --field-separator= --file= --gen-pot --help --lint \
    --lint-old --no-optimize --non-decimal-data --optimize --posix --re-interval --sandbox \
    --traditional --use-lc-numeric --version";

/// The ways in which implementations of awk and sed parse brackets in a regular expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Brackets {
    /// A delimiter in brackets ends the expression.
    Ignored,
    /// Within brackets, both a delimiter and a backslash are ordinary characters.
    Plain,
    /// Within brackets, a delimiter is an ordinary character, and a backslash escapes the next character.
    Escaped,
}

/// Checks a program once for each way in which its brackets can be parsed.
fn for_all_readings(
    program: &str,
    check: impl Fn(Brackets) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    check(Brackets::Ignored)?;
    if program.contains('[') {
        check(Brackets::Plain)?;
        check(Brackets::Escaped)?;
    }
    Ok(())
}

/// Checks the arguments of awk.
pub(super) fn awk(args: Args<'_>) -> Result<(), Refusal> {
    if args.short("leEiodpD", "Fvf") || AWK_REFUSED.iter().any(|name| args.long(name, 1)) {
        return Err("an option that loads or writes in an awk program".to_owned());
    }
    // Check the first operand as a program even with `-f`: then it is the name of a file, which passes this check.
    let starts = args.operand_starts(BTreeSet::from([0]), AWK_OPTIONS).unwrap_or_default();
    starts.into_iter().try_for_each(|at| awk_program(args.skip(at).first()))
}

/// Checks an awk program; refuses a program that executes, loads or writes something.
pub(super) fn awk_program(program: &str) -> Result<(), Refusal> {
    let program = program.replace("\r\n", "\n").replace("\\\n", " ");
    let calls_system = program.match_indices("system").any(|(at, word)| {
        let before = &program[..at];
        !before.ends_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && program[at + word.len()..].trim_start().starts_with('(')
    });
    // Refuse such a call even inside texts and patterns, because implementations disagree about where these end.
    if calls_system {
        return Err("`system(` in an awk program".to_owned());
    }
    for_all_readings(&program, |brackets| Awk::new(&program, brackets).check())
}

/// The last token of an awk program, as far as it determines what a slash means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// The end of an operand, after which a slash divides.
    Operand,
    /// One of the words `if`, `while` and `for`.
    Control,
    /// The end of the parentheses after [`Token::Control`].
    Condition,
    /// A token after which a slash begins a regular expression.
    Other,
}

/// A reader of an awk program.
struct Awk<'a> {
    chars: Peekable<Chars<'a>>,
    brackets: Brackets,
    /// The name or number that is being read.
    word: String,
    last: Token,
    /// `true` within a `print` or `printf` statement.
    printing: bool,
    /// The open parentheses; `true` for those after [`Token::Control`].
    open: Vec<bool>,
}

impl<'a> Awk<'a> {
    fn new(program: &'a str, brackets: Brackets) -> Self {
        Self {
            chars: program.chars().peekable(),
            brackets,
            word: String::new(),
            last: Token::Other,
            printing: false,
            open: Vec::new(),
        }
    }

    fn check(mut self) -> Result<(), Refusal> {
        while let Some(c) = self.chars.next() {
            if c.is_ascii_alphanumeric() || c == '_' {
                self.word.push(c);
            } else {
                self.end_word();
                self.mark(c).map_err(|what| format!("{what} in an awk program"))?;
            }
        }
        Ok(())
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        if word.is_empty() {
            return;
        }
        self.printing |= matches!(word.as_str(), "print" | "printf");
        self.last = match word.as_str() {
            "if" | "while" | "for" => Token::Control,
            "print" | "printf" | "return" | "exit" | "in" | "case" | "do" | "else" => Token::Other,
            _ => Token::Operand,
        };
    }

    /// Reads a token that is not a word.
    ///
    /// # Errors
    /// A description of the token, if it executes, loads or writes something, or has two possible meanings.
    fn mark(&mut self, c: char) -> Result<(), &'static str> {
        let last = self.last;
        if !c.is_whitespace() && c != '#' {
            self.last = Token::Other;
        }
        match c {
            '"' => {
                skip_to('"', &mut self.chars);
                self.last = Token::Operand;
            }
            '#' => while self.chars.next_if(|&c| c != '\n').is_some() {},
            // Some implementations read this slash as a division, others as the beginning of a regular expression. So
            // it is refused.
            '/' if last == Token::Condition => return Err("a slash after a condition"),
            '/' if last != Token::Operand => {
                skip_pattern('/', &mut self.chars, self.brackets);
                self.last = Token::Operand;
            }
            '(' => self.open.push(last == Token::Control),
            ')' if self.open.pop().unwrap_or_default() => self.last = Token::Condition,
            ')' | ']' | '.' => self.last = Token::Operand,
            // `++` and `--` do not change the tokens that may follow: as a prefix they precede an operand, and as a
            // suffix they follow an operand.
            '+' | '-' if self.chars.next_if_eq(&c).is_some() => self.last = last,
            '|' if self.chars.next_if_eq(&'|').is_none() => {
                return Err("a pipe to or from a command");
            }
            '>' if self.printing && self.open.is_empty() && !self.is_standard_output() => {
                return Err("a redirection");
            }
            '@' => return Err("a directive or an indirect call"),
            ';' | '}' | '{' => self.printing = false,
            '\n' => {
                self.printing = false;
                if last == Token::Operand {
                    self.last = Token::Other;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns whether the target of a redirection is the standard output or the standard error.
    fn is_standard_output(&self) -> bool {
        let target = self.chars.clone().skip_while(|c| *c == '>' || *c == ' ');
        let target: String = target.take(13).collect();
        matches!(target.as_str(), "\"/dev/stderr\"" | "\"/dev/stdout\"")
    }
}

/// Skips to the end of a quoted text in which a backslash escapes the next character.
fn skip_to(end: char, chars: &mut Peekable<Chars<'_>>) {
    skip_pattern(end, chars, Brackets::Ignored);
}

/// Skips to the end of a regular expression.
fn skip_pattern(end: char, chars: &mut Peekable<Chars<'_>>, brackets: Brackets) {
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            c if c == end => return,
            '[' if brackets != Brackets::Ignored => skip_brackets(chars, brackets),
            _ => {}
        }
    }
}

/// Skips to the end of a bracket expression, e.g. `[^]a-z[:digit:]]`.
fn skip_brackets(chars: &mut Peekable<Chars<'_>>, brackets: Brackets) {
    chars.next_if_eq(&'^');
    chars.next_if_eq(&']');
    while let Some(c) = chars.next() {
        match c {
            ']' => return,
            '\\' if brackets == Brackets::Escaped => drop(chars.next()),
            '[' if chars.next_if(|c| ":.=".contains(*c)).is_some() => {
                while chars.next_if(|c| *c != ']').is_some() {}
                chars.next();
            }
            _ => {}
        }
    }
}

/// Checks the arguments of sed.
pub(super) fn sed(args: Args<'_>) -> Result<(), Refusal> {
    let (mut scripts, mut first, mut is_given, mut at) = (Vec::new(), None, false, 0);
    while let Some(word) = args.0.get(at) {
        let text = word.text.as_str();
        let next = args.skip(at + 1).first();
        at += 1;
        if text == "--" {
            first = first.or(Some(next));
            break;
        }
        let takes_next = if let Some(name) = long_name(text) {
            let value = text.split_once('=').map(|(_, value)| value);
            let is_script = "expression".starts_with(name);
            if is_script {
                scripts.push(value.unwrap_or(next));
            }
            let is_file = "file".starts_with(name);
            is_given |= is_file;
            value.is_none() && (is_script || is_file || "line-length".starts_with(name))
        } else if text.len() > 1 && text.starts_with('-') {
            // Find the first of these letters: what follows it in the group is its value.
            let Some((end, letter)) =
                text.char_indices().skip(1).find(|(_, c)| "efil".contains(*c))
            else {
                continue;
            };
            let glued = &text[end + 1..];
            match letter {
                'e' => scripts.push(if glued.is_empty() { next } else { glued }),
                'f' => is_given = true,
                _ => {}
            }
            // Skip a separate value: `-i` has none, and `-l` has one only in some implementations of sed.
            let is_number = next.bytes().all(|b| b.is_ascii_digit());
            glued.is_empty() && (matches!(letter, 'e' | 'f') || letter == 'l' && is_number)
        } else {
            first = first.or(Some(text));
            false
        };
        at += usize::from(takes_next);
    }
    if scripts.is_empty() && !is_given {
        scripts.extend(first);
    }
    // Some implementations join the parts of a script before they read it, so check the joined script, too.
    sed_script(&scripts.join("\n"))?;
    scripts.into_iter().try_for_each(sed_script)
}

/// Checks the commands of a sed script. Refuses unknown commands, and commands that execute or write something.
pub(super) fn sed_script(script: &str) -> Result<(), Refusal> {
    for_all_readings(script, |brackets| sed_commands(script, brackets))
        .map_err(|command| format!("{command} of sed executes or writes, or is unknown"))
}

fn sed_commands(script: &str, brackets: Brackets) -> Result<(), Refusal> {
    let refuse = |c: char| Err(format!("the command `{c}`"));
    // A delimiter cannot be a backslash or the end of the line.
    let delimits = |c: &char| !matches!(*c, '\\' | '\n');
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            _ if c.is_whitespace() || c.is_ascii_digit() => {}
            // Separators, parts of addresses, and commands without an argument.
            ';' | '{' | '}' | '!' | ',' | '$' | '~' | '+' | 'I' | 'M' | 'd' | 'D' | 'g' | 'G'
            | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | '=' | 'F' | 'q' | 'Q' | 'l' => {}
            '/' => skip_pattern('/', &mut chars, brackets),
            '\\' => {
                let Some(end) = chars.next_if(delimits) else {
                    // If no other backslash follows, the address has no end. No sed executes such a script, so it is
                    // allowed.
                    let is_open = chars.next() == Some('\\') && chars.all(|c| c != '\\');
                    return if is_open { Ok(()) } else { refuse('\\') };
                };
                skip_pattern(end, &mut chars, brackets);
            }
            's' | 'y' => {
                let Some(end) = chars.next_if(delimits) else { return refuse(c) };
                let brackets = if c == 's' { brackets } else { Brackets::Ignored };
                skip_pattern(end, &mut chars, brackets);
                skip_to(end, &mut chars);
                while let Some(flag) = chars.next_if(char::is_ascii_alphanumeric) {
                    if matches!(flag, 'e' | 'w') {
                        return refuse(flag);
                    }
                }
            }
            'a' | 'i' | 'c' | 'r' | 'R' | '#' => drop(line(&mut chars)),
            'b' | 't' | 'T' | ':' | 'v' => {
                while chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
                // In some implementations, the next command can follow a label after a blank, so the label ends at a
                // blank.
                while chars.next_if(|c| !c.is_whitespace() && !";}".contains(*c)).is_some() {}
            }
            'w' | 'W' if matches!(line(&mut chars).trim(), "/dev/stdout" | "/dev/stderr") => {}
            other => return refuse(other),
        }
    }
    Ok(())
}

/// Reads the rest of a line.
fn line(chars: &mut Peekable<Chars<'_>>) -> String {
    let mut line = String::new();
    while let Some(c) = chars.next_if(|c| *c != '\n') {
        line.push(c);
    }
    line
}

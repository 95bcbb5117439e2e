//! Splits shell commands into words and removes quotes; refuses whatever is not in the [`Grammar`].
//!
//! [`Grammar::Command`] accepts only one simple command. Operators, redirections, substitutions and unquoted newlines
//! are errors there, so that the parser refuses a shell construct even if this code does not know it.

use super::{argv::Args, frame::Stdin};

/// The maximum length of a command in bytes.
pub(super) const MAX_COMMAND: usize = 64 * 1024;

/// A word of a shell command, with what is known about its quoting.
#[derive(Debug, Clone, Default)]
pub(super) struct Word {
    /// The text after quote removal; a variable is still written as `$NAME`.
    pub(super) text: String,
    /// The text of the word if none of its variables is set; `None` if the word has no variable.
    pub(super) unset: Option<String>,
    /// The variables in the word, in the order of the text.
    pub(super) variables: Vec<Variable>,
    /// `true` if a shell would change the word because of an unquoted variable, glob or brace.
    pub(super) expands: bool,
    /// `true` if a part of the word is quoted or escaped.
    pub(super) quoted: bool,
    /// `true` if the word contains an unquoted full-width form or another character that looks like an operator or
    /// dash.
    pub(super) imitates: bool,
}

/// A variable in a word.
#[derive(Debug, Clone)]
pub(super) struct Variable {
    name: String,
    /// The position of the variable in `Word::unset`.
    at: usize,
    /// `true` if the variable is in double quotes, so that a shell does not split its value.
    quoted: bool,
}

/// Marks the positions at which a shell splits a word. The text of a script never contains this character.
const BREAK: char = '\0';

impl Word {
    /// Creates a word of an argument vector, which no shell expands.
    pub(super) fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), quoted: true, ..Self::default() }
    }

    fn push(&mut self, c: char) {
        self.text.push(c);
        if let Some(unset) = &mut self.unset {
            unset.push(c);
        }
    }

    fn push_variable(&mut self, name: &str, quoted: bool) {
        self.expands = true;
        let at = self.unset.get_or_insert_with(|| self.text.clone()).len();
        self.variables.push(Variable { name: name.to_owned(), at, quoted });
        self.text.push('$');
        self.text.push_str(name);
    }

    /// Returns the words that a shell makes of this word if its variables have the given values; `None` if the word
    /// uses no variable with a value. Variables without a value count as not set. `splits` is `false` for an
    /// assignment, in which a shell does not split values.
    pub(super) fn with_values<'v>(
        &self,
        value: impl Fn(&str) -> Option<&'v str>,
        splits: bool,
    ) -> Option<Vec<Self>> {
        let unset = self.unset.as_ref()?;
        let (mut text, mut at, mut is_known) = (String::new(), 0, false);
        for variable in &self.variables {
            text.push_str(unset.get(at..variable.at)?);
            at = variable.at;
            if let Some(value) = value(&variable.name) {
                is_known = true;
                let is_split = |c: char| splits && !variable.quoted && c.is_ascii_whitespace();
                text.extend(value.chars().map(|c| if is_split(c) { BREAK } else { c }));
            } else if variable.name == "HOME" {
                // Keep the text `$HOME`, by which the rules recognize paths below a user's home.
                text.push_str("$HOME");
            }
        }
        text.push_str(unset.get(at..)?);
        let word = |text: &str| Self {
            text: text.to_owned(),
            expands: self.expands,
            quoted: self.quoted,
            imitates: self.imitates,
            ..Self::default()
        };
        let mut all: Vec<Self> =
            text.split(BREAK).filter(|text| !text.is_empty()).map(word).collect();
        if all.is_empty() && self.quoted {
            all.push(word(""));
        }
        is_known.then_some(all)
    }

    /// Returns the names of the variables in the word.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|variable| variable.name.as_str())
    }
}

/// The constructs that the parser accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grammar {
    /// One simple command, e.g. `ls -l`.
    Command,
    /// Several commands in lines, lists and pipelines, with redirections.
    Script,
}

/// The condition under which a command runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Runs {
    #[default]
    Always,
    /// After `&&`, if the command before it succeeds.
    AfterSuccess,
    /// The result of a redirection, or of a command before `||`, decides.
    Unknown,
}

/// A simple command, and the files of its redirections.
#[derive(Debug, Default)]
pub(super) struct Simple {
    pub(super) words: Vec<Word>,
    pub(super) writes: Vec<Word>,
    /// The files that its redirections only read.
    pub(super) reads: Vec<Word>,
    /// The standard input of the command.
    pub(super) stdin: Stdin<'static>,
    /// `true` if the standard input is the output of the previous command.
    pub(super) is_piped: bool,
    pub(super) runs: Runs,
    /// `true` if the command certainly runs, and the shell itself runs it and not a copy of the shell.
    pub(super) is_sure: bool,
}

impl Simple {
    /// Returns the output of the command, as the input of another command.
    fn output(&self) -> Stdin<'static> {
        let Some((command, arguments)) = self.words.split_first() else {
            return Stdin::Unreadable;
        };
        let args = Args(arguments);
        match command.text.as_str() {
            // If `cat` has operands and no input of its own, it prints files.
            "cat" if !arguments.is_empty() && matches!(self.stdin, Stdin::Unnamed) => Stdin::File,
            "lsof" if args.short("t", "iscpudgDoFkKLrTxX") => Stdin::Processes,
            "pidof" => Stdin::Processes,
            // Options such as `-l` and `--list-full` add other texts to the numbers, and `-v` selects all other
            // processes.
            "pgrep"
                if !args.short("ladv", "") && !args.texts().any(|arg| arg.starts_with("--")) =>
            {
                Stdin::Processes
            }
            _ => Stdin::Unreadable,
        }
    }
}

/// Parses a command or a script.
///
/// # Errors
/// A description of the construct that is refused.
pub(super) fn read(input: &str, grammar: Grammar) -> Result<Vec<Simple>, String> {
    if input.len() > MAX_COMMAND {
        return Err(format!("the command is longer than {MAX_COMMAND} bytes"));
    }
    let mut reader = Reader {
        rest: input.chars().peekable(),
        grammar,
        word: None,
        target: None,
        now: Simple::default(),
        done: Vec::new(),
    };
    while let Some(c) = reader.rest.next() {
        reader.character(c)?;
    }
    reader.end_command(true)?;
    Ok(reader.done)
}

/// The use of a file that a redirection names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Read,
    Written,
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    grammar: Grammar,
    word: Option<Word>,
    /// The use of the current word if it is the target of a redirection.
    target: Option<Target>,
    now: Simple,
    done: Vec<Simple>,
}

impl Reader<'_> {
    fn word(&mut self) -> &mut Word {
        self.word.get_or_insert_default()
    }

    fn character(&mut self, c: char) -> Result<(), String> {
        match c {
            ' ' | '\t' => self.end_word(),
            '|' if self.grammar == Grammar::Script => return self.pipe(),
            '\n' | ';' if self.grammar == Grammar::Script => return self.end_command(true),
            '&' if self.grammar == Grammar::Script => {
                let is_and = self.rest.next_if_eq(&'&').is_some();
                self.end_command(false)?;
                self.now.runs = if is_and { Runs::AfterSuccess } else { Runs::Always };
                return Ok(());
            }
            '\n' | '\r' if self.grammar == Grammar::Command => {
                return Err("a newline separates commands".to_owned());
            }
            '<' | '>' if self.grammar == Grammar::Script => return self.redirection(c),
            ';' | '&' | '|' | '<' | '>' | '(' | ')' => return Err(format!("the operator `{c}`")),
            '`' => return Err("a command substitution".to_owned()),
            '#' if self.word.is_none() && self.grammar == Grammar::Command => {
                return Err("a comment, which not every server leaves out".to_owned());
            }
            '#' if self.word.is_none() => while self.rest.next_if(|&c| c != '\n').is_some() {},
            '\'' => return self.single(),
            '"' => return self.double(),
            '\\' => match self.rest.next() {
                None | Some('\n') => return Err("a backslash at the end of a line".to_owned()),
                Some(next) => {
                    let word = self.word();
                    word.quoted = true;
                    word.push(next);
                }
            },
            '$' => return self.dollar(false),
            _ => self.plain(c),
        }
        Ok(())
    }

    fn plain(&mut self, c: char) {
        let word = self.word();
        word.expands |= matches!(c, '*' | '?' | '[' | '{');
        // Mark full-width forms of shell operators, and characters that only look like a dash.
        word.imitates |= matches!(
            c,
            '\u{ff04}'
                | '\u{ff06}'
                | '\u{ff1b}'
                | '\u{ff1c}'
                | '\u{ff1e}'
                | '\u{ff40}'
                | '\u{ff5c}'
        ) || (word.text.is_empty()
            && matches!(
                c,
                '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}'
            ));
        word.push(c);
    }

    fn single(&mut self) -> Result<(), String> {
        self.word().quoted = true;
        loop {
            match self.rest.next() {
                Some('\'') => return Ok(()),
                Some(c) => self.word().push(c),
                None => return Err("an unclosed quote".to_owned()),
            }
        }
    }

    fn double(&mut self) -> Result<(), String> {
        self.word().quoted = true;
        loop {
            match self.rest.next() {
                Some('"') => return Ok(()),
                Some('`') => return Err("a command substitution".to_owned()),
                Some('$') => self.dollar(true)?,
                Some('\\') => match self.rest.next_if(|c| "$`\"\\\n".contains(*c)) {
                    // Skip a backslash at the end of a line, which a shell removes together with the line end.
                    Some('\n') => {}
                    escaped => self.word().push(escaped.unwrap_or('\\')),
                },
                Some(c) => self.word().push(c),
                None => return Err("an unclosed quote".to_owned()),
            }
        }
    }

    /// Parses what follows a dollar sign: the name of a plain variable, or nothing.
    fn dollar(&mut self, quoted: bool) -> Result<(), String> {
        let refused = "an expansion other than `$NAME` and `${NAME}`";
        let name_part = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        let mut name = String::new();
        match self.rest.peek().copied() {
            Some('(') => return Err("a command or arithmetic substitution".to_owned()),
            Some('{') => {
                self.rest.next();
                while let Some(c) = self.rest.next_if(name_part) {
                    name.push(c);
                }
                if self.rest.next() != Some('}') || !is_name(&name) {
                    return Err(refused.to_owned());
                }
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                while let Some(c) = self.rest.next_if(name_part) {
                    name.push(c);
                }
            }
            Some('@' | '*' | '#' | '?' | '!' | '-' | '0'..='9') => return Err(refused.to_owned()),
            Some('\'' | '"' | '$' | '[') if !quoted => return Err(refused.to_owned()),
            _ => {
                self.word().push('$');
                return Ok(());
            }
        }
        if name == "IFS" {
            return Err("`$IFS` separates words".to_owned());
        }
        self.word().push_variable(&name, quoted);
        Ok(())
    }

    fn redirection(&mut self, c: char) -> Result<(), String> {
        self.now.runs = Runs::Unknown;
        if c == '<' {
            let is_only = matches!(self.now.stdin, Stdin::Unnamed);
            let is_file = self.rest.peek() != Some(&'&');
            self.now.stdin = if is_only && is_file { Stdin::File } else { Stdin::Unreadable };
        }
        // Drop a number directly before a redirection: it is a file descriptor and not an argument. In quotes, it is an
        // argument.
        let is_number = |word: &Word| !word.quoted && word.text.bytes().all(|b| b.is_ascii_digit());
        if self.word.as_ref().is_some_and(is_number) {
            self.word = None;
        }
        self.end_word();
        if self.rest.next_if_eq(&c).is_some() && c == '<' {
            return Err("a here-document".to_owned());
        }
        match self.rest.peek() {
            Some('(') => return Err("a process substitution".to_owned()),
            Some('&') => {
                self.rest.next();
                while self.rest.next_if(|c| c.is_ascii_digit() || *c == '-').is_some() {}
                if self.rest.peek().is_some_and(|c| !c.is_whitespace() && !";&|".contains(*c)) {
                    return Err("a redirection to a descriptor".to_owned());
                }
                return Ok(());
            }
            Some('|') => drop(self.rest.next()),
            _ => {}
        }
        self.target = Some(if c == '<' { Target::Read } else { Target::Written });
        Ok(())
    }

    fn end_word(&mut self) {
        if let Some(word) = self.word.take() {
            match self.target.take() {
                Some(Target::Written) => self.now.writes.push(word),
                Some(Target::Read) => self.now.reads.push(word),
                None => self.now.words.push(word),
            }
        }
    }

    /// Ends a command; `is_list` is `true` if the list of commands also ends here.
    fn end_command(&mut self, is_list: bool) -> Result<(), String> {
        self.end_word();
        if self.target.take().is_some() {
            return Err("a redirection without a target".to_owned());
        }
        let mut done = std::mem::take(&mut self.now);
        done.is_sure = is_list && done.runs == Runs::Always && !done.is_piped;
        if done.words.is_empty() && done.writes.is_empty() && done.reads.is_empty() {
            // This command has no words yet: after a pipe, it can be in the next line. So keep its standard input.
            (self.now.stdin, self.now.is_piped) = (done.stdin, done.is_piped);
            self.now.runs = done.runs;
        } else {
            self.done.push(done);
        }
        Ok(())
    }

    /// Ends a command at `|`, `|&` or `||`. After `||`, the next command does not read the output of this command.
    fn pipe(&mut self) -> Result<(), String> {
        let is_pipe = self.rest.next_if_eq(&'|').is_none();
        if is_pipe {
            self.rest.next_if_eq(&'&');
        }
        let count = self.done.len();
        self.end_command(false)?;
        self.now.is_piped = is_pipe;
        self.now.runs = if is_pipe { Runs::Always } else { Runs::Unknown };
        self.now.stdin = match self.done.get(count) {
            _ if !is_pipe => Stdin::Unnamed,
            Some(before) => before.output(),
            None => Stdin::Unreadable,
        };
        Ok(())
    }
}

/// Returns the name and value of an assignment `NAME=value`.
pub(super) fn assignment(word: &Word) -> Option<(&str, &str)> {
    let (name, value) = word.text.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    is_name(name).then_some((name, value))
}

/// Returns whether a text can be the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && text.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

//! Limits for nesting and for repeated reading, checked before JavaScript or TypeScript is parsed.
//!
//! The parser is recursive. It also reads some text several times, because it first tries to parse arrow functions and
//! type arguments. Without limits, a small text could overflow the stack or take minutes. The scan splits a text into
//! tokens as the parser does. If it cannot be certain to do so, it refuses the text.

use super::javascript_dialect::Dialect;

/// The maximum number of brackets, templates and elements that are open at the same time.
const MAX_FRAMES: usize = 100;
/// The maximum depth of nesting. Each token counts as nested in the token before it, until a statement, a bracket or a
/// part of a list ends.
const MAX_DEPTH: usize = 1_000;
/// The maximum number of levels by which a comma in a list lowers the counted depth. If one part of a list is nested
/// deeper, the parts after it begin at a greater depth.
const LIST_SLACK: usize = 64;
/// The maximum number of tokens that the parser reads, counting each repetition.
const MAX_READINGS: usize = 250_000;

/// Tokens that continue a statement even if they begin a new line. `""` represents any token that is not a word, and
/// `"."` the name of a property.
const CONTINUING: [&str; 15] = [
    "",
    ".",
    "else",
    "while",
    "catch",
    "finally",
    "in",
    "instanceof",
    "of",
    "as",
    "is",
    "satisfies",
    "extends",
    "implements",
    "from",
];
/// Words that can precede a type.
const TYPE_OPERATORS: [&str; 6] = ["keyof", "unique", "readonly", "infer", "asserts", "is"];

/// Checks the nesting of a source text; returns an upper limit for the depth of the parser's recursion.
///
/// # Errors
/// A description of the reason why the text must not be parsed.
pub(super) fn check(source: &str, dialect: Dialect) -> Result<usize, String> {
    let mut scan = Scan::new(source, dialect);
    let mut levels = 0;
    while let Some(byte) = scan.peek(0) {
        match scan.frame.kind {
            b'`' => scan.template(byte),
            b'<' => scan.tag(byte),
            b'>' => scan.children(byte),
            _ => scan.code(byte),
        }
        .ok_or("the code cannot be parsed")?;
        let frames = scan.frames.len();
        if frames > MAX_FRAMES || scan.depth > MAX_DEPTH || scan.readings > MAX_READINGS {
            return Err(format!(
                "the code is nested deeper than {MAX_DEPTH} levels, or {MAX_FRAMES} brackets"
            ));
        }
        levels = levels.max(scan.depth + LIST_SLACK * (frames + 1));
    }
    if scan.frames.is_empty() { Ok(levels) } else { Err("the code cannot be parsed".to_owned()) }
}

/// The state of an expression after the last token. It determines the meaning of a slash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operand {
    /// An operand has ended, so a slash divides.
    Ended,
    /// An operand is expected, so a slash begins a regular expression.
    Expected,
    Unknown,
}

/// An open bracket, template or element.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// The opening bracket. For a template, this is a grave accent; within a tag `<`, and between two tags `>`.
    kind: u8,
    /// The counted depth outside of the bracket.
    base: usize,
    /// The depth at which each part of a list begins.
    level: usize,
    /// The state of the expression after the closing bracket.
    after: Operand,
    /// The number of times that the parser reads the content.
    factor: usize,
    /// One plus the number of open parentheses that might enclose the parameters of an arrow function.
    groups: usize,
    /// The number of open `<` that may begin type arguments or be comparisons.
    angles: usize,
    /// The number of open conditional expressions. Parentheses in them may turn out to be the parameters of a function
    /// with types.
    conditions: usize,
}

/// The state of scanning a text, token by token.
#[derive(Debug)]
struct Scan<'s> {
    source: &'s str,
    at: usize,
    typed: bool,
    markup: bool,
    frame: Frame,
    /// The frames that surround `frame`.
    frames: Vec<Frame>,
    /// The counted depth: the maximum number of tokens in which the next token can be nested.
    depth: usize,
    readings: usize,
    operand: Operand,
    /// `true` if a line has ended since the last token.
    line: bool,
    /// The last token if it is a punctuation mark, else 0.
    mark: u8,
    /// The last token if it is a word and not the name of a property, else empty.
    word: &'s str,
}

impl<'s> Scan<'s> {
    fn new(source: &'s str, dialect: Dialect) -> Self {
        let hashbang = if source.starts_with("#!") { source.find('\n') } else { Some(0) };
        let frame = Frame {
            kind: 0,
            base: 0,
            level: 0,
            after: Operand::Unknown,
            factor: 1,
            groups: 1,
            angles: 0,
            conditions: 0,
        };
        Self {
            source,
            at: hashbang.unwrap_or(source.len()),
            typed: dialect.has_types(),
            markup: dialect.has_markup(),
            frame,
            frames: Vec::new(),
            depth: 0,
            readings: 0,
            operand: Operand::Expected,
            line: true,
            mark: b';',
            word: "",
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.source.as_bytes().get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or_default()
    }

    /// Moves to the position after the next occurrence of a text, and returns the text before it.
    fn skip_past(&mut self, end: &str) -> Option<&'s str> {
        let skipped = self.rest().get(..self.rest().find(end)?)?;
        self.line |= skipped.contains('\n');
        self.at += skipped.len() + end.len();
        Some(skipped)
    }

    /// Moves to the position after a blank or comment; returns whether there was one.
    fn skip_blank(&mut self) -> Option<bool> {
        let Some(c) = self.rest().chars().next() else { return Some(false) };
        if is_blank(c) {
            self.line |= c == '\n';
            self.at += c.len_utf8();
        } else if self.rest().starts_with("//") {
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        } else if self.rest().starts_with("/*") {
            self.at += 2;
            self.skip_past("*/")?;
        } else {
            return Some(false);
        }
        Some(true)
    }

    /// Returns the number of times that the parser reads the next token, not counting the repetitions that parentheses
    /// cause.
    fn factor(&self) -> usize {
        self.frame.factor.saturating_mul(1 + self.frame.angles + self.frame.conditions)
    }

    /// Counts one token.
    fn count(&mut self) {
        self.depth += 1;
        self.readings =
            self.readings.saturating_add(self.factor().saturating_mul(self.frame.groups));
    }

    fn open(&mut self, kind: u8, after: Operand) {
        // The brackets of a call contain no parameters, unless the call turns out to be an asynchronous arrow function.
        let group = kind == b'(' && (self.operand != Operand::Ended || self.word == "async");
        self.frames.push(self.frame);
        self.frame = Frame {
            kind,
            base: self.depth,
            level: self.depth,
            after,
            factor: self.factor(),
            groups: self.frame.groups + usize::from(group),
            angles: 0,
            conditions: 0,
        };
        self.operand = Operand::Expected;
    }

    fn close(&mut self) -> Option<()> {
        self.operand = self.frame.after;
        self.depth = self.frame.base;
        self.frame = self.frames.pop()?;
        if matches!(self.frame.kind, b'`' | b'<' | b'>') {
            // The parts of a template, the attributes of a tag and the children of an element count as the parts of a
            // list. So the depth returns to the depth outside.
            self.depth = self.frame.base;
        }
        Some(())
    }

    fn template(&mut self, byte: u8) -> Option<()> {
        self.at += if byte == b'\\' { 2 } else { 1 };
        match byte {
            b'`' => self.close()?,
            b'$' if self.peek(0) == Some(b'{') => {
                self.at += 1;
                self.count();
                self.open(b'{', Operand::Ended);
            }
            _ => {}
        }
        Some(())
    }

    /// Scans one part of a tag, after its `<`.
    fn tag(&mut self, byte: u8) -> Option<()> {
        if self.skip_blank()? {
            return Some(());
        }
        self.at += 1;
        match byte {
            b'"' | b'\'' => {
                let text = self.skip_past(if byte == b'"' { "\"" } else { "'" })?;
                // In the quoted text of an attribute, a backslash is an ordinary character. In TypeScript, the text may
                // instead be the default of a type parameter, where a backslash begins an escape; the scan refuses such
                // a text.
                return (!self.typed || !text.contains('\\')).then_some(());
            }
            b'{' => {
                self.count();
                self.open(b'{', Operand::Ended);
            }
            b'/' if self.peek(0) == Some(b'>') => {
                self.at += 1;
                self.close()?;
            }
            b'>' => {
                while self.typed && self.skip_blank()? {}
                // If a bracket follows, the tag may be the type parameters of a function.
                if self.typed && self.peek(0) == Some(b'(') {
                    return None;
                }
                self.frame.kind = b'>';
            }
            // A comma after the name shows that the tag is the type parameters of an arrow function.
            b',' if self.typed => {
                self.close()?;
                self.operand = Operand::Expected;
            }
            b'=' | b'.' | b':' | b'-' | b'_' | b'$' | 128.. => {}
            _ if byte.is_ascii_alphanumeric() => {}
            _ => return None,
        }
        Some(())
    }

    /// Scans one part of the content between two tags.
    fn children(&mut self, byte: u8) -> Option<()> {
        self.at += 1;
        if byte == b'{' {
            self.count();
            self.open(b'{', Operand::Ended);
        } else if byte == b'<' {
            while self.skip_blank()? {}
            if self.peek(0) == Some(b'/') {
                self.at += 1;
                let name = self.skip_past(">")?;
                return if name.contains(['/', '*']) { None } else { self.close() };
            }
            self.count();
            self.open(b'<', Operand::Ended);
        }
        Some(())
    }

    fn code(&mut self, byte: u8) -> Option<()> {
        if self.skip_blank()? {
            return Some(());
        }
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'#' | b'\\' | 128..) {
            return self.word();
        }
        self.begin("");
        self.count();
        self.at += 1;
        match byte {
            b'"' | b'\'' => {
                self.quoted(byte)?;
                self.operand = Operand::Ended;
            }
            b'(' | b'[' | b'{' | b'`' => self.opening(byte),
            b')' | b']' | b'}' => self.closing(byte)?,
            b'<' => self.less()?,
            b'/' => self.slash()?,
            b'-' if self.line && self.rest().starts_with("->") => return None,
            b'+' | b'-' if self.peek(0) == Some(byte) => {
                self.at += 1;
                if self.line {
                    self.operand = Operand::Expected;
                }
            }
            // The mark may be TypeScript's assertion that the operand before it is not null. So the state of the
            // expression does not change.
            b'!' if !self.line && self.peek(0) != Some(b'=') => {}
            b',' if self.frame.angles == 0 => {
                self.frame.conditions = 0;
                self.frame.level = self.frame.level.max(self.depth.saturating_sub(LIST_SLACK));
                self.depth = self.frame.level;
                self.operand = Operand::Expected;
            }
            b'>' if self.typed && self.mark != b'=' => {
                self.frame.angles = self.frame.angles.saturating_sub(1);
                self.operand = Operand::Unknown;
            }
            _ => self.operand = Operand::Expected,
        }
        // A name after three dots is a variable and not a property. So do not store the last dot as the last mark.
        let spread = byte == b'.' && self.rest().starts_with("..");
        self.at += if spread { 2 } else { 0 };
        (self.mark, self.word, self.line) = (if spread { 0 } else { byte }, "", false);
        Some(())
    }

    fn opening(&mut self, byte: u8) {
        self.frame.conditions += usize::from(self.typed && byte == b'(' && self.mark == b'?');
        let after = match (byte, self.word) {
            (b'(', "if" | "while" | "for" | "with") => Operand::Expected,
            (b'(', "await") | (b'{', _) => Operand::Unknown,
            _ => Operand::Ended,
        };
        self.open(byte, after);
    }

    fn closing(&mut self, byte: u8) -> Option<()> {
        // Check that the closing bracket fits: its ASCII code is greater by one or two than the code of its opening
        // bracket.
        if !matches!(byte.wrapping_sub(self.frame.kind), 1 | 2) {
            return None;
        }
        self.close()?;
        if self.operand == Operand::Expected {
            self.frame.level = self.depth;
        }
        Some(())
    }

    fn word(&mut self) -> Option<()> {
        let start = self.at;
        let number = self.peek(0)?.is_ascii_digit();
        while let Some(c) = self.rest().chars().next() {
            if self.rest().starts_with("\\u{") {
                self.skip_past("}")?;
            } else if c.is_ascii_alphanumeric()
                || matches!(c, '_' | '$' | '#' | '\\')
                || !c.is_ascii() && !is_blank(c)
                || number && c == '.'
            {
                self.at += c.len_utf8();
            } else {
                break;
            }
        }
        let word = self.source.get(start..self.at)?;
        let property = self.mark == b'.';
        self.begin(if property { "." } else { word });
        self.count();
        self.operand = match word {
            _ if property => Operand::Ended,
            "return" | "typeof" | "instanceof" | "in" | "new" | "delete" | "void" | "throw"
            | "case" | "do" | "else" | "extends" | "default" => Operand::Expected,
            "of" | "yield" | "await" => Operand::Unknown,
            _ => Operand::Ended,
        };
        (self.mark, self.word, self.line) = (0, if property { "" } else { word }, false);
        Some(())
    }

    /// Begins a new statement if the last statement ended before the next token. `next` is the next token if that is a
    /// word, `"."` if it is the name of a property, else empty.
    fn begin(&mut self, next: &str) {
        let continues = CONTINUING.contains(&next);
        let prefix = TYPE_OPERATORS.contains(&self.word);
        let begins = match self.mark {
            b';' => !matches!(next, "else" | "while"),
            b'}' => !continues,
            _ if next == "case" => true,
            _ => self.line && self.operand == Operand::Ended && !continues && !prefix,
        };
        if begins {
            self.depth = self.frame.base;
            (self.frame.level, self.frame.angles, self.frame.conditions) = (self.depth, 0, 0);
        } else if next == "else" {
            self.frame.level = self.depth + 1;
        }
    }

    /// Returns whether the statement might have ended at the end of a line before the next token.
    fn may_end(&self) -> bool {
        self.line && !matches!(self.frame.kind, b'(' | b'[')
    }

    /// Scans a quoted text to its closing mark on the same line, skipping escaped marks. In a regular expression, marks
    /// in square brackets are skipped, too.
    fn quoted(&mut self, end: u8) -> Option<()> {
        let mut class = false;
        loop {
            let byte = self.peek(0)?;
            self.at += if byte == b'\\' { 2 } else { 1 };
            match byte {
                b'\n' => return None,
                b'[' => class = end == b'/',
                b']' => class = false,
                _ if byte == end && !class => return Some(()),
                _ => {}
            }
        }
    }

    /// Scans a token that begins with a slash and is not a comment.
    fn slash(&mut self) -> Option<()> {
        if self.operand == Operand::Expected {
            self.quoted(b'/')?;
            let flags = self.rest().find(|c: char| !c.is_alphanumeric());
            self.at += flags.unwrap_or(self.rest().len());
            self.operand = Operand::Ended;
            return Some(());
        }
        let unknown = self.operand == Operand::Unknown || self.may_end();
        self.operand = Operand::Expected;
        let line = self.rest().split('\n').next().unwrap_or_default();
        // Without a second slash on the line, this cannot be a regular expression, so the slash divides.
        if unknown && let Some((body, _)) = line.split_once('/') {
            let same = |c: char| c.is_alphanumeric() || " ._+-*|^$?!:".contains(c);
            if !body.chars().all(same) || body.is_empty() {
                return None;
            }
            self.at += body.len() + 1;
            self.depth += body.len();
            self.operand = Operand::Unknown;
        }
        Some(())
    }

    /// Scans a token that begins with `<`: a tag, type arguments, or a comparison.
    fn less(&mut self) -> Option<()> {
        if self.rest().starts_with("!--") {
            return None;
        }
        if self.peek(0) == Some(b'<') {
            // `<<` is a shift operator, or begins type arguments of which the first is a generic function type.
            self.at += 1;
            let types = self.typed
                && !self.peek(0).is_some_and(|next| next == b' ' || next.is_ascii_digit());
            self.frame.angles += usize::from(types);
            self.operand = Operand::Expected;
            return Some(());
        }
        if self.markup && (self.operand != Operand::Ended || self.may_end()) {
            if self.operand != Operand::Expected {
                return None;
            }
            let name = self.rest().trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
            let bound = name.trim_start().strip_prefix("extends ").map(str::trim_start);
            if !self.typed || bound.is_none_or(|bound| bound.starts_with(['=', '>', '/'])) {
                self.open(b'<', Operand::Ended);
                return Some(());
            }
        }
        self.frame.angles += usize::from(self.typed);
        self.operand = Operand::Expected;
        Some(())
    }
}

/// Returns whether the parser treats a character between tokens as blank.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{200b}' | '\u{feff}')
}

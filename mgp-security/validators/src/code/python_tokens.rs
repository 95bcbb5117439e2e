//! Checks the tokens of Python code before the parser runs. The parser is recursive, and takes much longer for code
//! with errors than for valid code.

use ruff_python_ast::token::TokenKind as Token;
use ruff_python_parser::{Mode, lexer::lex};

/// The reason that is reported for code with syntax errors.
pub(super) const BROKEN: &str = "the code cannot be parsed";
/// The maximum number of brackets and formatted strings that are open at the same time. Python has the same limit.
const MAX_OPEN: usize = 200;
/// The maximum nesting depth of blocks; Python has the same limit.
const MAX_BLOCKS: usize = 100;
/// The maximum height of an expression's syntax tree.
const MAX_HEIGHT: usize = 400;

/// The maximum number of tokens. It limits the time for very dense code; ordinary code of the maximum length has less
/// than half as many.
const MAX_TOKENS: usize = 150_000;

/// Returns an upper limit for the height of a text's syntax tree.
///
/// # Errors
/// A description of the reason why the text must not be parsed: it is nested too deeply, has too many tokens, or has a
/// syntax error that the tokens show, e.g. an open bracket.
pub(super) fn height(source: &str) -> Result<usize, String> {
    let mut lexer = lex(source, Mode::Module);
    let mut levels = Levels::default();
    let mut before = Token::Newline;
    for _ in 0..MAX_TOKENS {
        let token = lexer.next_token();
        if matches!(token, Token::Comment | Token::NonLogicalNewline) {
            continue;
        }
        if token == Token::Unknown || !can_follow(before, token) {
            return Err(BROKEN.to_owned());
        }
        before = levels.add(before, token).ok_or(BROKEN)?;
        if levels.are_too_many() {
            return Err(format!(
                "the code is nested deeper than {MAX_OPEN} brackets, {MAX_BLOCKS} blocks or {MAX_HEIGHT} operators"
            ));
        }
        if token == Token::EndOfFile {
            let height = levels.open.is_empty().then_some(levels.highest);
            return height.ok_or_else(|| BROKEN.to_owned());
        }
    }
    Err(format!("the code has more than {MAX_TOKENS} tokens"))
}

/// An open bracket, formatted string, replacement field, or list of a lambda's parameters.
#[derive(Debug)]
struct Level {
    close: Token,
    /// The number of operators, calls and members since the last separator; each of them can add a level to the tree.
    links: usize,
    /// The height of the highest bracketed part since the last separator.
    inner: usize,
    /// The height of the highest part before the last separator.
    height: usize,
    is_field: bool,
    /// `true` within the format specification of a replacement field.
    is_format: bool,
}

impl Level {
    const fn new(close: Token) -> Self {
        Self { close, links: 0, inner: 0, height: 0, is_field: false, is_format: false }
    }

    fn separate(&mut self) {
        self.height = self.height.max(self.links + self.inner);
        (self.links, self.inner) = (0, 0);
    }
}

/// The brackets and blocks that are open at the current position in the text.
#[derive(Debug)]
struct Levels {
    open: Vec<Level>,
    /// The level outside of all brackets.
    outer: Level,
    blocks: usize,
    highest: usize,
}

impl Default for Levels {
    fn default() -> Self {
        Self { open: Vec::new(), outer: Level::new(Token::EndOfFile), blocks: 0, highest: 0 }
    }
}

impl Levels {
    fn top(&mut self) -> &mut Level {
        self.open.last_mut().unwrap_or(&mut self.outer)
    }

    fn are_too_many(&mut self) -> bool {
        let (open, blocks) = (self.open.len(), self.blocks);
        let top = self.top();
        let height = top.links + top.inner;
        self.highest = self.highest.max(height + open + blocks);
        open > MAX_OPEN || blocks > MAX_BLOCKS || height > MAX_HEIGHT
    }

    /// Adds a token. Returns the token to pass as `before` in the next call, or `None` if the token closes something
    /// that is not open.
    fn add(&mut self, before: Token, token: Token) -> Option<Token> {
        match token {
            Token::Indent => self.blocks += 1,
            Token::Dedent => self.blocks = self.blocks.saturating_sub(1),
            Token::Lpar
            | Token::Lsqb
            | Token::Lbrace
            | Token::FStringStart
            | Token::TStringStart => {
                self.open(before, token);
            }
            // The parameters of a lambda end with its colon; their default values may be lambdas, too.
            Token::Lambda => self.open(before, token),
            Token::Colon if self.top().close != Token::Colon => {
                let top = self.top();
                top.separate();
                top.is_format = top.is_field;
            }
            Token::Colon
            | Token::Rpar
            | Token::Rsqb
            | Token::Rbrace
            | Token::FStringEnd
            | Token::TStringEnd => return self.close(token),
            Token::Comma | Token::Newline | Token::Semi | Token::Equal => self.top().separate(),
            _ if token.is_operator() || token.is_keyword() => self.top().links += 1,
            _ => {}
        }
        Some(token)
    }

    fn open(&mut self, before: Token, token: Token) {
        let top = self.top();
        top.links += usize::from(token == Token::Lambda || ends_operand(before));
        let is_text = matches!(top.close, Token::FStringEnd | Token::TStringEnd);
        let mut level = Level::new(match token {
            Token::Lpar => Token::Rpar,
            Token::Lsqb => Token::Rsqb,
            Token::Lbrace => Token::Rbrace,
            Token::Lambda => Token::Colon,
            Token::FStringStart => Token::FStringEnd,
            _ => Token::TStringEnd,
        });
        level.is_field = token == Token::Lbrace && (is_text || top.is_format);
        self.open.push(level);
    }

    fn close(&mut self, token: Token) -> Option<Token> {
        let mut closed = self.open.pop().filter(|level| level.close == token)?;
        closed.separate();
        let top = self.top();
        top.inner = top.inner.max(closed.height + 1);
        // After a replacement field, the formatted string continues.
        Some(if closed.is_field { Token::FStringMiddle } else { token })
    }
}

/// Returns whether a token can be the end of an operand, so that a bracket after it begins a call or an index.
fn ends_operand(token: Token) -> bool {
    let is_literal = matches!(
        token,
        Token::Name | Token::Int | Token::Float | Token::Complex | Token::String | Token::Ellipsis
    );
    is_literal
        || matches!(
            token,
            Token::FStringEnd
                | Token::TStringEnd
                | Token::Rpar
                | Token::Rsqb
                | Token::Rbrace
                | Token::None
                | Token::True
                | Token::False
        )
        || token.is_soft_keyword()
}

/// Returns whether `token` can follow the token `before`. Returns `false` only if no valid Python code has this
/// sequence.
fn can_follow(before: Token, token: Token) -> bool {
    match token {
        Token::String | Token::FStringStart | Token::TStringStart => {
            is_string(before) || !is_complete(before)
        }
        Token::Name
        | Token::Int
        | Token::Float
        | Token::Complex
        | Token::Lbrace
        | Token::None
        | Token::True
        | Token::False
        | Token::Lambda
        | Token::Tilde
        | Token::Case
        | Token::Match
        | Token::Type => !is_complete(before),
        Token::EqEqual
        | Token::NotEqual
        | Token::Less
        | Token::LessEqual
        | Token::Greater
        | Token::GreaterEqual
        | Token::ColonEqual
        | Token::Percent
        | Token::Vbar
        | Token::Amper
        | Token::CircumFlex
        | Token::LeftShift
        | Token::RightShift
        | Token::DoubleSlash
        | Token::And
        | Token::Or
        | Token::Is => ends_operand(before),
        // A comma may precede `=`: `a, = b` binds the only element.
        Token::Equal => ends_operand(before) || before == Token::Comma,
        Token::Comma => {
            ends_operand(before) || matches!(before, Token::Star | Token::Slash | Token::Colon)
        }
        Token::Semi => {
            !matches!(before, Token::Semi | Token::Newline | Token::Indent | Token::Dedent)
        }
        Token::Question | Token::IpyEscapeCommand => false,
        _ => true,
    }
}

fn is_string(token: Token) -> bool {
    matches!(token, Token::String | Token::FStringEnd | Token::TStringEnd)
}

/// Returns whether a token certainly ends an operand. `match` does not, because it can be a keyword, and `...` does
/// not, because it can be the dots of an import.
fn is_complete(token: Token) -> bool {
    ends_operand(token) && !token.is_soft_keyword() && token != Token::Ellipsis
}

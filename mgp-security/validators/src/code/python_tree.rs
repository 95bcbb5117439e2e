//! Syntax trees of Python, within bounds: nesting is limited before the parser runs, because it recurses.

use ruff_python_ast::{
    AnyNodeRef, HasNodeIndex, NodeIndex, Suite,
    token::TokenKind,
    visitor::source_order::{SourceOrderVisitor, TraversalSignal, walk_body},
};
use ruff_python_parser::{Mode, lexer::lex, parse_module};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

/// The maximum number of brackets and formatted strings that are open at once, like in Python itself.
const MAX_OPEN: usize = 200;
/// The maximum height of the tree of an expression.
const MAX_HEIGHT: usize = 400;
/// The maximum number of levels that are parsed on the caller's stack, which can be that of a worker thread.
const MAX_SHALLOW: usize = if cfg!(debug_assertions) { 8 } else { 40 };
/// The stack for code with more levels.
const DEEP_STACK: usize = if cfg!(debug_assertions) { 256 << 20 } else { 32 << 20 };

/// Parses code and passes its nodes on; code with errors has none.
///
/// # Errors
/// The reason why there is no tree.
pub(super) fn with_nodes(
    source: &str,
    judge: impl FnOnce(&Nodes<'_>) -> Result<(), String> + Send,
) -> Result<(), String> {
    let levels = levels(source)?;
    let parsed = move || {
        // The parser checks its own progress, and panics if there is none.
        let parsed = catch_unwind(AssertUnwindSafe(|| parse_module(source)));
        let suite = parsed.ok().and_then(Result::ok).ok_or(BROKEN)?.into_suite();
        judge(&Nodes::of(&suite))
    };
    if levels <= MAX_SHALLOW {
        return parsed();
    }
    // Deep nesting would overflow the stack of a worker thread, which ends the process.
    thread::scope(|scope| {
        let judge = thread::Builder::new()
            .name("code-parser".to_owned())
            .stack_size(DEEP_STACK)
            .spawn_scoped(scope, parsed)
            .map_err(|error| format!("no thread could be started to parse the code: {error}"))?;
        judge.join().unwrap_or_else(|_| Err(BROKEN.to_owned()))
    })
}

const BROKEN: &str = "the code cannot be parsed";

/// An open bracket, formatted string or replacement field.
#[derive(Debug)]
struct Level {
    close: TokenKind,
    /// The operators, calls and members since the last separator; each can be one level of the tree.
    links: usize,
    /// The height of the highest bracket since the last separator.
    inner: usize,
    /// The height of the highest part before the last separator.
    height: usize,
}

// === impl Level ===

impl Level {
    const fn new(close: TokenKind) -> Self {
        Self { close, links: 0, inner: 0, height: 0 }
    }

    fn separate(&mut self) {
        self.height = self.height.max(self.links + self.inner);
        (self.links, self.inner) = (0, 0);
    }
}

/// Returns how high the tree of a text is at most.
///
/// # Errors
/// The reason why the text is not parsed.
fn levels(source: &str) -> Result<usize, String> {
    let mut lexer = lex(source, Mode::Module);
    let mut open = vec![Level::new(TokenKind::EndOfFile)];
    let (mut indents, mut highest) = (0usize, 0);
    let mut before = TokenKind::Newline;
    loop {
        let token = lexer.next_token();
        if matches!(token, TokenKind::Comment | TokenKind::NonLogicalNewline) {
            continue;
        }
        let depth = open.len();
        let Some(level) = open.last_mut() else { return Err(BROKEN.to_owned()) };
        match token {
            TokenKind::Unknown => return Err(BROKEN.to_owned()),
            TokenKind::Colon if level.close != TokenKind::Colon => level.separate(),
            TokenKind::Comma | TokenKind::Newline | TokenKind::Semi | TokenKind::Equal => {
                level.separate();
            }
            TokenKind::Indent => indents += 1,
            TokenKind::Dedent => indents = indents.saturating_sub(1),
            TokenKind::Lpar
            | TokenKind::Lsqb
            | TokenKind::Lbrace
            | TokenKind::FStringStart
            | TokenKind::TStringStart => {
                level.links += usize::from(ends_operand(before));
                open.push(Level::new(closing(token)));
            }
            // The parameters of a lambda end with its colon, and their defaults can be lambdas again.
            TokenKind::Lambda => {
                level.links += 1;
                open.push(Level::new(TokenKind::Colon));
            }
            TokenKind::Colon
            | TokenKind::Rpar
            | TokenKind::Rsqb
            | TokenKind::Rbrace
            | TokenKind::FStringEnd
            | TokenKind::TStringEnd => {
                if level.close != token {
                    return Err(BROKEN.to_owned());
                }
                level.separate();
                let height = level.height + 1;
                open.pop();
                if let Some(level) = open.last_mut() {
                    level.inner = level.inner.max(height);
                }
            }
            _ if token.is_operator() || token.is_keyword() => level.links += 1,
            _ => {}
        }
        let height = open.last().map_or(0, |level| level.links + level.inner);
        highest = highest.max(height + depth + indents);
        if depth > MAX_OPEN || indents > MAX_OPEN || height > MAX_HEIGHT {
            return Err(format!(
                "the code is nested deeper than {MAX_OPEN} brackets or {MAX_HEIGHT} operators"
            ));
        }
        if token == TokenKind::EndOfFile {
            return if open.len() == 1 { Ok(highest) } else { Err(BROKEN.to_owned()) };
        }
        before = token;
    }
}

fn closing(open: TokenKind) -> TokenKind {
    match open {
        TokenKind::Lpar => TokenKind::Rpar,
        TokenKind::Lsqb => TokenKind::Rsqb,
        TokenKind::Lbrace => TokenKind::Rbrace,
        TokenKind::FStringStart => TokenKind::FStringEnd,
        _ => TokenKind::TStringEnd,
    }
}

/// Returns whether an operand can end with a token, so that a bracket after it is a call or an index.
fn ends_operand(token: TokenKind) -> bool {
    matches!(
        token,
        TokenKind::Name
            | TokenKind::Int
            | TokenKind::Float
            | TokenKind::Complex
            | TokenKind::String
            | TokenKind::FStringEnd
            | TokenKind::TStringEnd
            | TokenKind::Rpar
            | TokenKind::Rsqb
            | TokenKind::Rbrace
            | TokenKind::Ellipsis
            | TokenKind::None
            | TokenKind::True
            | TokenKind::False
    ) || token.is_soft_keyword()
}

/// The nodes of a tree in the order of the source, parents first. Each node knows its place in the list.
#[derive(Debug, Default)]
pub(super) struct Nodes<'t> {
    pub(super) all: Vec<AnyNodeRef<'t>>,
    parents: Vec<usize>,
    /// The places of the nodes that are being visited.
    path: Vec<usize>,
}

// === impl Nodes ===

impl<'t> Nodes<'t> {
    fn of(suite: &'t Suite) -> Self {
        let mut nodes = Self::default();
        walk_body(&mut nodes, suite);
        nodes
    }

    /// Returns the place of a node.
    pub(super) fn place(node: impl HasNodeIndex) -> usize {
        let place = node.node_index().load().as_u32();
        place.and_then(|place| usize::try_from(place).ok()).unwrap_or(usize::MAX)
    }

    /// Returns the parent of a node.
    pub(super) fn parent(&self, node: impl HasNodeIndex) -> Option<AnyNodeRef<'t>> {
        self.parents.get(Self::place(node)).and_then(|place| self.all.get(*place)).copied()
    }

    /// Returns whether an expression is what a call calls.
    pub(super) fn is_called(&self, node: impl HasNodeIndex) -> bool {
        let place = Self::place(&node);
        matches!(self.parent(node), Some(AnyNodeRef::ExprCall(call)) if Self::place(&*call.func) == place)
    }
}

impl<'t> SourceOrderVisitor<'t> for Nodes<'t> {
    fn enter_node(&mut self, node: AnyNodeRef<'t>) -> TraversalSignal {
        let place = self.all.len();
        if let Ok(index) = u32::try_from(place) {
            node.node_index().set(NodeIndex::from(index));
        }
        self.parents.push(self.path.last().copied().unwrap_or(usize::MAX));
        self.all.push(node);
        self.path.push(place);
        TraversalSignal::Traverse
    }

    fn leave_node(&mut self, _: AnyNodeRef<'t>) {
        self.path.pop();
    }

    fn visit_identifier(&mut self, _: &'t ruff_python_ast::Identifier) {}
}

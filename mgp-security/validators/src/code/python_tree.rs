//! Syntax trees of Python. Nesting is limited before the parser runs, because the parser is recursive.

use super::python_tokens::{BROKEN, height};
use ruff_python_ast::{
    AnyNodeRef, BytesLiteral, Expr, HasNodeIndex, Identifier, NodeIndex, StringLiteral, Suite,
    visitor::source_order::{SourceOrderVisitor, TraversalSignal, walk_body},
};
use ruff_python_parser::{ParseError, parse_module};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

/// The maximum number of nested levels for which the code is parsed on the caller's stack. The caller might be a worker
/// thread with a small stack.
const MAX_SHALLOW: usize = if cfg!(debug_assertions) { 8 } else { 40 };
/// The size of the stack for code with more levels than [`MAX_SHALLOW`], in bytes.
const DEEP_STACK: usize = if cfg!(debug_assertions) { 128 << 20 } else { 16 << 20 };

/// Parses code and passes its syntax nodes to a function. Returns an error for code with syntax errors.
///
/// # Errors
/// A description of the reason why the code cannot be parsed.
pub(super) fn with_nodes(
    source: &str,
    judge: impl FnOnce(&Nodes<'_>) -> Result<(), String> + Send,
) -> Result<(), String> {
    let height = height(source)?;
    let parsed = move || {
        // The parser panics when it detects that it makes no progress, so catch the panic.
        let parsed = catch_unwind(AssertUnwindSafe(|| parse_module(source)));
        let parsed = parsed.map_err(|_| BROKEN)?.map_err(|error| broken_at(source, &error))?;
        judge(&Nodes::of(&parsed.into_suite()))
    };
    if height <= MAX_SHALLOW {
        return parsed();
    }
    // Parse on a separate thread with a large stack. On a worker thread, deep nesting would overflow the stack and so
    // end the process.
    thread::scope(|scope| {
        let judge = thread::Builder::new()
            .name("code-parser".to_owned())
            .stack_size(DEEP_STACK)
            .spawn_scoped(scope, parsed)
            .map_err(|error| format!("no thread could be started to parse the code: {error}"))?;
        judge.join().unwrap_or_else(|_| Err(BROKEN.to_owned()))
    })
}

/// Returns a description of a syntax error with the number of its line.
fn broken_at(source: &str, error: &ParseError) -> String {
    let before = source.get(..error.location.start().to_usize()).unwrap_or(source);
    format!("{BROKEN}: line {}: {}", before.matches('\n').count() + 1, error.error)
}

/// The nodes of a syntax tree in the order of the source text, each parent before its children. Each node contains its
/// own position in this list.
#[derive(Debug, Default)]
pub(super) struct Nodes<'t> {
    pub(super) all: Vec<AnyNodeRef<'t>>,
    parents: Vec<usize>,
    /// The positions of the nodes that are being visited.
    path: Vec<usize>,
}

impl<'t> Nodes<'t> {
    fn of(suite: &'t Suite) -> Self {
        let mut nodes = Self::default();
        walk_body(&mut nodes, suite);
        nodes
    }

    /// Returns the position of a node in the list.
    pub(super) fn place(node: impl HasNodeIndex) -> usize {
        let place = node.node_index().load().as_u32();
        place.and_then(|place| usize::try_from(place).ok()).unwrap_or(usize::MAX)
    }

    /// Returns the parent of a node.
    pub(super) fn parent(&self, node: impl HasNodeIndex) -> Option<AnyNodeRef<'t>> {
        self.parents.get(Self::place(node)).and_then(|place| self.all.get(*place)).copied()
    }

    /// Returns whether an expression is the called function of a call.
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

    fn visit_identifier(&mut self, _: &'t Identifier) {}

    fn visit_string_literal(&mut self, _: &'t StringLiteral) {}

    fn visit_bytes_literal(&mut self, _: &'t BytesLiteral) {}
}

/// Returns the expressions of a list or tuple.
pub(super) fn items(list: &Expr) -> Option<&[Expr]> {
    match list {
        Expr::List(list) => Some(&list.elts),
        Expr::Tuple(tuple) => Some(&tuple.elts),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses code on a stack that is smaller than a worker thread's stack.
    fn parse_on_small_stack(code: String) -> Result<usize, String> {
        let parse = move || {
            let mut nodes = 0;
            with_nodes(&code, |found| {
                nodes = found.all.len();
                Ok(())
            })?;
            Ok(nodes)
        };
        thread::Builder::new().stack_size(1 << 20).spawn(parse).unwrap().join().unwrap()
    }

    /// Each kind of nesting: the text that opens a level, the innermost text, and the text that closes a level.
    const KINDS: [(&str, &str, &str); 34] = [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{", "1", "}"),
        ("{1: ", "1", "}"),
        ("{**", "a", "}"),
        ("f(", "1", ")"),
        ("f(a=", "1", ")"),
        ("f(*", "a", ")"),
        ("x[", "1", "]"),
        ("x[:", "1", "]"),
        ("[x for x in ", "y", "]"),
        ("(yield ", "1", ")"),
        ("(a := ", "1", ")"),
        ("(", "x", ").y(a=1)"),
        ("(", "x", " + 1 + 1)"),
        ("f'{", "1", "}'"),
        ("f'{1:{", "1", "}}'"),
        ("f(lambda: ", "1", ")"),
        ("lambda: ", "1", ""),
        ("lambda a=", "1", ": 1"),
        ("lambda a, *b, c=", "1", ": 1"),
        ("-", "1", ""),
        ("not ", "1", ""),
        ("await (", "a", ")"),
        ("1 ** ", "1", ""),
        ("a if b else ", "c", ""),
        ("1 + ", "1", ""),
        ("a.", "a", ""),
        ("", "a", "()"),
        ("", "a", "[0]"),
        ("", "a", " @ b"),
        ("a and not ", "b", ""),
        ("a < -", "b", ""),
        ("", "1", " if a else 1"),
    ];

    fn nested(kind: (&str, &str, &str), depth: usize) -> String {
        format!("{}{}{}", kind.0.repeat(depth), kind.1, kind.2.repeat(depth))
    }

    #[test]
    fn deep_nesting_is_refused_on_a_small_stack() {
        for kind in KINDS {
            for depth in [150, 199, 250, 399, 10_000] {
                let parsed = parse_on_small_stack(nested(kind, depth));
                assert!(depth < 10_000 || parsed.is_err(), "{kind:?}: {parsed:?}");
            }
            assert!(parse_on_small_stack(nested(kind, 30)).is_ok(), "{kind:?}");
        }
    }

    #[test]
    fn deep_statements_and_patterns_are_refused_on_a_small_stack() {
        for header in [
            "if x:",
            "def f():",
            "class A:",
            "while x:",
            "with a:",
            "for a in b:",
            "match x:\n case 1:",
        ] {
            for depth in [30, 99, 300, 2_000] {
                let block = |level: usize| {
                    let (one, two) = (" ".repeat(level * 2), " ".repeat(level * 2 + 1));
                    format!("{one}{}\n", header.replace("\n ", &format!("\n{two}")))
                };
                let code: String = (0..depth).map(block).collect();
                let parsed = parse_on_small_stack(code + &" ".repeat(depth * 2) + "x\n");
                assert_eq!(
                    parsed.is_ok(),
                    depth == 30 || depth == 99 && !header.contains("case"),
                    "{header}: {depth}"
                );
            }
        }
        for (open, close) in [("[", "]"), ("(", ",)"), ("A(", ")"), ("A(b=", ")"), ("{1: ", "}")] {
            let pattern = |depth| nested((open, "1", close), depth);
            for depth in [30, 150, 10_000] {
                let code = format!("match x:\n case {}: pass\n", pattern(depth));
                assert!(parse_on_small_stack(code).is_ok() || depth > 30, "{open}: {depth}");
            }
        }
        for start in [
            "async ",
            "await ",
            "@",
            "else: ",
            "if x: ",
            "try: ",
            "a = ",
            "a: ",
            "del ",
            "*",
            "match ",
            "type a = ",
        ] {
            let _ = parse_on_small_stack(start.repeat(10_000));
        }
    }

    #[test]
    fn the_heights_of_nested_chains_add_up() {
        let chain = |levels: usize, links: usize| {
            nested(("(", "x", &format!("{})", " + 1".repeat(links))), levels)
        };
        assert!(parse_on_small_stack(chain(3, 100)).is_ok());
        assert!(parse_on_small_stack(chain(100, 100)).is_err());
        let flat = format!("x = [{}]", "a.b + c(d), ".repeat(2_000));
        assert!(parse_on_small_stack(flat).is_ok());
    }

    #[test]
    fn nodes_know_their_parents() {
        let mut parents = Vec::new();
        with_nodes("f(a.b)\n", |nodes| {
            for node in &nodes.all {
                let parent = nodes.parent(*node).map(|parent| format!("{:?}", parent.kind()));
                parents.push(parent.unwrap_or_default());
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(parents, ["", "StmtExpr", "ExprCall", "ExprCall", "Arguments", "ExprAttribute"]);
    }
}

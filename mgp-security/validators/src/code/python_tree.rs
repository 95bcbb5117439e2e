//! Syntax trees of Python, within bounds: nesting is limited before the parser runs, because it recurses.

use super::python_tokens::{BROKEN, height};
use ruff_python_ast::{
    AnyNodeRef, BytesLiteral, HasNodeIndex, Identifier, NodeIndex, StringLiteral, Suite,
    visitor::source_order::{SourceOrderVisitor, TraversalSignal, walk_body},
};
use ruff_python_parser::parse_module;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

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
    let height = height(source)?;
    let parsed = move || {
        // The parser checks its own progress, and panics if there is none.
        let parsed = catch_unwind(AssertUnwindSafe(|| parse_module(source)));
        let suite = parsed.ok().and_then(Result::ok).ok_or(BROKEN)?.into_suite();
        judge(&Nodes::of(&suite))
    };
    if height <= MAX_SHALLOW {
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

    fn visit_identifier(&mut self, _: &'t Identifier) {}

    fn visit_string_literal(&mut self, _: &'t StringLiteral) {}

    fn visit_bytes_literal(&mut self, _: &'t BytesLiteral) {}
}

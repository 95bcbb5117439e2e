//! Syntax trees of code, within bounds.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::thread;
use tree_sitter::{Language, Node, ParseOptions, Parser, Tree};

/// The maximum depth of a syntax tree.
const MAX_DEPTH: usize = 400;
/// The maximum number of nodes of a syntax tree.
const MAX_NODES: usize = 400_000;
/// The maximum length in bytes of a text that is parsed on the caller's stack.
const MAX_SHORT_TEXT: usize = 2048;
/// The bytes of stack for each byte of a longer text. The parser frees its own stack of tokens by recursion, with about
/// 130 bytes for each open one, and a token has at least one byte.
const STACK_PER_BYTE: usize = 512;
/// The stack that parsing a text takes besides.
const BASE_STACK: usize = 1 << 20;

/// Parses a text; a text with errors has no tree.
///
/// # Errors
/// The reason why there is no tree.
pub(super) fn parse(language: &Language, source: &str) -> Result<Tree, String> {
    if source.len() <= MAX_SHORT_TEXT {
        return parse_here(language, source);
    }
    // Deep nesting would overflow the stack of a worker thread, which ends the process.
    thread::scope(|scope| {
        let parser = thread::Builder::new()
            .name("code-parser".to_owned())
            .stack_size(BASE_STACK + source.len() * STACK_PER_BYTE)
            .spawn_scoped(scope, || parse_here(language, source))
            .map_err(|error| format!("no thread could be started to parse the code: {error}"))?;
        parser.join().unwrap_or_else(|_| Err("the code cannot be parsed".to_owned()))
    })
}

fn parse_here(language: &Language, source: &str) -> Result<Tree, String> {
    let mut parser = Parser::new();
    parser
        .set_language(language)
        .map_err(|error| format!("the grammar cannot be loaded: {error}"))?;
    let bytes = source.as_bytes();
    let mut steps = 0u32;
    // Repairing errors costs much more than parsing, and nothing with an error is accepted anyway.
    let mut watch = |state: &tree_sitter::ParseState| {
        steps += 1;
        if state.has_error() || steps > 60_000 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut watch);
    let tree = parser.parse_with_options(
        &mut |at, _| bytes.get(at..).unwrap_or_default(),
        None,
        Some(options),
    );
    let tree = tree.ok_or("the code cannot be parsed")?;
    if tree.root_node().has_error() {
        return Err("the code cannot be parsed".to_owned());
    }
    Ok(tree)
}

/// Returns the named children of a node without comments.
pub(super) fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).filter(|child| child.kind() != "comment").collect()
}

/// Returns the child of a field.
pub(super) fn field<'t>(node: Node<'t>, name: &str) -> Option<Node<'t>> {
    node.child_by_field_name(name)
}

/// The named nodes of a tree. The tree itself finds a parent from its root, which takes long in a long text.
#[derive(Debug, Default)]
pub(super) struct Nodes<'t> {
    /// Parents come first.
    pub(super) all: Vec<Node<'t>>,
    /// The place of the parent of each node in `all`, by the node's id.
    parents: HashMap<usize, usize>,
}

// === impl Nodes ===

impl<'t> Nodes<'t> {
    /// Collects the named nodes.
    ///
    /// # Errors
    /// A reason if the tree is too deep or too large.
    pub(super) fn of(tree: &'t Tree) -> Result<Self, String> {
        let mut found = Self::default();
        let mut cursor = tree.walk();
        // The place of the next named ancestor, for each level.
        let mut path: Vec<Option<usize>> = vec![None];
        let mut nodes = 0usize;
        loop {
            nodes += 1;
            if path.len() > MAX_DEPTH + 1 || nodes > MAX_NODES {
                return Err(format!(
                    "the code is nested deeper than {MAX_DEPTH} levels, or has more than {MAX_NODES} parts"
                ));
            }
            let node = cursor.node();
            let mut above = path.last().copied().flatten();
            if node.is_named() {
                if let Some(above) = above {
                    found.parents.insert(node.id(), above);
                }
                above = Some(found.all.len());
                found.all.push(node);
            }
            if cursor.goto_first_child() {
                path.push(above);
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return Ok(found);
                }
                path.pop();
            }
        }
    }

    /// Returns the parent of a named node.
    pub(super) fn parent(&self, node: Node<'_>) -> Option<Node<'t>> {
        self.parents.get(&node.id()).and_then(|place| self.all.get(*place)).copied()
    }

    /// Returns whether a node is the child of its parent's field.
    pub(super) fn is_field(&self, node: Node<'_>, name: &str) -> bool {
        let child = self.parent(node).and_then(|parent| field(parent, name));
        child.is_some_and(|child| child.id() == node.id())
    }
}

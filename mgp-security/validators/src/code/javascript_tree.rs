//! Syntax trees of JavaScript and TypeScript, parsed within limits.

use super::{javascript_bounds, javascript_dialect::Dialect};
use oxc_allocator::Allocator;
use oxc_ast::{
    AstKind,
    ast::{
        Argument, AssignmentTarget, AssignmentTargetMaybeDefault, BindingPattern, ChainElement,
        Expression, MemberExpression, Program,
    },
};
use oxc_ast_visit::Visit;
use oxc_parser::{ParseOptions, Parser};
use oxc_span::SourceType;
use oxc_syntax::node::NodeId;
use std::thread;

/// The size of the stack for each level of nesting, in bytes.
const STACK_PER_LEVEL: usize = if cfg!(debug_assertions) { 16 << 10 } else { 4 << 10 };
/// The size of the stack that parsing needs in addition to that for the levels of nesting, in bytes.
const BASE_STACK: usize = 1 << 20;

/// Parses a text, and calls a function with its syntax tree. Returns an error for a text with syntax errors.
///
/// # Errors
/// A description of the reason why the text cannot be parsed.
pub(super) fn with_tree(
    source: &str,
    dialect: Dialect,
    judge: impl FnOnce(&Nodes<'_>) -> Result<(), String> + Send,
) -> Result<(), String> {
    let levels = javascript_bounds::check(source, dialect)?;
    // Parse on a separate thread with a large stack. On a worker thread, the deepest allowed text would overflow the
    // stack and so end the process.
    thread::scope(|scope| {
        let parser = thread::Builder::new()
            .name("code-parser".to_owned())
            .stack_size(BASE_STACK + levels * STACK_PER_LEVEL)
            .spawn_scoped(scope, || parse(source, dialect, judge))
            .map_err(|error| format!("no thread could be started to parse the code: {error}"))?;
        parser.join().unwrap_or_else(|_| Err("the code cannot be parsed".to_owned()))
    })
}

fn parse(
    source: &str,
    dialect: Dialect,
    judge: impl FnOnce(&Nodes<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let language = match dialect {
        Dialect::JavaScript => SourceType::jsx(),
        #[cfg(feature = "typescript")]
        Dialect::TypeScript => SourceType::ts(),
        #[cfg(feature = "typescript")]
        Dialect::Tsx => SourceType::tsx(),
    };
    let options = ParseOptions {
        allow_return_outside_function: true,
        enable_ident_hashes: false,
        ..ParseOptions::default()
    };
    let mut reason = None;
    // Some code is valid only as a module, other code only as a script, so try both.
    for language in [language.with_module(true), language.with_script(true)] {
        let allocator = Allocator::default();
        let parsed = Parser::new(&allocator, source, language).with_options(options).parse();
        if !parsed.panicked && parsed.diagnostics.is_empty() {
            return judge(&Nodes::of(&parsed.program));
        }
        reason = reason.or_else(|| parsed.diagnostics.first().map(|error| format!(": {error}")));
    }
    Err(format!("the code cannot be parsed{}", reason.unwrap_or_default()))
}

/// The nodes of a syntax tree. Each parent comes before its children, and each node contains its own position in the
/// list.
#[derive(Debug, Default)]
pub(super) struct Nodes<'t> {
    pub(super) all: Vec<AstKind<'t>>,
    /// The position of each node's parent in `all`.
    parents: Vec<usize>,
    /// The positions of the nodes whose children are being visited, outermost first.
    path: Vec<usize>,
}

impl<'t> Nodes<'t> {
    fn of(program: &Program<'t>) -> Self {
        let mut nodes = Self::default();
        nodes.visit_program(program);
        nodes
    }

    /// Returns the parent of a node. The first node is its own parent.
    pub(super) fn parent(&self, node: AstKind<'_>) -> Option<AstKind<'t>> {
        self.all.get(*self.parents.get(number(node))?).copied()
    }
}

impl<'t> Visit<'t> for Nodes<'t> {
    fn enter_node(&mut self, node: AstKind<'t>) {
        node.set_node_id(NodeId::from_usize(self.all.len()));
        self.parents.push(self.path.last().copied().unwrap_or_default());
        // A node for an optional chain is left out; the expression in it represents the chain.
        if !matches!(node, AstKind::ChainExpression(_)) {
            self.path.push(self.all.len());
        }
        self.all.push(node);
    }

    fn leave_node(&mut self, node: AstKind<'t>) {
        if !matches!(node, AstKind::ChainExpression(_)) {
            self.path.pop();
        }
    }
}

/// Returns the position of a node in [`Nodes::all`].
pub(super) fn number(node: AstKind<'_>) -> usize {
    node.node_id().index()
}

/// A call, a construction with `new`, or an `import` expression.
#[derive(Debug)]
pub(super) struct Call<'t> {
    /// The called function; `None` for an `import` expression.
    pub(super) function: Option<&'t Expression<'t>>,
    pub(super) arguments: Vec<AstKind<'t>>,
}

impl<'t> Call<'t> {
    /// Returns the call that a node represents, if it represents a call.
    pub(super) fn of(node: AstKind<'t>) -> Option<Self> {
        let (function, arguments) = match node {
            AstKind::CallExpression(call) => (&call.callee, &call.arguments[..]),
            AstKind::NewExpression(new) => (&new.callee, &new.arguments[..]),
            AstKind::TaggedTemplateExpression(call) => {
                // The arguments of the tag function are the text of the template and the values in it.
                let values = call.quasi.expressions.iter().map(expression);
                let text = AstKind::TemplateLiteral(&call.quasi);
                let arguments = std::iter::once(text).chain(values).collect();
                return Some(Self { function: Some(&call.tag), arguments });
            }
            AstKind::ImportExpression(import) => {
                return Some(Self { function: None, arguments: vec![expression(&import.source)] });
            }
            _ => return None,
        };
        let arguments = arguments
            .iter()
            .map(|argument| match argument {
                Argument::SpreadElement(spread) => AstKind::SpreadElement(spread),
                other => expression(other.to_expression()),
            })
            .collect();
        Some(Self { function: Some(function), arguments })
    }

    /// Returns the first argument that the called function receives, also if the call uses `call`, `apply` or `bind`.
    pub(super) fn first_passed(&self) -> Option<AstKind<'t>> {
        match self.member() {
            Some("call" | "bind") => self.arguments.get(1).copied(),
            Some("apply") => first_of_list(*self.arguments.get(1)?),
            _ => self.arguments.first().copied(),
        }
    }

    /// Returns the name of the member that is called, e.g. `bind` for `f.bind(x)`.
    pub(super) fn member(&self) -> Option<&'t str> {
        self.function?.get_member_expr()?.static_property_name()
    }
}

/// Returns the first expression of an array.
pub(super) fn first_of_list(list: AstKind<'_>) -> Option<AstKind<'_>> {
    let AstKind::ArrayExpression(list) = list else { return None };
    list.elements.first()?.as_expression().map(expression)
}

/// Returns the node of an expression; an optional chain is represented by the expression in it.
pub(super) fn expression<'t>(expression: &'t Expression<'t>) -> AstKind<'t> {
    match expression {
        Expression::ChainExpression(chain) => match &chain.expression {
            ChainElement::CallExpression(call) => AstKind::CallExpression(call),
            ChainElement::TSNonNullExpression(inner) => AstKind::TSNonNullExpression(inner),
            member => member_node(member.to_member_expression()),
        },
        other => AstKind::from_expression(other),
    }
}

fn member_node<'t>(member: &'t MemberExpression<'t>) -> AstKind<'t> {
    match member {
        MemberExpression::ComputedMemberExpression(of) => AstKind::ComputedMemberExpression(of),
        MemberExpression::StaticMemberExpression(of) => AstKind::StaticMemberExpression(of),
        MemberExpression::PrivateFieldExpression(of) => AstKind::PrivateFieldExpression(of),
    }
}

/// Returns the node of a pattern that declares names.
pub(super) fn pattern<'t>(pattern: &'t BindingPattern<'t>) -> AstKind<'t> {
    match pattern {
        BindingPattern::BindingIdentifier(name) => AstKind::BindingIdentifier(name),
        BindingPattern::ObjectPattern(object) => AstKind::ObjectPattern(object),
        BindingPattern::ArrayPattern(list) => AstKind::ArrayPattern(list),
        BindingPattern::AssignmentPattern(default) => AstKind::AssignmentPattern(default),
    }
}

/// Returns the node of an assignment's target.
pub(super) fn assigned<'t>(target: &'t AssignmentTarget<'t>) -> AstKind<'t> {
    match target {
        AssignmentTarget::AssignmentTargetIdentifier(name) => AstKind::IdentifierReference(name),
        AssignmentTarget::ArrayAssignmentTarget(list) => AstKind::ArrayAssignmentTarget(list),
        AssignmentTarget::ObjectAssignmentTarget(object) => AstKind::ObjectAssignmentTarget(object),
        AssignmentTarget::TSAsExpression(of) => AstKind::TSAsExpression(of),
        AssignmentTarget::TSSatisfiesExpression(of) => AstKind::TSSatisfiesExpression(of),
        AssignmentTarget::TSNonNullExpression(of) => AstKind::TSNonNullExpression(of),
        AssignmentTarget::TSTypeAssertion(of) => AstKind::TSTypeAssertion(of),
        member => member_node(member.to_member_expression()),
    }
}

/// Returns the node of an assignment's target that may have a default value.
pub(super) fn assigned_or_default<'t>(target: &'t AssignmentTargetMaybeDefault<'t>) -> AstKind<'t> {
    match target {
        AssignmentTargetMaybeDefault::AssignmentTargetWithDefault(default) => {
            AstKind::AssignmentTargetWithDefault(default)
        }
        target => assigned(target.to_assignment_target()),
    }
}

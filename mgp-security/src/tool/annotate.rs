//! MCP's hints of tools, derived from their security metadata (MGP §4.3).

use mgp_types::Lenient;
use mgp_types::mcp::{self, ToolAnnotations};
use mgp_types::mgp::{RiskLevel, SideEffect};

/// Adds MCP's hints that a definition lacks, derived from its declared metadata.
///
/// ```
/// use mgp_security::derive_hints;
/// use mgp_types::mcp::Tool;
///
/// let mut tool: Tool = serde_json::from_str(
///     r#"{"name":"rm","inputSchema":{},"security":{"risk_level":"dangerous"}}"#,
/// )
/// .unwrap();
/// derive_hints(&mut tool);
/// assert_eq!(tool.annotations.unwrap().destructive_hint, Some(true));
/// ```
pub fn derive_hints(definition: &mut mcp::Tool) {
    let Some(Lenient::Valid(security)) = &definition.security else { return };
    let hints = definition.annotations.get_or_insert_default();
    derive(hints, &security.risk_level, security.reversible == Some(false));
    if security.side_effects.contains(&SideEffect::Network) {
        hints.open_world_hint.get_or_insert(true);
    }
}

/// Sets missing hints from a risk. A missing `destructiveHint` becomes `true` only for a tool that is dangerous or
/// irreversible, and not read-only (§4.4).
fn derive(hints: &mut ToolAnnotations, risk: &RiskLevel, irreversible: bool) {
    let destructive = irreversible || *risk >= RiskLevel::Dangerous;
    let read_only = *risk == RiskLevel::Safe && !destructive;
    // A derived hint must not contradict a hint that the author wrote.
    let read_only = *hints.read_only_hint.get_or_insert(read_only);
    hints.destructive_hint.get_or_insert(destructive && !read_only);
}

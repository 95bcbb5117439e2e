//! Writes assessments into listed definitions: as MCP's hints, and as the metadata `security` of §4.3, both in the
//! definition itself and in its `_meta` (MGP §4.2).

use mgp_types::mcp::{self, Meta, ToolAnnotations, key};
use mgp_types::mgp::{Permission, RiskLevel, SideEffect, ToolSecurity};
use mgp_types::{Lenient, Object, Payload};

use super::Assessment;

impl Assessment {
    /// Writes the assessment into a definition that is passed on to a client: into `security`, its copy in `_meta`, and
    /// MCP's hints.
    ///
    /// An existing hint is replaced only if it claims less risk than the assessment. The server's own declarations are
    /// kept.
    pub fn annotate(&self, tool: &mut mcp::Tool) {
        let declared = tool.find_security().and_then(|security| security.valid().cloned());
        let network = declared.as_ref().is_some_and(declares_network)
            || self.permissions.contains(&Permission::NetworkOutbound);
        let irreversible =
            declared.as_ref().is_some_and(|security| security.reversible == Some(false));
        let mut security = declared.unwrap_or_else(|| {
            let mut security = ToolSecurity::new(self.effective_risk.clone());
            security.permissions_required = self.permissions.clone().into();
            security
        });
        security.effective_risk_level = Some(self.effective_risk.clone());

        let hints = tool.annotations.get_or_insert_default();
        let dangerous = irreversible || self.effective_risk >= RiskLevel::Dangerous;
        if dangerous {
            hints.read_only_hint = Some(false);
            hints.destructive_hint = Some(true);
        }
        derive(hints, &self.effective_risk, irreversible);
        if network {
            hints.open_world_hint = Some(true);
        }
        mirror(tool, &security);
        tool.security = Some(security.into());
    }
}

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
    if declares_network(security) {
        hints.open_world_hint.get_or_insert(true);
    }
}

/// Sets missing hints from a risk. The effects of a moderate tool can be undone, so `destructiveHint` becomes `true`
/// only for dangerous and irreversible tools (§4.4).
fn derive(hints: &mut ToolAnnotations, risk: &RiskLevel, irreversible: bool) {
    let destructive = irreversible || *risk >= RiskLevel::Dangerous;
    let read_only = *risk == RiskLevel::Safe && !destructive;
    // A derived hint must not contradict a hint that the author wrote.
    let read_only = *hints.read_only_hint.get_or_insert(read_only);
    hints.destructive_hint.get_or_insert(destructive && !read_only);
}

fn declares_network(security: &ToolSecurity) -> bool {
    security.side_effects.contains(&SideEffect::Network)
}

/// Copies the metadata to `_meta`, for clients that drop unknown members.
fn mirror(tool: &mut mcp::Tool, security: &ToolSecurity) {
    let Ok(security) = Payload::of(security) else { return };
    let meta = tool.meta.get_or_insert_with(Meta::new);
    let own = meta.get(key::MGP).and_then(|own| own.get::<Object>().ok());
    let mut own = own.unwrap_or_default();
    own.insert("security", security);
    if let Ok(own) = Payload::of(&own) {
        meta.insert(key::MGP, own);
    }
}

//! Checks a tool before it is added to a server.

use mgp_types::mcp;
use mgp_types::mgp::Permission;
use mgp_types::service::{Extensions, HeaderPlan};

use super::security::declared;
use super::{Tool, schema};
use crate::error::BuildError;

/// The prefixes of names that are reserved for the protocol's own tools.
const RESERVED: [&str; 3] = ["mgp/", "mgp.", "mgp_"];

const MAX_NAME_LENGTH: usize = 128;

impl Tool {
    /// Checks everything about the tool that does not depend on the server to which it is added.
    pub(super) fn check(&self) -> Result<(), BuildError> {
        let name = &self.definition.name;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME_LENGTH || !name.bytes().all(plain) {
            return Err(BuildError::InvalidName(name.chars().take(MAX_NAME_LENGTH).collect()));
        }
        if let Some(prefix) = RESERVED.into_iter().find(|prefix| name.starts_with(prefix)) {
            return Err(BuildError::ReservedName { tool: name.clone(), prefix });
        }
        let input = &self.definition.input_schema;
        if !schema::is_of_objects(input) {
            let kind = schema::root_type(input).unwrap_or_else(|| "missing".to_owned());
            return Err(BuildError::ArgumentsNotObject { tool: name.clone(), kind });
        }
        if self.definition.output_schema.is_some() && !self.types.can_be_structured {
            return Err(BuildError::OutputNotStructured(name.clone()));
        }
        if let Err(why) = HeaderPlan::of(input) {
            return Err(BuildError::InvalidHeaders { tool: name.clone(), why });
        }
        let permissions = permissions(&self.definition);
        match permissions.into_iter().find(|permission| !permission.is_valid()) {
            Some(permission) => {
                Err(BuildError::UnknownPermission { tool: name.clone(), permission })
            }
            None => Ok(()),
        }
    }

    /// Checks that the server has the state that the tool needs.
    pub(super) fn check_state(&self, state: &Extensions) -> Result<(), BuildError> {
        match self.types.needs.iter().find(|need| !need.is_met(state)) {
            None => Ok(()),
            Some(need) => Err(BuildError::MissingToolState {
                tool: self.definition.name.clone(),
                state: need.name(),
            }),
        }
    }

    /// Logs a warning if the tool runs code but declares no rules for it; the definition is valid nevertheless.
    pub(super) fn advise(&self) {
        let Some(security) = declared(&self.definition) else { return };
        let runs_code = permissions(&self.definition).contains(&Permission::CodeExecution);
        if runs_code && security.code_safety.is_none() {
            tracing::warn!(
                tool = %self.definition.name,
                "tool needs `code_execution` without declaring code safety; clients cannot check its code"
            );
        }
    }
}

/// Returns the permissions a tool needs, by their standard names.
pub(super) fn permissions(definition: &mcp::Tool) -> Vec<Permission> {
    declared(definition).map_or_else(Vec::new, |security| {
        Permission::canonical(security.permissions_required.iter())
    })
}

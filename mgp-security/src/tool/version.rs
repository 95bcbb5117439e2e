//! The tool versions that a caller accepts (`_meta.tool_version`).

use mgp_types::service::{MetaKey, Params};
use mgp_types::{Object, mcp};
use semver::{Version, VersionReq};

/// The maximum length of a range of versions in an error, in bytes.
const MAX_PIN: usize = 80;

/// The error for a tool whose version the caller does not accept.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the caller accepts version `{wanted}` of `{tool}`, which has {}; {hint}", shown(.available.as_ref()))]
pub struct VersionRefused {
    tool: String,
    wanted: String,
    available: Option<String>,
    hint: &'static str,
}

fn shown(available: Option<&String>) -> String {
    available.map_or_else(|| "no version".to_owned(), |version| format!("version {version}"))
}

impl VersionRefused {
    /// Returns the error's structured details for the caller (§14.5).
    pub(crate) fn details(&self) -> Object {
        Object::new()
            .with("tool", &self.tool)
            .with("wanted_version", &self.wanted)
            .with("available_version", &self.available)
    }
}

/// Checks the version of a tool, if the params of a call contain the versions that the caller accepts; `null` counts as
/// absent.
///
/// `meta` returns the `_meta` object of the tool's definition; it is called only if the version must be checked.
///
/// # Errors
/// [`VersionRefused`] if the tool has another version or none, or the range is invalid.
pub fn check_version(
    params: &Params,
    tool: &str,
    meta: impl FnOnce() -> Option<mcp::Meta>,
) -> Result<(), Box<VersionRefused>> {
    let given = params.meta_member(MetaKey::ToolVersion).filter(|given| *given != "null");
    let Some(given) = given else { return Ok(()) };
    let wanted: Option<String> = serde_json::from_str(given).ok();
    let available = meta().and_then(|meta| meta.get("version")?.get::<String>().ok());
    let version = available.as_deref().and_then(|version| Version::parse(version).ok());
    let range = wanted.as_deref().and_then(|wanted| VersionReq::parse(wanted).ok());
    let hint = match (&range, &version) {
        (Some(range), Some(version)) if range.matches(version) => return Ok(()),
        (None, _) => "write a range such as `^1.2`",
        _ => "read the definition again, then accept its version",
    };
    let wanted = mgp_types::clip(wanted.as_deref().unwrap_or(given), MAX_PIN);
    Err(Box::new(VersionRefused { tool: tool.to_owned(), wanted, available, hint }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pin: &str, version: Option<&str>) -> Result<(), String> {
        let text = format!(r#"{{"name":"t","_meta":{{"tool_version":{pin}}}}}"#);
        let params = Params::split("tools/call", text.into()).unwrap();
        let meta = || {
            let mut meta = mcp::Meta::new();
            meta.0.encode("version", version?).unwrap();
            Some(meta)
        };
        check_version(&params, "t", meta).map_err(|refused| refused.to_string())
    }

    #[test]
    fn a_pin_is_satisfied_or_refused_with_the_available_version() {
        assert_eq!(check("\"^1.2\"", Some("1.4.0")), Ok(()));
        let refused = check("\"^1.2\"", Some("2.0.0")).unwrap_err();
        assert!(refused.contains("`^1.2`") && refused.contains("has version 2.0.0"), "{refused}");
        assert!(check("\"^1.2\"", None).unwrap_err().contains("has no version"));
        assert!(check("1", Some("1.0.0")).unwrap_err().contains("such as `^1.2`"));
        assert_eq!(check("null", Some("1.0.0")), Ok(()));
        let none = Params::split("tools/call", r#"{"name":"t"}"#.into()).unwrap();
        assert!(check_version(&none, "t", || None).is_ok());
    }
}

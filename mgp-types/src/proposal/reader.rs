//! Reads the members of proposals from calls, in each of the places where implementations write them.

use crate::record::Object;
use crate::service::Params;
use crate::wire::Payload;

/// Returns a member of a call: `_meta.NAME`, or else `_mgp.NAME`, or else `params.NAME`.
///
/// This implementation writes only `_meta.NAME`; the other two places are those of other implementations.
///
/// ```
/// use mgp_types::proposal::read_member;
/// use mgp_types::service::Params;
///
/// for text in [r#"{"_meta":{"n":1}}"#, r#"{"_mgp":{"n":1}}"#, r#"{"arguments":{},"n":1}"#] {
///     let params = Params::split("tools/call", text.into()).unwrap();
///     assert_eq!(read_member(&params, "n").unwrap().as_str(), "1");
/// }
/// ```
#[must_use]
pub fn read_member(params: &Params, name: &str) -> Option<Payload> {
    let inside = |object: Option<Payload>| {
        // A search is cheaper than a parse, and most calls have no such member.
        let object = object.filter(|object| object.as_str().contains(name))?;
        object.get::<Object>().ok()?.get(name).cloned()
    };
    let found = inside(params.meta()).or_else(|| inside(params.mgp()));
    found.or_else(|| {
        let may_be_beside = params.may_contain_member(&format!("\"{name}\""));
        params.get::<Object>().ok().filter(|_| may_be_beside)?.get(name).cloned()
    })
}

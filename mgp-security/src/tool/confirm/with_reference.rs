//! The data reference of a call as a part of what a person confirms.

use mgp_types::proposal::DataReference;
use mgp_types::service::Call;
use mgp_types::{Object, Payload, Sha256Hash};

/// The name under which a person sees the reference among the arguments.
const SHOWN_NAME: &str = "_meta.data_reference";

/// Returns the arguments of a call, extended by the data reference that the call contains in addition to them, because
/// the tool would use other data with another reference. Returns `None` for a call without a reference.
pub(crate) fn with_reference(call: &Call) -> Option<Payload> {
    let DataReference { ref_id, origin_server, .. } = call.cx().member().ok()??;
    let mut arguments: Object = call.tool_arguments().get().ok()?;
    let shown = format!("{} of {}", plain(ref_id), plain(origin_server));
    // An argument with this name must stay, so that it is confirmed too. The reference then gets a longer name.
    let mut name = SHOWN_NAME.to_owned();
    while arguments.get(&name).is_some() {
        name.push('_');
    }
    arguments.encode(name, &shown).ok()?;
    Payload::of(&arguments).ok()
}

/// Returns a name unchanged, or its hash if the name could be mistaken for the target of the call, e.g. a path. The
/// mark before the hash cannot begin a plain name.
fn plain(name: String) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.bytes().all(is_plain) {
        name
    } else {
        format!("#{}", Sha256Hash::digest(name.as_bytes()))
    }
}

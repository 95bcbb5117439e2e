//! Expands options whose values are words of the protocol: checks each value, and returns the enum variant that it
//! names.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::LitStr;

use crate::path;

/// An enum of the protocol and the names of its variants.
pub(crate) struct VariantNames {
    /// The kind of value as error messages name it, e.g. `side effect`.
    what: &'static str,
    /// The name of the enum in `mgp_types::mgp`.
    ty: &'static str,
    known: &'static [(&'static str, &'static str)],
}

pub(crate) const RISK: VariantNames = VariantNames {
    what: "risk",
    ty: "RiskLevel",
    known: &[("safe", "Safe"), ("moderate", "Moderate"), ("dangerous", "Dangerous")],
};

pub(crate) const SIDE_EFFECT: VariantNames = VariantNames {
    what: "side effect",
    ty: "SideEffect",
    known: &[
        ("filesystem", "Filesystem"),
        ("network", "Network"),
        ("process", "Process"),
        ("database", "Database"),
        ("notification", "Notification"),
    ],
};

pub(crate) const VALIDATOR: VariantNames = VariantNames {
    what: "validator",
    ty: "Validator",
    known: &[
        ("sandbox", "Sandbox"),
        ("readonly", "Readonly"),
        ("network_restricted", "NetworkRestricted"),
        ("code_safety", "CodeSafety"),
        ("none", "None"),
    ],
};

pub(crate) const CODE_SAFETY: VariantNames = VariantNames {
    what: "code safety level",
    ty: "CodeSafetyLevel",
    known: &[
        ("unrestricted", "Unrestricted"),
        ("standard", "Standard"),
        ("strict", "Strict"),
        ("readonly", "Readonly"),
    ],
};

pub(crate) const PERMISSION: VariantNames = VariantNames {
    what: "permission",
    ty: "Permission",
    known: &[
        ("filesystem.read", "FilesystemRead"),
        ("filesystem.write", "FilesystemWrite"),
        ("network.outbound", "NetworkOutbound"),
        ("network.listen", "NetworkListen"),
        ("shell.execute", "ShellExecute"),
        ("code_execution", "CodeExecution"),
        ("memory.read", "MemoryRead"),
        ("memory.write", "MemoryWrite"),
        ("system.info", "SystemInfo"),
        ("camera", "Camera"),
        ("notification", "Notification"),
    ],
};

/// The short names of standard permissions, which are accepted in addition to the full names.
const SHORT_PERMISSIONS: [&str; 5] = ["shell", "network", "filesystem", "memory", "code"];

impl VariantNames {
    /// Returns the path of the enum variant that `word` names; an unknown word is an error.
    pub(crate) fn variant(&self, word: &LitStr) -> syn::Result<TokenStream> {
        let text = word.value();
        match self.known.iter().find(|(one, _)| *one == text) {
            Some((_, variant)) => {
                let (mgp, ty, variant) =
                    (path::mgp(), format_ident!("{}", self.ty), format_ident!("{variant}"));
                Ok(quote!(#mgp::#ty::#variant))
            }
            None => Err(self.unknown(word, "")),
        }
    }

    fn unknown(&self, word: &LitStr, more: &str) -> syn::Error {
        let known: Vec<_> = self.known.iter().map(|(one, _)| *one).collect();
        let (what, text) = (self.what, word.value());
        let message = format!("unknown {what} `{text}`; known: {}{more}", known.join(", "));
        syn::Error::new(word.span(), message)
    }
}

/// Returns the expression of a permission, which is a standard permission, a short name, or a name in reverse-domain
/// notation.
pub(crate) fn permission(word: &LitStr) -> syn::Result<TokenStream> {
    let text = word.value();
    if PERMISSION.known.iter().any(|(one, _)| *one == text) {
        return PERMISSION.variant(word);
    }
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
    };
    let is_custom = text.contains('.') && text.split('.').all(is_label);
    if SHORT_PERMISSIONS.contains(&&*text) || is_custom {
        let mgp = path::mgp();
        return Ok(quote!(#mgp::Permission::from(#word)));
    }
    let more = ", or a reverse-domain name such as com.example.thing";
    Err(PERMISSION.unknown(word, more))
}

//! The digest that audit events contain instead of the arguments of a call (MGP §6.3).

use crate::Payload;
use crate::hex::push_hex;
use crate::service::write::format_u64;

/// A keyed digest of arguments, and their size. It shows only whether two calls had equal arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArgumentsDigest {
    /// The keyed digest of the arguments; `None` if no key is available.
    pub digest: Option<[u8; 16]>,
    /// The size of the arguments as received, in bytes.
    pub bytes: u64,
    /// The text from which the digest was computed: the canonical JSON of the arguments, or the text as received.
    pub of: DigestForm,
}

/// The text of a call's arguments from which a digest is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestForm {
    /// The canonical JSON of the arguments, so that equal arguments have equal digests.
    Canonical,
    /// The text as received. It is used if the arguments have no canonical form, or are too long to be converted to it.
    AsItCame,
}

impl ArgumentsDigest {
    /// Creates the digest of arguments: `bytes` is the size of the arguments as received, and `of` the form from which
    /// the digest was computed.
    #[must_use]
    pub fn new(digest: Option<[u8; 16]>, bytes: u64, of: DigestForm) -> Self {
        Self { digest, bytes, of }
    }

    /// Appends the JSON object that is recorded as `arguments` in the details of an event.
    pub fn push(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        if let Some(digest) = &self.digest {
            out.extend_from_slice(br#""digest":""#);
            push_hex(digest, out);
            out.extend_from_slice(br#"","#);
        }
        out.extend_from_slice(br#""bytes":"#);
        out.extend_from_slice(format_u64(self.bytes, &mut [0; 20]));
        if self.of == DigestForm::AsItCame {
            out.extend_from_slice(br#","raw":true"#);
        }
        out.push(b'}');
    }

    /// Returns the JSON object that [`push`](Self::push) appends, as a payload.
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        let mut out = Vec::with_capacity(80);
        self.push(&mut out);
        // Cannot fail: the object is ASCII.
        Payload::from_trusted(String::from_utf8(out).unwrap_or_default())
    }
}

//! What is recorded of arguments that are kept out of the log (MGP §6.3).

use crate::Payload;
use crate::hex::push_hex;

/// A keyed digest of arguments, and their size: equal arguments can be told, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Digested {
    /// The digest; none where there is no key to make one.
    pub digest: Option<[u8; 16]>,
    /// How long they are, as they came.
    pub bytes: u64,
    /// What was digested.
    pub of: DigestOf,
}

/// The text behind a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestOf {
    /// The canonical form, so that the same arguments have the same digest.
    Canonical,
    /// The text as it came: it has no canonical form, or is too long for one.
    AsItCame,
}

impl Digested {
    /// A digest of arguments of this size.
    #[must_use]
    pub fn new(digest: Option<[u8; 16]>, bytes: u64, of: DigestOf) -> Self {
        Self { digest, bytes, of }
    }

    /// Writes the object that stands as `arguments` in the details of an event.
    pub fn push(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        if let Some(digest) = &self.digest {
            out.extend_from_slice(br#""digest":""#);
            push_hex(digest, out);
            out.extend_from_slice(br#"","#);
        }
        out.extend_from_slice(br#""bytes":"#);
        push_number(self.bytes, out);
        if self.of == DigestOf::AsItCame {
            out.extend_from_slice(br#","raw":true"#);
        }
        out.push(b'}');
    }

    /// The same object as a value.
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        let mut out = Vec::with_capacity(80);
        self.push(&mut out);
        // It is ASCII.
        Payload::from_trusted(String::from_utf8(out).unwrap_or_default())
    }
}

/// Writes a number without the machinery of formatting, which costs as much as a digest.
pub(crate) fn push_number(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            break out.extend_from_slice(&digits[at..]);
        }
    }
}

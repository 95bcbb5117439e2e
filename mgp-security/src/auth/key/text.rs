//! The textual form of a key and of the hash of its secret.

use mgp_types::from_hex;
use sha2::{Digest, Sha256};

/// The prefix of every API key.
pub(super) const PREFIX: &str = "mgp_";
const MAX_ID: usize = 64;
const MAX_SECRET: usize = 256;

/// The SHA-256 hash of a key's secret.
pub(super) type Hash = [u8; 32];

/// The parts of a well-formed key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyText<'a> {
    pub(super) id: &'a str,
    pub(super) secret: &'a str,
}

impl<'a> KeyText<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let fits = (1..=MAX_ID).contains(&id.len())
            && (1..=MAX_SECRET).contains(&secret.len())
            && id.bytes().all(plain)
            && secret.bytes().all(|byte| plain(byte) || byte == b'_');
        fits.then_some(Self { id, secret })
    }

    pub(super) fn hash(&self) -> Hash {
        Sha256::digest(self.secret.as_bytes()).into()
    }
}

/// Parses a hash of 64 lower-case hexadecimal digits.
pub(super) fn hash_from_hex(text: &str) -> Option<Hash> {
    Hash::try_from(from_hex(text)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use mgp_types::to_hex;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(&str, &str)>) {
        assert_eq!(KeyText::parse(text).map(|key| (key.id, key.secret)), expected);
    }

    #[test]
    fn keys_have_an_id_and_a_secret() {
        check("mgp_a_b", Some(("a", "b")));
        check("mgp_key-1_a-b_c", Some(("key-1", "a-b_c")));
    }

    #[test]
    fn malformed_keys_are_not_parsed() {
        for text in [
            "",
            "mgp",
            "mgp_",
            "mgp_a",
            "mgp_a_",
            "mgp__b",
            "MGP_a_b",
            "mgp_a.b_c",
            "mgp_a_b\n",
            "mgp_a_b ",
            " mgp_a_b",
            "mgp_a_b\0",
            "mgp_\u{0661}_b",
            "mgp_a_\u{ff11}",
            "mgp-a-b",
            "mgp_a_b=",
            "mgp_../../x_b",
        ] {
            check(text, None);
        }
        check(&format!("mgp_{}_b", "a".repeat(65)), None);
        check(&format!("mgp_a_{}", "b".repeat(257)), None);
    }

    #[test]
    fn hashes_round_trip() {
        let hash = KeyText { id: "a", secret: "abc" }.hash();
        assert_eq!(
            to_hex(&hash),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(hash_from_hex(&to_hex(&hash)), Some(hash));
        assert_eq!(hash_from_hex(&to_hex(&hash).to_uppercase()), None);
        assert_eq!(hash_from_hex(&to_hex(&hash)[1..]), None);
        assert_eq!(hash_from_hex(&format!("{}0", to_hex(&hash))), None);
        assert_eq!(hash_from_hex(&format!("{}é", &to_hex(&hash)[..62])), None);
    }

    proptest! {
        #[test]
        fn a_key_is_its_parts(text in "(mgp_)?[a-zA-Z0-9_\\-. \u{e9}]{0,40}") {
            if let Some(KeyText { id, secret }) = KeyText::parse(&text) {
                prop_assert_eq!(&format!("mgp_{id}_{secret}"), &text);
                prop_assert!(!id.contains('_') && !id.is_empty() && !secret.is_empty());
            }
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in ".*") {
            let _ = (KeyText::parse(&text).is_some(), hash_from_hex(&text).is_some());
        }
    }
}

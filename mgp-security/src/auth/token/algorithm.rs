//! The accepted signature algorithms. All are asymmetric, so a public key cannot be used to sign a token (RFC 8725
//! §3.1).

use jsonwebtoken::Algorithm;

/// An algorithm that can be accepted for the signature of a token. `none` and `HS256` are not in this list, so an
/// operator cannot allow them by mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SignatureAlgorithm {
    /// RSA PKCS #1 v1.5 with SHA-256.
    Rs256,
    /// RSA PKCS #1 v1.5 with SHA-384.
    Rs384,
    /// RSA PKCS #1 v1.5 with SHA-512.
    Rs512,
    /// RSA-PSS with SHA-256.
    Ps256,
    /// RSA-PSS with SHA-384.
    Ps384,
    /// RSA-PSS with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl SignatureAlgorithm {
    /// The algorithms allowed by default.
    pub(super) const DEFAULT: &[Self] =
        &[Self::Rs256, Self::Ps256, Self::Es256, Self::Es384, Self::EdDsa];

    pub(super) const RSA: &[Self] =
        &[Self::Rs256, Self::Rs384, Self::Rs512, Self::Ps256, Self::Ps384, Self::Ps512];

    /// Parses the exact name of an algorithm in a header or key.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            // RFC 9864 adds the name `Ed25519` for `EdDSA` with the curve Ed25519. No other curve is supported here, so
            // both names mean the same.
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }

    pub(super) fn to_jsonwebtoken(self) -> Algorithm {
        match self {
            Self::Rs256 => Algorithm::RS256,
            Self::Rs384 => Algorithm::RS384,
            Self::Rs512 => Algorithm::RS512,
            Self::Ps256 => Algorithm::PS256,
            Self::Ps384 => Algorithm::PS384,
            Self::Ps512 => Algorithm::PS512,
            Self::Es256 => Algorithm::ES256,
            Self::Es384 => Algorithm::ES384,
            Self::EdDsa => Algorithm::EdDSA,
        }
    }
}

//! Proposal 9 (`data_references`): data that one server fetches from another, without passing through the client.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::Member;
use crate::mgp::Extension;
use crate::record::{decode, record};
use crate::{Payload, RpcError, Timestamp, from_hex, to_hex};

record! {
    /// A reference to data that a server exported.
    ///
    /// A client passes the reference to a tool of another server, which then fetches the data from the exporting
    /// server.
    pub struct DataReference {
        /// The id that the exporting server chose.
        req ref_id: String,
        /// The server that exported the data.
        req origin_server: String,
        /// The media type of the data.
        req mime_type: String,
        /// The size of the data, in bytes.
        opt size_bytes read whole: Option<u64>,
        /// The time after which the data can no longer be read.
        opt expires_at: Option<Timestamp>,
        /// The URL of the data. Reading it needs no credentials, so the URL must be given only to servers.
        opt access_url: Option<String>,
        /// The checksum of the data.
        opt checksum: Option<Checksum>,
    }
}

impl Member for DataReference {
    const EXTENSION: Extension = Extension::DataReferences;
    const NAME: &'static str = "data_reference";
}

impl DataReference {
    /// Returns a copy of the reference without its URL, which clients and models must not see.
    #[must_use]
    pub fn without_url(&self) -> Self {
        Self { access_url: None, ..self.clone() }
    }
}

/// A checksum of data. Decoding also accepts a single text such as `sha256:9f86…`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Checksum {
    /// The name of the algorithm: `sha256` or `md5`.
    pub algorithm: String,
    /// The checksum, in hexadecimal.
    pub value: String,
}

impl Checksum {
    /// Creates a SHA-256 checksum.
    #[must_use]
    pub fn sha256(digest: &[u8; 32]) -> Self {
        Self { algorithm: "sha256".to_owned(), value: to_hex(digest) }
    }

    /// Returns the bytes of a SHA-256 checksum.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) for another algorithm, because MD5 is not secure, and for a value that is not 64
    /// hexadecimal digits.
    pub fn to_sha256(&self) -> Result<Vec<u8>, RpcError> {
        if !self.algorithm.eq_ignore_ascii_case("sha256") {
            let message = format!("the checksum `{}` is not supported; use sha256", self.algorithm);
            return Err(RpcError::invalid_params(message));
        }
        let digest = from_hex(&self.value.to_ascii_lowercase());
        digest
            .filter(|digest| digest.len() == 32)
            .ok_or_else(|| RpcError::invalid_params("a sha256 checksum has 64 hexadecimal digits"))
    }
}

impl<'de> Deserialize<'de> for Checksum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Members {
            algorithm: String,
            value: String,
        }
        let raw = Payload::deserialize(deserializer)?;
        if raw.as_str().trim_start().starts_with('{') {
            let Members { algorithm, value } = decode::<_, D::Error>(&raw)?;
            return Ok(Self { algorithm, value });
        }
        let text = decode::<String, D::Error>(&raw)?;
        let (algorithm, value) = text
            .split_once(':')
            .ok_or_else(|| D::Error::custom("a checksum is `ALGORITHM:HEX`"))?;
        Ok(Self { algorithm: algorithm.to_owned(), value: value.to_owned() })
    }
}

crate::record::schema_of!(Checksum as "Checksum", {
    "type": "object",
    "properties": { "algorithm": { "type": "string" }, "value": { "type": "string" } },
    "required": ["algorithm", "value"]
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_read_as_an_object_or_a_text_and_written_as_an_object() {
        let hex = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        let object = format!(r#"{{"algorithm":"sha256","value":"{hex}"}}"#);
        for text in [object.clone(), format!("\"sha256:{hex}\"")] {
            let checksum: Checksum = serde_json::from_str(&text).unwrap();
            assert_eq!(checksum.to_sha256().unwrap().len(), 32);
            assert_eq!(serde_json::to_string(&checksum).unwrap(), object);
        }
        for text in ["\"sha256:00\"", "\"md5:d41d8cd98f00b204e9800998ecf8427e\""] {
            assert!(serde_json::from_str::<Checksum>(text).unwrap().to_sha256().is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Checksum>("\"9f86\"").is_err());
    }

    #[test]
    fn a_reference_of_the_proposal_is_read_and_shown_without_its_url() {
        let text = r#"{"ref_id":"analysis-789","origin_server":"amplitude","mime_type":"text/csv","access_url":"https://x/y","rows":5}"#;
        let reference: DataReference = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&reference).unwrap(), text);
        let shown = serde_json::to_string(&reference.without_url()).unwrap();
        assert_eq!(shown, text.replace(r#""access_url":"https://x/y","#, ""));
    }
}

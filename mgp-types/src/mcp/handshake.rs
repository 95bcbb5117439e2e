//! The start of a connection: `initialize` (legacy), `server/discover` (modern).

use super::{
    CacheScope, ClientCapabilities, Icon, Meta, ResultType, Revision, ServerCapabilities, key,
};
use crate::RpcError;
use crate::record::{List, record};

record! {
    /// The name and version that a peer claims.
    pub struct Implementation {
        /// The name that identifies the software.
        req name: String,
        /// The display name of the software.
        opt title: Option<String>,
        /// The version of the software.
        req version read text: String,
        /// A description of the software.
        opt description: Option<String>,
        /// The URL of the software's web site.
        opt website_url as "websiteUrl": Option<String>,
        /// The icons of the software.
        list icons: List<Icon>,
    }

    /// Parameters of `initialize` (§2.2).
    pub struct InitializeParams {
        /// The newest revision that the client supports.
        req protocol_version as "protocolVersion": Revision,
        /// The client's capabilities.
        req capabilities read object: ClientCapabilities,
        /// The name and version of the client.
        req client_info as "clientInfo": Implementation,
        /// The `_meta` member.
        opt meta as "_meta" read object: Option<Meta>,
    }

    /// Result of `initialize` (§2.3).
    pub struct InitializeResult {
        /// The negotiated revision.
        req protocol_version as "protocolVersion": Revision,
        /// The server's capabilities.
        req capabilities read object: ServerCapabilities,
        /// The name and version of the server.
        req server_info as "serverInfo": Implementation,
        /// Instructions for the model.
        opt instructions: Option<String>,
        /// The `_meta` member.
        opt meta as "_meta" read object: Option<Meta>,
    }

    /// Parameters of `server/discover`.
    pub struct DiscoverParams {
        /// The `_meta` member, with the revision and the client's capabilities.
        opt meta as "_meta" read object: Option<Meta>,
    }

    /// Result of `server/discover`.
    pub struct DiscoverResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The revisions that the server supports.
        req supported_versions as "supportedVersions": Vec<Revision>,
        /// The server's capabilities.
        req capabilities read object: ServerCapabilities,
        /// Instructions for the model.
        opt instructions: Option<String>,
        /// The time for which the result stays fresh, in milliseconds.
        opt ttl_ms as "ttlMs" read whole: Option<u64>,
        /// The caches that are allowed to store the result.
        opt cache_scope as "cacheScope": Option<CacheScope>,
        /// The `_meta` member, with the name and version of the server.
        opt meta as "_meta" read object: Option<Meta>,
    }

    /// Parameters without content of their own (`ping`, `roots/list`, list-changed notifications).
    pub struct EmptyParams {
        /// The `_meta` member.
        opt meta as "_meta" read object: Option<Meta>,
    }

    /// A result without content.
    pub struct EmptyResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The `_meta` member.
        opt meta as "_meta" read object: Option<Meta>,
    }

    /// The `data` of error −32022: the requested revision is not supported.
    pub struct UnsupportedVersionData {
        /// The revisions that the server supports.
        req supported: Vec<Revision>,
        /// The requested revision.
        req requested: Revision,
    }
}

impl Meta {
    /// Returns the name and version of the server that sent the result; `None` if they are absent.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the member cannot be decoded.
    pub fn server_info(&self) -> Result<Option<Implementation>, RpcError> {
        self.decode(key::SERVER_INFO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Handwritten servers in PHP and Ruby write such results. They are accepted, so that the tools of these servers
    /// can be used.
    #[test]
    fn a_version_may_be_a_number_and_an_empty_object_an_empty_list() {
        let read = |info: &str| {
            let text = format!(
                r#"{{"protocolVersion":"2025-06-18","capabilities":[],"serverInfo":{info},"_meta":[]}}"#
            );
            serde_json::from_str::<InitializeResult>(&text)
        };
        for (version, expected) in [("1.0", "1.0"), ("2", "2"), (r#""2""#, "2")] {
            let result = read(&format!(r#"{{"name":"s","version":{version}}}"#)).unwrap();
            assert_eq!(result.server_info.version, expected);
            assert_eq!(result.capabilities, ServerCapabilities::new());
        }
        for wrong in [r#"{"name":"s"}"#, r#"{"name":"s","version":[]}"#, "[]"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

//! The challenges of `WWW-Authenticate` (RFC 9110 §11.6.1, RFC 6750 §3, RFC 9728 §5.1, RFC 9449 §7.1).

use super::dpop::{ProofSupport, Schemes};
use super::scope::Scopes;

/// The maximum length, in bytes, of a parsed header.
const MAX_HEADER_BYTES: usize = 8 * 1024;
const MAX_CHALLENGES: usize = 16;
const MAX_PARAMS: usize = 32;

/// One challenge: a scheme and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Challenge {
    scheme: String,
    params: Vec<(String, String)>,
}

/// The requirements of a server that refused a request, as the challenges in its response state them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    /// The URL of the resource's metadata.
    pub(super) metadata: Option<String>,
    /// The scopes that the request needs.
    pub(super) scope: Option<Scopes>,
    /// The error code of the challenge.
    pub(super) error: Option<String>,
    /// The authentication schemes that the server accepts.
    pub(super) schemes: Schemes,
    /// The server's support for proofs of possession.
    pub(super) proofs: ProofSupport,
}

impl Challenge {
    fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    /// Returns a parameter, by its name in lower case.
    pub(super) fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Demand {
    /// Reads the OAuth challenges of a refusal. If there are several challenges, prefers the challenge that names
    /// metadata.
    pub(super) fn of(headers: &[String]) -> Self {
        let challenges = parse(headers);
        let mut known = challenges.iter().filter(|one| one.is("bearer") || one.is("dpop"));
        let first = known.clone().next();
        let Some(preferred) = known.find(|one| one.param("resource_metadata").is_some()).or(first)
        else {
            return Self::default();
        };
        let prover = challenges.iter().find(|one| one.is("dpop"));
        let scope = preferred.param("scope").map(Scopes::parse);
        // The DPoP challenge is read first, because it contains the error if a proof was wrong.
        let error = prover.and_then(|one| one.param("error")).or(preferred.param("error"));
        Self {
            metadata: preferred.param("resource_metadata").map(str::to_owned),
            scope: scope.filter(|scopes| !scopes.is_empty()),
            error: error.map(str::to_owned),
            schemes: match (challenges.iter().any(|one| one.is("bearer")), prover) {
                (true, Some(_)) => Schemes::Both,
                (true, None) => Schemes::Bearer,
                (false, _) => Schemes::Dpop,
            },
            proofs: ProofSupport::of(
                prover.and_then(|one| one.param("algs")).map(|list| list.split(' ')),
            ),
        }
    }
}

/// Parses the challenges in the values of `WWW-Authenticate` headers; skips everything else.
pub(super) fn parse(headers: &[String]) -> Vec<Challenge> {
    let mut found = Vec::new();
    for header in headers {
        Cursor::new(header).challenges(&mut found);
    }
    found
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn new(header: &'a str) -> Self {
        let bytes = header.as_bytes();
        Self { rest: &bytes[..bytes.len().min(MAX_HEADER_BYTES)] }
    }

    fn challenges(mut self, found: &mut Vec<Challenge>) {
        // `true` once this header contained a challenge. Further parameters then belong to the last challenge in
        // `found`.
        let mut open = false;
        loop {
            self.skip(|byte| matches!(byte, b' ' | b'\t' | b','));
            if self.rest.is_empty() {
                return;
            }
            let word = self.take(is_token);
            if word.is_empty() {
                self.pass_over();
                continue;
            }
            if let Some(value) = self.value() {
                let name = word.to_ascii_lowercase();
                if let Some(last) = found.last_mut().filter(|_| open)
                    && last.params.len() < MAX_PARAMS
                    && last.param(&name).is_none()
                {
                    last.params.push((name, value));
                }
                continue;
            }
            if found.len() == MAX_CHALLENGES {
                return;
            }
            found.push(Challenge { scheme: word, params: Vec::new() });
            open = true;
            self.token68();
        }
    }

    /// Reads the value after an equals sign, if an equals sign is next.
    fn value(&mut self) -> Option<String> {
        let before = self.rest;
        self.skip(|byte| matches!(byte, b' ' | b'\t'));
        if self.rest.first() != Some(&b'=') {
            self.rest = before;
            return None;
        }
        self.rest = &self.rest[1..];
        self.skip(|byte| matches!(byte, b' ' | b'\t'));
        if self.rest.first() == Some(&b'"') {
            return Some(self.quoted());
        }
        // This is more permissive than the grammar, because some servers write URLs and scopes without quotes.
        Some(self.take(|byte| !matches!(byte, b' ' | b'\t' | b',')))
    }

    /// Reads a quoted string. If the closing quotation mark is missing, reads to the end of the header.
    fn quoted(&mut self) -> String {
        let mut text = Vec::new();
        let mut bytes = self.rest[1..].iter();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => break,
                b'\\' => text.extend(bytes.next()),
                _ => text.push(*byte),
            }
        }
        self.rest = bytes.as_slice();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Skips a `token68`, which some schemes use instead of parameters.
    fn token68(&mut self) {
        let before = self.rest;
        self.skip(|byte| matches!(byte, b' ' | b'\t'));
        let length = self.take(|b| b.is_ascii_alphanumeric() || b"-._~+/".contains(&b)).len();
        self.skip(|byte| byte == b'=');
        self.skip(|byte| matches!(byte, b' ' | b'\t'));
        if length == 0 || !matches!(self.rest.first(), None | Some(b',')) {
            self.rest = before;
        }
    }

    /// Skips a quoted string, or otherwise a single byte, at a position where no token begins.
    fn pass_over(&mut self) {
        if self.rest.first() == Some(&b'"') {
            self.quoted();
        } else {
            self.rest = &self.rest[1..];
        }
    }

    fn skip(&mut self, what: impl Fn(u8) -> bool) {
        let end = self.rest.iter().position(|byte| !what(*byte)).unwrap_or(self.rest.len());
        self.rest = &self.rest[end..];
    }

    fn take(&mut self, what: impl Fn(u8) -> bool) -> String {
        let end = self.rest.iter().position(|byte| !what(*byte)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        String::from_utf8_lossy(word).into_owned()
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(headers: &[&str], expected: &[(&str, &[(&str, &str)])]) {
        let headers: Vec<_> = headers.iter().map(|header| (*header).to_owned()).collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(scheme, params)| Challenge {
                scheme: (*scheme).to_owned(),
                params: params.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
            })
            .collect();
        assert_eq!(parse(&headers), expected, "{headers:?}");
    }

    #[test]
    fn challenges_are_told_apart() {
        check(&[""], &[]);
        check(&["Bearer"], &[("Bearer", &[])]);
        check(&["Bearer realm=x"], &[("Bearer", &[("realm", "x")])]);
        check(
            &[r#"Bearer scope="a b", Resource_Metadata = "https://h/x,y""#],
            &[("Bearer", &[("scope", "a b"), ("resource_metadata", "https://h/x,y")])],
        );
        check(&["Negotiate, Bearer a=b"], &[("Negotiate", &[]), ("Bearer", &[("a", "b")])]);
        check(
            &[r#"Negotiate abc==, Basic realm="w\"x\\" , Bearer"#],
            &[("Negotiate", &[]), ("Basic", &[("realm", r#"w"x\"#)]), ("Bearer", &[])],
        );
        check(
            &["Basic realm=a", "Bearer b=c"],
            &[("Basic", &[("realm", "a")]), ("Bearer", &[("b", "c")])],
        );
        check(&[r#"Bearer scope="a", scope="b""#], &[("Bearer", &[("scope", "a")])]);
        check(&[r#"Bearer ,, scope="a" ,"#], &[("Bearer", &[("scope", "a")])]);
        check(
            &["Bearer resource_metadata=https://h/x"],
            &[("Bearer", &[("resource_metadata", "https://h/x")])],
        );
    }

    #[test]
    fn broken_challenges_do_no_harm() {
        check(&["a=b"], &[]);
        check(&[r#"Bearer scope="a b"#], &[("Bearer", &[("scope", "a b")])]);
        check(&[r#"Bearer scope="a\"#], &[("Bearer", &[("scope", "a")])]);
        check(&[r#""quoted" Bearer a=b"#], &[("Bearer", &[("a", "b")])]);
        check(&["Basic realm=a", "scope=b"], &[("Basic", &[("realm", "a")])]);
        assert_eq!(parse(&["A, ".repeat(1000)]).len(), MAX_CHALLENGES);
        let many: Vec<_> = (0..1000).map(|n| format!("p{n}=1")).collect();
        assert_eq!(parse(&[format!("Bearer {}", many.join(", "))])[0].params.len(), MAX_PARAMS);
    }

    #[test]
    fn the_bearer_that_names_metadata_is_taken() {
        let headers = [r#"Basic scope="no", Bearer scope="a", bearer resource_metadata="m""#];
        let demand = Demand::of(&headers.map(str::to_owned));
        assert_eq!(demand.metadata.as_deref(), Some("m"));
        assert_eq!(demand.scope, None);
        let only = Demand::of(&[r#"BEARER scope="a b", error=insufficient_scope"#.to_owned()]);
        assert_eq!(only.scope, Some(Scopes::parse("a b")));
        assert_eq!(only.error.as_deref(), Some("insufficient_scope"));
        assert_eq!(Demand::of(&[r#"Basic scope="a""#.to_owned()]), Demand::default());
    }

    #[test]
    fn a_challenge_says_how_tokens_may_be_shown() {
        for (header, schemes, proofs, error) in [
            ("Bearer", Schemes::Bearer, ProofSupport::Unstated, None),
            (
                "dpop error=use_dpop_nonce",
                Schemes::Dpop,
                ProofSupport::Unstated,
                Some("use_dpop_nonce"),
            ),
            (r#"Bearer, DPoP algs="PS256 ES256""#, Schemes::Both, ProofSupport::Supported, None),
            (r#"DPoP algs="PS256 ES384", Basic"#, Schemes::Dpop, ProofSupport::Unsupported, None),
            ("Bearer error=a, DPoP error=b", Schemes::Both, ProofSupport::Unstated, Some("b")),
        ] {
            let demand = Demand::of(&[header.to_owned()]);
            assert_eq!((demand.schemes, demand.proofs), (schemes, proofs), "{header}");
            assert_eq!(demand.error.as_deref(), error, "{header}");
        }
        let both = [r#"Bearer resource_metadata="m", scope="a", DPoP algs="ES256""#.to_owned()];
        let demand = Demand::of(&both);
        assert_eq!(demand.metadata.as_deref(), Some("m"));
        assert_eq!(demand.scope, Some(Scopes::parse("a")));
    }

    proptest! {
        #[test]
        fn anything_is_read(header in ".{0,200}") {
            let _ = parse(&[header]);
        }

        #[test]
        fn what_is_written_is_read(
            scheme in "[A-Za-z]{1,8}",
            params in prop::collection::btree_map("[a-z_]{1,8}", "[ -~]{0,20}", 1..6),
        ) {
            let written: Vec<_> = params
                .iter()
                .map(|(n, v)| format!("{n}=\"{}\"", v.replace('\\', "\\\\").replace('"', "\\\"")))
                .collect();
            let found = parse(&[format!("Other, {scheme} {}", written.join(" , "))]);
            prop_assert_eq!(found.len(), 2);
            prop_assert_eq!(&found[1].scheme, &scheme);
            prop_assert_eq!(found[1].params.clone(), params.into_iter().collect::<Vec<_>>());
        }
    }
}

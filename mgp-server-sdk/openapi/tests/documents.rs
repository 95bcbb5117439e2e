//! Tests of documents that are large, or written in an unusual way.

use mgp_openapi::Api;

/// Returns a document with this text before its only path.
fn with(text: &str) -> String {
    format!("openapi: 3.0.3\n{text}\npaths: {{/a: {{get: {{operationId: a}}}}}}\n")
}

#[test]
fn a_large_document_in_yaml_is_read() {
    let values = "  - [1, 2, 3, 4, 5, 6, 7, 8, 9]\n".repeat(26_000);
    assert!(Api::parse(&with(&format!("x-values:\n{values}"))).is_ok());
}

#[test]
fn many_operations_can_share_one_anchor() {
    let operations: Vec<_> =
        (0..500).map(|n| format!("  /a{n}: {{get: {{responses: *errors}}}}\n")).collect();
    let text = format!(
        "openapi: 3.0.3\nx-errors: &errors {{default: {{description: error}}}}\npaths:\n{}",
        operations.concat()
    );
    assert_eq!(Api::parse(&text).unwrap().operations().len(), 500);
}

#[test]
fn aliases_that_repeat_a_long_text_are_refused() {
    let (text, aliases) = ("a".repeat(1 << 20), ["*a"; 200].join(", "));
    let error = Api::parse(&with(&format!("x-a: &a '{text}'\nx-b: [{aliases}]"))).unwrap_err();
    assert!(error.to_string().contains("ScalarBytes"), "{error}");
}

#[test]
fn an_address_is_completed_and_checked_before_any_request() {
    for (url, expected) in [
        ("https://{host}:{port}/v1", "https://x.org:8443/v1"),
        ("HTTPS://X.org/a b/?c=d#e", "https://x.org/a%20b"),
        ("https://0x7f.1/", "https://127.0.0.1"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
    ] {
        let servers = format!(
            "servers: [{{url: '{url}', variables: {{host: {{default: x.org}}, port: {{default: 8443}}}}}}]"
        );
        let address = Api::parse(&with(&servers)).unwrap().address(None).unwrap();
        assert_eq!(address, expected);
    }
    for url in ["https://x.org:99999", "https://x.org\\r\\nX-A: 1"] {
        let api = Api::parse(&with(&format!("servers: [{{url: \"{url}\"}}]"))).unwrap();
        assert!(api.address(None).is_err(), "{url}");
    }
}

#[test]
fn an_operation_with_very_many_parameters_is_left_out() {
    let parameters: Vec<_> =
        (0..200_000).map(|n| format!(r#"{{"name":"p{n}","in":"query"}}"#)).collect();
    let text = format!(
        r#"{{"openapi":"3.0.3","paths":{{"/a":{{"get":{{}},"put":{{"parameters":[{}]}}}}}}}}"#,
        parameters.join(",")
    );
    let api = Api::parse(&text).unwrap();
    assert!(api.left_out()[0].why.contains("128 parameters"), "{:?}", api.left_out());
}

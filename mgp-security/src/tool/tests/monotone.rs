//! Tests that a server's declarations can only add checks and never remove any (MGP §4).

use mgp_types::Lenient;
use mgp_types::mcp::{Tool, ToolAnnotations};
use mgp_types::mgp::{Permission, RiskLevel, SideEffect, ToolSecurity, TrustLevel, Validator};
use proptest::prelude::*;

use crate::{Assessment, NamedTool, ServerPolicy};

fn words<T: From<&'static str> + std::fmt::Debug + Clone + 'static>(
    words: &'static [&'static str],
) -> impl Strategy<Value = T> {
    prop::sample::select(words).prop_map(T::from)
}

fn security() -> impl Strategy<Value = ToolSecurity> {
    (
        words::<RiskLevel>(&["safe", "moderate", "dangerous", "none"]),
        prop::collection::vec(
            words::<Permission>(&[
                "memory.read",
                "network",
                "shell",
                "filesystem.read",
                "com.example.x",
                "none",
            ]),
            0..3,
        ),
        prop::collection::vec(
            words::<SideEffect>(&["network", "filesystem", "process", "none"]),
            0..3,
        ),
        prop::option::of(words::<Validator>(&["none", "sandbox", "readonly", "trust_me"])),
        any::<[Option<bool>; 2]>(),
    )
        .prop_map(|(risk, permissions, effects, validator, [reversible, confirmation])| {
            let mut security = ToolSecurity::new(risk);
            security.permissions_required = permissions.into();
            security.side_effects = effects.into();
            security.validator = validator;
            security.reversible = reversible;
            security.confirmation_required = confirmation;
            security.effective_risk_level = Some(RiskLevel::Safe);
            security
        })
}

fn annotations() -> impl Strategy<Value = ToolAnnotations> {
    any::<[Option<bool>; 4]>().prop_map(|[read_only, destructive, idempotent, open]| {
        let mut hints = ToolAnnotations::new();
        hints.read_only_hint = read_only;
        hints.destructive_hint = destructive;
        hints.idempotent_hint = idempotent;
        hints.open_world_hint = open;
        hints
    })
}

fn tool() -> impl Strategy<Value = Tool> {
    let names =
        prop::sample::select(&["echo", "read_file", "run_command", "deleteUser", "add"][..]);
    let arguments = prop::sample::select(&["a", "path", "command", "url", "sql", "code"][..]);
    (names, arguments).prop_map(|(name, argument)| {
        let schema = format!(r#"{{"properties":{{"{argument}":{{"type":"string"}}}}}}"#);
        serde_json::from_str(&format!(r#"{{"name":"{name}","inputSchema":{schema}}}"#)).unwrap()
    })
}

fn policy(trust: &str) -> ServerPolicy {
    ServerPolicy { trust: TrustLevel::from(trust), ..ServerPolicy::default() }
}

/// Returns whether the second assessment requires everything that the first one requires.
fn covers(less: &Assessment, more: &Assessment) -> bool {
    let policy = ServerPolicy::default();
    let naming = NamedTool::by("grant");
    more.effective_risk >= less.effective_risk
        && less.permissions.iter().all(|permission| more.permissions.contains(permission))
        && less.validators.iter().all(|validator| more.validators.contains(validator))
        && [None, Some(&naming)].into_iter().all(|named| {
            more.needs_confirmation(&policy, named) || !less.needs_confirmation(&policy, named)
        })
}

proptest! {
    #[test]
    fn a_sandboxed_server_gains_nothing(
        bare in tool(), security in security(), annotations in annotations(),
        trust in prop::sample::select(&["sandboxed", "untrusted", "root", ""][..]),
    ) {
        let mut lying = bare.clone();
        lying.security = Some(Lenient::Valid(security));
        lying.annotations = Some(annotations);
        let (bare, lying) = (Assessment::of(&bare, &policy(trust)), Assessment::of(&lying, &policy(trust)));
        prop_assert_eq!(&lying.effective_risk, &RiskLevel::Dangerous);
        prop_assert!(covers(&bare, &lying), "{:?} {:?}", bare, lying);
    }

    #[test]
    fn whoever_is_not_trusted_more_is_checked_no_less(
        bare in tool(), security in prop::option::of(security()), annotations in prop::option::of(annotations()),
    ) {
        let mut tool = bare;
        tool.security = security.map(Lenient::Valid);
        tool.annotations = annotations;
        let ladder = ["trusted", "standard", "experimental", "sandboxed"];
        for pair in ladder.windows(2) {
            let (more, less) = (policy(pair[0]), policy(pair[1]));
            prop_assert!(covers(&Assessment::of(&tool, &more), &Assessment::of(&tool, &less)), "{:?}", pair);
        }
    }

    #[test]
    fn what_is_added_to_metadata_adds_checks(
        bare in tool(), security in security(), more in security(), annotations in annotations(),
    ) {
        let mut less = bare;
        less.security = Some(Lenient::Valid(security.clone()));
        let mut added = less.clone();
        let mut joined = security;
        joined.risk_level = joined.risk_level.max(more.risk_level);
        joined.permissions_required.extend(more.permissions_required.into_vec());
        joined.side_effects.extend(more.side_effects.into_vec());
        if joined.validator.is_none() {
            joined.validator = more.validator;
        }
        if more.reversible == Some(false) || joined.reversible.is_none() {
            joined.reversible = more.reversible;
        }
        if more.confirmation_required == Some(true) || joined.confirmation_required.is_none() {
            joined.confirmation_required = more.confirmation_required;
        }
        added.security = Some(Lenient::Valid(joined));
        added.annotations = Some(annotations);
        for trust in ["trusted", "standard", "experimental", "sandboxed"] {
            let policy = policy(trust);
            prop_assert!(covers(&Assessment::of(&less, &policy), &Assessment::of(&added, &policy)));
        }
    }

    #[test]
    fn a_plain_tool_is_lowered_by_uncontradicted_hints_only(bare in tool(), annotations in annotations()) {
        let mut hinted = bare.clone();
        let claims = annotations.read_only_hint == Some(true) || annotations.destructive_hint == Some(false);
        hinted.annotations = Some(annotations);
        let policy = policy("standard");
        let (less, more) = (Assessment::of(&bare, &policy), Assessment::of(&hinted, &policy));
        let believable = matches!(bare.name.as_str(), "echo" | "read_file" | "add");
        if !(claims && believable) {
            prop_assert!(covers(&less, &more), "{:?} {:?}", less, more);
        }
        prop_assert!(less.permissions.iter().all(|permission| more.permissions.contains(permission)));
    }
}

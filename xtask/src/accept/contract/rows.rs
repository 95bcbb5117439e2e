//! The acceptance check `contract.rows`: each requirement (row) about the contracts of tools, with the tests that prove
//! it. Rows C01 to C17 are about contracts and Codomyrmex, a foreign format of tool calls. Rows G01 to G19 are about
//! ggen, another tool protocol, and D14 and D21 about extensions beyond MGP.
//!
//! `docs/contracts.md` explains the rows that are not implemented exactly as required: C07, G06, G12, part of G15, and
//! G16.

use crate::accept::binaries::{
    CLIENT, CONTRACT, KERNEL, LIBRARY, LIFECYCLE, MGP, SECURITY, SERVER, TYPES, Tests, VALIDATE,
};

/// The tests for all rows; a comment names the rows that each test proves.
pub(crate) const TESTS: &[Tests] = &[
    Tests::of(TYPES, LIBRARY).each(&[
        // C01: the JSON form of calls.
        "strict_reading_refuses_what_lenient_reading_accepts",
        // C02: the form of results; C03, C04: the rules for results, and their errors.
        "results_are_written_as_they_were_read",
        "the_rules_of_results_name_the_wrong_member",
        // C05: error types and codes, converted in both directions.
        "each_type_has_a_code_of_its_own",
        "every_code_has_a_type_whose_code_has_the_same_type",
        // C06: results through MCP.
        "a_result_survives_the_way_through_mcp",
        // C14: times and numbers.
        "reads_rfc_3339",
        "now_has_milliseconds_and_a_z",
        "refuses_text_that_is_not_json",
        // G10: the codes of ggen, converted in both directions; G11: the data of its errors.
        "the_five_codes_go_both_ways",
        "every_code_has_one_that_stays",
        "the_data_of_an_error_has_the_trace_id",
    ]),
    Tests::of(KERNEL, "kernel").each(&[
        // C06, C11: a call and its result in the foreign format, also with error details about a wrong argument.
        "a_call_in_the_form_of_codomyrmex_returns_a_result_in_that_form",
        // C13: a caller can require a version of a tool.
        "the_kernel_enforces_the_version_that_a_caller_demands",
        // G05: `tools/validate` for any server.
        "the_kernel_checks_arguments_for_any_server_without_a_call",
    ]),
    Tests::of(CONTRACT, "contract").each(&[
        // C08, C09, C10: specifications are generated and parsed.
        "a_generated_specification_is_whole_and_reads_back",
        "missing_parts_and_wrong_examples_are_named",
        "any_text_can_be_read",
        // C12: the version number that a tool must have after a change of its definition.
        "each_kind_of_change_demands_its_version",
        // G08: examples match their schema.
        "generated_examples_fit_their_schema",
    ]),
    Tests::of(CONTRACT, LIBRARY).each(&[
        // C10: missing schemas and descriptions are reported.
        "each_missing_part_is_named",
        // G07, G08, G09: exports.
        "a_catalogue_is_read_again_without_loss",
        "an_export_has_examples_and_metadata",
        "each_tool_is_a_path_whose_references_stay_within_its_schema",
    ]),
    Tests::of(SERVER, "server")
        .each(&["invalid_arguments_never_reach_the_tool_and_the_error_names_the_field"]),
    Tests::of(SERVER, "server").each(&[
        // C13, C16: the version and the deprecation that a tool declares.
        "a_version_and_its_end_are_listed_and_a_pin_is_enforced",
        // G01, G02, G03: schemas are generated from types and constraints.
        "types_and_constraints_become_the_schema_that_a_person_would_write",
        "each_constraint_is_in_the_schema_and_enforced",
        // G05, G10, G11: all violations are reported; errors carry the trace id of their request.
        "all_violations_are_reported_and_the_tool_never_runs",
        "errors_follow_the_dialect_of_a_server",
    ]),
    // C15: each call is recorded; limits per tool and per caller; G15: limits per minute and hour.
    Tests::of(SERVER, "server").each(&["every_call_is_recorded_and_nothing_else_changes"]),
    Tests::of(LIFECYCLE, LIBRARY).each(&[
        "the_refusal_contains_wait_and_limit",
        "each_key_counts_apart_and_the_tenant_always",
        "a_minute_and_an_hour_limit_hold_together",
        // G12: time limits.
        "each_kind_of_call_has_its_limit",
    ]),
    Tests::of(CLIENT, "client").each(&[
        // C17: many concurrent calls.
        "many_calls_keep_their_order_and_their_failures",
        // G06: the time for which a list is cached.
        "a_modern_list_is_cached_for_its_time",
        "a_list_is_cached_until_the_server_reports_a_change",
        // G12: a call that times out is cancelled at its server.
        "a_time_out_cancels_at_the_server",
    ]),
    // G04, G09: tools over plain HTTP; G13, G14: API keys and their permissions.
    Tests::of(MGP, "refusals").each(&["tool_paths::"]),
    Tests::of(MGP, "commands").each(&[
        "contract::",
        "access::a_key_is_shown_once_and_its_revocation_is_recorded",
        // D21: the conformance report of `mgp validate`.
        "validate::a_good_server_passes_and_the_report_is_written",
    ]),
    Tests::of(SECURITY, LIBRARY).each(&[
        "a_file_keeps_keys_without_their_secrets",
        "no_debug_output_contains_a_secret",
        "every_invalid_key_is_refused_with_the_same_message",
        "words_permit_what_they_name",
        // G18: validators that the author of a server adds.
        "every_check_must_pass",
        "rejected_code_has_a_code_of_its_own_and_names_each_violation",
    ]),
    // G17: failed calls that are safe to repeat.
    Tests::of(CLIENT, "sdk")
        .each(&["a_call_that_may_have_run_is_repeated_if_its_definition_allows"]),
    // G19: long results in chunks.
    Tests::of(CLIENT, "stream_stories")
        .each(&["the_text_of_the_chunks_is_the_text_of_the_result_in_every_cell"]),
    // D14: a call that the user of the calling agent must confirm.
    Tests::of(KERNEL, "kernel").each(&["confirmation::"]),
    // D21: the conformance report in the schema of MCP extension proposal 12.
    Tests::of(VALIDATE, "servers")
        .each(&["a_server_that_keeps_every_rule_passes_and_every_rule_is_played"]),
];

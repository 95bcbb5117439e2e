//! The acceptance check `faults.rows`: the requirements (rows) of the specification that were once implemented wrongly
//! or incompletely, each with the tests that show the correct behaviour.

use super::binaries::{
    CLIENT, DISCOVERY, KERNEL, LIBRARY, LIFECYCLE, MGP, SECURITY, SERVER, TOOLINDEX, Tests,
};

/// The tests of these requirements. Each comment names the sections of the specification that the tests below it are
/// about.
pub(super) const ROWS: &[Tests] = &[
    // §2.2, §2.3: names and places of the members of an `initialize` reply; §2.4: versions and trust level of the peer.
    Tests::of(LIFECYCLE, LIBRARY).each(&[
        "a_client_that_knows_only_the_nine_names_is_answered_in_them",
        "the_answer_uses_only_the_places_that_the_client_used",
        "trust_is_claimed_in_the_words_of_the_client",
    ]),
    Tests::of(CLIENT, "client").each(&[
        "a_server_of_the_first_specification_is_understood",
        // §3.6: grants, in the member names of later revisions.
        "a_server_that_reads_grants_of_later_revisions_learns_what_was_granted",
        // §6.5: trace ids.
        "a_fresh_trace_is_written_by_default",
        "a_plain_server_receives_a_traceparent_only_if_that_is_configured",
    ]),
    Tests::of(SERVER, "server").each(&["chunks_and_progress_carry_the_trace_of_their_call"]),
    Tests::of(KERNEL, "kernel").each(&[
        // §3.4: servers that lack required permissions; §15.2: permissions that the configuration requires.
        "a_server_without_its_permissions_is_closed_if_the_file_says_so",
        "a_permission_the_file_requires_is_needed_before_the_first_handshake",
        // §15.2: versions and extensions of servers.
        "the_version_of_a_server_is_the_one_it_sent_also_while_it_rests",
    ]),
    Tests::of(KERNEL, "kernel").each(&[
        // §14.3: errors; and the methods that docs/methods.md marks as open (served by neither a server nor a kernel).
        "known_members_of_the_wrong_type_are_refused_by_every_method",
        "a_notification_with_an_id_is_answered_with_an_error",
        "a_method_that_nobody_serves_is_unknown_and_not_a_lack_of_the_client",
        "each_method_is_served_by_a_server_or_a_kernel",
    ]),
    Tests::of(KERNEL, "kernel").each(&[
        // §4.2: `security` members of tools; §16.5, §16.7: the server and the session of a call.
        "tools_are_listed_with_their_security_to_callers_that_negotiated_it",
        "a_call_names_its_server_in_mgp",
        "a_session_handle_counts_for_lists_and_calls",
        // §11.3, §11.4: health, states and shutdown of a kernel's servers, by MGP method and by tool call.
        "a_plain_server_and_a_resting_one_are_pinged_without_an_error",
        "the_status_of_a_kernel_counts_the_tools_behind_it",
        "health_is_a_tool_of_the_kernel_in_every_spelling",
        "a_state_of_a_server_behind_is_announced_to_those_who_see_it",
        "only_an_operator_shuts_a_server_down_by_a_tool",
        "a_call_is_cancelled_by_a_tool",
        "a_result_of_the_kernels_own_tool_names_its_source_to_mgp_peers_only",
    ]),
    // §1.4: the older HTTP transport.
    Tests::of(MGP, "commands")
        .each(&["a_server_of_the_old_transport_is_used_if_the_configuration_says_so"]),
    Tests::of(DISCOVERY, LIBRARY).each(&[
        // §15.2: filters; §15.4: the programs and variables that agents may name when they register servers. One test
        // each, in this order.
        "a_filter_matches_by_meaning_and_not_by_spelling",
        "an_agent_cannot_name_a_program_or_variable_that_is_not_listed",
    ]),
    // §4: names of tools.
    Tests::of(SECURITY, LIBRARY)
        .each(&["a_name_pinned_before_its_server_was_known_waits_for_an_operator"]),
    // §16.5: complete definitions of the tools that a search found.
    Tests::of(TOOLINDEX, LIBRARY).each(&["a_definition_is_cut_only_when_the_reserve_is_spent"]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        run::{metadata, root},
        tidy::{Tree, published},
    };

    #[test]
    fn every_row_names_a_test_that_exists_in_its_package_and_binary() {
        let (tree, packages) = (Tree::read(&root()).unwrap(), metadata().unwrap());
        for tests in ROWS.iter().chain(super::super::contract::TESTS) {
            let (package, begin) = tests.files();
            let (_, folder) = published(&packages).find(|(name, _)| *name == package).unwrap();
            let begin = format!("{folder}/{begin}");
            for filter in tests.filters() {
                let found = match filter.rsplit_once("::") {
                    Some((module, "")) => format!("mod {module};"),
                    Some((_, name)) => format!("fn {name}("),
                    None => format!("fn {filter}("),
                };
                let mut sources =
                    tree.rust().iter().filter(|source| source.path.starts_with(&begin));
                let exists = sources.any(|source| source.text.contains(&found));
                assert!(exists, "no test below `{begin}` is called `{filter}`");
            }
        }
    }
}

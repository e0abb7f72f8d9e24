"""Planted bugs: a copy of the package with one line changed must fail a named test.

Each mutant is a bug that would break the guarantee, the posterior or the ledger. The test that must catch it is run
against the changed copy in a process of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

MUTANTS = {
    "a cycle of imports that only types need": (
        "sources/reader.py",
        "    import duckdb\n",
        "    import duckdb\n\n    from dpbayes_cli.sources.source import Source\n",
        "tests/test_code_rules.py::test_the_tools_have_nothing_to_say[importlinter.cli --no-cache]",
    ),
    "two classes of one name": (
        "audit/laws.py",
        "class PrivacyLoss:",
        "class Loss:",
        "tests/test_layout.py::test_the_package_has_the_layout_that_it_should_have",
    ),
    "a package that says more than what it owns": (
        "ledger/__init__.py",
        "The durable privacy account",
        "The privacy account. Durable",
        "tests/test_layout.py::test_the_package_has_the_layout_that_it_should_have",
    ),
    "an event that is counted where it was chosen": (
        "audit/attack.py",
        "proved = bound_loss(event, one[half:], other[half:], delta, n_bounds)",
        "proved = bound_loss(event, one[half:], one[half:], delta, n_bounds)",
        "tests/test_audit.py::test_an_audit_finds_halved_noise_in_laws_and_in_releases",
    ),
    "a bound without its confidence": (
        "audit/events.py",
        "alpha = (1.0 - CONFIDENCE) / (2.0 * n_bounds)",
        "alpha = 0.5",
        "tests/test_audit.py::test_probabilities_lie_within_their_bounds",
    ),
    "draws that nobody compares with their law": (
        "audit/repeats.py",
        "p = min(_law_p(stream, np.concatenate(rows)), *(_independence_p(stream, sample) for sample in rows))",
        "p = 1.0",
        "tests/test_audit.py::test_draws_follow_their_law_and_do_not_repeat",
    ),
    "processes that nobody compares": (
        "audit/repeats.py",
        "same = rows[i][:n] == rows[j][:n]",
        "same = False",
        "tests/test_audit.py::test_draws_follow_their_law_and_do_not_repeat",
    ),
    "a loss of one direction": (
        "audit/laws.py",
        "directions = ((self.logs, ratios), (other.logs, -ratios))",
        "directions = ((self.logs, ratios), (self.logs, ratios))",
        "tests/test_audit.py::test_a_privacy_loss_has_both_directions",
    ),
    "made-up records that are never out of bounds": (
        "audit/datasets.py",
        'return [*inside, *near, *_FAR, "", "no number"]',
        'return [*inside, "", "no number"]',
        "tests/test_audit.py::test_an_audit_finds_numbers_without_a_clamp",
    ),
    "what gets out beside the draws": (
        "audit/checks.py",
        "if one.released != other.released:",
        "if False:",
        "tests/test_audit.py::test_an_audit_finds_a_record_in_the_released_values",
    ),
    "a number of draws that is believed": (
        "workflow/verification.py",
        "if document.noise is not None or len(document.draws) != step.draws:",
        "if document.noise is not None:",
        "tests/test_verification.py::test_changed_draw_does_not_verify",
    ),
    "a gradient that nobody looks at": (
        "audit/langevin_checks.py",
        "apart = float(np.linalg.norm(one[0] - other[0], axis=0).max())",
        "apart = 0.0",
        "tests/test_audit.py::test_an_audit_finds_a_gradient_that_is_too_long",
    ),
    "a claim that always holds": (
        "experiments/claims.py",
        'return "holds" if self.holds else "does not hold"',
        'return "holds"',
        "tests/experiments/test_claims.py::test_a_summary_tells_its_claims_before_its_tables",
    ),
    "a study that calls any posterior calibrated": (
        "experiments/calibration.py",
        "(above := sum(ks > band for ks in distances)) <= allowed and least >= FALSE_ALARM / 2.0 / len(own),",
        "(above := 0) == 0,",
        "tests/experiments/test_claims.py::test_each_of_them_can_fail",
    ),
    "a curve that forgets that records may be dropped": (
        "experiments/renyi_curves.py",
        'if self.records == "complete" or order',
        "if True or order",
        "tests/experiments/test_renyi_curves.py::test_dropped_records_are_brute_force_over_all_neighbors",
    ),
    "a price that is believed to be the paper's": (
        "experiments/renyi_utility.py",
        '(2 if method == "gaussian-paper" else 1)',
        "1",
        "tests/experiments/test_renyi_utility.py::test_noise_costs_what_was_asked_for",
    ),
    "a mixture over half of the noise": (
        "experiments/beta_mixtures.py",
        "for start in range(-reach, case.n + reach + 1, _ROWS):",
        "for start in range(0, case.n + reach + 1, _ROWS):",
        "tests/experiments/test_renyi_utility.py::test_the_mixing_is_the_mean_over_the_noise",
    ),
    "a paper that pays for one count": (
        "experiments/estimates.py",
        '"laplace", DROPPED if method == "laplace-paper" else COMPLETE, parse',
        '"laplace", COMPLETE, parse',
        "tests/experiments/test_estimation.py::test_the_paper_pays_for_two_counts_and_this_project_for_one",
    ),
    "an adversary who sees one neighbor": (
        "experiments/adversarial_data.py",
        "for other in (successes - 1, successes + 1):",
        "for other in (successes + 1,):",
        "tests/experiments/test_adversarial_data.py::test_the_loss_on_a_data_set_is_that_of_the_truncated_beta_law",
    ),
    "methods of one law that are told apart": (
        "experiments/results.py",
        "if others and others[0].point.digest != each.point.digest:",
        "if others:",
        "tests/experiments/test_claims.py::test_methods_are_compared_at_one_price_and_not_with_themselves",
    ),
    "a study whose methods see other records": (
        "experiments/point.py",
        'return self.seed_of("experiment data", self.data)',
        'return self.seed_of("experiment data", self.definition)',
        "tests/experiments/test_numbers.py::test_the_numbers_are_those_that_are_stored",
    ),
    "a promise that the page believes": (
        "workflow/reporting.py",
        "guarantee = planned.plan.guarantee if stated == document.guarantee else None",
        "guarantee = planned.plan.guarantee",
        "tests/test_reporting.py::test_page_prices_the_guarantee_again_instead_of_trusting_the_bundle",
    ),
    "a page that asks which model it shows": (
        "bundle/report/page_figures.py",
        "    if analysis.model.sections():",
        "    if isinstance(analysis.model, DiscreteBayesNet):",
        "tests/test_model_type_tests.py::test_nothing_outside_models_asks_which_model_it_has",
    ),
    "a check that takes the cells of tables for records": (
        "models/hmm.py",
        'data_check: ClassVar[DataCheck] = "levels"',
        'data_check: ClassVar[DataCheck] = "statistic"',
        "tests/spec/test_network_spec.py::test_a_check_of_hidden_states_counts_every_value",
    ),
    "states that a page leaves out": (
        "models/hmm.py",
        "return (self.over_time,)",
        "return ()",
        "tests/bundle/test_states_section.py::test_states_are_in_the_document_and_in_a_table",
    ),
    "a curve of delta that promises too much": (
        "privacy/tradeoff.py",
        "deltas.append(own_delta + (1.0 - own_delta) * response)",
        "deltas.append(own_delta + (1.0 - own_delta) * response / 2)",
        "tests/privacy/test_tradeoff.py",
    ),
    "a private number of records that is told": (
        "bundle/registry_entry.py",
        '    if document.n_records is None:\n        return "None: the number',
        '    if document.statistics is None:\n        return "None: the number',
        "tests/bundle/test_registry_entry.py::test_registry_entry_hides_a_private_number_of_records",
    ),
    "a guarantee that is believed": (
        "workflow/verification.py",
        "        if name not in exempt and getattr(document, name) != getattr(derived, name):",
        '        if name not in {*exempt, "guarantee"} and getattr(document, name) != getattr(derived, name):',
        "tests/test_verification.py::test_changed_document_does_not_verify",
    ),
    "an impossible statistic that passes": (
        "workflow/verification.py",
        "if not low - radius <= released.value <= high + radius:",
        "if False:",
        "tests/test_verification.py::test_changed_document_does_not_verify",
    ),
    "files that are believed": (
        "workflow/verification.py",
        "elif digested != rendered[name] and name not in result.uncertain:",
        "elif False:",
        "tests/test_verification.py::test_changed_missing_and_extra_files_do_not_verify",
    ),
    "a charge that is believed": (
        "workflow/verification.py",
        "        _check_ledger(result, spec, plan, ledger, files)",
        "        pass",
        "tests/test_verification.py::test_bundle_that_the_ledger_did_not_charge_or_publish_does_not_verify",
    ),
    "noise halved": (
        "privacy/laws/discrete_laplace.py",
        "add_noise(opendp_laplace(self.scale), clamp_to_int64(values))",
        "add_noise(opendp_laplace(self.scale / 2), list(values))",
        "tests/privacy/test_noise.py::test_draws_follow_the_exact_pmf",
    ),
    "one draw shared by all components": (
        "privacy/laws/discrete_laplace.py",
        "return add_noise(opendp_laplace(self.scale), clamp_to_int64(values))",
        "z = opendp_laplace(self.scale)([0])[0]; return [int(value) + z for value in values]",
        "tests/privacy/test_noise.py::test_components_are_noised_independently",
    ),
    "sensitivity halved (binary)": (
        "models/beta_bernoulli.py",
        "(successes, failures), 2, Witness(",
        "(successes, failures), 1, Witness(",
        "tests/test_conformance.py::test_the_sensitivity_is_never_exceeded_and_attained_by_the_witness",
    ),
    "sensitivity halved (categorical)": (
        "models/dirichlet_categorical.py",
        "            1 if add_remove else 2,\n            Witness",
        "            1,\n            Witness",
        "tests/test_conformance.py::test_the_sensitivity_is_never_exceeded_and_attained_by_the_witness",
    ),
    "clamp removed: an undeclared value counts": (
        "sources/statements.py",
        "THEN NULL ELSE {_cast(normal_form, normal)} END",
        "THEN NULL ELSE coalesce({_cast(normal_form, normal)}, 0) END",
        "tests/sources/test_delimited.py::test_every_spelling_has_one_outcome",
    ),
    "a malformed record counts": (
        "sources/records.py",
        "CASE WHEN {matches} AND len({pieces}) = {width} THEN",
        "CASE WHEN {matches} THEN",
        "tests/sources/test_delimited.py::test_ragged_rows_with_quotes_are_invalid_records_too",
    ),
    "a malformed record counts in tables": (
        "sources/records.py",
        "CASE WHEN len(split) = {width} THEN split END",
        "split",
        "tests/sources/test_tables.py::test_random_files_agree_with_the_reference",
    ),
    "a record is lost at the end of a block": (
        "sources/lines.py",
        'carry, overlong = _extend(b"", tail, False)',
        'carry, overlong = b"", False',
        "tests/sources/test_lines.py",
    ),
    "published before it is sealed": (
        "ledger/ledger.py",
        'if known is None or known.stage == "reserved":',
        "if known is None:",
        "tests/ledger/test_ledger.py::test_a_stage_cannot_be_skipped",
    ),
    "a charge that is not counted": (
        "ledger/replay.py",
        "account.charged = account.budget.added(account.charged, guarantee)",
        "account.charged = account.charged",
        "tests/ledger/test_ledger.py::test_an_unfinished_reservation_stays_charged",
    ),
    "a budget compared in floats": (
        "ledger/budgets.py",
        "over = {name: exact_difference(spent[name], total) for name, total in self.total.items()}",
        "over = {name: Decimal(float(spent[name]) - float(total)) for name, total in self.total.items()}",
        "tests/ledger/test_budgets.py",
    ),
    "computed from before it is sealed": (
        "workflow/release.py",
        "        sealed = ledger.seal(record, charge.account, drawn)",
        "        _describe(prepared, reservation, drawn)\n        sealed = ledger.seal(record, charge.account, drawn)",
        "tests/test_release.py::test_a_failed_analysis_does_not_draw_again",
    ),
    "likelihood power doubled": (
        "mechanisms/samplers/scalar_sampler.py",
        "power: Any = self.likelihood_power if exact else float(self.likelihood_power)",
        "power: Any = 2 * self.likelihood_power if exact else 2 * float(self.likelihood_power)",
        "tests/mechanisms/test_ops.py::test_no_pair_of_neighbors_exceeds_the_charge",
    ),
    "likelihood power doubled on the lattice": (
        "mechanisms/samplers/simplex_sampler.py",
        "EXACT.fma(power, Decimal(count)",
        "EXACT.fma(2 * power, Decimal(count)",
        "tests/mechanisms/test_ops.py::test_no_pair_of_neighbors_exceeds_the_charge_on_the_lattice",
    ),
    "likelihood power doubled on lines": (
        "mechanisms/samplers/linear_regression_sampler.py",
        "factor = Fraction(self.likelihood_power) / (unit * twice)",
        "factor = 2 * Fraction(self.likelihood_power) / (unit * twice)",
        "tests/mechanisms/test_linear_regression_sampler.py::test_no_pair_of_neighbors_exceeds_the_charge",
    ),
    "range of a line halved": (
        "mechanisms/samplers/linear_regression_sampler.py",
        "(2 + abs(self.low + self.high)) / variance",
        "(2 + abs(self.low + self.high)) / (2 * variance)",
        "tests/mechanisms/test_linear_regression_sampler.py::test_the_range_is_never_exceeded_and_attained",
    ),
    "a support that is not in the middle forgotten": (
        "mechanisms/samplers/linear_regression_sampler.py",
        "(2 + abs(self.low + self.high)) / variance",
        "2 / variance",
        "tests/mechanisms/test_linear_regression_sampler.py::test_the_range_is_never_exceeded_and_attained",
    ),
    "a slope's prior left out": (
        "models/families/regression_records.py",
        "lower[..., 1:, 0] *= self._scale[1:] / np.sqrt(self._prior_scatter[1:])",
        "lower[..., 1:, 0] *= self._scale[1:]",
        "tests/models/test_linear_regression.py::test_prior_matches_its_description",
    ),
    "the order of features taken from the spec": (
        "models/linear_regression.py",
        "dict(sorted(columns.features.items()))",
        "dict(columns.features)",
        "tests/models/test_linear_regression.py::test_feature_order_does_not_change_the_request",
    ),
    "likelihood power of a mode doubled": (
        "mechanisms/samplers/tempering.py",
        "likelihood_power = DOWN.divide(DOWN.subtract(epsilon_per_draw, extra), spread)",
        "likelihood_power = 2 * DOWN.divide(DOWN.subtract(epsilon_per_draw, extra), spread)",
        "tests/mechanisms/test_map.py::test_no_pair_of_neighbors_exceeds_the_charge",
    ),
    "a coin that is compared with another cell's weight": (
        "privacy/permute_and_flip.py",
        "weights.weight(cell):",
        "weights.weight(place):",
        "tests/mechanisms/test_map.py::test_permute_and_flip_draws_follow_the_exact_law",
    ),
    "coins whose largest weight forgets the constant": (
        "privacy/permute_and_flip.py",
        "return MIN_WEIGHT + WEIGHT_SCALE",
        "return 2 * WEIGHT_SCALE",
        "tests/mechanisms/test_map.py::test_the_best_cell_wins_every_coin",
    ),
    "slack forgotten": (
        "mechanisms/samplers/tempering.py",
        "DOWN.divide(DOWN.subtract(epsilon_per_draw, extra), spread)",
        "DOWN.divide(epsilon_per_draw, spread)",
        "tests/mechanisms/test_map.py::test_the_slack_is_taken_off_before_the_likelihood_power",
    ),
    "the curve of another law charged": (
        "mechanisms/map.py",
        "guarantee: BoundedRange | PureDP = PureDP(tempering.charged)",
        "guarantee: BoundedRange | PureDP = BoundedRange(tempering.charged)",
        "tests/mechanisms/test_map.py::test_only_the_exponential_choice_is_of_bounded_range",
    ),
    "r applied twice": (
        "mechanisms/samplers/renyi_posterior.py",
        "drawn = family.draw(self.model.sums(values, self.n_records), self.r, self.m, size)",
        "drawn = family.draw(self.model.sums(values, self.n_records), self.r**2, self.m, size)",
        "tests/mechanisms/test_renyi_posterior.py::test_draws_are_of_the_tempered_posterior",
    ),
    "lambda off by one": (
        "privacy/conjugate.py",
        "first, second = log_gamma_ratio_at(x, -(order - 1.0) * r) / (order - 1.0), log_gamma_ratio_at(x, r)",
        "first, second = log_gamma_ratio_at(x, -(order - 2.0) * r) / (order - 1.0), log_gamma_ratio_at(x, r)",
        "tests/privacy/test_conjugate.py::test_the_reference_divergences",
    ),
    "the supremum taken at the wrong vertex": (
        "privacy/conjugate.py",
        "first, second = sorted(self.concentration)[:2]",
        "first, second = sorted(self.concentration)[-2:]",
        "tests/privacy/test_conjugate.py::test_the_supremum_is_that_of_brute_force_over_all_neighbors",
    ),
    "the total of a Beta posterior that a record does not move": (
        "privacy/real_conjugate.py",
        "total = self._first(r, m) + b",
        "total = self._first(r, m) + b - step",
        "tests/privacy/test_conjugate.py::test_the_supremum_over_failures_is_that_of_brute_force_over_all_neighbors",
    ),
    "a curve for fewer failures than a record may have": (
        "models/beta_geometric.py",
        "BetaFailuresFamily(self.alpha, self.beta, 1.0, float(self.upper), n_records)",
        "BetaFailuresFamily(self.alpha, self.beta, 1.0, float(self.upper - 1), n_records)",
        "tests/test_conformance.py::test_renyi_divergence_matches_the_tempered_density",
    ),
    "a price of failures in one direction": (
        "privacy/real_conjugate.py",
        "max(term(b, order, shift) - term(total, order, shift, at_least=True) for term in (gain_term, loss_term))",
        "gain_term(b, order, shift) - gain_term(total, order, shift, at_least=True)",
        "tests/privacy/test_conjugate.py::test_the_supremum_over_failures_is_that_of_brute_force_over_all_neighbors",
    ),
    "the best order at the full delta": (
        "ledger/union_budget.py",
        "_DOWN.ln(part).copy_negate()",
        "_DOWN.ln(self.delta).copy_negate()",
        "tests/ledger/test_budgets.py",
    ),
    "L1 taken for L2": (
        "mechanisms/gaussian.py",
        "lambda part: part.sensitivity_l2_squared",
        "lambda part: part.sensitivity_l1**2",
        "tests/mechanisms/test_gaussian.py::test_rho_sets_the_scale",
    ),
    "a reservation drawn from at another price": (
        "workflow/release.py",
        "        _check_price(prepared, record)\n",
        "        pass\n",
        "tests/test_draws.py::test_a_reservation_is_not_drawn_from_at_another_price",
    ),
    "bounds drawn as if a record moved the utility by half": (
        "core/private_quantile.py",
        "units = 2 * self.sensitivity(quantile) * quantile.denominator",
        "units = self.sensitivity(quantile) * quantile.denominator",
        "tests/core/test_private_quantile.py::test_no_pair_of_neighbors_exceeds_the_charge",
    ),
    "bounds that are not charged": (
        "workflow/pricing.py",
        "compose([law.guarantee, plan.guarantee])",
        "plan.guarantee",
        "tests/test_private_bounds.py::test_both_steps_are_charged_once_and_replayed",
    ),
    "a number beyond the chosen bounds that is not clamped": (
        "core/private_quantile.py",
        "inside = min(max(code - start, 0), width)",
        "inside = max(code - start, 0)",
        "tests/core/test_private_quantile.py::test_the_statistic_between_any_bounds_keeps_its_sensitivity",
    ),
    "an analysis between other bounds than the drawn ones": (
        "workflow/release.py",
        "analysis_of_draw(narrowed.spec, narrowed.model,",
        "analysis_of_draw(narrowed.spec, prepared.model,",
        "tests/test_private_bounds.py::test_the_posterior_is_that_of_the_drawn_bounds",
    ),
    "data that stay open where a release is refused": (
        "workflow/prepare.py",
        "    except BaseException:\n        data.close()\n        raise",
        "    except BaseException:\n        raise",
        "tests/test_made_once.py::test_a_release_that_is_refused_closes_what_it_counted",
    ),
    "data that are opened again": (
        "workflow/release_data.py",
        "if not self._is_checked:",
        "if True:",
        "tests/test_made_once.py::test_a_release_makes_everything_once",
    ),
    "a model that is narrowed twice": (
        "workflow/pricing.py",
        "if bounds not in self._last:",
        "if True:",
        "tests/test_made_once.py::test_private_bounds_make_a_second_model",
    ),
    "the second payload wins": (
        "ledger/ledger.py",
        "            if stored is not None:\n                return stored\n",
        "            if stored is not None:\n                return payload\n",
        "tests/ledger/test_ledger.py::test_the_first_payload_wins_and_the_loser_gets_it_back",
    ),
    "a commit that a loss of power brings back": (
        "ledger/sqlite_connection.py",
        'connection.execute("PRAGMA synchronous = EXTRA")',
        'connection.execute("PRAGMA synchronous = FULL")',
        "tests/simulation/test_simulation.py::test_no_seed_loses_anything",
    ),
    "a bundle that a loss of power takes away": (
        "bundle/write.py",
        "        rename_without_replacing(partial, target)\n        sync(target.absolute().parent)",
        "        rename_without_replacing(partial, target)",
        "tests/simulation/test_simulation.py::test_no_seed_loses_anything",
    ),
    "the lock taken after the snapshot": (
        "ledger/postgres.py",
        'connection.execute("LOCK TABLE meta IN EXCLUSIVE MODE")\n                self._check_schema(connection)\n',
        'self._check_schema(connection)\n                connection.execute("LOCK TABLE meta IN EXCLUSIVE MODE")\n',
        "tests/ledger/test_postgres.py::test_a_writer_sees_what_the_one_before_it_wrote",
    ),
    "a commit that was not confirmed believed": (
        "ledger/postgres.py",
        'if not committed or "WARNING" in warnings:',
        "if not done:",
        "tests/ledger/test_postgres.py::test_an_unconfirmed_commit_is_reported_and_found_by_the_same_call",
    ),
    "commits that are not waited for": (
        "ledger/postgres.py",
        "set_config('synchronous_commit', 'on', false)",
        "set_config('synchronous_commit', 'off', false)",
        "tests/ledger/test_postgres.py::test_a_writer_is_serializable_and_its_commit_durable_whatever_others_set",
    ),
    "the chain is not checked": (
        "ledger/verified_states.py",
        "findings = broken_links(entries, state.mark) + replay(entries, state).findings",
        "findings = replay(entries, state).findings",
        "tests/ledger/test_ledger.py::test_tampering_is_found_and_stops_every_release",
    ),
    "the number of records shown under add-remove": (
        "workflow/release.py",
        "n_records = evidence.n_records if prepared.policy.neighbors is Neighbors.REPLACE_ONE else None",
        "n_records = evidence.n_records",
        "tests/bundle/test_document.py::test_private_number_of_records_appears_nowhere",
    ),
    "the exact counts written beside the noisy ones": (
        "mechanisms/laplace.py",
        "tuple(noise.release(evidence.values))",
        "tuple(evidence.values)",
        "tests/test_conformance.py::test_laplace_release_adds_noise",
    ),
    "an inference that forgets the noise of one count": (
        "inference/counts/count_windows.py",
        "return observation.noise.log_pmf(observed - counts)",
        "return observation.noise.log_pmf(observed - counts) * (k == 0)",
        "tests/inference/test_infer_counts.py::test_convolution_draws_follow_the_enumerated_posterior",
    ),
    "the inverse-Gaussian shape halved": (
        "inference/sums/scale_mixture_gibbs.py",
        "self._rng.wald(means, 2.0)",
        "self._rng.wald(means, 1.0)",
        "tests/inference/test_scale_mixture_gibbs.py::test_the_kernel_keeps_the_joint_law",
    ),
    "independent proposals corrected the wrong way": (
        "inference/sums/scale_mixture_gibbs.py",
        "return proposal, here - there",
        "return proposal, there - here",
        "tests/inference/test_scale_mixture_gibbs.py::test_the_kernel_keeps_the_joint_law",
    ),
    "a count that was not released taken for a zero": (
        "inference/counts/lattice_chain.py",
        "np.where(self._is_observed[k], noise, 0.0)",
        "noise",
        "tests/inference/test_scale_mixture_gibbs.py::test_the_lattice_chain_has_the_exact_posterior_of_a_binomial_count",
    ),
    "the sign of Gil-Pelaez' formula": (
        "inference/sums/sum_table.py",
        "result[near] = 0.5 - _series_at(",
        "result[near] = 0.5 + _series_at(",
        "tests/inference/test_inversion.py::test_posteriors_of_integers_are_those_of_enumeration",
    ),
    "the half step of a lattice left out": (
        "inference/sums/sum_table.py",
        "+ offset + d / 2.0 if d",
        "+ offset if d",
        "tests/inference/test_inversion.py::test_posteriors_of_integers_are_those_of_enumeration",
    ),
    "the spread of the number of dropped records left out": (
        "models/families/number_families.py",
        "covariance[..., 1, 1] = self.column.steps**2 * inside * (1.0 - inside)",
        "covariance[..., 1, 1] = 0.0",
        "tests/inference/test_inversion.py::test_moments_of_a_record_are_those_of_its_law",
    ),
    "dropped records forgotten by the law of the number inside": (
        "inference/sums/record_numbers.py",
        "np.where(numbers < n, (n - numbers) * outside, 0.0)",
        "0.0",
        "tests/inference/test_inversion.py::test_posteriors_with_dropped_numbers_are_those_of_enumeration",
    ),
    "a number that is not clamped": (
        "sources/statements.py",
        "least(greatest({nearest}, 0), {column.steps})",
        "greatest({nearest}, 0)",
        "tests/sources/test_numbers.py::test_a_code_is_on_the_grid_whatever_floats_do",
    ),
    "bounds without a grid between them": (
        "core/columns.py",
        "_MIN_RANGE = 1e-100",
        "_MIN_RANGE = 0.0",
        "tests/commands/test_numbers.py::test_bounds_without_a_grid_between_them_are_refused_before_any_charge",
    ),
    "the order of columns taken from the spec": (
        "models/multivariate_normal.py",
        "dict(sorted(bounds_by_name.items()))",
        "dict(bounds_by_name)",
        "tests/commands/test_numbers.py::test_order_of_columns_is_not_part_of_a_request",
    ),
    "a statistic beyond 64 bits": (
        "privacy/noise.py",
        "return [min(max(value, -_LARGEST_VALUE), _LARGEST_VALUE) for value in values]",
        "return list(values)",
        "tests/privacy/test_noise.py::test_no_statistic_is_too_large_to_be_released",
    ),
    "a refusal after bounds were drawn": (
        "workflow/pricing.py",
        "except DpbayesError:\n            plan = None",
        "except ZeroDivisionError:\n            plan = None",
        "tests/test_private_bounds.py::test_noise_that_does_not_fit_drawn_bounds_uses_the_whole_range",
    ),
    "numbers that are not counted taken for zeros": (
        "models/families/number_families.py",
        "first, second, inside = first / inside, second / inside, np.ones_like(first)",
        "inside = np.ones_like(first)",
        "tests/inference/test_inversion.py::test_moments_of_counted_records_are_those_of_all_records_divided_by_the_counted_share",
    ),
    "sensitivity halved (parities)": (
        "privacy/parity_sensitivity.py",
        "table = (table[(0,) * len(family)] - table) // 2",
        "table = (table[(0,) * len(family)] - table) // 4",
        "tests/privacy/test_parity_sensitivity.py::test_the_sensitivity_is_never_exceeded_and_attained",
    ),
    "null forgotten (parities)": (
        "privacy/parity_sensitivity.py",
        "    if complete:\n        return largest",
        "    if complete or parities.count:\n        return largest",
        "tests/privacy/test_parity_sensitivity.py::test_the_sensitivity_is_never_exceeded_and_attained",
    ),
    "a table too large to split is forgotten": (
        "privacy/parity_sensitivity.py",
        "groups.append((set(factor[0]), [factor]))",
        "groups[:] = [(set(factor[0]), [factor])]",
        "tests/privacy/test_parity_sensitivity.py::test_a_bound_is_not_below_the_maximum",
    ),
    "an engine's text in a message": (
        "base/duck.py",
        "except _duckdb.Error:\n        raise failure from None",
        "except _duckdb.Error as error:\n        failure.message = str(error)\n        raise failure from None",
        "tests/test_leaks.py::test_a_crash_in_the_engine_quotes_nothing",
    ),
    "the mean of the posterior plugged in": (
        "inference/predictive/classify.py",
        "    _check(network, draws, records, target)\n    result",
        "    _check(network, draws, records, target)\n    draws = draws.mean(axis=0, keepdims=True)\n    result",
        "tests/inference/test_classify.py::test_the_posterior_is_averaged_and_not_plugged_in",
    ),
    "what descends from a missing cell says nothing": (
        "inference/predictive/unknown_cells.py",
        "relevant[parent] |= relevant[i]",
        "relevant[parent] |= relevant[i] & (i == target)",
        "tests/inference/test_classify.py::test_every_pattern_of_missing_cells_is_summed_out",
    ),
    "sensitivity halved (networks)": (
        "models/families/discrete_bayes_net.py",
        "per_table = 1 if policy.neighbors is Neighbors.ADD_REMOVE else 2",
        "each = 1",
        "tests/test_conformance.py::test_the_sensitivity_is_never_exceeded_and_attained_by_the_witness",
    ),
    "a record with an invalid cell counted in some parities": (
        "mechanisms/fourier_laplace.py",
        "whole_records=True",
        "whole_records=False",
        "tests/test_conformance.py::test_tables_rebuilt_from_exact_parities_equal_the_counts",
    ),
    "an invalid cell counted as the first value": (
        "sources/packed_codes.py",
        "invalid = self._sizes[i] if impute is None else impute",
        "invalid = 0 if impute is None else impute",
        "tests/sources/test_tables.py::test_every_spelling_has_one_outcome",
    ),
    "codes that overlap by a bit": (
        "sources/packed_codes.py",
        "_packs([size.bit_length() for size in self._sizes])",
        "_packs([(size - 1).bit_length() for size in self._sizes])",
        "tests/sources/test_tables.py::test_codes_of_more_than_one_word_do_not_overlap",
    ),
    "records counted that are not whole": (
        "sources/tables.py",
        "whole = block.valid(range(len(self._place))) if self._statistic.whole_records else None",
        "whole = None",
        "tests/sources/test_tables.py::test_bitmaps_and_indices_count_the_same",
    ),
    "a staircase taken for a Laplace law by the augmented sampler": (
        "inference/sums/scale_mixture_gibbs.py",
        "self._corrected = True",
        "self._corrected = False",
        "tests/inference/test_any_law.py::test_chains_have_the_posterior_of_the_law_and_not_of_one_like_it",
    ),
    "counts drawn as if all noise fell by a nat a scale": (
        "inference/sequences/noisy_poisson.py",
        "+ np.abs(away) / law.scale - law.excess",
        "+ np.abs(away) / law.scale",
        "tests/inference/test_any_law.py::test_poisson_counts_are_drawn_from_their_law",
    ),
    "few frequencies for noise that jumps": (
        "inference/sums/sum_table.py",
        "frequencies=max(self.frequencies, count)",
        "frequencies=self.frequencies",
        "tests/inference/test_any_law.py::test_chains_have_the_posterior_of_the_law_and_not_of_one_like_it",
    ),
    "cells of a law without a shape left without noise": (
        "inference/tables/table_layout.py",
        "of_table = self.table[cells] == t",
        "of_table = self.table[cells] == -1",
        "tests/inference/test_any_law.py::test_cells_of_tables_have_the_noise_of_their_own_table",
    ),
    "the share of a part rounded up": (
        "privacy/laws/part_noise.py",
        "Context(prec=30, rounding=ROUND_FLOOR)",
        'Context(prec=30, rounding="ROUND_CEILING")',
        "tests/privacy/test_part_noise.py::test_shares_add_up_to_at_most_the_total_exactly",
    ),
    "the noise of another part": (
        "privacy/laws/part_noise.py",
        "bisect.bisect_right(self._ends, component)",
        "bisect.bisect_left(self._ends, component)",
        "tests/privacy/test_part_noise.py::test_a_law_read_back_is_the_same_for_every_component",
    ),
    "the dearest table priced for all": (
        "privacy/conjugate.py",
        "return sum(count * of_table(*kind) for kind, count in table_kinds.items())",
        "return max(of_table(*kind) for kind in table_kinds)",
        "tests/privacy/test_network_family.py::test_no_pair_of_neighbors_exceeds_the_divergence",
    ),
    "neighbors in different rows forgotten": (
        "privacy/conjugate.py",
        "            if not several:\n",
        "            if row:\n",
        "tests/privacy/test_network_family.py::test_pairs_and_records_in_different_rows_matter",
    ),
    "a chain of twice the step": (
        "core/langevin.py",
        "w - self.step_size * drift",
        "w - 2.0 * self.step_size * drift",
        "tests/core/test_langevin.py::test_last_iterate_has_the_moments_of_the_accounted_chain",
    ),
    "half the noise of a chain": (
        "core/langevin.py",
        "scale = self.arithmetic.noise / lattice",
        "scale = math.sqrt(0.5) * self.arithmetic.noise / lattice",
        "tests/core/test_langevin.py::test_last_iterate_has_the_moments_of_the_accounted_chain",
    ),
    "a chain that starts where the data are": (
        "core/langevin.py",
        "w = np.zeros((self.width, size))",
        "w = np.zeros((self.width, size)) + matrix.blocks[0][1].mean()",
        "tests/core/test_langevin.py::test_chain_without_noise_is_gradient_descent_from_zero",
    ),
    "a likelihood power that is charged and not applied": (
        "core/langevin.py",
        "drift = self.likelihood_power * gradient(w)",
        "drift = gradient(w)",
        "tests/core/test_langevin.py::test_last_iterate_has_the_moments_of_the_accounted_chain",
    ),
    "one noise for all chains": (
        "core/langevin.py",
        "noise(w.shape)",
        "noise((self.width, 1))",
        "tests/core/test_langevin.py::test_several_draws_are_independent_chains",
    ),
    "rows that are not clipped": (
        "core/design.py",
        "np.minimum(1.0, factors)",
        "np.minimum(1.0, 2.0 * factors)",
        "tests/core/test_design.py::test_row_norm_is_never_exceeded",
    ),
    "rows that single precision makes longer": (
        "core/design.py",
        "_CLIPPING_MARGIN = 1.0 - 1e-6",
        "_CLIPPING_MARGIN = 1.0 - 1e-9",
        "tests/core/test_design.py::test_row_norm_is_never_exceeded",
    ),
    "a limit of records that is not kept": (
        "core/design.py",
        "codes = codes[: max(self.rows.max_records - self.n_records, 0)]",
        "codes = codes[: self.rows.max_records]",
        "tests/core/test_design.py::test_adding_a_record_changes_at_most_two_rows",
    ),
    "an invalid cell that counts as the last value": (
        "core/design.py",
        "valid = codes[(codes >= 0).all(axis=1)]",
        "valid = codes",
        "tests/core/test_design.py::test_invalid_record_is_counted_but_adds_no_row",
    ),
    "a gradient without bound": (
        "core/losses.py",
        "np.clip((t - y) / self.scale, -self.threshold, self.threshold) / self.scale",
        "np.asarray((t - y) / self.scale) / self.scale",
        "tests/core/test_losses.py::test_slope_bound_holds_and_is_attained",
    ),
    "a factor forgotten in the curvature": (
        "core/losses.py",
        "return 0.25",
        "return 0.0625",
        "tests/privacy/test_noisy_descent.py::test_the_map_contracts_as_claimed",
    ),
    "the norm of rows not squared in the smoothness": (
        "models/families/convex_loss.py",
        "self.loss.curvature_bound * c * c * n_records",
        "self.loss.curvature_bound * c * n_records",
        "tests/core/test_losses.py::test_adversarial_records_attain_the_smoothness",
    ),
    "one gradient charged where two differ": (
        "privacy/noisy_descent.py",
        "return self.touched * power * self.slope",
        "return power * self.slope",
        "tests/privacy/test_noisy_descent.py::test_no_chain_exceeds_its_curve",
    ),
    "half the price of a step": (
        "privacy/noisy_descent.py",
        "(step_size * sensitivity**2 / 2.0)",
        "(step_size * sensitivity**2 / 4.0)",
        "tests/privacy/test_noisy_descent.py::test_where_gradients_are_constant_the_price_is_exact",
    ),
    "several chains at the price of one": (
        "mechanisms/samplers/langevin_calibration.py",
        "total_mu = round_up(chain.mu * math.sqrt(options.draws))",
        "total_mu = round_up(chain.mu)",
        "tests/mechanisms/test_gibbs_posterior.py::test_k_draws_cost_the_root_of_k",
    ),
    "a limit of records that is planned and not read": (
        "mechanisms/samplers/langevin_calibration.py",
        "rows = DesignRows(model.design, model.target, options.max_records)",
        "rows = DesignRows(model.design, model.target)",
        "tests/mechanisms/test_gibbs_posterior.py::test_a_public_limit_replaces_a_private_number_of_records",
    ),
    "a statement of floats that nobody checks": (
        "privacy/conversions.py",
        "        if gaussian_log_delta(mu, float(direct)) <= log_delta:\n",
        "        if direct:\n",
        "tests/privacy/test_guarantee.py::test_no_statement_of_gaussian_privacy_is_rounded_down",
    ),
    "a root rounded to the nearest": (
        "privacy/composition.py",
        "root.next_plus(_UP)",
        "root",
        "tests/privacy/test_guarantee.py::test_a_root_that_decimals_round_is_rounded_up",
    ),
    "a number next to a half that is rounded at once": (
        "privacy/secret_normals.py",
        "unsure = (np.abs(excess) <= error_bound) | ((excess > 0.0) & near_half)",
        "unsure = np.abs(excess) <= error_bound",
        "tests/privacy/test_secret_normals.py::"
        "test_a_number_next_to_a_half_and_one_next_to_the_limit_are_left_to_decimals",
    ),
    "bits that were not drawn taken for none": (
        "privacy/secret_normals.py",
        "LOG_ERROR * (1.0 + size) + 0.5 / wide",
        "LOG_ERROR * (1.0 + size)",
        "tests/privacy/test_secret_normals.py::test_the_law_of_all_words_is_that_of_rounded_normals",
    ),
    "a normal number that ends where the first bits do": (
        "privacy/secret_normals.py",
        "        if first and second:\n",
        "        first = max(first, 1)\n        if second:\n",
        "tests/privacy/test_secret_normals.py::test_more_bits_decide_with_the_probabilities_of_the_law",
    ),
    "rounding to the lattice that nobody pays for": (
        "privacy/chain_arithmetic.py",
        "widening = (2.0 * error + root_width * lattice)",
        "widening = (2.0 * error - root_width * lattice)",
        "tests/privacy/test_chain_arithmetic.py::test_neighbors_keep_the_inequality_of_the_proof",
    ),
    "a step's own rounding forgotten": (
        "privacy/chain_arithmetic.py",
        "(gradient_error + predictor_error + step_error) + root_width * lattice / 2.0",
        "(gradient_error + predictor_error + step_error)",
        "tests/privacy/test_chain_arithmetic.py::test_a_step_errs_by_no_more_than_is_covered",
    ),
    "noise that is not widened": (
        "privacy/chain_arithmetic.py",
        "sd * (1.0 + widening)",
        "sd",
        "tests/privacy/test_chain_arithmetic.py::test_wider_noise_pays_for_what_is_lost_and_the_price_stays",
    ),
    "a point beyond the box": (
        "core/langevin.py",
        "np.clip(w, -reach, reach)",
        "np.clip(w, -1e6 * reach, 1e6 * reach)",
        "tests/privacy/test_chain_arithmetic.py::test_sums_on_the_lattice_are_exact",
    ),
    "a likelihood power that a chain charges and does not apply": (
        "mechanisms/samplers/private_gibbs.py",
        "            log_table(cover, likelihood_power, self.bits)[emission - cover.least]",
        "            log_table(cover, 2 * likelihood_power, self.bits)[emission - cover.least]",
        "tests/mechanisms/test_gibbs.py::test_no_update_exceeds_its_price_and_a_witness_attains_it",
    ),
    "tables of a chain that are not tempered": (
        "mechanisms/samplers/private_gibbs.py",
        "return self._rows(sites.counts(states, self.structure.n_states), likelihood_power)",
        "return self._rows(sites.counts(states, self.structure.n_states), 2 * likelihood_power)",
        "tests/mechanisms/test_gibbs.py::test_updates_are_drawn_from_their_laws",
    ),
    "one state charged where two change": (
        "mechanisms/samplers/private_gibbs.py",
        'Update("states", sum((c.spread for c in covers), Decimal(0)),',
        'Update("states", sum((c.spread for c in covers), Decimal(0)) / 2,',
        "tests/mechanisms/test_gibbs.py::test_no_update_exceeds_its_price_and_a_witness_attains_it",
    ),
    "both update blocks at once": (
        "models/families/hidden_markov.py",
        "np.flatnonzero(steps % 2 == parity) for parity in (0, 1)",
        "np.flatnonzero(steps >= 0) for parity in (0,)",
        "tests/mechanisms/test_gibbs.py::test_a_sweep_leaves_the_tempered_posterior_as_it_is",
    ),
    "a sweep of tables that is not charged": (
        "mechanisms/samplers/private_gibbs.py",
        '[states, *(Update("emissions", spread, SITES_TOUCHED * LATTICE_SLACK, n) for spread, n in counts.items())]',
        "[states]",
        "tests/mechanisms/test_gibbs.py::test_no_update_exceeds_its_price_and_a_witness_attains_it",
    ),
    "features of one range charged as one": (
        "mechanisms/samplers/private_gibbs.py",
        "counts[cover.spread] = counts.get(cover.spread, 0) + 1",
        "counts[cover.spread] = 1",
        "tests/mechanisms/test_gibbs.py::test_no_update_exceeds_its_price_and_a_witness_attains_it",
    ),
    "an outcome that becomes impossible": (
        "privacy/choices.py",
        "WINDOW_NATS = 16\n",
        "WINDOW_NATS = 45\n",
        "tests/privacy/test_choices.py::test_weights_are_those_of_multiprecision",
    ),
    "a window below the first outcome": (
        "privacy/choices.py",
        "utilities.max(axis=1, keepdims=True) - utilities",
        "np.maximum(utilities[:, :1] - utilities, 0)",
        "tests/privacy/test_choices.py::test_choices_follow_their_weights",
    ),
    "a uniform integer that reaches its bound": (
        "privacy/choices.py",
        "points[:, None] >= cumulative",
        "points[:, None] >= cumulative // 2",
        "tests/privacy/test_choices.py::test_choices_follow_their_weights",
    ),
    "exact counts published for emissions": (
        "mechanisms/samplers/private_gibbs.py",
        "                emissions = self.update_emissions(states, sites, stage.likelihood_power)\n",
        "                emissions = tuple(sites.counts(states, self.structure.n_states))\n",
        "tests/mechanisms/test_gibbs.py::test_a_chain_recovers_the_hidden_states_at_a_large_epsilon",
    ),
    "a walk that starts where the data are": (
        "mechanisms/samplers/barker_kernel.py",
        "cell, path = public_generator(), self.posterior.n_cells // 2, []",
        "cell, path = public_generator(), evidence.values[0] // 2, []",
        "tests/mechanisms/test_gibbs.py::test_a_walk_stays_within_its_reach_and_follows_its_law",
    ),
    "half the sensitivity of a log weight": (
        "mechanisms/samplers/ais_log_weight.py",
        "DiscreteLaplace.calibrate((largest >> shift) + 1, epsilon)",
        "DiscreteLaplace.calibrate((largest >> shift) // 2 + 1, epsilon)",
        "tests/mechanisms/test_ais_log_weight.py::test_a_log_weight_moves_by_its_sensitivity_at_most_and_a_witness_attains_it",
    ),
    "a log weight without noise": (
        "mechanisms/samplers/ais_log_weight.py",
        "int(self.law.release([exact >> self.shift])[0])",
        "(exact >> self.shift)",
        "tests/mechanisms/test_ais_log_weight.py::test_a_weight_is_released_with_the_noise_that_was_planned",
    ),
    "a rise that is weighed where it does not begin": (
        "mechanisms/samplers/private_gibbs.py",
        "return log_table(cover, after, bits) - log_table(cover, before, bits)",
        "return log_table(cover, after, bits)",
        "tests/mechanisms/test_ais_log_weight.py::test_the_mean_weight_is_the_evidence",
    ),
    "an analyst's limit that nobody looks at": (
        "ledger/charging.py",
        "    check_limit(account, charge.analyst, charge.guarantee, lambda: state.charged(account, last=_MAX_LISTED))",
        "    pass",
        "tests/ledger/test_limits.py::test_an_analyst_spends_no_more_than_the_limit_nor_the_total",
    ),
    "a charge that an analyst's limit forgets": (
        "ledger/replay.py",
        "account.charged_by[analyst] = account.budget.added(account.charged_to(analyst), guarantee)",
        "pass",
        "tests/ledger/test_limits.py::test_an_analyst_spends_no_more_than_the_limit_nor_the_total",
    ),
    "a unit of several records at the price of one": (
        "core/statistic.py",
        "    k = policy.contributions\n",
        "    k = 1\n",
        "tests/test_conformance.py::test_the_sensitivity_of_units_is_never_exceeded_and_attained_by_the_witness",
    ),
    "the null record forgotten where units have several": (
        "core/columns.py",
        "return self.impute is not None and self.contributions == 1",
        "return self.impute is not None",
        "tests/commands/test_units.py::test_the_number_of_records_is_private_where_invalid_values_are_imputed_too",
    ),
    "an option that the mechanism does not read is nobody's business": (
        "spec/foreign_options.py",
        "        if not readers:\n",
        "        if readers:\n",
        "tests/spec/test_options.py::test_every_mechanism_refuses_every_option_that_it_does_not_read",
    ),
    "an order that is ignored": (
        "mechanisms/samplers/langevin_rules.py",
        "    if options.order is not None:\n",
        "    if options.order is None and not options:\n",
        "tests/mechanisms/test_gibbs_posterior.py::test_requests_without_a_guarantee_are_refused",
    ),
    "the digest of a stored request without what was ignored": (
        "spec/stored_spec.py",
        "if stored[section][key] != _IGNORED[section][key]:",
        "if stored[section][key] == section:",
        "tests/spec/test_options.py::test_what_was_released_with_options_that_were_ignored_stays_readable",
    ),
    "a default of today in place of the frozen one": (
        "spec/version_1.py",
        "(frozen[key] if key in frozen else _own_default(item))",
        "_own_default(item)",
        "tests/version_1/test_names.py::test_another_default_changes_no_request_that_states_the_value",
    ),
    "a request by the names of today": (
        "spec/version_1.py",
        "name = names.get(place, {}).get(item.name, item.name)",
        "name = item.name",
        "tests/spec/test_options.py::test_no_id_of_a_request_has_changed",
    ),
    "a plug-in's key renamed": (
        "spec/version_1.py",
        "if name is None or str(name) in _table()[kinds]",
        "if kinds",
        "tests/version_1/test_names.py::test_names_of_plug_ins_are_their_own",
    ),
    "an old name in a stored spec of today ignored": (
        "spec/stored_spec.py",
        "if key in _IGNORED[section] and key not in renamed.get(section, {})",
        "if key in _IGNORED[section]",
        "tests/version_1/test_names.py::test_an_old_name_in_a_stored_spec_of_today_is_refused",
    ),
    "a document of version 1 kept in the words of today": (
        "bundle/document.py",
        "return msgspec.json.encode(self._as_written())",
        "return msgspec.json.encode(self)",
        "tests/version_1/test_kept_releases.py::test_a_document_of_version_1_is_read_with_todays_names_and_written_as_it_was",
    ),
    "a variable renamed like a parameter": (
        "bundle/version_1.py",
        "            name: {names.get(key, key)",
        "            names.get(name, name): {names.get(key, key)",
        "tests/version_1/test_kept_releases.py::test_a_variable_keeps_its_name_whatever_it_is",
    ),
    "a model's own mechanism left out of the request": (
        "spec/release_spec.py",
        '(key, value) != ("mechanism", "laplace")',
        'key != "mechanism" or value != model_type(self.model).default_mechanism',
        "tests/spec/test_options.py::test_a_model_alone_is_answered_by_its_own_mechanism",
    ),
    "a record too many of each unit": (
        "sources/contributions.py",
        "{keyed_hash}, {most}))",
        "{keyed_hash}, {most + 1}))",
        "tests/sources/test_contributions.py::test_kept_records_are_those_of_the_reference",
    ),
    "units of each file by itself": (
        "sources/parquet.py",
        "if self._unit_name is not None:  # a unit may have records in several files",
        "if self._unit_name is not None and len(self._location.paths) == 1:",
        "tests/sources/test_contributions.py::test_kept_records_do_not_depend_on_order_or_partition",
    ),
    "equal records with one hash": (
        "sources/contributions.py",
        "|| ',' || twin || ',' || item)",
        "|| ',1,' || item)",
        "tests/sources/test_contributions.py::test_every_record_of_a_unit_is_equally_likely_kept",
    ),
    "a record too many of each unit, where an engine keeps them": (
        "sources/expressions.py",
        'rows["rank"] < bound.max_contributions',
        'rows["rank"] <= bound.max_contributions',
        "tests/sources/test_expressions.py::test_expressions_agree_with_the_embedded_reader",
    ),
    "equal records with one hash, where an engine keeps them": (
        "sources/expressions.py",
        'rows.twin.cast("string") + "," + rows.item',
        'ibis.literal("0,") + rows.item',
        "tests/sources/test_expressions.py::test_expressions_agree_with_the_embedded_reader",
    ),
    "a number beyond the largest double counts": (
        "sources/expressions.py",
        "(kept >= TOO_LARGE)), ibis.null",
        "(kept > TOO_LARGE)), ibis.null",
        "tests/sources/test_postgres.py::test_postgres_agrees_with_the_embedded_reader",
    ),
    "a record with an invalid cell counts as whole": (
        "sources/expressions.py",
        "if whole_records else key + first",
        "if not whole_records else key + first",
        "tests/sources/test_expressions.py::test_expressions_agree_with_the_embedded_reader",
    ),
    "texts compare as their column does, not by bytes": (
        "sources/postgres.py",
        """{cell} COLLATE \\"C\\" END END""",
        "{cell} END END",
        "tests/sources/test_postgres.py::test_postgres_agrees_with_the_embedded_reader",
    ),
    "each statement with a snapshot of its own": (
        "sources/postgres.py",
        "REPEATABLE READ READ ONLY",
        "READ COMMITTED READ ONLY",
        "tests/sources/test_postgres.py::test_postgres_reads_one_snapshot_and_writes_nothing",
    ),
    "a number out of bounds is told from none by luck": (
        "sources/contributions.py",
        "CASE WHEN {clamped} IS NULL THEN '' ELSE '{OUT_OF_BOUNDS}' END",
        "''",
        "tests/sources/test_contributions.py::test_dropped_record_differs_from_imputed_record",
    ),
    "metropolis in place of barker": (
        "mechanisms/samplers/barker_kernel.py",
        "return [WIDE.exp(EXACT.subtract(score, largest)) for score in (current, proposed)]",
        "return [max(Decimal(0), 1 - WIDE.exp(proposed - current)), min(Decimal(1), WIDE.exp(proposed - current))]",
        "tests/mechanisms/test_gibbs.py::test_no_step_of_a_walk_exceeds_its_price",
    ),
    "steps that reach farther than is paid": (
        "mechanisms/samplers/barker_kernel.py",
        "rng.integers(1, self.reach + 1)",
        "rng.integers(1, 2 * self.reach + 1)",
        "tests/mechanisms/test_gibbs.py::test_a_walk_stays_within_its_reach_and_follows_its_law",
    ),
    "a chain of many sweeps at the price of one": (
        "mechanisms/samplers/gibbs_accounting.py",
        "Decimal(n * update.times)) for power",
        "Decimal(update.times)) for power",
        "tests/mechanisms/test_gibbs.py::test_the_budget_is_spent_and_never_exceeded",
    ),
    "the last share of a budget is a share too many": (
        "mechanisms/samplers/gibbs_accounting.py",
        "return [*shares, exact_difference(total, exact_sum(shares))]",
        "return [*shares, total]",
        "tests/mechanisms/test_gibbs.py::test_the_budget_is_spent_and_never_exceeded",
    ),
    "the anchor is not compared": (
        "ledger/anchored_storage.py",
        "if state.holds(last) or last in state.adopted:",
        "if True:",
        "tests/ledger/test_anchor.py::test_an_anchor_refuses_an_older_copy_of_any_age",
    ),
    "the anchor's number is compared, and not its hash": (
        "ledger/state.py",
        "return index < len(self.hashes) and self.hashes[index] == mark.hash",
        "return index < len(self.hashes)",
        "tests/ledger/test_anchor.py::test_an_anchor_refuses_a_ledger_rewritten_with_new_hashes",
    ),
    "the anchor is marked before the ledger is on disk": (
        "ledger/anchored_storage.py",
        "                anchors += self._begun(locks, taken, state, before, begun)",
        "                for anchor in anchors:\n                    anchor.append(state.mark)\n"
        "                anchors += self._begun(locks, taken, state, before, begun)",
        "tests/faults/test_kill.py::test_a_release_ended_at_any_step_is_finished_by_the_same_command[anchored]",
    ),
    "a stated anchor is not asked": (
        "ledger/anchored_storage.py",
        'str(self._stated.absolute()) if self._stated else ""',
        '""',
        "tests/ledger/test_anchor.py::test_a_stated_anchor_refuses_a_copy_from_before_the_anchor",
    ),
    "a ledger that was lost is begun anew": (
        "ledger/anchored_storage.py",
        "self.refuse_disputed(State(), new)",
        "pass",
        "tests/ledger/test_anchor.py::test_an_anchor_refuses_a_new_ledger_in_place_of_a_lost_one",
    ),
    "a missing anchor is taken for none": (
        "ledger/anchored_storage.py",
        "                disputes.append(_missing(path))",
        "                pass",
        "tests/ledger/test_anchor.py::test_a_missing_or_emptied_anchor_is_refused",
    ),
    "an adoption that leaves the mark as it was": (
        "ledger/anchored_storage.py",
        "                anchor.append(state.mark)",
        "                anchor.append(before)",
        "tests/ledger/test_anchor.py::test_adopting_records_who_looked_and_what_was_lost",
    ),
    "racing processes mark without a lock": (
        "ledger/anchor.py",
        "        _lock(path, descriptor)\n",
        "",
        "tests/ledger/test_anchor.py::test_an_anchor_locked_by_another_process_is_waited_for",
    ),
    "a torn line is gone on with": (
        "ledger/anchor.py",
        'line = b"\\n" + line',
        "pass",
        "tests/ledger/test_anchor.py::test_an_anchor_that_is_behind_is_brought_up",
    ),
    "what is salvaged goes on without a human": (
        "ledger/replay.py",
        'state.held, state.changes = fields["held"], list',
        'state.held, state.changes = "", list',
        "tests/ledger/test_upkeep.py::test_a_salvage_never_frees_budget_wherever_the_damage_is",
    ),
    "a salvaged ledger forgets charges": (
        "ledger/upkeep.py",
        "    chain.account_for(readable[kept:])",
        "    pass",
        "tests/ledger/test_upkeep.py::test_a_salvage_never_frees_budget_wherever_the_damage_is",
    ),
    "a gap ends a salvaged ledger": (
        "ledger/sqlite_salvage.py",
        "        if row is None:\n            break\n        last =",
        "        if row is None or row[0] > expected:\n            break\n        last =",
        "tests/ledger/test_upkeep.py::test_a_salvage_charges_misnumbered_entries_again_and_needs_adoption",
    ),
    "a new limit forgets what was spent under the lost one": (
        "ledger/replay.py",
        "        if analyst is not None:\n            account.charged_by",
        "        if analyst in account.limit_budgets:\n            account.charged_by",
        "tests/ledger/test_upkeep.py::test_a_lost_limit_does_not_give_an_analyst_more",
    ),
    "another column by the name of the unit": (
        "ledger/charging.py",
        '    if others:\n        raise BudgetError(\n            f"release',
        '    if False:\n        raise BudgetError(\n            f"release',
        "tests/ledger/test_ledger.py::test_an_account_keeps_one_unit_and_one_layout",
    ),
    "a cell that no server can hold": (
        "sources/postgres.py",
        "CASE WHEN octet_length({cell}) <= {MAX_CELL_BYTES} THEN CASE WHEN ",
        "CASE WHEN true THEN CASE WHEN ",
        "tests/sources/test_postgres.py::test_a_cell_that_no_server_can_convert_is_missing",
    ),
    "a lost charge that no longer fits comes back": (
        "ledger/rebuild.py",
        '"release_id": again, "lost": True}',
        '"release_id": again}',
        "tests/ledger/test_upkeep.py::test_a_salvage_charges_again_even_if_the_charge_no_longer_fits",
    ),
    "a lost draw is drawn again for nothing": (
        "ledger/upkeep.py",
        "    chain.charge_unfinished()",
        "    pass",
        "tests/ledger/test_upkeep.py::test_a_salvage_never_frees_budget_wherever_the_damage_is",
    ),
    "a backup that is not verified": (
        "ledger/upkeep.py",
        "if findings or not copied.holds(state.mark):",
        "if False:",
        "tests/ledger/test_upkeep.py::test_a_backup_that_does_not_verify_is_not_kept",
    ),
    "a network is taken for a disk": (
        "base/mounts.py",
        'if kind in NETWORK or kind.removeprefix("fuse.") in NETWORK_FUSE',
        "if False",
        "tests/ledger/test_mounts.py::test_a_ledger_on_a_network_is_refused_with_a_way_out",
    ),
    "a second budget for the same people": (
        "ledger/charging.py",
        "    check_population(state, account, charge.source)",
        "    pass",
        "tests/ledger/test_populations.py::test_a_file_gets_no_second_budget_by_another_account_or_another_name",
    ),
    "a hard link is another file": (
        "ledger/populations.py",
        "    if not isinstance(identity, tuple):",
        "    if True:",
        "tests/ledger/test_populations.py::test_a_file_gets_no_second_budget_by_another_account_or_another_name",
    ),
    "an account takes whatever data it is given": (
        "ledger/populations.py",
        "        others = _payers(state, name)",
        "        others = [] if account.n_releases else _payers(state, name)",
        "tests/ledger/test_populations.py::test_overlapping_accounts_of_an_older_ledger_can_still_be_charged",
    ),
    "a reservation that is finished from other data": (
        "ledger/charging.py",
        '    if known.stage == "reserved":\n        raise',
        "    if False:\n        raise",
        "tests/ledger/test_populations.py::test_a_reservation_is_finished_from_its_own_source_alone",
    ),
    "an amendment that is said twice": (
        "ledger/ledger.py",
        "new = account.changes.get(subject) != content",
        "new = True",
        "tests/ledger/test_again.py::test_a_repeated_account_command_appends_no_second_entry",
    ),
    "an account that is open is the one that was asked for": (
        "ledger/ledger.py",
        "elif known.terms != requested.terms:",
        "elif False:",
        "tests/ledger/test_again.py::test_a_command_that_differs_is_not_a_repetition",
    ),
    "an old backup is taken for a new one": (
        "ledger/kept_copies.py",
        "if copied.mark != state.mark:",
        "if False:",
        "tests/ledger/test_again.py::test_a_repeated_backup_recognizes_its_own_complete_file",
    ),
    "a ledger is its own backup": (
        "ledger/kept_copies.py",
        " or target.samefile(ledger.location)",
        "",
        "tests/ledger/test_again.py::test_a_backup_does_not_accept_a_file_that_is_not_a_backup",
    ),
    "a salvaged file that lacks entries is whole": (
        "ledger/kept_copies.py",
        " or _contents(written) != _contents(entries)",
        "",
        "tests/ledger/test_again.py::test_a_repeated_salvage_recognizes_its_own_file",
    ),
    "pages whose rows are read together": (
        "sources/parquet.py",
        "return int(largest_vector) > _MAX_VECTOR_BYTES",
        "return False",
        "tests/test_hostile.py::test_long_cells_of_a_small_parquet_file_take_bounded_memory",
    ),
    "a page without the dictionary of its row group": (
        "sources/parquet_pages.py",
        "parts = [page] if dictionary is None else [dictionary, page]",
        "parts = [page]",
        "tests/sources/test_parquet_pages.py::test_repaging_keeps_cells_and_their_order",
    ),
    "a limit of address space that nobody looks at": (
        "base/address_space.py",
        "soft < needed:",
        "False:",
        "tests/base/test_address_space.py::test_address_space_limit_is_refused_before_any_charge",
    ),
    "a cell of a line that may be of any length": (
        "sources/delimited.py",
        "ELSE {_short(cell)} END",
        "ELSE {cell} END",
        "tests/sources/test_delimited.py::test_a_cell_of_more_bytes_than_4_kib_is_missing",
    ),
    "a living writer's directory is removed": (
        "base/atomic_file.py",
        "        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "",
        "tests/base/test_atomic_file.py::test_only_partial_directories_of_killed_writers_are_removed",
    ),
    "a directory that went before it was locked": (
        "base/atomic_file.py",
        "            if _is_path_of(partial, descriptor):",
        "            if True:",
        "tests/base/test_atomic_file.py::test_writer_makes_another_directory_if_its_first_was_removed_before_the_lock",
    ),
    "a second name of the ledger": (
        "ledger/ledger_file.py",
        "if (links := _links(path)) > 1:\n        raise",
        "if (links := 0):\n        raise",
        "tests/ledger/test_one_name.py::test_a_ledger_with_two_names_is_refused_by_both",
    ),
    "a journal of another file is played back": (
        "ledger/sqlite_journal.py",
        "return counted in (kept, (kept + 1) % (1 << 32))",
        "return True",
        "tests/ledger/test_one_name.py::test_a_journal_of_another_file_is_not_played_back",
    ),
    "what a crash left is taken on trust": (
        "ledger/sqlite.py",
        "if rolled_back:\n                        refuse_damage(connection)",
        "if False:\n                        refuse_damage(connection)",
        "tests/ledger/test_one_name.py::test_after_a_crash_pages_are_checked_before_the_first_write",
    ),
    "a restore that forgets what followed the backup": (
        "ledger/restore.py",
        "carried = next((number for number, entry in enumerate(rest) if not chain.take(entry)), len(rest))",
        "carried, rest = 0, []",
        "tests/ledger/test_restore.py::test_a_restore_keeps_the_charges_after_the_backup",
    ),
    "a restore that takes what it cannot read for nothing": (
        "ledger/restore.py",
        "(not rest and left.reads_on_from(head.sequence) and (carried > 0 or _has(left, head)))",
        "True",
        "tests/ledger/test_restore.py::test_a_restore_with_unreadable_entries_counts_everything_as_spent",
    ),
    "a restore that was cut off is gone on with": (
        "ledger/sqlite_replacement.py",
        "return restore_marker(ledger).stat().st_size > 0",
        "return False",
        "tests/ledger/test_restore.py::test_a_restore_that_is_killed_anywhere_is_finished_by_the_same_command",
    ),
    "a salvage keeps the loosest total": (
        "ledger/union_budget.py",
        "stored[name] = min(stored[name], others[name], key=parse_decimal)",
        "stored[name] = max(stored[name], others[name], key=parse_decimal)",
        "tests/ledger/test_upkeep.py::test_a_salvage_keeps_the_tightest_total_and_limit",
    ),
    "a signature that nobody checks": (
        "ledger/replay.py",
        "if key is not None and not key.signed(state.mark.hash, fields):",
        "if False:",
        "tests/ledger/test_key.py::test_an_entry_with_the_signature_of_another_key_is_refused",
    ),
    "a checkpoint that says what it likes": (
        "ledger/replay.py",
        'if fields["state"] != state_digest(state):',
        "if False:",
        "tests/ledger/test_checkpoint.py::test_a_checkpoint_of_another_state_breaks_the_protocol",
    ),
    "every transaction verifies all": (
        "ledger/verified_states.py",
        "if known is not None and not transaction.is_suspect:",
        "if False:",
        "tests/ledger/test_checkpoint.py::test_the_first_transaction_replays_from_the_checkpoint_and_later_ones_only_new_entries",
    ),
    "a zero that tells its sign": (
        "core/langevin.py",
        "* self.grid + 0.0).T",
        "* self.grid).T",
        "tests/core/test_langevin.py::test_released_zeros_have_no_sign",
    ),
}


OFTEN = {
    "published before it is sealed", "a charge that is not counted", "likelihood power doubled",
    "the chain is not checked",
}  # fmt: skip
"""Bugs that the fast tests plant; the slow ones plant the others."""

PYTEST = [sys.executable, "-m", "pytest", "--assert=plain", "-x", "-o", "addopts=", "-p", "no:cacheprovider"]
"""Asserts stay plain: where the environment names a CI, the difference of two long lists is printed whole, which took
hours of a test that had failed as it should."""


def test_the_bugs_of_the_fast_tests_exist() -> None:
    assert MUTANTS.keys() >= OFTEN


def test_every_bug_finds_its_line() -> None:
    """Also those that the slow tests plant: a line that was changed, or a test that was moved, is noticed at once."""
    lost = [
        name
        for name, (file, old, _, _) in MUTANTS.items()
        if (ROOT / "dpbayes_cli" / file).read_text(encoding="utf-8").count(old) != 1
    ]
    assert lost == []
    moved = []
    for test in {test.split("[")[0] for _, _, _, test in MUTANTS.values()}:
        path, _, name = test.partition("::")
        if not (ROOT / path).exists() or (name and f"def {name}(" not in (ROOT / path).read_text(encoding="utf-8")):
            moved.append(test)
    assert moved == []


@pytest.mark.parametrize(
    ("file", "old", "new", "test", "among"),
    [
        pytest.param(*mutant, "not slow", id=name)
        if name in OFTEN
        else pytest.param(*mutant, "slow or not slow", id=name, marks=pytest.mark.slow)
        for name, mutant in MUTANTS.items()
    ],
)
def test_a_planted_bug_is_caught(file: str, old: str, new: str, test: str, among: str, tmp_path: Path) -> None:
    for name in ("dpbayes_cli", "tests", "sample_data", "configs"):
        shutil.copytree(ROOT / name, tmp_path / "copy" / name, ignore=shutil.ignore_patterns("*.pyc.*"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "copy")
    subject = tmp_path / "copy" / "dpbayes_cli" / file
    source = subject.read_text(encoding="utf-8")
    assert source.count(old) == 1, "the line to change is not there any more"
    subject.write_text(source.replace(old, new), encoding="utf-8")
    done = subprocess.run(
        [*PYTEST, "-m", among, test], cwd=tmp_path / "copy", capture_output=True, text=True, check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    assert "failed" in done.stdout

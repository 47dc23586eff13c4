(* proofs/1-assumptions.md and the pages after it: what Rocq has checked. Each main theorem, its *)
(* statement, and the axioms it rests on. `make` compares what this prints with                  *)
(* main_theorems.txt.                                                                            *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions Capacity Exact_rank Generic_contexts Almost_all
  Kernels.
From Memorization Require Import adequacy curve readout theorem_1 theorem_2 theorem_3 hermite.
From Memorization Require Import theorem_4.
From Memorization Require Import theorem_8 theorem_9 shared_context.
From Memorization Require Import theorem_10 theorem_10_representatives corollaries hyperplane.
From Memorization Require Import narrow_readout positive_vector rank_open almost_all_queries.
From Memorization Require Import minimizer translates sums_of_contexts causal_bound theorem_12.
From Memorization Require Import rank_on_curves proposition_15_3 one_token theorem_11.
From Memorization Require Import volume_of_box proposition_15_3_almost_all theorem_9_almost_all.
From Memorization Require Import theorem_11_almost_all theorem_12_almost_all.
From Memorization Require Import theorem_13_14 any_weights saturated_heads integer_readout.
From Memorization Require Import recitation.
From Memorization Require Import layer_checker attention_program attention_rank.
From Memorization Require Import upper_bound_program upper_bound.
From Memorization Require Import decoders recites_program recites_checker.
From Memorization Require Import error_checker_program error_checker.

Set Printing Width 100.
Import GRing.Theory.
Local Open Scope ring_scope.

Check @rank_iff_memorizes.
Print Assumptions rank_iff_memorizes.
Check @every_n_independent.
Print Assumptions every_n_independent.
Check @lemma_4_1.
Print Assumptions lemma_4_1.
Check @lemma_4_1_origin.
Print Assumptions lemma_4_1_origin.
Check memorization_of_rank.
Print Assumptions memorization_of_rank.
Check narrow_readout.
Print Assumptions narrow_readout.
Check narrow_readout_layer.
Print Assumptions narrow_readout_layer.
Check theorem_1_rank.
Print Assumptions theorem_1_rank.
Check theorem_1.
Print Assumptions theorem_1.
Check theorem_2_rank.
Print Assumptions theorem_2_rank.
Check theorem_2.
Print Assumptions theorem_2.
Check theorem_3_a.
Print Assumptions theorem_3_a.
Check theorem_3_b.
Print Assumptions theorem_3_b.
Check theorem_3_c.
Print Assumptions theorem_3_c.
Check theorem_3_d.
Print Assumptions theorem_3_d.
Check theorem_4.
Print Assumptions theorem_4.
Check e_transcendental.
Print Assumptions e_transcendental.
Check hermite.
Print Assumptions hermite.
Check theorem_8_weights.
Print Assumptions theorem_8_weights.
Check theorem_8.
Print Assumptions theorem_8.
Check theorem_9_queries.
Print Assumptions theorem_9_queries.
Check theorem_9_largest.
Print Assumptions theorem_9_largest.
Check @minimizer.
Print Assumptions minimizer.
Check rank_open.
Print Assumptions rank_open.
Check theorem_9_dense.
Print Assumptions theorem_9_dense.
Check theorem_9_shared.
Print Assumptions theorem_9_shared.
Check theorem_10.
Print Assumptions theorem_10.
Check theorem_10_representatives.
Print Assumptions theorem_10_representatives.
Check corollary_10_i.
Print Assumptions corollary_10_i.
Check corollary_10_i_exact.
Print Assumptions corollary_10_i_exact.
Check corollary_10_ii.
Print Assumptions corollary_10_ii.
Check positive_vector.
Print Assumptions positive_vector.
Check positive_vector_bound.
Print Assumptions positive_vector_bound.
Check translates.
Print Assumptions translates.
Check translates_scaled.
Print Assumptions translates_scaled.
Check sums_of_contexts.
Print Assumptions sums_of_contexts.
Check four_sums.
Print Assumptions four_sums.
Check proposition_15_3.
Print Assumptions proposition_15_3.
Check rank_lines.
Print Assumptions rank_lines.
Check theorem_9_lines.
Print Assumptions theorem_9_lines.
Check volume_of_box.
Print Assumptions volume_of_box.
Check proposition_15_3_almost_all.
Print Assumptions proposition_15_3_almost_all.
Check theorem_9_almost_all.
Print Assumptions theorem_9_almost_all.
Check lemma_17_1.
Print Assumptions lemma_17_1.
Check theorem_11.
Print Assumptions theorem_11.
Check theorem_11_temperatures.
Print Assumptions theorem_11_temperatures.
Check theorem_11_weights.
Print Assumptions theorem_11_weights.
Check theorem_11_zero.
Print Assumptions theorem_11_zero.
Check theorem_11_almost_all.
Print Assumptions theorem_11_almost_all.
Check theorem_12_bound.
Print Assumptions theorem_12_bound.
Check theorem_12.
Print Assumptions theorem_12.
Check theorem_12_almost_all.
Print Assumptions theorem_12_almost_all.
Check one_winner.
Print Assumptions one_winner.
Check ties.
Print Assumptions ties.
Check any_weights.
Print Assumptions any_weights.
Check any_weights_slabs.
Print Assumptions any_weights_slabs.
Check leads.
Print Assumptions leads.
Check saturated.
Print Assumptions saturated.
Check integer_sums.
Print Assumptions integer_sums.
Check integer_sums_nearest.
Print Assumptions integer_sums_nearest.
Check integers_near.
Print Assumptions integers_near.
Check integers_decide.
Print Assumptions integers_decide.
Check margins.
Print Assumptions margins.
Check recitation.
Print Assumptions recitation.
Check greedy.
Print Assumptions greedy.
Check @check_layer_sound.
Print Assumptions check_layer_sound.
Check @check_attention_sound.
Print Assumptions check_attention_sound.
Check check_upper_bound_different.
Print Assumptions check_upper_bound_different.
Check check_upper_bound_rank.
Print Assumptions check_upper_bound_rank.
Check check_upper_bound_sound.
Print Assumptions check_upper_bound_sound.
Check check_error_sound.
Print Assumptions check_error_sound.
Check check_recites_sound.
Print Assumptions check_recites_sound.

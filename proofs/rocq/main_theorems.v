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
From Memorization Require Import local_inverse Free_heads zero_points pairs free_heads_almost_all.
From Memorization Require Import small_images few_weights equal_heads
  onto_certificate.
From Memorization Require Import layer_checker attention_program attention_rank.
From Memorization Require Import upper_bound_program upper_bound.
From Memorization Require Import decoders recites_program recites_checker.
From Memorization Require Import error_checker_program error_checker.
From Memorization Require Import onto_program onto_checker.

Set Printing Width 100.
Import GRing.Theory.
Local Open Scope ring_scope.

(* Theorems that need no axiom. *)
Check @rank_iff_memorizes.
Check narrow_readout.
Check theorem_8_weights.
Check @minimizer.
Check positive_vector.
Check positive_vector_bound.
Check theorem_12_bound.
Check one_winner.
Check ties.
Check leads.
Check integer_sums.
Check integer_sums_nearest.
Check integers_near.
Check integers_decide.
Definition without_axioms := (@rank_iff_memorizes, @narrow_readout, @theorem_8_weights,
  @minimizer, @positive_vector, @positive_vector_bound, @theorem_12_bound, @one_winner, @ties,
  @leads, @integer_sums, @integer_sums_nearest, @integers_near, @integers_decide).
Print Assumptions without_axioms.

(* Theorems about real numbers. *)
Check @every_n_independent.
Check @lemma_4_1.
Check @lemma_4_1_origin.
Check memorization_of_rank.
Check narrow_readout_layer.
Check theorem_1_rank.
Check theorem_1.
Check theorem_2_rank.
Check theorem_2.
Check theorem_3_a.
Check theorem_3_b.
Check theorem_3_c.
Check theorem_3_d.
Check theorem_4.
Check e_transcendental.
Check hermite.
Check theorem_8.
Check theorem_9_queries.
Check theorem_9_largest.
Check rank_open.
Check theorem_9_dense.
Check theorem_9_shared.
Check theorem_10.
Check theorem_10_representatives.
Check corollary_10_i.
Check corollary_10_i_exact.
Check corollary_10_ii.
Check translates.
Check translates_scaled.
Check sums_of_contexts.
Check four_sums.
Check proposition_15_3.
Check rank_lines.
Check theorem_9_lines.
Check volume_of_box.
Check proposition_15_3_almost_all.
Check theorem_9_almost_all.
Check lemma_17_1.
Check theorem_11.
Check theorem_11_temperatures.
Check theorem_11_weights.
Check theorem_11_zero.
Check theorem_11_almost_all.
Check theorem_12.
Check theorem_12_almost_all.
Check any_weights.
Check any_weights_slabs.
Check saturated.
Check margins.
Check recitation.
Check greedy.
Check @local_inverse.
Check @uniform_covariance_mean.
Check zero_points.
Check uniform_attention.
Check tangent_rank.
Check pairs_of_heads.
Check free_heads_almost_all_queries.
Check free_heads.
Check free_heads_usual.
Check free_heads_outputs.
Check equal_heads.
Check equal_heads_usual.
Check @small_images.
Check almost_no_targets.
Check almost_no_targets_any_data.
Check onto_certificate.
Check @check_layer_sound.
Check check_recites_sound.
Definition of_real_numbers := (@every_n_independent, @lemma_4_1, @lemma_4_1_origin,
  @memorization_of_rank, @narrow_readout_layer, @theorem_1_rank, @theorem_1, @theorem_2_rank,
  @theorem_2, @theorem_3_a, @theorem_3_b, @theorem_3_c, @theorem_3_d, @theorem_4,
  @e_transcendental, @hermite, @theorem_8, @theorem_9_queries, @theorem_9_largest, @rank_open,
  @theorem_9_dense, @theorem_9_shared, @theorem_10, @theorem_10_representatives, @corollary_10_i,
  @corollary_10_i_exact, @corollary_10_ii, @translates, @translates_scaled, @sums_of_contexts,
  @four_sums, @proposition_15_3, @rank_lines, @theorem_9_lines, @volume_of_box,
  @proposition_15_3_almost_all, @theorem_9_almost_all, @lemma_17_1, @theorem_11,
  @theorem_11_temperatures, @theorem_11_weights, @theorem_11_zero, @theorem_11_almost_all,
  @theorem_12, @theorem_12_almost_all, @any_weights, @any_weights_slabs, @saturated, @margins,
  @recitation, @greedy, @local_inverse, @uniform_covariance_mean, @zero_points,
  @uniform_attention, @tangent_rank, @pairs_of_heads, @free_heads_almost_all_queries,
  @free_heads, @free_heads_usual, @free_heads_outputs, @equal_heads, @equal_heads_usual,
  @small_images, @almost_no_targets, @almost_no_targets_any_data, @onto_certificate,
  @check_layer_sound, @check_recites_sound).
Print Assumptions of_real_numbers.

(* Programs that read stored numbers: they compute with machine integers. *)
Check @check_attention_sound.
Check check_upper_bound_different.
Check check_upper_bound_rank.
Check check_upper_bound_sound.
Check check_error_sound.
Check @check_onto_sound.
Definition of_stored_numbers := (@check_attention_sound, @check_upper_bound_different,
  @check_upper_bound_rank, @check_upper_bound_sound, @check_error_sound, @check_onto_sound).
Print Assumptions of_stored_numbers.

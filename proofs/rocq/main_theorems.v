From Memorization Require Import Definitions theorem_2 adequacy upper_bound theorem_4 layer_checker machine_checker
  Capacity theorem_8 theorem_10 theorem_10_dimensions rank_memorizes corollaries constant_entry
  shared_context theorem_9.
Definition theorems : Theorem2_rank * Theorem2 * Theorem1 := (theorem_2_rank, theorem_2, theorem_1).
Definition exact_capacity :
    Theorem8_weights * Theorem8 * Theorem10 * Theorem10_dimensions * Memorization_of_rank * Corollary10_i * Corollary10_ii *
    Theorem2_rank * Corollary10_i_exact * Theorem9_shared * Theorem9_queries * Theorem9_largest :=
  (theorem_8_weights, theorem_8, theorem_10, theorem_10_dimensions, memorization_of_rank, corollary_10_i, corollary_10_ii,
    theorem_2_rank_of_D, corollary_10_i_exact, theorem_9_shared, theorem_9_queries, theorem_9_largest).
Print Assumptions theorems.
Print Assumptions exact_capacity.

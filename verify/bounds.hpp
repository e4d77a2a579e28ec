// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_BOUNDS_HPP
#define SIATTN_VERIFY_BOUNDS_HPP

#include <vector>

#include <siattn/backend.hpp>

#include "reference/attention.hpp"

/// # How far a right backend can be from the exact result
///
/// A fixed relative tolerance cannot separate right from wrong: a logit's error is absolute, so the relative error of a
/// weight grows like |L| u. So the tolerance is an a-posteriori bound on the rounding errors of *this* row, computed
/// from the wide reference on the inputs as the backend sees them (already rounded to their type). *Derived*, to first
/// order, with 1 % for the second:
///
/// Notation. u: unit roundoff of the arithmetic, u_s of the products in Q K^T, u_P of the weights where they are rounded
/// before P V, u_o of the output type, g_k = k u / (1 - k u) (Higham, Lemma 3.1), s = |softmax_scale|, D = head_dim,
/// n visible keys, S_j scores, x_j = L_j - max L, p_j weights, o the output row.
///
/// 1. Logit. The dot product has an error of at most sum_d |q_d||k_jd| g_D; the table entry a_j s was rounded once from
///    (nearly) exact, e_a = u; the row factor twice more (its own rounding and the product with the entry); m_j once.
///    One fma: a rounding of |L_j| <= |a_j S_j| + |m_j|; two where it is a product and a sum. In all
///        E_j = |r a_j| s sum_d |q_d||k_jd| g'_(D+1) + |r a_j S_j| (e_a + 5u) + |m_j| (e_m + u)
///    With a calibration a_j and m_j are those of the folded map, a_j / sd and m_j - a_j mean / sd. Either is still
///    rounded once; but the difference is formed in double and may cancel: 2^-50 (|m_j| + |a_j mean / sd|) more.
///    And (D + 1) e |r a_j| s for products that underflow: e = 2^-150, half the least subnormal of the arithmetic, and
///    Numerics::underflow where a unit flushes; such a unit may take subnormal operands as 0 as well, which costs
///    |r a_j| s |q_d||k_jd| for each d that has one.
///    Keys of type int8 are multiplied by their row's scale and rounded: g'_(D+2), and values likewise u sum_j p_j |v_j|
///    in step 3.
///    Folding log2(e) into the tables changes no term: each folded entry is still rounded once.
/// 2. Weight. exp(L_j - M) for a running maximum M: one rounding of x_j, at most u (|x_j| + DM) over the running
///    maxima, e_exp for the exponential; then for each of the C times that the maximum rose, a factor
///    exp(M_old - M_new) with (e_exp + 2u), whose arguments add up to DM:
///        th_j = expm1(E_j + u |x_j| + e_exp + C (e_exp + 2u) + u DM)
///    Where a backend splits the keys and merges the states, each merge is one more such factor; C counts every rise
///    over ascending keys and one more for the merge of the split that a key is in.
///    An error that all the keys share cancels in out; the bound does not use that.
/// 3. Output. out = sum_j w_j v_j / sum_j w_j with w_j = p_j (1 + d_j), |d_j| <= th_j. To first order the difference is
///    sum_j p_j d_j (v_j - o). The sums over keys cost g_h, h the longest chain of additions (n + 2), and the
///    division and the last operations 3u:
///        tol = 1.01 [ sum_j p_j th_j |v_j - o| + g_h (sum_j p_j |v_j| + |o|) + 3u |o| + u_P sum_j p_j |v_j| ]
///              + u_o |o| + half the least subnormal of the output type + n f max_j |v_j| + (2n + 3) e
///    f: weights below the least normal number may be flushed to zero. e again: a product with a value, or a rescaled
///    sum, that is subnormal is rounded by up to e, whatever its size.
/// 4. lse = M + log sum_j w_j, perhaps ln(2) (M_2 + log2 sum_j w_j): two roundings of M, four of the logarithm, whose
///    size is at most |M| + |lse|, one of the sum:
///        tol_lse = 1.01 [ sum_j p_j th_j + g_h + 6u (|max L| + |lse|) ] + rounding to the type of lse
///
/// Two facts hold however large the errors of the logits are, and cap the bound where expm1(E_j) means nothing any more:
/// out is a convex combination of the values, so sum_j p_j th_j |v_j - o| is taken as at most max_j |v_j - o|; and
/// lse moves by no more than the largest of the exponents in step 2.
///
/// Nothing is promised where float32 itself overflows though the result would not: where sum_d |q_d||k_jd|, |a_j S_j|,
/// |L_j| log2(e) or sum_j |v_j| (finite terms) reaches 2^127, or an infinite value meets a weight below 2^-126.
///
/// The rounding errors of the double reference itself are far below u for float32, and are added with u = 2^-53 where
/// the backend under test computes in double as well.
namespace siattn::verify {

/// Unit roundoff of a type, and half of its least subnormal: |fl(x) - x| <= unit_roundoff |x| + half_subnormal.
struct Rounding {
  double unit_roundoff;
  double half_subnormal;
};

constexpr Rounding rounding_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::float32: return {0x1p-24, 0x1p-150};
    case DType::float64: return {0x1p-53, 0};
    case DType::bfloat16: return {0x1p-8, 0x1p-134};
    case DType::float16: return {0x1p-11, 0x1p-25};
    case DType::int8: break;  // no output has it
  }
  return {0, 0};
}

/// How far one element may be off.
struct Tolerance {
  bool promised = true;   ///< false: arithmetic of this width overflows on the way, anything may come out
  double arithmetic = 0;  ///< all but the last rounding
  double rounding = 0;    ///< to the type of the output: the same for every right backend

  double total() const noexcept { return arithmetic + rounding; }
};

struct RowBound {
  std::vector<Tolerance> out;  ///< [value_dim]
  Tolerance lse;
};

/// The bound for query (b, h, i), whose exact row has been computed by reference::attention_row.
RowBound forward_bound(const AttentionProblem& problem, const AttentionTensors& tensors,
                       const reference::Transform<double>& transform, const Numerics& numerics, std::int64_t b,
                       std::int64_t h, std::int64_t i, const reference::Row<double>& row);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_BOUNDS_HPP

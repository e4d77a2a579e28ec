// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_CLAIMS_LIST_HPP
#define SIATTN_VERIFY_CLAIMS_LIST_HPP

#include "verify/claim.hpp"

/// Each defined in the file of its name; their order is that of claims() in claims.cpp.
namespace siattn::verify {

extern const Claim kEntropyIdentity;
extern const Claim kGaussianMoments;
extern const Claim kTransformSolves;
extern const Claim kBoundaryCondition;
extern const Claim kMarginalMeans;
extern const Claim kHarmonicBounds;
extern const Claim kLemma1;
extern const Claim kLemma2;
extern const Claim kTheorem1;
extern const Claim kWeakSparsity;
extern const Claim kTypicalTotal;
extern const Claim kSampledRanges;
extern const Claim kSensitivity;
extern const Claim kMarginalLogits;
extern const Claim kDependentLogits;
extern const Claim kNotGaussian;
extern const Claim kGoldenValues;
extern const Claim kTableRounding;
extern const Claim kExpEveryFloat;
extern const Claim kConversions;

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_CLAIMS_LIST_HPP

// SPDX-License-Identifier: Apache-2.0
// Every picture's maker, each defined in its own file.
#ifndef SIATTN_VERIFY_PICTURES_LIST_HPP
#define SIATTN_VERIFY_PICTURES_LIST_HPP

#include "verify/pictures/picture.hpp"

namespace siattn::verify {

extern constinit const PictureMaker kTransformCurves;
extern constinit const PictureMaker kFigure1;
extern constinit const PictureMaker kFigure2;
extern constinit const PictureMaker kFigure6;
extern constinit const PictureMaker kTypicalTotal;
extern constinit const PictureMaker kWeights;
extern constinit const PictureMaker kDecadeBars;
extern constinit const PictureMaker kHeatMaps;
extern constinit const PictureMaker kEncodedWeights;

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PICTURES_LIST_HPP

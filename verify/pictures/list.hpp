// SPDX-License-Identifier: Apache-2.0
// Every picture's maker, each defined in its own file.
#ifndef SIATTN_VERIFY_PICTURES_LIST_HPP
#define SIATTN_VERIFY_PICTURES_LIST_HPP

#include "verify/pictures/picture.hpp"

namespace siattn::verify {

extern constinit const PictureMaker kTransformCurvesPicture;
extern constinit const PictureMaker kFigure1Picture;
extern constinit const PictureMaker kFigure2Picture;
extern constinit const PictureMaker kFigure6Picture;
extern constinit const PictureMaker kTypicalTotalPicture;
extern constinit const PictureMaker kWeightsPicture;
extern constinit const PictureMaker kDecadeBarsPicture;
extern constinit const PictureMaker kHeatMapsPicture;
extern constinit const PictureMaker kEncodedWeightsPicture;
extern constinit const PictureMaker kDeparturesPicture;

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PICTURES_LIST_HPP

// SPDX-License-Identifier: Apache-2.0
#include "verify/pictures/picture.hpp"

#include "verify/pictures/list.hpp"

namespace siattn::verify {

std::span<const PictureMaker* const> picture_makers() noexcept {
  static constexpr const PictureMaker* list[] = {
      &kTransformCurvesPicture, &kFigure1Picture,    &kFigure2Picture,  &kFigure6Picture,        &kTypicalTotalPicture,
      &kWeightsPicture,         &kDecadeBarsPicture, &kHeatMapsPicture, &kEncodedWeightsPicture, &kDeparturesPicture};
  return list;
}

std::vector<Picture> make_pictures(const ClaimOptions& options, std::span<const CheckResult> checks,
                                   const PictureCallback& callback) {
  const auto makers = picture_makers();
  const auto tell = [&](std::size_t index, std::string_view what) {
    if (callback) callback(index, makers.size(), what);
  };
  tell(0, "attention over independent logits");
  const IidProfile iid = sample_iid_profile(compared_methods(), 100'000, options.full ? 2000 : 200, options.seed);
  std::vector<Picture> pictures;
  for (std::size_t k = 0; k < makers.size(); ++k) {
    tell(k, makers[k]->title);
    pictures.push_back(makers[k]->make({options, checks, iid}));
    pictures.back().id = makers[k]->id;
  }
  return pictures;
}

nlohmann::ordered_json json_of(std::span<const Picture> pictures) {
  auto list = nlohmann::ordered_json::array();
  for (const Picture& picture : pictures) {
    nlohmann::ordered_json json = {{"id", picture.id}, {"caption", picture.caption}, {"method", picture.method}};
    json.update(json_of(picture.plot));
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace siattn::verify

// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_PICTURES_PICTURE_HPP
#define SIATTN_VERIFY_PICTURES_PICTURE_HPP

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verify/claim.hpp"
#include "verify/pictures/iid_profile.hpp"
#include "verify/pictures/plot.hpp"

/// The pictures of `siattn verify --report`, computed by the library's own code.
///
/// How to add one: write pictures/NAME.cpp with a `constinit const PictureMaker`, declare it in pictures/list.hpp, add
/// it to the list in pictures/picture.cpp.
namespace siattn::verify {

struct Picture {
  std::string id;  ///< Short, unique, stable between versions: the name of its file.
  Plot plot;
  std::string caption;  ///< What is shown, and what to see in it.
  std::string method;   ///< How it was computed: what is exact, what was drawn, how often, what the bands are.
};

/// What pictures are made from.
struct PictureInputs {
  ClaimOptions options;
  std::span<const CheckResult> checks;  ///< With the tables that some pictures show.
  const IidProfile& iid;
};

struct PictureMaker {
  std::string_view id;
  std::string_view title;
  /// May throw. The numbers depend on the inputs alone, never on the number of threads. The id is left to set.
  Picture (*make)(const PictureInputs& inputs);
};

std::span<const PictureMaker* const> picture_makers() noexcept;

/// Called before each picture: its index, how many, its title.
using PictureCallback = std::function<void(std::size_t, std::size_t, std::string_view)>;

/// All of them, in order. full: more repetitions.
std::vector<Picture> make_pictures(const ClaimOptions& options, std::span<const CheckResult> checks,
                                   const PictureCallback& callback = {});

/// [{"id", "caption", "method", and the fields of json_of(Plot)}]: for report.json.
nlohmann::ordered_json json_of(std::span<const Picture> pictures);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PICTURES_PICTURE_HPP

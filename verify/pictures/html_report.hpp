// SPDX-License-Identifier: Apache-2.0
#ifndef SIATTN_VERIFY_PICTURES_HTML_REPORT_HPP
#define SIATTN_VERIFY_PICTURES_HTML_REPORT_HPP

#include <span>
#include <string>

#include "verify/pictures/picture.hpp"
#include "verify/report.hpp"

namespace siattn::verify {

/// One page for a browser, complete in itself: what was run, the checks with their verdicts, figures and tables, and
/// the pictures with captions. No scripts, nothing to download; light and dark; well-formed XML as well. `command` is
/// what to type to get the same.
std::string html_report(const ReportHeader& header, const std::string& command, std::span<const CheckResult> results,
                        std::span<const Picture> pictures);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PICTURES_HTML_REPORT_HPP

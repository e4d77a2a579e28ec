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

/// The pieces of such a page: the page around a body, a paragraph of plain text, a table, a picture with its caption.
std::string html_page(const std::string& title, const std::string& body);
std::string html_paragraph(const std::string& text);
std::string html_table(const Table& table);
std::string html_figure(const Picture& picture);

}  // namespace siattn::verify

#endif  // SIATTN_VERIFY_PICTURES_HTML_REPORT_HPP

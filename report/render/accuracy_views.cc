// SPDX-License-Identifier: Apache-2.0

#include "report/render/accuracy_views.h"

#include <fmt/format.h>

#include "base/text/format.h"

namespace tmprof {
namespace {

std::string Correlation(double value) { return fmt::format("{:.3f}", value); }

}  // namespace

std::string AccuracyJson(const AccuracyOutcome& outcome, const std::string& by,
                         const StreamEnd& truth) {
  Json results = Json::array();
  for (const AccuracyRow& row : outcome.rows) {
    results.push_back({{"rank", Name(row.rank)},
                       {"k_pages", row.k.value()},
                       {"precision", OrNull(row.precision)},
                       {"recall", row.recall},
                       {"coverage", row.coverage},
                       {"coverage_of_ideal", row.coverage_of_ideal},
                       {"spearman_rho", OrNull(row.spearman_rho)},
                       {"kendall_tau_b", OrNull(row.kendall_tau_b)},
                       {"phases", row.phases}});
  }
  return JsonText(WithEnd(
      {{"by", by}, {"results", results}, {"truth", WithEnd(Json::object(), truth)}}, outcome.end));
}

std::string AccuracyCsv(const std::vector<AccuracyRow>& rows, const std::string& by) {
  std::string text =
      CsvLine({"rank", "k_pages", "precision", "recall", "coverage", "coverage_of_ideal", "phases",
               "spearman_rho", "kendall_tau_b", "by"});
  for (const AccuracyRow& row : rows) {
    text += CsvLine({std::string(Name(row.rank)), std::to_string(row.k.value()),
                     OrEmpty(row.precision, Exact), Exact(row.recall), Exact(row.coverage),
                     Exact(row.coverage_of_ideal), std::to_string(row.phases),
                     OrEmpty(row.spearman_rho, Exact), OrEmpty(row.kendall_tau_b, Exact), by});
  }
  return text;
}

std::string AccuracyText(const std::vector<AccuracyRow>& rows, const std::string& by,
                         TextWidth width) {
  TextTable table({{"rank", TextTable::Align::kLeft, TextTable::Importance::kKey},
                   {"k pages"},
                   {"precision@k"},
                   {"recall@k"},
                   {"coverage"},
                   {"of ideal"},
                   {"rho"},
                   {"tau-b"},
                   {"phases"}});
  for (const AccuracyRow& row : rows) {
    table.AddRow({std::string(Name(row.rank)), Grouped(row.k.value()),
                  OrUnknown(row.precision, Percent), Percent(row.recall), Percent(row.coverage),
                  Percent(row.coverage_of_ideal), OrUnknown(row.spearman_rho, Correlation),
                  OrUnknown(row.kendall_tau_b, Correlation), std::to_string(row.phases)});
  }
  return fmt::format("rankings against true {}\n{}", by, table.Text(width));
}

}  // namespace tmprof

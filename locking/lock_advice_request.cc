// SPDX-License-Identifier: Apache-2.0

#include "locking/lock_advice_request.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "base/text/human_units.h"

namespace tmprof {
namespace {

// "200MiB" or "50%".
Result<std::variant<std::uint64_t, double>> ParseLimit(const std::string& text) {
  if (const Result<std::uint64_t> bytes = ParseBytes(text)) return *bytes;
  const Result<double> share = ParseShare(text);
  if (share) return *share;
  return Fail(BadInput("use option", fmt::format("--limit {}", text),
                       "it is a size, such as 200MiB, or a share of the accessed memory, such as "
                       "50%"));
}

}  // namespace

Result<LockAdviceOptions> OptionsOf(const LockAdviceRequest& request, const RankWords& rank,
                                    std::optional<std::uint64_t> llc_bytes) {
  LockAdviceOptions options;
  auto limit = ParseLimit(request.limit);
  if (!limit) return Fail(std::move(limit.error()));
  options.limit = *limit;
  const Result<ParsedRank> choice = ParseRank(rank);
  if (!choice) return Fail(choice.error());
  options.model = choice->model;
  options.by = choice->by;
  options.weight = choice->weight.value_or(options.weight);
  if (llc_bytes &&
      (options.by ? *options.by != RankSource::kMemory : options.weight != RankWeight::kMemory)) {
    return Fail(BadInput("use option", "--llc", "accesses that a cache serves count, too",
                         "add --rank-weight memory to leave them out"));
  }
  if (request.pid) options.pid = Pid(*request.pid);
  return options;
}

}  // namespace tmprof

// SPDX-License-Identifier: Apache-2.0

#include "report/convert.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "report/format.h"
#include "report/whole_trace.h"

namespace tmprof {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

// A file being written in order, with its earlier bytes open to change. Remembers its first error.
class Output {
 public:
  explicit Output(std::filesystem::path path) : path_(std::move(path)) {}

  // Refuses the file of `trace` itself.
  Status Open(const Trace& trace) {
    if (path_ == "-") {
      fd_ = UniqueFd(::dup(STDOUT_FILENO));
    } else {
      if (Status other = RefuseToOverwrite(trace, path_); !other) return other;
      // As private as the trace it is made from.
      fd_ = UniqueFd(::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    }
    if (!fd_) return Fail(Refused("create file", path_.string(), errno));
    return {};
  }

  Status RequireRegular() const {
    struct stat status;
    if (::fstat(fd_.get(), &status) != 0) {
      return Fail(Refused("inspect file", path_.string(), errno));
    }
    if (!S_ISREG(status.st_mode)) {
      return Fail(BadInput("write trace", path_.string(), "not a regular file",
                           "name a file; earlier requests are completed in place"));
    }
    return {};
  }

  void Append(std::string_view bytes) {
    buffer_ += bytes;
    if (buffer_.size() >= kBufferBytes) Flush();
  }

  void Flush() {
    std::string_view rest = buffer_;
    while (!failure_ && !rest.empty()) {
      const ssize_t written = ::write(fd_.get(), rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        failure_ = Refused("write file", path_.string(), errno);
      } else {
        rest.remove_prefix(static_cast<std::size_t>(written));
      }
    }
    buffer_.clear();
  }

  // Precondition: [offset, offset + bytes.size()) has been flushed.
  void ReadBack(std::span<char> bytes, std::uint64_t offset) {
    Transfer(bytes.size(), [&](std::size_t done) {
      return ::pread(fd_.get(), bytes.data() + done, bytes.size() - done,
                     static_cast<off_t>(offset + done));
    });
  }
  void Overwrite(std::span<const char> bytes, std::uint64_t offset) {
    Transfer(bytes.size(), [&](std::size_t done) {
      return ::pwrite(fd_.get(), bytes.data() + done, bytes.size() - done,
                      static_cast<off_t>(offset + done));
    });
  }

  bool failed() const { return failure_.has_value(); }
  Status Finish() {
    Flush();
    if (failure_) return Fail(*failure_);
    return {};
  }

 private:
  template <typename Call>
  void Transfer(std::size_t bytes, Call call) {
    for (std::size_t done = 0; !failure_ && done < bytes;) {
      const ssize_t moved = call(done);
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0) {
        failure_ = Refused("complete requests in file", path_.string(), moved < 0 ? errno : EIO);
      } else {
        done += static_cast<std::size_t>(moved);
      }
    }
  }

  std::filesystem::path path_;
  UniqueFd fd_;
  std::string buffer_;
  std::optional<Error> failure_;
};

std::string Line(const EpochProfile& epoch, const PageRecord& record, const Target* target,
                 const TraceInfo& info) {
  const bool looked = record.looks > 0;
  const auto if_looked = [looked](auto value) {
    return looked ? fmt::format("{}", value) : std::string();
  };
  const auto if_modelled = [](std::optional<std::uint64_t> misses) {
    return misses ? fmt::format("{}", *misses) : std::string();
  };
  std::string name;
  if (target != nullptr) name = CsvField(target->name);
  return fmt::format(
      "{},{},{},{},{},{},{:#x},{},{},{},{},{},{},{},{},{},{},{},{}\r\n", epoch.index,
      Seconds(epoch.start - info.start), Seconds(epoch.end - info.start), record.key.target.value(),
      target != nullptr ? fmt::format("{}", target->pid.value()) : "", name,
      AddressOf(record.key.vpn), record.span.value(), record.looks, if_looked(record.references),
      if_looked(record.first_accesses), if_looked(record.time_at_risk.seconds()),
      record.load_samples, record.store_samples,
      record.node ? fmt::format("{}", record.node->value()) : "",
      record.accesses ? fmt::format("{}", record.accesses->loads) : "",
      record.accesses ? fmt::format("{}", record.accesses->stores) : "",
      record.accesses ? if_modelled(record.accesses->llc_misses) : "",
      record.accesses ? if_modelled(record.accesses->dtlb_misses) : "");
}

const Target* FindTarget(const EpochProfile& epoch, TargetId id) {
  const auto found = std::ranges::lower_bound(epoch.targets, id, {}, &Target::id);
  return found != epoch.targets.end() && found->id == id ? &*found : nullptr;
}

constexpr int kVpnBits = 44;  // user addresses of five-level paging have 56 bits
constexpr std::size_t kRequestBytes = 24;
constexpr std::size_t kNextOffset = 16;

void PutLittleEndian(char* to, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<char>(value >> (8 * i) & 0xff);
}

// Requests in file order; each is completed when the next one for its object appears.
class RequestWriter {
 public:
  explicit RequestWriter(Output& output) : output_(output) {}

  void Add(std::uint32_t clock_seconds, std::uint64_t object, std::uint32_t bytes) {
    const auto [last, is_new] = last_request_.try_emplace(object, count_);
    if (!is_new) completions_.push_back({.request = last->second, .next = count_ + 1});
    last->second = count_++;
    char request[kRequestBytes];
    PutLittleEndian(request, clock_seconds, 4);
    PutLittleEndian(request + 4, object, 8);
    PutLittleEndian(request + 12, bytes, 4);
    PutLittleEndian(request + kNextOffset, static_cast<std::uint64_t>(kNever), 8);
    output_.Append({request, kRequestBytes});
  }

  // At the end of each epoch: what accumulates is bounded by one epoch's requests.
  void CompleteEarlier() {
    output_.Flush();
    std::ranges::sort(completions_, {}, &Completion::request);
    std::vector<char> window;
    for (auto first = completions_.begin(); first != completions_.end();) {
      const std::uint64_t start = first->request;
      const auto end = std::find_if(first, completions_.end(), [start](const Completion& c) {
        return c.request - start >= kBufferBytes / kRequestBytes;
      });
      window.resize((std::prev(end)->request - start + 1) * kRequestBytes);
      output_.ReadBack(window, start * kRequestBytes);
      for (; first != end; ++first) {
        PutLittleEndian(&window[(first->request - start) * kRequestBytes + kNextOffset],
                        first->next, 8);
      }
      output_.Overwrite(window, start * kRequestBytes);
    }
    completions_.clear();
  }

  std::uint64_t count() const { return count_; }

 private:
  static constexpr std::int64_t kNever = -1;
  struct Completion {
    std::uint64_t request = 0;  // counted from 0, as the file lies
    std::uint64_t next = 0;     // counted from 1, as the format says
  };

  Output& output_;
  std::uint64_t count_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> last_request_;
  std::vector<Completion> completions_;
};

}  // namespace

Result<ConvertStats> ConvertToCsv(const Trace& trace, const std::filesystem::path& path) {
  Output output(path);
  if (Status opened = output.Open(trace); !opened) return Fail(std::move(opened.error()));
  output.Append(
      CsvLine({"epoch", "start_s", "end_s", "target", "pid", "name", "start", "span_pages", "looks",
               "references", "first_accesses", "at_risk_s", "load_samples", "store_samples", "node",
               "loads", "stores", "llc_misses", "dtlb_misses"}));
  ConvertStats stats;
  Result<StreamEnd> end = ReadEpochs(trace, {}, [&](const EpochProfile& epoch) {
    ++stats.epochs;
    for (std::size_t i = 0; i < epoch.pages.size() && !output.failed(); ++i) {
      output.Append(Line(epoch, RecordAt(epoch.pages, i), FindTarget(epoch, epoch.pages.target[i]),
                         trace.info));
      ++stats.records;
    }
  });
  if (!end) return Fail(std::move(end.error()));
  if (Status written = output.Finish(); !written) return Fail(std::move(written.error()));
  stats.end = std::move(*end);
  return stats;
}

Result<ConvertStats> ConvertToOracleGeneral(const Trace& trace, RankModel model,
                                            const std::filesystem::path& path) {
  Output output(path);
  if (Status opened = output.Open(trace); !opened) return Fail(std::move(opened.error()));
  if (Status regular = output.RequireRegular(); !regular) return Fail(std::move(regular.error()));
  RequestWriter requests(output);
  Ranker ranker({.model = model, .memory = Ranker::Memory::kThisEpoch});
  ConvertStats stats;
  std::optional<Error> too_wide;
  std::vector<std::size_t> order;
  Result<StreamEnd> end = ReadEpochs(trace, {}, [&](const EpochProfile& epoch) {
    if (too_wide || output.failed()) return;
    ++stats.epochs;
    ranker.Absorb(epoch);
    const EvidenceTable& table = ranker.table();
    const Scores scores = ranker.Score(RankSource::kCombined);
    order.clear();
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (Accessed(table.evidence[i])) order.push_back(i);
    }
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
      const double heat_a = scores[a] / table.span_pages[a];
      const double heat_b = scores[b] / table.span_pages[b];
      return heat_a != heat_b ? heat_a > heat_b : a < b;
    });
    const auto clock_seconds =
        static_cast<std::uint32_t>(std::max(0.0, Seconds(epoch.start - trace.info.start)));
    for (const std::size_t i : order) {
      const PageKey key = table.key[i];
      const std::uint64_t bytes = table.span_pages[i] * kBasePageBytes;
      if (key.vpn.value() >> kVpnBits != 0 || key.target.value() >> (64 - kVpnBits) != 0 ||
          bytes > std::numeric_limits<std::uint32_t>::max()) {
        too_wide = BadInput("convert to oracleGeneral", trace.name,
                            fmt::format("the span at {} of target {} does not fit the format",
                                        Address(key.vpn), key.target.value()));
        return;
      }
      requests.Add(clock_seconds, std::uint64_t{key.target.value()} << kVpnBits | key.vpn.value(),
                   static_cast<std::uint32_t>(bytes));
    }
    requests.CompleteEarlier();
  });
  if (!end) return Fail(std::move(end.error()));
  if (too_wide) return Fail(std::move(*too_wide));
  if (Status written = output.Finish(); !written) return Fail(std::move(written.error()));
  stats.records = requests.count();
  stats.end = std::move(*end);
  return stats;
}

}  // namespace tmprof

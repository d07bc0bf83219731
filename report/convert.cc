// SPDX-License-Identifier: Apache-2.0

#include "report/convert.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text/format.h"
#include "base/unique_fd.h"
#include "proto/replaced_file.h"
#include "rank/epoch_estimates.h"
#include "report/analysis/whole_trace.h"

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
      standard_output_ = UniqueFd(::dup(STDOUT_FILENO));
      if (!standard_output_) return Fail(Refused("write to", "standard output", errno));
      return {};
    }
    if (Status other = RefuseToOverwrite(trace, path_); !other) return other;
    // The output is as private as its trace.
    Result<ReplacedFile> file = ReplacedFile::Create(path_, 0600);
    if (!file) return Fail(std::move(file.error()));
    file_.emplace(*std::move(file));
    return {};
  }

  Status RequireRegular() const {
    struct stat status;
    if (::fstat(fd(), &status) != 0) {
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
      const ssize_t written = ::write(fd(), rest.data(), rest.size());
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
      return ::pread(fd(), bytes.data() + done, bytes.size() - done,
                     static_cast<off_t>(offset + done));
    });
  }
  void Overwrite(std::span<const char> bytes, std::uint64_t offset) {
    Transfer(bytes.size(), [&](std::size_t done) {
      return ::pwrite(fd(), bytes.data() + done, bytes.size() - done,
                      static_cast<off_t>(offset + done));
    });
  }

  bool failed() const { return failure_.has_value(); }
  Status Finish() {
    Flush();
    if (failure_) return Fail(*failure_);
    return file_ ? file_->Commit() : Status{};
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

  int fd() const { return file_ ? file_->fd() : standard_output_.get(); }

  std::filesystem::path path_;
  std::optional<ReplacedFile> file_;
  UniqueFd standard_output_;
  std::string buffer_;
  std::optional<Error> failure_;
};

std::string Line(const EpochProfile& epoch, const PageRecord& record, const Target* target,
                 const TraceInfo& info) {
  const bool looked = record.looks > 0;
  const auto if_looked = [looked](auto value) {
    return looked ? fmt::format("{}", value) : std::string();
  };
  const auto if_tried = [&record](auto value) {
    return record.fast_looks > 0 ? fmt::format("{}", value) : std::string();
  };
  const auto if_told = [&record](auto value) {
    return TellsFindingReads(record) ? fmt::format("{}", value) : std::string();
  };
  const auto if_known_when = [&](auto value) {
    return looked && epoch.pages.new_visits ? fmt::format("{}", value) : std::string();
  };
  const auto if_modelled = [](std::optional<std::uint64_t> count) {
    return count ? fmt::format("{}", *count) : std::string();
  };
  std::string name;
  if (target != nullptr) name = CsvField(target->name);
  return fmt::format(
      "{},{},{},{},{},{},{:#x},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},"
      "{},{},{},{},{}\n",
      epoch.index, Seconds(epoch.start - info.start), Seconds(epoch.end - info.start),
      record.key.target.value(), target != nullptr ? fmt::format("{}", target->pid.value()) : "",
      name, AddressOf(record.key.vpn), record.span.value(), record.looks,
      if_looked(record.references), if_looked(record.first_accesses),
      if_looked(record.time_at_risk.seconds()), record.load_samples, record.store_samples,
      record.node ? fmt::format("{}", record.node->value()) : "",
      record.accesses ? fmt::format("{}", record.accesses->loads) : "",
      record.accesses ? fmt::format("{}", record.accesses->stores) : "",
      record.accesses ? if_modelled(record.accesses->llc_misses) : "",
      record.accesses ? if_modelled(record.accesses->dtlb_misses) : "", if_tried(record.fast_looks),
      if_tried(record.fast_found), if_tried(record.fast_time.seconds()),
      if_tried(record.fast_earlier), if_tried(record.fast_earlier_time.seconds()),
      if_told(record.first_read_finds), if_told(record.first_read_time.seconds()),
      if_told(record.later_read_time.seconds()),
      record.accesses ? if_modelled(record.accesses->hidden_misses) : "",
      record.accesses ? if_modelled(record.accesses->stall_ns) : "",
      if_known_when(record.new_first_accesses), if_known_when(record.new_time_at_risk.seconds()),
      if_known_when(record.new_later_read_time.seconds()));
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

  // Runs at the end of each epoch, so that memory is bounded by one epoch's requests.
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
    std::uint64_t request = 0;  // counted from 0, in file order
    std::uint64_t next = 0;     // counted from 1, as the format requires
  };

  Output& output_;
  std::uint64_t count_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> last_request_;
  std::vector<Completion> completions_;
};

// The number of an object has limited room for a target and a page.
Status RequireFits(const EvidenceTable& table, const std::string& trace) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Vpn last = table.key[i].vpn + PageCount(table.span_pages[i] - 1);
    if (last.value() >> kVpnBits == 0 && table.key[i].target.value() >> (64 - kVpnBits) == 0) {
      continue;
    }
    return Fail(BadInput("convert to oracleGeneral", trace,
                         fmt::format("the span at {} of target {} does not fit the format",
                                     Address(table.key[i].vpn), table.key[i].target.value())));
  }
  return {};
}

// Returns a number in [0, 1), from the upper bits: standard distributions differ between C++
// libraries.
double Uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }
std::size_t UniformBelow(std::mt19937_64& random, std::size_t count) {
  return std::min(count - 1,
                  static_cast<std::size_t>(Uniform(random) * static_cast<double>(count)));
}

// Draws the pages that an epoch requests, in random order. Each request of a row goes to any of its
// pages. A fraction of a request is carried to the next row, and from the last row to the next
// epoch, which begins at a random row. All requests together therefore have the right number.
void DrawRequests(const EpochEstimates& estimates, double ratio, std::mt19937_64& random,
                  double& left_over, std::vector<PageKey>& drawn) {
  drawn.clear();
  const EvidenceTable& table = estimates.table();
  const auto& targets = estimates.targets();
  if (table.size() == 0) return;
  const std::size_t first = UniformBelow(random, table.size());
  auto rows = std::ranges::upper_bound(targets, first, {}, &EpochEstimates::TargetRows::end);
  for (std::size_t n = 0; n < table.size(); ++n) {
    const std::size_t i = (first + n) % table.size();
    if (i == 0) rows = targets.begin();
    if (i == rows->end) ++rows;
    const double wanted = left_over + estimates.StepScore(i) * rows->share * ratio;
    auto requests = static_cast<std::uint64_t>(wanted);
    left_over = wanted - static_cast<double>(requests);
    for (; requests > 0; --requests) {
      const std::size_t page = UniformBelow(random, table.span_pages[i]);
      drawn.push_back({table.key[i].target, table.key[i].vpn + PageCount(page)});
    }
  }
  for (std::size_t left = drawn.size(); left > 1; --left) {
    std::swap(drawn[left - 1], drawn[UniformBelow(random, left)]);
  }
}

}  // namespace

Result<ConvertStats> ConvertToCsv(const Trace& trace, const std::filesystem::path& path) {
  Output output(path);
  if (Status opened = output.Open(trace); !opened) return Fail(std::move(opened.error()));
  output.Append(CsvLine(
      {"epoch",          "start_s",         "end_s",         "target",         "pid",
       "name",           "start",           "span_pages",    "looks",          "references",
       "first_accesses", "at_risk_s",       "load_samples",  "store_samples",  "node",
       "loads",          "stores",          "llc_misses",    "dtlb_misses",    "fast_looks",
       "fast_found",     "fast_s",          "fast_earlier",  "fast_earlier_s", "first_read_finds",
       "first_read_s",   "later_read_s",    "hidden_misses", "stall_ns",       "new_first_accesses",
       "new_at_risk_s",  "new_later_read_s"}));
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

Result<ConvertStats> ConvertToOracleGeneral(const Trace& trace, const OracleGeneralOptions& options,
                                            const std::filesystem::path& path) {
  Output output(path);
  if (Status opened = output.Open(trace); !opened) return Fail(std::move(opened.error()));
  if (Status regular = output.RequireRegular(); !regular) return Fail(std::move(regular.error()));
  Result<WholeTrace> whole = ReadWholeTrace(trace, options.model, {});
  if (!whole) return Fail(whole.error());
  if (Status chosen = ChooseBasis(*whole, {.weight = options.weight}, "convert"); !chosen) {
    return Fail(std::move(chosen.error()));
  }
  if (Status fits = RequireFits(whole->ranker.table(), trace.name); !fits) {
    return Fail(std::move(fits.error()));
  }
  ConvertStats stats{.basis = whole->totals.basis};
  for (const double score : whole->ranker.Score(stats.basis.source)) stats.weight += score;
  const auto most = static_cast<double>(options.most_requests);
  stats.ratio = stats.weight > most ? most / stats.weight : 1;

  EpochEstimates estimates(whole->ranker, stats.basis.source);
  std::mt19937_64 random(options.seed);  // its sequence is the same in every C++ library
  RequestWriter requests(output);
  std::vector<PageKey> drawn;
  double left_over = 0.5;
  Result<StreamEnd> end = ReadEpochs(trace, {}, [&](const EpochProfile& epoch) {
    if (output.failed()) return;
    ++stats.epochs;
    estimates.See(epoch);
    DrawRequests(estimates, stats.ratio, random, left_over, drawn);
    const double start = Seconds(epoch.start - trace.info.start);
    const double step = Seconds(epoch.length()) / static_cast<double>(drawn.size());
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      const double clock = std::max(0.0, start + step * static_cast<double>(i));
      requests.Add(static_cast<std::uint32_t>(clock),
                   std::uint64_t{drawn[i].target.value()} << kVpnBits | drawn[i].vpn.value(),
                   kBasePageBytes);
    }
    requests.CompleteEarlier();
  });
  if (!end) return Fail(std::move(end.error()));
  if (Status written = output.Finish(); !written) return Fail(std::move(written.error()));
  stats.records = requests.count();
  stats.end = std::move(*end);
  return stats;
}

}  // namespace tmprof

// SPDX-License-Identifier: Apache-2.0
// No bytes may crash the truth decoder, make it spend memory that they do not justify, or get an
// epoch past it that is none; and where they are cut decides nothing.

#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "profiler/source_kind.h"
#include "profiler/sources/exact/plugin/format/truth_stream.h"
#include "profiler/sources/exact/truth_assembler.h"
#include "profiler/sources/exact/truth_decoder.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace tmprof::exact {
namespace {

struct Decoded {
  std::vector<EpochProfile> epochs;
  std::optional<std::string> error;
  bool finished = false;
};

void Check(const TruthEpoch& epoch) {
  TMPROF_CHECK(epoch.start <= epoch.end);
  for (std::size_t i = 1; i < epoch.targets.size(); ++i)
    TMPROF_CHECK(epoch.targets[i - 1].number < epoch.targets[i].number);
  for (const TruthPage& page : epoch.pages) {
    bool known = false;
    for (const TruthTarget& target : epoch.targets) known |= target.number == page.target;
    TMPROF_CHECK(known);
  }
}

Decoded Decode(std::span<const char> bytes, std::size_t piece) {
  Decoded decoded;
  TruthDecoder decoder("input");
  TruthAssembler assembler(kExactSource);
  std::optional<TruthEpoch> last;
  for (std::size_t at = 0; at < bytes.size() && !decoded.error; at += piece) {
    const Status fed = decoder.Feed(bytes.subspan(at, std::min(piece, bytes.size() - at)));
    if (!fed) decoded.error = fed.error().Message();
    while (auto epoch = decoder.Next()) {
      Check(*epoch);
      TMPROF_CHECK(!last || (last->index < epoch->index && last->end <= epoch->start));
      last = epoch;
      assembler.Add(*decoder.origin(), 0, *std::move(epoch));
      decoded.epochs.push_back(assembler.Build({}));
    }
  }
  decoded.finished = decoder.finished();
  return decoded;
}

// The header and each record, as their lengths say.
using Parts = std::vector<std::string>;

template <typename T>
T ReadAs(std::string_view from) {
  T value{};
  std::memcpy(&value, from.data(), std::min(from.size(), sizeof value));
  return value;
}

Parts Split(std::string_view bytes) {
  Parts parts;
  std::size_t length = ReadAs<tmprof_truth_header>(bytes).header_bytes;
  while (length >= sizeof(tmprof_truth_record) && length <= bytes.size()) {
    parts.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
    length = ReadAs<tmprof_truth_record>(bytes).bytes;
  }
  return parts;
}

// Corrects the sums, because a mutated page would be refused for the sum alone.
void SetSums(Parts& parts) {
  tmprof_truth_epoch_end sums{};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto type = ReadAs<tmprof_truth_record>(parts[i]).type;
    if (type == TMPROF_TRUTH_PAGES && parts[i].size() >= sizeof(tmprof_truth_pages)) {
      const auto pages = ReadAs<tmprof_truth_pages>(parts[i]);
      std::string_view entries = std::string_view(parts[i]).substr(sizeof pages);
      for (std::uint32_t left = pages.count; left > 0 && pages.entry_bytes > 0; --left) {
        if (entries.size() < pages.entry_bytes) break;
        const auto page = ReadAs<tmprof_truth_page>(entries.substr(0, pages.entry_bytes));
        sums.loads += page.loads;
        sums.stores += page.stores;
        sums.llc_misses += page.llc_misses;
        sums.dtlb_misses += page.dtlb_misses;
        entries.remove_prefix(pages.entry_bytes);
      }
    } else if (type == TMPROF_TRUTH_EPOCH_END && parts[i].size() >= sizeof sums) {
      auto end = ReadAs<tmprof_truth_epoch_end>(parts[i]);
      end.loads = sums.loads;
      end.stores = sums.stores;
      end.llc_misses = sums.llc_misses;
      end.dtlb_misses = sums.dtlb_misses;
      std::memcpy(parts[i].data(), &end, sizeof end);
      sums = {};
    }
  }
}

void Mutate(Parts& parts, std::minstd_rand& random) {
  const std::size_t victim = random() % parts.size();
  switch (random() % 8) {
    case 0:
      parts.push_back(parts[victim]);
      return;
    case 1:
      std::swap(parts[victim], parts.back());
      return;
    case 2:
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(victim));
      return;
    default:
      break;
  }
  std::string& part = parts[victim];
  const std::size_t size = part.size();
  part.resize(size + 64);
  part.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(part.data()), size, part.size()));
  part.resize((part.size() + 7) / 8 * 8);
  if (victim == 0 || part.size() < sizeof(tmprof_truth_record)) return;
  auto record = ReadAs<tmprof_truth_record>(part);
  record.bytes = static_cast<std::uint32_t>(part.size());
  std::memcpy(part.data(), &record, sizeof record);
}

}  // namespace
}  // namespace tmprof::exact

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tmprof::exact::Decode;
  using tmprof::exact::Decoded;
  const std::span bytes(reinterpret_cast<const char*>(data), size);
  const Decoded whole = Decode(bytes, size == 0 ? 1 : size);
  const Decoded pieces = Decode(bytes, 24);
  TMPROF_CHECK(whole.epochs == pieces.epochs);
  TMPROF_CHECK(whole.error == pieces.error);
  TMPROF_CHECK(whole.finished == pieces.finished);
  return 0;
}

// Lengths and sums would stop nearly every mutation. So most go to the records inside, which are
// then given the right ones.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  std::minstd_rand random(seed);
  if (random() % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  tmprof::exact::Parts parts = tmprof::exact::Split({reinterpret_cast<const char*>(data), size});
  if (parts.empty()) return LLVMFuzzerMutate(data, size, max_size);
  tmprof::exact::Mutate(parts, random);
  if (random() % 4 != 0) tmprof::exact::SetSums(parts);
  std::string bytes;
  for (const std::string& part : parts) bytes += part;
  if (bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

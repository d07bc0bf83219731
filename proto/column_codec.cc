// SPDX-License-Identifier: Apache-2.0

#include "proto/column_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace tmprof {
namespace {

constexpr std::uint64_t kEscape = 255;  // codes from 0 to 254 stand for themselves or a dictionary
constexpr std::size_t kMaxDictionary = 255;

// Values up to here may enter a dictionary. It can hold every LogDuration code (<= 1025) and every
// huge page span but 1 GiB.
constexpr std::uint64_t kMaxDictionaryValue = 4095;

// Runs decode at ~5 ns each and codes at ~0.3 ns, and short runs compress no better than codes.
// Runs are used only if they are this many times smaller (bench/trace_codec, "ladder").
constexpr std::size_t kRunsAdvantage = 4;

constexpr std::size_t VarintBytes(std::uint64_t value) {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
}

// Statistics of the values, gathered in one pass.
struct Census {
  std::size_t runs = 0;
  std::size_t run_bytes = 0;
  std::size_t overflow_bytes = 0;  // bytes of codes without a dictionary
};

Census Survey(std::span<const std::uint64_t> values) {
  Census census;
  std::size_t run_start = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= kEscape) census.overflow_bytes += VarintBytes(values[i]);
    if (i + 1 == values.size() || values[i + 1] != values[i]) {
      ++census.runs;
      census.run_bytes += VarintBytes(values[i]) + VarintBytes(i + 1 - run_start);
      run_start = i + 1;
    }
  }
  return census;
}

// Returns the most frequent small values, ascending; of equally frequent ones the smaller.
std::vector<std::uint64_t> BuildDictionary(std::span<const std::uint64_t> values) {
  std::vector<std::size_t> frequency(kMaxDictionaryValue + 1);
  for (const std::uint64_t value : values) {
    if (value <= kMaxDictionaryValue) ++frequency[value];
  }
  std::vector<std::uint64_t> dictionary;
  for (std::uint64_t value = 0; value <= kMaxDictionaryValue; ++value) {
    if (frequency[value] > 0) dictionary.push_back(value);
  }
  if (dictionary.size() > kMaxDictionary) {
    std::ranges::sort(dictionary, [&](std::uint64_t a, std::uint64_t b) {
      return frequency[a] != frequency[b] ? frequency[a] > frequency[b] : a < b;
    });
    dictionary.resize(kMaxDictionary);
    std::ranges::sort(dictionary);
  }
  return dictionary;
}

// Maps wire values to codes; kEscape means that there is none.
class CodeTable {
 public:
  explicit CodeTable(std::span<const std::uint64_t> dictionary) : code_(kMaxDictionaryValue + 1) {
    std::ranges::fill(code_, static_cast<unsigned char>(kEscape));
    for (std::size_t i = 0; i < dictionary.size(); ++i) {
      code_[dictionary[i]] = static_cast<unsigned char>(i);
    }
  }
  std::uint64_t operator()(std::uint64_t value) const {
    return value <= kMaxDictionaryValue ? code_[value] : kEscape;
  }

 private:
  std::vector<unsigned char> code_;
};

void EncodeRuns(std::span<const std::uint64_t> values, wire::Column& column) {
  column.set_coding(wire::COLUMN_CODING_RUNS);
  for (std::size_t i = 0; i < values.size();) {
    std::size_t end = i + 1;
    while (end < values.size() && values[end] == values[i]) ++end;
    column.add_run_value(values[i]);
    column.add_run_length(end - i);
    i = end;
  }
}

void EncodeCodes(std::span<const std::uint64_t> values, std::size_t plain_overflow_bytes,
                 wire::Column& column) {
  column.set_coding(wire::COLUMN_CODING_CODES);
  std::string& codes = *column.mutable_codes();
  codes.resize(values.size());
  const auto write = [&](const auto& code_of) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint64_t code = code_of(values[i]);
      codes[i] = static_cast<char>(code);
      if (code == kEscape) column.add_overflow(values[i]);
    }
  };
  if (plain_overflow_bytes > 0) {
    const std::vector<std::uint64_t> dictionary = BuildDictionary(values);
    const CodeTable code_of(dictionary);
    std::size_t bytes = 0;
    for (const std::uint64_t value : dictionary) bytes += VarintBytes(value);
    for (const std::uint64_t value : values) {
      if (code_of(value) == kEscape) bytes += VarintBytes(value);
    }
    if (bytes < plain_overflow_bytes) {
      column.mutable_dictionary()->Add(dictionary.begin(), dictionary.end());
      return write(code_of);
    }
  }
  write([](std::uint64_t value) { return std::min(value, kEscape); });
}

template <typename T>
constexpr std::uint64_t kMaxWire = std::numeric_limits<T>::max();
template <>
constexpr std::uint64_t kMaxWire<Vpn> = kVpnEnd - 1;
template <>
inline const std::uint64_t kMaxWire<LogDuration> =
    LogDuration::FromCode(std::numeric_limits<std::uint16_t>::max()).code();
template <>
constexpr std::uint64_t kMaxWire<std::optional<NodeId>> =
    1 + std::uint64_t{std::numeric_limits<NodeId::rep>::max()};

// Bytes are widened to these types in vectors. The other types are decoded faster by a lookup.
template <typename T>
constexpr bool kIsPlainNumber =
    std::is_same_v<T, Vpn> || std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t>;

// Precondition: value <= kMaxWire<T>.
template <typename T>
T FromWire(std::uint64_t value) {
  if constexpr (std::is_same_v<T, LogDuration>) {
    return LogDuration::FromCode(static_cast<std::uint16_t>(value));
  } else if constexpr (std::is_same_v<T, std::optional<NodeId>>) {
    if (value == 0) return std::nullopt;
    return NodeId(static_cast<NodeId::rep>(value - 1));
  } else {
    return static_cast<T>(value);
  }
}

std::unexpected<std::string> OutOfRange(std::uint64_t value, std::uint64_t max) {
  return std::unexpected(fmt::format("has the value {}, above {}", value, max));
}

std::unexpected<std::string> WrongCount(std::uint64_t count, std::size_t expected) {
  return std::unexpected(fmt::format("has {} values for {} records", count, expected));
}

template <typename T>
Verdict DecodeRuns(const wire::Column& column, std::span<T> values) {
  if (column.run_value_size() != column.run_length_size()) {
    return std::unexpected(fmt::format("has {} run values and {} run lengths",
                                       column.run_value_size(), column.run_length_size()));
  }
  std::size_t filled = 0;
  for (int run = 0; run < column.run_value_size(); ++run) {
    const std::uint64_t value = column.run_value(run);
    const std::uint64_t length = column.run_length(run);
    if (value > kMaxWire<T>) return OutOfRange(value, kMaxWire<T>);
    if (length == 0) return std::unexpected("has an empty run");
    if (length > values.size() - filled) {
      return std::unexpected(fmt::format("has more values than the {} records", values.size()));
    }
    std::ranges::fill(values.subspan(filled, length), FromWire<T>(value));
    filled += length;
  }
  if (filled != values.size()) return WrongCount(filled, values.size());
  return {};
}

// Replaces the value of each escape code by the next one of `overflow`.
template <typename T>
Verdict DecodeOverflow(const wire::Column& column, std::span<T> values) {
  const std::string& codes = column.codes();
  int next = 0;
  for (std::size_t at = codes.find(static_cast<char>(kEscape)); at != std::string::npos;
       at = codes.find(static_cast<char>(kEscape), at + 1)) {
    if (next == column.overflow_size()) return std::unexpected("has too few overflow values");
    const std::uint64_t value = column.overflow(next++);
    if (value > kMaxWire<T>) return OutOfRange(value, kMaxWire<T>);
    values[at] = FromWire<T>(value);
  }
  if (next != column.overflow_size()) return std::unexpected("has too many overflow values");
  return {};
}

template <typename T>
Verdict DecodeCodes(const wire::Column& column, std::span<T> values) {
  if (column.codes().size() != values.size()) {
    return WrongCount(column.codes().size(), values.size());
  }
  const auto* codes = reinterpret_cast<const unsigned char*>(column.codes().data());
  if (column.dictionary().empty() && kIsPlainNumber<T>) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = FromWire<T>(codes[i]);
    return DecodeOverflow(column, values);
  }

  std::array<T, 256> table{};
  if (column.dictionary().empty()) {
    for (std::size_t code = 0; code < kEscape; ++code) table[code] = FromWire<T>(code);
  } else {
    const std::size_t size = column.dictionary().size();
    if (size > kMaxDictionary) {
      return std::unexpected(fmt::format("has a dictionary of {} values", size));
    }
    for (std::size_t code = 0; code < size; ++code) {
      const std::uint64_t value = column.dictionary(static_cast<int>(code));
      if (value > kMaxWire<T>) return OutOfRange(value, kMaxWire<T>);
      table[code] = FromWire<T>(value);
    }
    unsigned char outside = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      outside |= static_cast<unsigned char>((codes[i] >= size) & (codes[i] != kEscape));
    }
    if (outside != 0) return std::unexpected("has a code that is not in its dictionary");
  }
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = table[codes[i]];
  return DecodeOverflow(column, values);
}

template <typename T>
Verdict Decode(const wire::Column& column, std::span<T> values) {
  switch (column.coding()) {
    case wire::COLUMN_CODING_CONSTANT:
      if (column.constant() > kMaxWire<T>) return OutOfRange(column.constant(), kMaxWire<T>);
      std::ranges::fill(values, FromWire<T>(column.constant()));
      return {};
    case wire::COLUMN_CODING_CODES:
      return DecodeCodes(column, values);
    case wire::COLUMN_CODING_RUNS:
      return DecodeRuns(column, values);
    default:
      return std::unexpected(
          fmt::format("has the unknown coding {}", static_cast<int>(column.coding())));
  }
}

}  // namespace

void EncodeColumn(std::span<const std::uint64_t> values, ColumnChoice choice,
                  wire::Column& column) {
  const Census census = Survey(values);
  if (choice == ColumnChoice::kSmallest) {
    if (census.runs <= 1) {
      column.set_coding(wire::COLUMN_CODING_CONSTANT);
      column.set_constant(values.empty() ? 0 : values.front());
      return;
    }
    if (census.run_bytes * kRunsAdvantage <= values.size() + census.overflow_bytes) {
      return EncodeRuns(values, column);
    }
  }
  EncodeCodes(values, census.overflow_bytes, column);
}

Verdict DecodeColumn(const wire::Column& column, std::span<Vpn> values) {
  return Decode(column, values);
}
Verdict DecodeColumn(const wire::Column& column, std::span<std::uint32_t> values) {
  return Decode(column, values);
}
Verdict DecodeColumn(const wire::Column& column, std::span<std::uint64_t> values) {
  return Decode(column, values);
}
Verdict DecodeColumn(const wire::Column& column, std::span<LogDuration> values) {
  return Decode(column, values);
}
Verdict DecodeColumn(const wire::Column& column, std::span<std::optional<NodeId>> values) {
  return Decode(column, values);
}

}  // namespace tmprof

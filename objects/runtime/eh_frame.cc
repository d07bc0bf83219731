// SPDX-License-Identifier: Apache-2.0

#include "objects/runtime/eh_frame.h"

#include <cstring>

namespace tmprof::objtrace {
namespace {

// Numbers of registers (AMD64 supplement, figure 3.36).
constexpr std::uint64_t kRbp = 6;
constexpr std::uint64_t kRsp = 7;
constexpr std::uint64_t kReturnAddress = 16;

// Encodings of pointers (Linux Standard Base, "DWARF Exception Header Encoding").
constexpr std::uint8_t kFormat = 0x0f;
constexpr std::uint8_t kAbsolute = 0x00;
constexpr std::uint8_t kUnsigned4 = 0x03;
constexpr std::uint8_t kSigned4 = 0x0b;
constexpr std::uint8_t kOfItself = 0x10;
constexpr std::uint8_t kOfTable = 0x30;

// Operations of expressions (DWARF 5, 7.7.1).
constexpr std::uint8_t kDereference = 0x06;
constexpr std::uint8_t kRbpAndOffset = 0x70 + kRbp;

class Cursor {
 public:
  Cursor(const std::uint8_t* at, const std::uint8_t* end) : at_(at), end_(end) {}

  bool failed() const { return failed_; }
  bool AtEnd() const { return failed_ || at_ == end_; }
  const std::uint8_t* at() const { return at_; }

  template <typename T>
  T Take() {
    T value{};
    if (static_cast<std::size_t>(end_ - at_) < sizeof(T)) {
      Fail();
      return value;
    }
    std::memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  void Skip(std::uint64_t bytes) {
    if (static_cast<std::uint64_t>(end_ - at_) < bytes) return Fail();
    at_ += bytes;
  }
  std::uint64_t TakeUleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = Take<std::uint8_t>();
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    Fail();
    return 0;
  }
  std::int64_t TakeSleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64;) {
      const auto byte = Take<std::uint8_t>();
      value |= std::uint64_t{byte & 0x7fU} << shift;
      shift += 7;
      if ((byte & 0x80) != 0) continue;
      if (shift < 64 && (byte & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
      return static_cast<std::int64_t>(value);
    }
    Fail();
    return 0;
  }
  // Returns an encoded pointer, without the base that is to be added.
  std::uint64_t TakeEncoded(std::uint8_t encoding) {
    switch (encoding & kFormat) {
      case kAbsolute:
      case 0x04:
      case 0x0c:
        return Take<std::uint64_t>();
      case 0x02:
      case 0x0a:
        return Take<std::uint16_t>();
      case kUnsigned4:
      case kSigned4:
        return Take<std::uint32_t>();
      default:
        Fail();
        return 0;
    }
  }
  // Returns a block of bytes, such as an expression.
  Cursor TakeBlock() {
    const std::uint64_t bytes = TakeUleb();
    const std::uint8_t* start = at_;
    Skip(bytes);
    return failed_ ? Cursor(start, start) : Cursor(start, at_);
  }
  void Fail() {
    failed_ = true;
    at_ = end_;
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
  bool failed_ = false;
};

// The part of a common information entry (CIE) that applies to all functions that name it.
struct Common {
  std::uint64_t code_factor = 1;
  std::int64_t data_factor = 1;
  std::uint8_t pointers = kAbsolute;
  bool has_augmentation = false;
  Cursor program{nullptr, nullptr};
};

// Returns the rest of an entry behind its length. It is empty for the last entry, and for one of 64
// bits, which no compiler writes.
Cursor BodyOf(const std::uint8_t* entry) {
  std::uint32_t length = 0;
  std::memcpy(&length, entry, sizeof(length));
  const std::uint8_t* body = entry + sizeof(length);
  return {body, body + (length == UINT32_MAX ? 0 : length)};
}

bool ReadCommon(const std::uint8_t* entry, Common& common) {
  Cursor at = BodyOf(entry);
  if (at.Take<std::uint32_t>() != 0) return false;
  const auto version = at.Take<std::uint8_t>();
  if (version != 1 && version != 3) return false;
  const auto* augmentation = reinterpret_cast<const char*>(at.at());
  while (at.Take<char>() != '\0') continue;
  common.code_factor = at.TakeUleb();
  common.data_factor = at.TakeSleb();
  if ((version == 1 ? at.Take<std::uint8_t>() : at.TakeUleb()) != kReturnAddress) return false;
  if (at.failed()) return false;
  if (*augmentation == 'z') {
    common.has_augmentation = true;
    Cursor data = at.TakeBlock();
    for (++augmentation; *augmentation != '\0'; ++augmentation) {
      if (*augmentation == 'R') {
        common.pointers = data.Take<std::uint8_t>();
      } else if (*augmentation == 'L') {
        data.Take<std::uint8_t>();
      } else if (*augmentation == 'P') {
        data.TakeEncoded(data.Take<std::uint8_t>());
      } else {
        return false;  // also 'S': a signal's frame has its registers elsewhere
      }
    }
    if (data.failed()) return false;
  } else if (*augmentation != '\0') {
    return false;
  }
  common.program = at;
  return !at.failed();
}

// The state after the instructions that were executed.
struct Row {
  enum class Saved : std::uint8_t { kSame, kAtCfa, kAtRbp, kUndefined, kOther };

  FrameKind cfa = FrameKind::kUnknown;
  std::int64_t cfa_offset = 0;
  Saved rbp = Saved::kSame;
  std::int64_t rbp_offset = 0;
  Saved return_address = Saved::kSame;
  std::int64_t return_offset = 0;
};

class Program {
 public:
  Program(const Common& common, std::uint64_t start, std::uint64_t address)
      : common_(common), location_(start), address_(address) {}

  // False: the program is not understood.
  bool Run() {
    if (!Execute(common_.program, false)) return false;
    initial_ = row_;
    return true;
  }
  bool Run(Cursor program) { return Execute(program, true); }

  const Row& row() const { return row_; }

 private:
  static constexpr int kMaxRemembered = 8;

  bool Execute(Cursor at, bool moves) {
    while (!at.AtEnd()) {
      const auto code = at.Take<std::uint8_t>();
      const std::uint64_t operand = code & 0x3fU;
      switch (code >> 6) {
        case 1:
          if (!Advance(operand)) return moves;
          continue;
        case 2:
          Save(operand, Row::Saved::kAtCfa, Factored(at.TakeUleb()));
          continue;
        case 3:
          Restore(operand);
          continue;
        default:
          break;
      }
      switch (code) {
        case 0x00:  // DW_CFA_nop
          break;
        case 0x02:  // DW_CFA_advance_loc1, 2 and 4
          if (!Advance(at.Take<std::uint8_t>())) return moves;
          break;
        case 0x03:
          if (!Advance(at.Take<std::uint16_t>())) return moves;
          break;
        case 0x04:
          if (!Advance(at.Take<std::uint32_t>())) return moves;
          break;
        case 0x05: {  // DW_CFA_offset_extended
          const std::uint64_t which = at.TakeUleb();
          Save(which, Row::Saved::kAtCfa, Factored(at.TakeUleb()));
          break;
        }
        case 0x06:  // DW_CFA_restore_extended
          Restore(at.TakeUleb());
          break;
        case 0x07:  // DW_CFA_undefined
          Save(at.TakeUleb(), Row::Saved::kUndefined, 0);
          break;
        case 0x08:  // DW_CFA_same_value
          Save(at.TakeUleb(), Row::Saved::kSame, 0);
          break;
        case 0x09:    // DW_CFA_register
        case 0x14:    // DW_CFA_val_offset
        case 0x15: {  // a number follows each
          const std::uint64_t which = at.TakeUleb();
          at.TakeUleb();
          Save(which, Row::Saved::kOther, 0);
          break;
        }
        case 0x0a:  // DW_CFA_remember_state
          if (remembered_ == kMaxRemembered) return false;
          stack_[remembered_++] = row_;
          break;
        case 0x0b:  // DW_CFA_restore_state
          if (remembered_ == 0) return false;
          row_ = stack_[--remembered_];
          break;
        case 0x0c: {  // DW_CFA_def_cfa
          const std::uint64_t base = at.TakeUleb();
          DefineCfa(base, static_cast<std::int64_t>(at.TakeUleb()));
          break;
        }
        case 0x0d:  // DW_CFA_def_cfa_register
          DefineCfa(at.TakeUleb(), row_.cfa_offset);
          break;
        case 0x0e:  // DW_CFA_def_cfa_offset
          row_.cfa_offset = static_cast<std::int64_t>(at.TakeUleb());
          break;
        case 0x0f:  // DW_CFA_def_cfa_expression
          DefineCfa(at.TakeBlock());
          break;
        case 0x10: {  // DW_CFA_expression
          const std::uint64_t which = at.TakeUleb();
          std::int64_t offset = 0;
          Cursor block = at.TakeBlock();
          const bool is_known = TakeRbpAndOffset(block, offset) && block.AtEnd();
          Save(which, is_known ? Row::Saved::kAtRbp : Row::Saved::kOther, offset);
          break;
        }
        case 0x11: {  // DW_CFA_offset_extended_sf
          const std::uint64_t which = at.TakeUleb();
          Save(which, Row::Saved::kAtCfa, at.TakeSleb() * common_.data_factor);
          break;
        }
        case 0x12: {  // DW_CFA_def_cfa_sf
          const std::uint64_t base = at.TakeUleb();
          DefineCfa(base, at.TakeSleb() * common_.data_factor);
          break;
        }
        case 0x13:  // DW_CFA_def_cfa_offset_sf
          row_.cfa_offset = at.TakeSleb() * common_.data_factor;
          break;
        case 0x16: {  // DW_CFA_val_expression
          const std::uint64_t which = at.TakeUleb();
          at.TakeBlock();
          Save(which, Row::Saved::kOther, 0);
          break;
        }
        case 0x2e:  // DW_CFA_GNU_args_size
          at.TakeUleb();
          break;
        default:
          return false;
      }
    }
    return !at.failed();
  }

  std::int64_t Factored(std::uint64_t value) const {
    return static_cast<std::int64_t>(value) * common_.data_factor;
  }

  // False: the rows from here on are beyond the address.
  bool Advance(std::uint64_t by) {
    location_ += by * common_.code_factor;
    return location_ <= address_;
  }

  void Save(std::uint64_t which, Row::Saved saved, std::int64_t offset) {
    if (which == kRbp) {
      row_.rbp = saved;
      row_.rbp_offset = offset;
    } else if (which == kReturnAddress) {
      row_.return_address = saved;
      row_.return_offset = offset;
    }
  }

  void Restore(std::uint64_t which) {
    if (which == kRbp) {
      Save(which, initial_.rbp, initial_.rbp_offset);
    } else if (which == kReturnAddress) {
      Save(which, initial_.return_address, initial_.return_offset);
    }
  }

  void DefineCfa(std::uint64_t base, std::int64_t offset) {
    row_.cfa = base == kRsp   ? FrameKind::kByRsp
               : base == kRbp ? FrameKind::kByRbp
                              : FrameKind::kUnknown;
    row_.cfa_offset = offset;
  }

  // GCC writes such expressions for functions that align their stack.
  void DefineCfa(Cursor expression) {
    const bool is_known = TakeRbpAndOffset(expression, row_.cfa_offset) &&
                          expression.Take<std::uint8_t>() == kDereference && expression.AtEnd();
    row_.cfa = is_known ? FrameKind::kAtRbp : FrameKind::kUnknown;
  }

  static bool TakeRbpAndOffset(Cursor& expression, std::int64_t& offset) {
    if (expression.Take<std::uint8_t>() != kRbpAndOffset) return false;
    offset = expression.TakeSleb();
    return !expression.failed();
  }

  const Common& common_;
  std::uint64_t location_;
  std::uint64_t address_;
  Row row_;
  Row initial_;
  Row stack_[kMaxRemembered];
  int remembered_ = 0;
};

bool IsOffset(std::int64_t offset) {
  constexpr std::int64_t kFarthest = 1 << 30;  // no stack is so large
  return offset > -kFarthest && offset < kFarthest && offset % 8 == 0;
}

FrameRule RuleOf(const Row& row) {
  if (row.return_address == Row::Saved::kUndefined) return {.kind = FrameKind::kEnd};
  if (row.return_address != Row::Saved::kAtCfa || row.return_offset != -8) return {};
  if (!IsOffset(row.cfa_offset) || !IsOffset(row.rbp_offset)) return {};
  RbpKind rbp = RbpKind::kSame;
  switch (row.rbp) {
    case Row::Saved::kSame:
    case Row::Saved::kUndefined:  // no caller further out needs it
      break;
    case Row::Saved::kAtCfa:
      rbp = RbpKind::kAtCfa;
      break;
    case Row::Saved::kAtRbp:
      rbp = RbpKind::kAtRbp;
      break;
    case Row::Saved::kOther:
      return {};
  }
  return {.kind = row.cfa,
          .rbp = rbp,
          .cfa_offset = static_cast<std::int32_t>(row.cfa_offset),
          .rbp_offset = static_cast<std::int32_t>(row.rbp_offset)};
}

// Finds the description of the function that may hold the address in the sorted table.
const std::uint8_t* FindEntry(const std::uint8_t* table, std::uint64_t address,
                              std::uint64_t& start) {
  struct Header {
    std::uint8_t version;
    std::uint8_t frames_encoding;
    std::uint8_t count_encoding;
    std::uint8_t table_encoding;
    std::uint32_t frames;
    std::uint32_t count;
  } header;
  std::memcpy(&header, table, sizeof(header));
  // All linkers write these encodings.
  if (header.version != 1 || header.frames_encoding != (kOfItself | kSigned4) ||
      header.count_encoding != kUnsigned4 || header.table_encoding != (kOfTable | kSigned4)) {
    return nullptr;
  }
  struct Place {
    std::int32_t start;
    std::int32_t entry;
  };
  const auto place_of = [&](std::uint32_t i) {
    Place place;
    std::memcpy(&place, table + sizeof(header) + i * sizeof(place), sizeof(place));
    return place;
  };
  const auto base = reinterpret_cast<std::uint64_t>(table);
  std::uint32_t first = 0;
  std::uint32_t last = header.count;
  while (first < last) {
    const std::uint32_t middle = first + (last - first) / 2;
    const bool is_before = base + static_cast<std::uint64_t>(place_of(middle).start) <= address;
    (is_before ? first : last) = is_before ? middle + 1 : middle;
  }
  if (first == 0) return nullptr;
  const Place place = place_of(first - 1);
  start = base + static_cast<std::uint64_t>(place.start);
  return table + place.entry;
}

}  // namespace

FrameRule RuleAt(const void* table, std::uint64_t address) {
  if (table == nullptr) return {};
  std::uint64_t start = 0;
  const std::uint8_t* entry = FindEntry(static_cast<const std::uint8_t*>(table), address, start);
  if (entry == nullptr) return {};
  Cursor at = BodyOf(entry);
  const std::uint8_t* body = at.at();
  const auto to_common = at.Take<std::uint32_t>();
  Common common;
  if (to_common == 0 || !ReadCommon(body - to_common, common)) return {};
  at.TakeEncoded(common.pointers);  // skips its start
  const std::uint64_t bytes = at.TakeEncoded(common.pointers);
  if (address - start >= bytes) return {};
  if (common.has_augmentation) at.TakeBlock();
  if (at.failed()) return {};
  Program program(common, start, address);
  if (!program.Run() || !program.Run(at)) return {};
  return RuleOf(program.row());
}

}  // namespace tmprof::objtrace

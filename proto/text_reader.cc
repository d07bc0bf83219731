// SPDX-License-Identifier: Apache-2.0

#include "proto/text_reader.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "proto/config.pb.h"

namespace tmprof {

namespace pb = google::protobuf;

namespace {

using pb::FieldDescriptor;
using Token = pb::io::Tokenizer;

std::optional<wire::Range> RangeOf(const FieldDescriptor& field) {
  if (!field.options().HasExtension(wire::range)) return std::nullopt;
  return field.options().GetExtension(wire::range);
}

// The value of a field of one value, or the last one of a repeated field, as its range measures it.
double Magnitude(const pb::Message& message, const FieldDescriptor& field) {
  const pb::Reflection& reflection = *message.GetReflection();
  const int last = field.is_repeated() ? reflection.FieldSize(message, &field) - 1 : 0;
  const auto take = [&](auto one, auto repeated) {
    return field.is_repeated() ? (reflection.*repeated)(message, &field, last)
                               : (reflection.*one)(message, &field);
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return take(&pb::Reflection::GetDouble, &pb::Reflection::GetRepeatedDouble);
    case FieldDescriptor::CPPTYPE_INT32:
      return take(&pb::Reflection::GetInt32, &pb::Reflection::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_UINT32:
      return take(&pb::Reflection::GetUInt32, &pb::Reflection::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return static_cast<double>(
          take(&pb::Reflection::GetUInt64, &pb::Reflection::GetRepeatedUInt64));
    case FieldDescriptor::CPPTYPE_STRING:
      return static_cast<double>(
          take(&pb::Reflection::GetString, &pb::Reflection::GetRepeatedString).size());
    default:
      return 0;
  }
}

bool HasControlCharacter(const pb::Message& message, const FieldDescriptor& field) {
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return false;
  const pb::Reflection& reflection = *message.GetReflection();
  const std::string text =
      field.is_repeated()
          ? reflection.GetRepeatedString(message, &field, reflection.FieldSize(message, &field) - 1)
          : reflection.GetString(message, &field);
  return std::ranges::any_of(text, [](unsigned char c) { return c < ' ' || c == 0x7F; });
}

void Drop(pb::Message& message, const FieldDescriptor& field) {
  if (field.is_repeated()) {
    message.GetReflection()->RemoveLast(&message, &field);
  } else {
    message.GetReflection()->ClearField(&message, &field);
  }
}

// Ignores errors, because the reader reports them again with the field's name.
class Deaf final : public pb::io::ErrorCollector {
 public:
  void AddError(int, pb::io::ColumnNumber, const std::string&) override {}
};

}  // namespace

std::string Wanted(const FieldDescriptor& field) {
  const auto range = RangeOf(field);
  const auto bounds = [&](std::string kind) {
    return range ? fmt::format("{} from {} to {}", kind, range->least(), range->most()) : kind;
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return bounds("a number");
    case FieldDescriptor::CPPTYPE_STRING:
      return range ? fmt::format("text of {} to {} bytes in quotes", range->least(), range->most())
                   : "text in quotes";
    default:
      return bounds("a whole number");
  }
}

std::string NoSuchField(const pb::Descriptor& group, const std::string& path) {
  std::string names;
  for (int i = 0; i < group.field_count(); ++i) {
    names += (i == 0 ? "" : ", ") + group.field(i)->name();
  }
  return fmt::format("there is no such field; {} has {}", path.empty() ? "a configuration" : path,
                     names);
}

bool StoreValue(pb::Message& message, const FieldDescriptor& field, const std::string& text) {
  Deaf deaf;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&deaf);
  const int before = field.is_repeated() ? message.GetReflection()->FieldSize(message, &field) : 0;
  if (!parser.ParseFieldValueFromString(text, &field, &message)) {
    if (!field.is_repeated()) {
      Drop(message, field);
    } else if (message.GetReflection()->FieldSize(message, &field) > before) {
      Drop(message, field);
    }
    return false;
  }
  const auto range = RangeOf(field);
  const double magnitude = Magnitude(message, field);
  const bool within = !range || (range->least() <= magnitude && magnitude <= range->most());
  if (within && !HasControlCharacter(message, field)) return true;
  Drop(message, field);
  return false;
}

void TextReading::Refuse(const pb::Message& message, const std::string& field, std::string what,
                         int index) {
  const auto found = given_.find({&message, field});
  TMPROF_CHECK(found != given_.end() && std::cmp_less(index, found->second.places.size()));
  const Given& given = found->second;
  faults.push_back({given.places[static_cast<std::size_t>(index)], given.path, std::move(what)});
}

// Each production takes at least one token, or is at the end.
class TextReader final : private pb::io::ErrorCollector {
 public:
  TextReader(std::string_view text, TextReading& reading)
      : input_(text.data(), static_cast<int>(text.size())),
        tokens_(&input_, this),
        reading_(&reading) {
    tokens_.set_comment_style(Token::SH_COMMENT_STYLE);
    tokens_.set_require_space_after_number(false);
    tokens_.set_allow_f_after_float(true);
    tokens_.Next();
  }

  void Read(pb::Message& root) { ReadGroup(root, "", "", 1); }

 private:
  void AddError(int line, pb::io::ColumnNumber column, const std::string& message) override {
    Refuse({line + 1, column + 1}, "", message);
  }

  void Refuse(TextPlace place, const std::string& field, std::string what) {
    reading_->faults.push_back({place, field, std::move(what)});
  }

  bool AtEnd() { return tokens_.current().type == Token::TYPE_END; }
  bool At(std::string_view symbol) {
    return tokens_.current().type == Token::TYPE_SYMBOL && tokens_.current().text == symbol;
  }
  bool AtAny(std::string_view symbols) {
    return tokens_.current().type == Token::TYPE_SYMBOL &&
           symbols.find(tokens_.current().text) != std::string_view::npos;
  }
  bool Accept(std::string_view symbol) {
    if (!At(symbol)) return false;
    tokens_.Next();
    return true;
  }
  // Returns whether the token follows a number without a space, as in 5hysteresis.
  bool TouchesNumber() {
    const Token::Token& before = tokens_.previous();
    return (before.type == Token::TYPE_INTEGER || before.type == Token::TYPE_FLOAT) &&
           before.line == tokens_.current().line && before.end_column == tokens_.current().column;
  }
  TextPlace Here() { return {tokens_.current().line + 1, tokens_.current().column + 1}; }
  std::string Quoted() { return AtEnd() ? "the end" : "'" + tokens_.current().text + "'"; }

  // Reads the fields of `message` up to `close`, or to the end of the text if `close` is empty.
  void ReadGroup(pb::Message& message, const std::string& path, std::string_view close,
                 int open_line) {
    while (!AtEnd()) {
      if (!close.empty() && Accept(close)) return;
      if (AtAny("}>]")) {
        Refuse(Here(), path, Quoted() + " closes nothing that is open here");
        tokens_.Next();
        continue;
      }
      ReadField(message, path);
    }
    if (close.empty() || cut_) return;
    cut_ = true;  // for all the groups around it, too
    Refuse(Here(), path,
           fmt::format("its '{}' is missing; it begins on line {}", close, open_line));
  }

  void ReadField(pb::Message& message, const std::string& path) {
    if (tokens_.current().type != Token::TYPE_IDENTIFIER) {
      Refuse(Here(), path, fmt::format("the name of a field is needed, not {}", Quoted()));
      return SkipLine();
    }
    const std::string name = tokens_.current().text;
    const std::string field_path = path.empty() ? name : path + "." + name;
    const TextPlace place = Here();
    const bool touches = TouchesNumber();
    tokens_.Next();
    const bool colon = Accept(":");
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) {
      Refuse(place, field_path, NoSuchField(*message.GetDescriptor(), path));
      if (colon || AtAny("{<")) SkipValue();
    } else {
      if (touches) Refuse(place, field_path, "a space is needed between the number and it");
      ReadValues(message, *field, field_path, place, colon);
    }
    if (!Accept(",")) Accept(";");
  }

  void ReadValues(pb::Message& message, const FieldDescriptor& field, const std::string& path,
                  TextPlace place, bool colon) {
    TextReading::Given& given = reading_->given_[{&message, field.name()}];
    given.path = path;
    if (!field.is_repeated()) RefuseSecond(message, field, given, place);
    if (!field.is_repeated() || !At("[")) {
      return ReadValue(message, field, given, place, colon);
    }
    tokens_.Next();
    if (Accept("]")) return;
    do {
      ReadValue(message, field, given, Here(), colon);
    } while (Accept(","));
    if (Accept("]")) return;
    Refuse(Here(), path, fmt::format("',' or ']' is needed, not {}", Quoted()));
    SkipLine();
    Accept("]");
  }

  void RefuseSecond(const pb::Message& message, const FieldDescriptor& field,
                    const TextReading::Given& given, TextPlace place) {
    if (!given.places.empty()) {
      return Refuse(place, given.path,
                    fmt::format("it is given twice, first on line {}", given.places[0].line));
    }
    const pb::OneofDescriptor* choice = field.real_containing_oneof();
    for (int i = 0; choice != nullptr && i < choice->field_count(); ++i) {
      const auto other = reading_->given_.find({&message, choice->field(i)->name()});
      if (other == reading_->given_.end() || other->second.places.empty()) continue;
      return Refuse(place, given.path,
                    fmt::format("only one of it and {} can be given, which is on line {}",
                                choice->field(i)->name(), other->second.places[0].line));
    }
  }

  void ReadValue(pb::Message& message, const FieldDescriptor& field, TextReading::Given& given,
                 TextPlace place, bool colon) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      given.places.push_back(place);
      return ReadMessage(message, field, given.path);
    }
    if (!colon) {
      Refuse(Here(), given.path, fmt::format("':' is needed behind the name, not {}", Quoted()));
      return SkipLine();
    }
    place = Here();
    const std::string text = TakeScalar();
    if (text.empty()) {
      Refuse(place, given.path, fmt::format("{} is needed, not {}", Wanted(field), Quoted()));
      if (AtAny("{<[")) return SkipValue();
      if (!AtAny("}>],;") && Here().line == place.line) SkipLine();
      return;
    }
    if (StoreValue(message, field, text)) {
      given.places.push_back(place);
      return;
    }
    Refuse(place, given.path, fmt::format("{} is needed, not '{}'", Wanted(field), text));
    // A second value is then found out, and this one is judged no further.
    if (!field.is_repeated()) given.places.push_back(place);
  }

  void ReadMessage(pb::Message& message, const FieldDescriptor& field, const std::string& path) {
    const TextPlace open = Here();
    if (!AtAny("{<")) {
      Refuse(open, path, fmt::format("a group in braces is needed, not {}", Quoted()));
      if (TakeScalar().empty() && Here().line == open.line && !AtAny("}>],;")) SkipLine();
      return;
    }
    const std::string_view close = At("{") ? "}" : ">";
    tokens_.Next();
    const pb::Reflection& reflection = *message.GetReflection();
    pb::Message* inner = field.is_repeated() ? reflection.AddMessage(&message, &field)
                                             : reflection.MutableMessage(&message, &field);
    ReadGroup(*inner, path, close, open.line);
  }

  // A number, a word, or strings that follow one another, as they stand there; else nothing.
  std::string TakeScalar() {
    std::string text;
    if (tokens_.current().type == Token::TYPE_STRING) {
      while (tokens_.current().type == Token::TYPE_STRING) {
        text += (text.empty() ? "" : " ") + tokens_.current().text;
        tokens_.Next();
      }
      return text;
    }
    if (Accept("-")) text.push_back('-');
    for (const auto type : {Token::TYPE_IDENTIFIER, Token::TYPE_INTEGER, Token::TYPE_FLOAT}) {
      if (tokens_.current().type != type) continue;
      text += tokens_.current().text;
      tokens_.Next();
      break;
    }
    return text;
  }

  void SkipValue() {
    if (!AtAny("{<[")) {
      TakeScalar();
      return;
    }
    int depth = 0;
    do {
      if (AtAny("{<[")) ++depth;
      if (AtAny("}>]")) --depth;
      tokens_.Next();
    } while (depth > 0 && !AtEnd());
  }

  // To the next line, past all groups that are opened in this one, but not out of this group.
  void SkipLine() {
    const int line = Here().line;
    while (!AtEnd() && Here().line == line && !AtAny("}>]")) {
      if (AtAny("{<[")) {
        SkipValue();
      } else {
        tokens_.Next();
      }
    }
  }

  pb::io::ArrayInputStream input_;
  pb::io::Tokenizer tokens_;
  TextReading* reading_;
  bool cut_ = false;  // the text ends within a group
};

TextReading ReadText(std::string_view text, pb::Message& message) {
  TextReading reading;
  TextReader(text, reading).Read(message);
  std::ranges::sort(reading.faults);
  return reading;
}

}  // namespace tmprof

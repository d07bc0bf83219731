// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/control_client.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

#include "base/host/capabilities.h"
#include "base/text/human_units.h"
#include "daemon/control/control_address.h"

namespace tmprof {
namespace {

constexpr std::size_t kMostAnswerBytes = std::size_t{256} << 20;
constexpr std::string_view kBadInput = "bad-input";
constexpr std::string_view kRefused = "refused";

Error Unreachable(const std::string& path, int error) {
  std::string advice;
  switch (error) {
    case ENOENT:
    case ECONNREFUSED:
      advice = "no tmprofd serves this socket: start one, or name its socket with --socket";
      break;
    case EACCES:
    case EPERM:
      advice = OwnerAdvice("the user whom tmprofd runs as");
      break;
    default:
      break;
  }
  return Refused("reach the daemon at", path, error, std::move(advice));
}

Error NoAnswer(const std::string& path, std::string reason, std::string advice = {}) {
  return Error{.kind = ErrorKind::kRefused,
               .attempt = "get an answer from the daemon at",
               .object = path,
               .reason = std::move(reason),
               .advice = std::move(advice)};
}

Error Silent(const std::string& path, std::chrono::milliseconds patience) {
  return NoAnswer(path, fmt::format("it has been silent for {}", FormatDuration(patience)),
                  "its log may tell what holds it up");
}

Error TooLong(const std::string& path) {
  return NoAnswer(path, "it is longer than " + FormatBytes(kMostAnswerBytes),
                  "ask for less: 'hot' has --limit");
}

Error ErrorOfCall(const std::string& path, int error, std::chrono::milliseconds patience) {
  if (error == EAGAIN) return Silent(path, patience);
  return Refused("ask the daemon at", path, error);
}

// The daemon may answer and close before it has read all.
Status Send(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return {};
    if (sent < 0) return Fail(Refused("", "", errno));
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

// Errors are those of recv(2).
class AnswerReader {
 public:
  explicit AnswerReader(int fd) : fd_(fd) {}

  // Returns a line without its end. nullopt: the daemon closed before, or the line is too long.
  Result<std::optional<std::string>> Line() {
    std::size_t searched = 0;
    while (received_.find('\n', searched) == std::string::npos &&
           received_.size() < kMostAnswerBytes) {
      searched = received_.size();
      const Result<bool> more = Receive();
      if (!more) return Fail(more.error());
      if (!*more) break;
    }
    const std::size_t end = received_.find('\n', searched);
    if (end == std::string::npos) return std::nullopt;
    std::string line = received_.substr(0, end);
    received_.erase(0, end + 1);
    return line;
  }
  std::size_t received() const { return received_.size(); }
  // Returns as many bytes, or fewer if the daemon closed before.
  Result<std::string> Bytes(std::size_t count) {
    while (received_.size() < count) {
      const Result<bool> more = Receive();
      if (!more) return Fail(more.error());
      if (!*more) break;
    }
    return received_.substr(0, count);
  }

 private:
  // False: the daemon has closed.
  Result<bool> Receive() {
    std::array<char, 65536> buffer;
    ssize_t got = 0;
    do {
      got = ::recv(fd_, buffer.data(), buffer.size(), 0);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno != ECONNRESET) return Fail(Refused("", "", errno));
    if (got <= 0) return false;
    received_.append(buffer.data(), static_cast<std::size_t>(got));
    return true;
  }

  int fd_;
  std::string received_;
};

}  // namespace

std::string JsonLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json FailureAsJson(const Error& error) {
  return {{"ok", false},
          {"error", error.Message()},
          {"fault",
           {{"kind", error.kind == ErrorKind::kBadInput ? kBadInput : kRefused},
            {"attempt", error.attempt},
            {"object", error.object},
            {"errno", OrNull(error.system_error)},
            {"reason", error.reason},
            {"advice", error.advice}}}};
}

Error ErrorOf(const Json& answer) {
  const auto given = answer.find("fault");
  const Json fault = given == answer.end() ? Json() : *given;
  const auto text = [&fault](const char* name) {
    const auto found = fault.find(name);
    return found != fault.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  Error error{.kind = text("kind") == kBadInput ? ErrorKind::kBadInput : ErrorKind::kRefused,
              .attempt = text("attempt"),
              .object = text("object"),
              .reason = text("reason"),
              .advice = text("advice")};
  if (error.attempt.empty()) {
    error.attempt = "have the daemon do it";
    const auto message = answer.find("error");
    if (message != answer.end() && message->is_string()) error.reason = message->get<std::string>();
  }
  const auto number = fault.find("errno");
  if (number != fault.end() && number->is_number_integer()) error.system_error = number->get<int>();
  return error;
}

Result<UniqueFd> ConnectToDaemon(const std::string& path, std::chrono::milliseconds patience) {
  const Result<UnixAddress> address = UnixAddressOf(path);
  if (!address) return Fail(address.error());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return Fail(Unreachable(path, errno));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
  const timeval wait{.tv_sec = seconds.count(),
                     .tv_usec = std::chrono::microseconds(patience - seconds).count()};
  // A connection, too, waits for at most what sending may (unix_stream_connect() in af_unix.c).
  for (const int option : {SO_SNDTIMEO, SO_RCVTIMEO}) {
    if (::setsockopt(fd.get(), SOL_SOCKET, option, &wait, sizeof wait) != 0)
      return Fail(Unreachable(path, errno));
  }
  while (::connect(fd.get(), address->get(), address->size()) != 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return Fail(Silent(path, patience));
    return Fail(Unreachable(path, errno));
  }
  return fd;
}

Result<DaemonAnswer> AskDaemonForBytes(const std::string& path, const Json& request,
                                       std::chrono::milliseconds patience) {
  const std::string line = JsonLine(request);
  if (line.size() > kMostRequestBytes) {
    return Fail(
        BadInput("ask the daemon at", path,
                 fmt::format("the request is longer than {}", FormatBytes(kMostRequestBytes))));
  }
  const Result<UniqueFd> fd = ConnectToDaemon(path, patience);
  if (!fd) return Fail(fd.error());
  if (const Status sent = Send(fd->get(), line); !sent)
    return Fail(ErrorOfCall(path, *sent.error().system_error, patience));

  AnswerReader reader(fd->get());
  const Result<std::optional<std::string>> text = reader.Line();
  if (!text) return Fail(ErrorOfCall(path, *text.error().system_error, patience));
  if (!*text && reader.received() >= kMostAnswerBytes) return Fail(TooLong(path));
  if (!*text) {
    return Fail(NoAnswer(
        path, reader.received() == 0
                  ? "it closed the connection without one"
                  : fmt::format("it closed the connection after {} bytes", reader.received())));
  }
  DaemonAnswer answer{Json::parse(**text, nullptr, false), {}};
  const auto ok = answer.json.is_object() ? answer.json.find("ok") : answer.json.end();
  if (ok == answer.json.end() || !ok->is_boolean()) {
    return Fail(NoAnswer(path, "what it said is none", "is it a tmprofd of this version?"));
  }
  if (!ok->get<bool>()) return Fail(ErrorOf(answer.json));
  const auto announced = answer.json.find("bytes");
  if (announced == answer.json.end() || !announced->is_number_unsigned()) return answer;
  const auto count = announced->get<std::size_t>();
  if (count > kMostAnswerBytes) return Fail(TooLong(path));
  auto bytes = reader.Bytes(count);
  if (!bytes) return Fail(ErrorOfCall(path, *bytes.error().system_error, patience));
  if (bytes->size() < count) {
    return Fail(NoAnswer(
        path, fmt::format("it closed the connection after {} of {} bytes", bytes->size(), count)));
  }
  answer.bytes = *std::move(bytes);
  return answer;
}

Result<Json> AskDaemon(const std::string& path, const Json& request,
                       std::chrono::milliseconds patience) {
  auto answer = AskDaemonForBytes(path, request, patience);
  if (!answer) return Fail(answer.error());
  return std::move(answer->json);
}

}  // namespace tmprof

// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/control_client.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <fmt/format.h>

#include <array>
#include <cerrno>
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

Result<Json> AskDaemon(const std::string& path, const Json& request,
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

  std::string answer;
  std::array<char, 65536> buffer;
  while (!answer.ends_with('\n') && answer.size() < kMostAnswerBytes) {
    const ssize_t got = ::recv(fd->get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno != ECONNRESET) return Fail(ErrorOfCall(path, errno, patience));
    if (got <= 0) break;
    answer.append(buffer.data(), static_cast<std::size_t>(got));
  }
  if (answer.empty()) return Fail(NoAnswer(path, "it closed the connection without one"));
  Json json = Json::parse(answer, nullptr, false);
  const auto ok = json.is_object() ? json.find("ok") : json.end();
  if (ok == json.end() || !ok->is_boolean()) {
    return Fail(NoAnswer(path, "what it said is none", "is it a tmprofd of this version?"));
  }
  if (!ok->get<bool>()) return Fail(ErrorOf(json));
  return json;
}

}  // namespace tmprof

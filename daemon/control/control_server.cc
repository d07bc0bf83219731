// SPDX-License-Identifier: Apache-2.0
// Two threads: one polls the socket and its clients and never waits for anything else; the other
// runs the handlers. `mutex_` guards what goes between them; all else is the polling thread's.

#include "daemon/control/control_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/host/signals_blocked.h"
#include "base/unique_fd.h"
#include "daemon/control/control_client.h"
#include "daemon/control/control_request.h"
#include "daemon/control/control_socket.h"

namespace tmprof {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// Accepted at a time, so that those that are connected are heard in between.
constexpr int kMostAccepts = 4;
// When there are no more descriptors or memory: until it is tried again.
constexpr std::chrono::milliseconds kAcceptPause{100};

Json Done() { return {{"ok", true}}; }

Json AnswerTo(const ControlRequest& request, const StatusReading& reading) {
  Json answer = Done();
  const bool status = request.command == ControlCommand::kStatus;
  if (request.format == AnswerFormat::kText) {
    answer["text"] =
        status ? AsText(reading, request.columns) : TargetsAsText(*reading.status, request.columns);
  } else if (status) {
    answer["status"] = AsJson(reading);
  } else {
    answer["targets"] = TargetsAsJson(*reading.status);
  }
  return answer;
}

// A line of JSON, and the bytes that it announces.
struct Reply {
  Json json;
  std::string bytes{};
};

Reply ReplyTo(const ControlRequest& request, const HotList& list) {
  Reply reply{Done()};
  switch (request.format) {
    case AnswerFormat::kJson:
      reply.json["hot"] = AsJson(list);
      break;
    case AnswerFormat::kText:
      reply.json["text"] = AsText(list, request.columns);
      break;
    case AnswerFormat::kBinary:
      reply.bytes = AsBinary(list);
      reply.json["bytes"] = reply.bytes.size();
      break;
  }
  return reply;
}

Error NotAllowed(uid_t user) {
  return Error{.kind = ErrorKind::kRefused,
               .attempt = "obey",
               .object = "user " + std::to_string(user),
               .reason = "only root and the daemon's own user may ask"};
}

Error Crowded() {
  return Error{.kind = ErrorKind::kRefused,
               .attempt = "take another request",
               .object = "",
               .reason = "too many are waiting for their answers"};
}

}  // namespace

class ControlServer::Loop {
 public:
  Loop(ControlSocket socket, UniqueFd wake, const StatusBoard& board, ControlHandlers handlers,
       ControlLimits limits)
      : socket_(std::move(socket)),
        wake_(std::move(wake)),
        board_(&board),
        handlers_(std::move(handlers)),
        limits_(limits) {
    const SignalsBlocked blocked;
    obeying_ = std::jthread([this](const std::stop_token& stop) { Obey(stop); });
    polling_ = std::jthread([this](const std::stop_token& stop) { Poll(stop); });
  }

  ~Loop() {
    obeying_.request_stop();
    obeying_.join();
    polling_.request_stop();
    Wake();
    polling_.join();
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

 private:
  struct Client {
    UniqueFd fd;
    SteadyTime deadline;
    std::string in{};      // at most kMostRequestBytes, and one more
    std::string out{};     // its answer, of which so much
    std::size_t sent = 0;  // is with it
    bool obeyed = false;   // its request is with the handlers
    bool at_end = false;   // it will send no more
    bool leaves = false;   // once its answer is sent

    std::string_view left() const { return std::string_view(out).substr(sent); }
  };
  using Clients = std::map<std::uint64_t, Client>;  // keyed by the order in which they came

  struct Order {
    std::uint64_t client;
    ControlRequest request;
  };
  struct Answer {
    std::uint64_t client;
    Reply reply;
  };

  void Wake() {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
  }

  // The thread of the handlers.
  void Obey(const std::stop_token& stop) {
    while (true) {
      Order order;
      {
        std::unique_lock lock(mutex_);
        if (!ordered_.wait(lock, stop, [this] { return !orders_.empty(); })) return;
        if (stop.stop_requested()) return;
        order = std::move(orders_.front());
        orders_.pop_front();
      }
      Reply reply = ReplyOf(order.request);
      {
        const std::lock_guard lock(mutex_);
        answers_.push_back({order.client, std::move(reply)});
      }
      Wake();
    }
  }

  Reply ReplyOf(const ControlRequest& request) {
    if (request.command == ControlCommand::kHot) {
      const auto list =
          handlers_.hot(request.limit.value_or(std::numeric_limits<std::size_t>::max()));
      return list ? ReplyTo(request, *list) : Reply{FailureAsJson(list.error())};
    }
    const Status done = Handle(request);
    return {done ? Done() : FailureAsJson(done.error())};
  }

  Status Handle(const ControlRequest& request) {
    switch (request.command) {
      case ControlCommand::kPause:
        return handlers_.pause();
      case ControlCommand::kResume:
        return handlers_.resume();
      case ControlCommand::kSet:
        return handlers_.set(request.settings);
      case ControlCommand::kStop:
        return handlers_.stop();
      case ControlCommand::kStatus:
      case ControlCommand::kTargets:
      case ControlCommand::kHot:
        break;
    }
    TMPROF_CHECK(false);
  }

  // The polling thread, from here on.
  void Poll(const std::stop_token& stop) {
    while (true) {
      std::vector<pollfd> polled{
          {.fd = wake_.get(), .events = POLLIN, .revents = 0},
          {.fd = accepts_ ? socket_.fd() : -1, .events = POLLIN, .revents = 0}};
      std::vector<std::uint64_t> ids;
      for (const auto& [id, client] : clients_) {
        ids.push_back(id);
        polled.push_back({.fd = client.fd.get(), .events = Awaited(client), .revents = 0});
      }
      const int ready = ::poll(polled.data(), polled.size(), Timeout());
      accepts_ = true;
      // Before the stop is looked for, as the destructor asks for it first and wakes then.
      TakeWakes();
      const bool last = stop.stop_requested();
      TakeAnswers();
      if (last) return;
      if (ready > 0) {
        for (std::size_t i = 0; i < ids.size(); ++i) {
          if (const short events = polled[i + 2].revents; events != 0) Serve(ids[i], events);
        }
      }
      const SteadyTime now = std::chrono::steady_clock::now();
      std::erase_if(clients_, [now](const auto& entry) {
        return !entry.second.obeyed && entry.second.deadline <= now;
      });
      if (ready > 0 && polled[1].revents != 0) Accept();
    }
  }

  static short Awaited(const Client& client) {
    if (!client.out.empty()) return POLLOUT;
    return client.obeyed || client.at_end ? short{0} : short{POLLIN};
  }

  // In ms, as poll(2) takes it.
  int Timeout() const {
    std::optional<SteadyTime> next;
    const SteadyTime now = std::chrono::steady_clock::now();
    if (!accepts_) next = now + kAcceptPause;
    for (const auto& [id, client] : clients_) {
      if (!client.obeyed) next = std::min(next.value_or(client.deadline), client.deadline);
    }
    if (!next) return -1;
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(*next - now);
    return static_cast<int>(std::clamp<std::int64_t>(wait.count(), 0, 60'000));
  }

  void TakeWakes() {
    std::uint64_t wakes = 0;
    (void)!::read(wake_.get(), &wakes, sizeof wakes);
  }

  void TakeAnswers() {
    std::vector<Answer> answers;
    {
      const std::lock_guard lock(mutex_);
      answers.swap(answers_);
    }
    for (const Answer& answer : answers) {
      const auto client = clients_.find(answer.client);
      if (client == clients_.end()) continue;  // it has gone
      client->second.obeyed = false;
      Give(client->second, answer.reply.json);
      client->second.out += answer.reply.bytes;
      if (!Advance(answer.client, client->second)) clients_.erase(client);
    }
  }

  void Serve(std::uint64_t id, short events) {
    const auto client = clients_.find(id);
    if (client == clients_.end()) return;
    const bool waits_for_us = Awaited(client->second) == 0;
    // One that has closed both ways takes no answer.
    bool stays = !(waits_for_us && (events & (POLLHUP | POLLERR)) != 0);
    if (stays && client->second.out.empty() && !waits_for_us) stays = Receive(client->second);
    if (!stays || !Advance(id, client->second)) clients_.erase(client);
  }

  // Reads the bytes that the client has sent, as far as there is room for them. False: the
  // connection is broken.
  static bool Receive(Client& client) {
    std::array<char, 16384> buffer;
    const std::size_t room = kMostRequestBytes + 1 - client.in.size();
    const ssize_t got = ::recv(client.fd.get(), buffer.data(), std::min(room, buffer.size()), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    client.in.append(buffer.data(), static_cast<std::size_t>(got));
    client.at_end = got == 0;
    return true;
  }

  void Give(Client& client, const Json& answer) {
    client.out = JsonLine(answer);
    client.sent = 0;
    client.deadline = std::chrono::steady_clock::now() + limits_.patience;
  }

  // False: the connection is broken.
  bool Send(Client& client) {
    while (!client.left().empty()) {
      const ssize_t sent = ::send(client.fd.get(), client.left().data(), client.left().size(),
                                  MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return errno == EAGAIN;
      client.sent += static_cast<std::size_t>(sent);
    }
    client.out.clear();
    client.sent = 0;
    client.deadline = std::chrono::steady_clock::now() + limits_.patience;
    return true;
  }

  // Sends what is there, and answers the requests that came, one after the other. False: it is over
  // with this client.
  bool Advance(std::uint64_t id, Client& client) {
    while (!client.obeyed) {
      if (!client.out.empty() && !Send(client)) return false;
      if (!client.out.empty()) return true;  // the rest when it takes it
      if (client.leaves) return false;
      const std::size_t end = client.in.find('\n');
      if (end == std::string::npos && client.in.size() < kMostRequestBytes) return !client.at_end;
      if (end == std::string::npos || end >= kMostRequestBytes) {
        client.in.clear();
        client.leaves = true;
        Give(client, FailureAsJson(BadInput(
                         "understand the request", "",
                         "it is longer than " + std::to_string(kMostRequestBytes) + " bytes")));
        continue;
      }
      const std::string line = client.in.substr(0, end);
      client.in.erase(0, end + 1);
      Answers(id, client, line);
    }
    return true;
  }

  void Answers(std::uint64_t id, Client& client, std::string_view line) {
    Result<ControlRequest> request = ParseControlRequest(line);
    if (!request) return Give(client, FailureAsJson(request.error()));
    if (request->command == ControlCommand::kStatus || request->command == ControlCommand::kTargets)
      return Give(client, AnswerTo(*request, board_->Read()));
    client.obeyed = true;
    {
      const std::lock_guard lock(mutex_);
      orders_.push_back({id, *std::move(request)});
    }
    ordered_.notify_one();
  }

  void Accept() {
    for (int i = 0; i < kMostAccepts; ++i) {
      UniqueFd fd(::accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!fd && (errno == EINTR || errno == ECONNABORTED)) continue;
      if (!fd) {
        // Out of descriptors or memory. Whoever has been idle for longest gives one back.
        if (errno != EAGAIN && !MakeRoom()) accepts_ = false;
        return;
      }
      Admit(std::move(fd));
    }
  }

  void Admit(UniqueFd fd) {
    const std::uint64_t id = next_client_++;
    Client client{.fd = std::move(fd),
                  .deadline = std::chrono::steady_clock::now() + limits_.patience};
    ucred peer{};
    socklen_t size = sizeof peer;
    const bool known = ::getsockopt(client.fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    if (!known || (peer.uid != 0 && peer.uid != ::geteuid())) {
      Dismiss(std::move(client), NotAllowed(peer.uid));
    } else if (clients_.size() >= limits_.most_clients && !MakeRoom()) {
      Dismiss(std::move(client), Crowded());
    } else {
      // Most have sent their request by now.
      Client& admitted = clients_.emplace(id, std::move(client)).first->second;
      if (!Receive(admitted) || !Advance(id, admitted)) clients_.erase(id);
    }
  }

  // Sends the error as far as the client takes it at once.
  void Dismiss(Client client, const Error& error) {
    Give(client, FailureAsJson(error));
    Send(client);
  }

  bool MakeRoom() {
    const auto idlest = std::ranges::min_element(clients_, {}, [](const auto& entry) {
      return entry.second.obeyed ? SteadyTime::max() : entry.second.deadline;
    });
    if (idlest == clients_.end() || idlest->second.obeyed) return false;
    clients_.erase(idlest);
    return true;
  }

  ControlSocket socket_;
  UniqueFd wake_;
  const StatusBoard* board_;
  const ControlHandlers handlers_;
  const ControlLimits limits_;

  std::mutex mutex_;
  std::condition_variable_any ordered_;
  std::deque<Order> orders_;
  std::vector<Answer> answers_;

  Clients clients_;
  std::uint64_t next_client_ = 0;
  bool accepts_ = true;

  std::jthread obeying_;
  std::jthread polling_;
};

Result<std::unique_ptr<ControlServer>> ControlServer::Start(std::string path,
                                                            const StatusBoard& board,
                                                            ControlHandlers handlers,
                                                            ControlLimits limits) {
  TMPROF_CHECK(handlers.pause && handlers.resume && handlers.set && handlers.hot && handlers.stop);
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return Fail(Refused("create an eventfd for", path, errno));
  Result<ControlSocket> socket = ControlSocket::Listen(std::move(path));
  if (!socket) return Fail(socket.error());
  return std::unique_ptr<ControlServer>(new ControlServer(std::make_unique<Loop>(
      *std::move(socket), std::move(wake), board, std::move(handlers), limits)));
}

ControlServer::ControlServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
ControlServer::~ControlServer() = default;

}  // namespace tmprof

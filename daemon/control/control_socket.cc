// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/control_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>

#include "daemon/control/control_address.h"
#include "daemon/control/control_client.h"

namespace tmprof {
namespace {

constexpr int kBacklog = 128;
constexpr mode_t kForOwner = 0600;
// Time in which a daemon that lives is connected to: the kernel connects without its doing, unless
// its backlog is full.
constexpr std::chrono::milliseconds kProbePatience{100};

Error CannotServe(const std::string& path, int error, std::string advice = {}) {
  return Refused("serve control socket", path, error, std::move(advice));
}

Error Served(const std::string& path, pid_t by) {
  return Error{.kind = ErrorKind::kRefused,
               .attempt = "serve control socket",
               .object = path,
               .reason = by > 0 ? fmt::format("the daemon with PID {} serves it", by)
                                : "another daemon is about to serve it, or to end",
               .advice = "end that one ('tmprof ctl stop'), or name another socket"};
}

struct Listener {
  enum class Kind : std::uint8_t { kNone, kDead, kLive };
  Kind kind = Kind::kNone;
  pid_t pid = 0;  // PID of a live one; 0: in another PID namespace, or too busy to answer
};

// Looks at the file at `path`; refuses a file that is no socket.
Result<Listener> Probe(const std::string& path) {
  struct stat file{};
  if (::lstat(path.c_str(), &file) != 0) {
    if (errno == ENOENT) return Listener{};
    return Fail(CannotServe(path, errno));
  }
  if (!S_ISSOCK(file.st_mode)) {
    return Fail(BadInput("serve control socket", path, "something else than a socket is there",
                         "remove it, or name another socket"));
  }
  const Result<UniqueFd> connection = ConnectToDaemon(path, kProbePatience);
  if (connection) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(connection->get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
      return Fail(CannotServe(path, errno));
    return Listener{.kind = Listener::Kind::kLive, .pid = peer.pid};
  }
  const std::optional<int> error = connection.error().system_error;
  if (!error) return Listener{.kind = Listener::Kind::kLive};  // silent
  if (*error != ECONNREFUSED) return Fail(CannotServe(path, *error));
  return Listener{.kind = Listener::Kind::kDead};
}

}  // namespace

Result<ControlSocket> ControlSocket::Listen(std::string path) {
  const Result<UnixAddress> address = UnixAddressOf(path);
  if (!address) return Fail(address.error());
  const std::string folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && ::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
    return Fail(Refused("create folder", folder, errno));

  const std::string lock_path = path + ".lock";
  UniqueFd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kForOwner));
  if (!lock) return Fail(Refused("open lock file", lock_path, errno));
  const bool first = ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
  if (!first && errno != EWOULDBLOCK) return Fail(Refused("lock", lock_path, errno));
  const Result<Listener> there = Probe(path);
  if (!there) return Fail(there.error());
  if (!first || there->kind == Listener::Kind::kLive) return Fail(Served(path, there->pid));
  if (there->kind == Listener::Kind::kDead && ::unlink(path.c_str()) != 0 && errno != ENOENT)
    return Fail(CannotServe(path, errno));

  ControlSocket made(path, std::move(lock),
                     UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
  // The socket file gets the mode that its descriptor has before bind(2), less the umask
  // (unix_bind_bsd() in net/unix/af_unix.c), so that it never has another.
  if (!made.listener_ || ::fchmod(made.fd(), kForOwner) != 0 ||
      ::bind(made.fd(), address->get(), UnixAddress::size()) != 0) {
    return Fail(CannotServe(path, errno));
  }
  struct stat file{};
  if (::lstat(path.c_str(), &file) != 0) return Fail(CannotServe(path, errno));
  made.device_ = file.st_dev;
  made.inode_ = file.st_ino;
  if (::listen(made.fd(), kBacklog) != 0) return Fail(CannotServe(path, errno));
  return made;
}

ControlSocket::~ControlSocket() {
  struct stat file{};
  if (inode_ != 0 && listener_ && ::lstat(path_.c_str(), &file) == 0 && file.st_dev == device_ &&
      file.st_ino == inode_) {
    ::unlink(path_.c_str());
  }
}

}  // namespace tmprof

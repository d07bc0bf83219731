// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/hot_requests.h"

#include <algorithm>
#include <utility>

namespace tmprof {
namespace {

std::unexpected<Error> NoList(std::string reason, std::string advice = {}) {
  return Fail(Error{.kind = ErrorKind::kRefused,
                    .attempt = "list the hottest spans",
                    .object = "",
                    .reason = std::move(reason),
                    .advice = std::move(advice)});
}

}  // namespace

Result<HotList> HotRequests::Ask(std::size_t most, std::chrono::nanoseconds patience,
                                 const std::function<void()>& wake) {
  Request mine{.most = most};
  std::unique_lock lock(mutex_);
  if (refuses_) return NoList(*refuses_);
  waiting_.push_back(&mine);
  wake();
  if (!answered_.wait_for(lock, patience, [&mine] { return mine.answer.has_value(); })) {
    std::erase(waiting_, &mine);
    return NoList("the daemon is busy with an epoch", "ask again");
  }
  return *std::move(mine.answer);
}

void HotRequests::Answer(const std::function<Result<HotList>(std::size_t most)>& hottest) {
  std::size_t most = 0;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return;
    for (const Request* request : waiting_) most = std::max(most, request->most);
  }
  const Result<HotList> list = hottest(most);  // may take long: nobody is kept from giving up
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [&](Request* request) {
    if (request->most > most) return false;  // came meanwhile
    request->answer = list;
    if (list && list->spans.size() > request->most) {
      (*request->answer)->spans.resize(request->most);
    }
    return true;
  });
  answered_.notify_all();
}

void HotRequests::Refuse(const std::string& why) {
  const std::lock_guard lock(mutex_);
  refuses_ = why;
  for (Request* request : waiting_) request->answer = NoList(why);
  waiting_.clear();
  answered_.notify_all();
}

void HotRequests::TakeAgain() {
  const std::lock_guard lock(mutex_);
  refuses_.reset();
}

}  // namespace tmprof

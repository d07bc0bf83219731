// SPDX-License-Identifier: Apache-2.0
// Handlers that note what they were asked, and answer as they are told.

#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "daemon/control/control_server.h"
#include "tests/daemon/control/hot_lists.h"

namespace tmprof::test {

class RecordingHandlers {
 public:
  // They must not outlive this.
  ControlHandlers Handlers() {
    const auto plain = [this](std::string name) {
      return [this, name = std::move(name)] { return Note({name}); };
    };
    const auto set = [this](const std::vector<Setting>& settings) {
      std::vector<std::string> words;
      for (const auto& [name, value] : settings) words.push_back(name + " to " + value);
      return Note(std::move(words));
    };
    const auto hot = [this](std::size_t most) -> Result<HotList> {
      if (const Status answer = Note({"hot " + std::to_string(most)}); !answer)
        return Fail(answer.error());
      HotList list = SmallHotList();
      list.spans.resize(std::min(list.spans.size(), most));
      return list;
    };
    return {.pause = plain("pause"),
            .resume = plain("resume"),
            .set = set,
            .hot = hot,
            .stop = plain("stop")};
  }

  void AnswerWith(Status answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  std::vector<std::string> calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  Status Note(std::vector<std::string> words) {
    const std::lock_guard lock(mutex_);
    calls_.insert(calls_.end(), words.begin(), words.end());
    return answer_;
  }

  std::mutex mutex_;
  Status answer_;
  std::vector<std::string> calls_;
};

}  // namespace tmprof::test

// SPDX-License-Identifier: Apache-2.0
// One name for a page of memory, however many processes map it.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/epoch_profile.h"
#include "base/page_key.h"
#include "base/units.h"

namespace tmprof {

// Each mapper of a shared file's page has a record of its own, of its own page table. The page
// itself is named by the file and its place there. A file stands where a target would: files are
// numbered from kFirstFile in the order in which they are met. So a name stays the same when its
// mappers come and go, and the order of names is the order of pages in the file.
class SharedPages {
 public:
  // Recorders number targets from 0 and never come this far.
  static constexpr TargetId kFirstFile{std::uint32_t{1} << 31};

  // These mappings hold from now on. Those of targets that are not listed stay as they were.
  void Add(const std::vector<Target>& targets);

  // No page that was added has another name than its own.
  bool empty() const { return files_.empty(); }

  // The name of the first page of a span; that of the others follows. It is `first` itself unless
  // one mapping of a shared file holds the whole span.
  PageKey NameOf(PageKey first, PageCount span) const;

 private:
  struct Part {
    VpnRange range;
    PageKey name;  // of its first page
  };
  // The inode of a System V segment is its ID, which another file of that device may have as its
  // inode: the name ("/SYSV…") tells them apart. All others have an empty name here.
  using File = std::tuple<std::uint64_t, std::uint64_t, std::string>;  // device, inode, name

  TargetId NumberOf(const Mapping& mapping);

  std::map<File, TargetId> files_;
  std::map<TargetId, std::vector<Part>> parts_;  // of shared files, ascending
};

}  // namespace tmprof

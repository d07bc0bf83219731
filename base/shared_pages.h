// SPDX-License-Identifier: Apache-2.0
// Gives a page of memory one name, however many processes map it.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/epoch_profile.h"
#include "base/forked_pages.h"
#include "base/page_key.h"
#include "base/units.h"

namespace tmprof {

// Each mapper of a shared file's page has a record of its own, from its own page table. The page
// itself is named by the file and its place there. A file takes the place of a target in the name:
// files are numbered from kFirstFile in order of appearance. A name therefore stays the same when
// its mappers come and go, and the order of names is the order of pages in the file.
//
// A file is a device, an inode and a path. Device and inode are not enough: subvolumes of btrfs
// show one device and repeat inode numbers, the inode of a System V segment is its ID, and a later
// file may get the inode of a deleted one. A segment has its IPC namespace, too, if that is known.
// docs/trace-format.md lists the cases that this does not cover.
//
// Private pages that processes share after fork(2) are pages of a file, too: of the process whose
// addresses are their names (ForkedPages).
class SharedPages {
 public:
  // Recorders number targets from 0 and never reach this number.
  static constexpr TargetId kFirstFile{std::uint32_t{1} << 31};
  // The page at an address of target t has the name {kFirstForked + t, address} while processes
  // share it after fork(2). Pages of targets from 2^30 on are not joined.
  static constexpr TargetId kFirstForked{std::uint32_t{3} << 30};

  // A part of a shared file at the place where a target maps it.
  struct Part {
    VpnRange range;
    PageKey name;  // name of its first page
    // A System V segment: each IPC namespace has its own segment of that name.
    bool is_segment = false;
    // The IPC namespace of a segment is unknown: another process's memory of this name may be
    // different memory.
    bool may_be_another = false;
    friend bool operator==(const Part&, const Part&) = default;
  };

  // Sets the mappings of these targets. Targets that are not listed keep theirs. So do targets
  // listed without any: every process has mappings, so they are unknown. The number of an unlinked
  // file ends when its last mapper unmaps it or exits.
  void Add(const std::vector<Target>& targets) { Add(targets, nullptr); }

  // Sets the mappings of the epoch's targets, and follows what it tells about pages that processes
  // share after fork(2). Their names change when a write has copied them.
  void AddEpoch(const EpochProfile& epoch) { Add(epoch.targets, &epoch.pages); }

  // Forgets the mappings of all other targets, and the numbers of files that none of these targets
  // maps: such a file gets a new number if it is mapped again. `targets` ascend.
  void KeepOnly(std::span<const TargetId> targets);

  // Returns the targets that map a shared file, ascending.
  std::vector<TargetId> Mappers() const;

  // Ascending by address.
  std::span<const Part> PartsOf(TargetId target) const;

  // Returns device, inode and place of a page in its file. nullopt: no target maps the file any
  // more, or the name is an address. O(n) in files.
  std::optional<FilePlace> PlaceOf(PageKey name) const;

  // True if every page that was added is named by its own address.
  bool empty() const { return of_targets_.empty(); }

  // Returns the name of the first page of a span; those of the others follow it. It is `first`
  // itself unless one mapping of a shared file holds the whole span.
  PageKey NameOf(PageKey first, PageCount span) const;

  // Returns the name that the page has before and after processes share it: an address in place of
  // a name from kFirstForked on, otherwise `name` itself.
  static PageKey LastingName(PageKey name) {
    if (name.target < kFirstForked) return name;
    return {TargetId(name.target.value() - kFirstForked.value()), name.vpn};
  }

 private:
  struct OfTarget {
    std::vector<Part> parts;  // parts of shared files, ascending
    bool exited = false;
  };
  // Device, inode, path, and the IPC namespace of a segment.
  using File = std::tuple<std::uint64_t, std::uint64_t, std::string, std::optional<std::uint64_t>>;
  struct Numbered {
    TargetId number;
    bool unlinked = false;  // its path was seen with " (deleted)", which is not part of File
  };

  // `pages`: null if they are unknown.
  void Add(const std::vector<Target>& targets, const PageColumns* pages);
  // Returns the parts of shared files that a target maps, ascending.
  std::vector<Part> FileParts(const Target& target);
  // Adds the target's forked pages to the parts of files.
  void AddForked(TargetId target, std::vector<Part>& parts) const;
  TargetId NumberOf(const Mapping& mapping, std::optional<std::uint64_t> ipc_namespace);
  // Ends the numbers of files that no target maps, if `may_end` agrees.
  template <typename MayEnd>
  void EndUnmapped(MayEnd may_end);

  std::map<File, Numbered> files_;
  std::uint32_t next_file_ = 0;
  ForkedPages forked_;
  std::map<TargetId, OfTarget> of_targets_;  // those that have parts
};

// Returns the places in shared files that mappings have at these addresses, parallel to `pages`.
// Both ascend.
std::vector<std::optional<FilePlace>> SharedFilesAt(std::span<const Mapping> mappings,
                                                    std::span<const Vpn> pages);

}  // namespace tmprof

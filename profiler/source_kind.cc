// SPDX-License-Identifier: Apache-2.0
// The only table of sources.

#include "profiler/source_kind.h"

#include <array>

namespace tmprof {
namespace {

constexpr std::array kSourceKinds{
    kDriverSource,      //
    kAbitBpfSource,     //
    kIbsSource,         //
    kPebsSource,        //
    kVirtualPmuSource,  //
    kClockSource,       //
    kExactSource,       //
};

}  // namespace

std::span<const SourceKind> SourceKinds() { return kSourceKinds; }

}  // namespace tmprof

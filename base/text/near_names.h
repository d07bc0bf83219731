// SPDX-License-Identifier: Apache-2.0
// Finds the name that a misspelt one was meant to be.

#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tmprof {

// The name that `word` was most likely meant to be: one that it begins, or one that takes few
// slips (a letter that is wrong, missing, doubled or swapped with its neighbour; at most a third of
// the letters). The first of several that are as near. Empty: none is near.
std::string Nearest(std::string_view word, std::span<const std::string> names);

// "did you mean 'record'?", with `rest` behind; `rest` alone where no name is near.
std::string DidYouMean(std::string_view word, std::span<const std::string> names,
                       std::string_view rest);

}  // namespace tmprof

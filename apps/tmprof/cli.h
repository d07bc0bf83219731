// SPDX-License-Identifier: Apache-2.0
// Shared parts of the commands of `tmprof`.

#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/command_line/messages.h"

namespace tmprof {

inline constexpr int kBadInput = 2;
inline constexpr std::string_view kDefaultTrace = "tmprof.data";

// Each registers one command. When it is parsed and run, `exit_status` is set. `launched` is the
// program to run with its arguments, as SplitCommand() returns it; it is set before the parse.
void AddRecordCommand(CLI::App& app, const std::vector<std::string>& launched, int& exit_status);
void AddCcCommand(CLI::App& app, const std::vector<std::string>& launched, int& exit_status);
void AddCurveCommand(CLI::App& app, int& exit_status);
void AddReportCommand(CLI::App& app, int& exit_status);
void AddEvalCommand(CLI::App& app, int& exit_status);
void AddAdviseCommand(CLI::App& app, int& exit_status);
void AddScoreCommand(CLI::App& app, int& exit_status);
void AddConvertCommand(CLI::App& app, int& exit_status);
void AddDoctorCommand(CLI::App& app, int& exit_status);
void AddCtlCommand(CLI::App& app, int& exit_status);
void AddGenerateCommand(CLI::App& app, int& exit_status);

// Options that hold a quantity with a unit; a bad value is a CLI::ValidationError.
CLI::Option* AddDuration(CLI::App& command, const std::string& flags,
                         std::chrono::nanoseconds& value, const std::string& description);
CLI::Option* AddDuration(CLI::App& command, const std::string& flags,
                         std::optional<std::chrono::nanoseconds>& value,
                         const std::string& description);
CLI::Option* AddBytes(CLI::App& command, const std::string& flags,
                      std::optional<std::uint64_t>& value, const std::string& description);
CLI::Option* AddShare(CLI::App& command, const std::string& flags, double& value,
                      const std::string& description);

// Admits whole numbers of at least `least`. CLI11's own checks let -1 wrap around, or answer with a
// range of 600 digits.
CLI::Validator WholeNumber(std::uint64_t least);

// "--rank-model rate|sum" and "--format text|json|csv"; the values given are the defaults.
CLI::Option* AddRankModel(CLI::App& command, std::string& value);
void AddFormat(CLI::App& command, std::string& value);
// "--wide", which every command has that prints tables. The width of its text is
// OutputWidth(value).
void AddWide(CLI::App& command, bool& value);
// "--rank-weight memory|accesses|stall|references"; `value` is the default, unless it is empty. The
// help text ends with the note.
CLI::Option* AddRankWeight(CLI::App& command, std::string& value, std::string_view note = {});
// "--llc SIZE"
CLI::Option* AddLlc(CLI::App& command, std::optional<std::uint64_t>& value);

}  // namespace tmprof

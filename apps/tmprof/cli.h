// SPDX-License-Identifier: Apache-2.0
// What the commands of `tmprof` share.

#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tmprof {

inline constexpr int kDone = 0;
inline constexpr int kBadInput = 2;
inline constexpr std::string_view kDefaultTrace = "tmprof.data";

// Each registers one command. When it is parsed and run, `exit_status` is set.
void AddRecordCommand(CLI::App& app, const std::vector<std::string>& command_after_dashes,
                      int& exit_status);
void AddReportCommand(CLI::App& app, int& exit_status);
void AddEvalCommand(CLI::App& app, int& exit_status);
void AddScoreCommand(CLI::App& app, int& exit_status);
void AddConvertCommand(CLI::App& app, int& exit_status);
void AddDoctorCommand(CLI::App& app, int& exit_status);
void AddGenerateCommand(CLI::App& app, int& exit_status);

// "tmprof: MESSAGE" on standard error; returns the error's exit status.
int ReportError(const Error& error);
void Warn(std::string_view message);

// Options that hold a quantity with a unit; a bad value is a CLI::ValidationError.
CLI::Option* AddDuration(CLI::App& command, const std::string& flags,
                         std::chrono::nanoseconds& value, const std::string& description);
CLI::Option* AddShare(CLI::App& command, const std::string& flags, double& value,
                      const std::string& description);

// "--rank-model rate|sum" and "--format text|json|csv"; the values given are the defaults.
void AddRankModel(CLI::App& command, std::string& value);
void AddFormat(CLI::App& command, std::string& value);

// Writes all of `text` to standard output, flushed; an error names it.
Status WriteOut(std::string_view text);

}  // namespace tmprof

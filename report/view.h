// SPDX-License-Identifier: Apache-2.0
// Renders all views by one call. A new view is a file pair and a row of the table in view.cc.

#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text/format.h"
#include "base/text/text_table.h"
#include "proto/ledger_file.h"
#include "proto/trace.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"
#include "report/analysis/annotator.h"
#include "report/analysis/heatmap.h"
#include "report/analysis/hot_groups.h"
#include "report/analysis/moves.h"
#include "report/analysis/working_set.h"

namespace tmprof {

struct ViewOptions {
  RankModel model = RankModel::kRate;
  RankWeight weight = RankWeight::kMemory;
  std::optional<RankSource> by;  // one kind of evidence instead of the weight
  EpochRange epochs;
  std::optional<std::size_t> limit = 20;  // rows of `hot`, `objects`; unset: all
  std::optional<Pid> pid;                 // unset: all; `heatmap`: the hottest
  std::optional<VpnRange> addresses;      // `heatmap`; unset: by its style
  std::vector<double> wss_rates = WorkingSetOptions{}.rates;  // `wss`; ascending
  bool heatmap_raw = false;                   // a cell uses only what was observed in its time
  std::optional<HeatmapStyle> heatmap_style;  // unset: chosen by how the trace was recorded
  std::uint64_t ping_pong_epochs = kPingPongEpochs;  // `moves`
  std::optional<std::uint64_t> object;         // `hot`: an address of the object; unset: all pages
  std::optional<HotGroup> hot_group;           // `hot`; unset: each span by itself
  const Annotator* annotator = nullptr;        // `hot`; null: nobody names objects
  std::size_t text_columns = 80;               // width of maps and bars in text
  TextWidth table_columns;                     // width of tables in text
  std::size_t text_rows = 24;                  // rows of a heat map in text
  std::optional<std::size_t> heatmap_columns;  // at most; unset: as many as the output shows well
  std::optional<std::size_t> heatmap_rows;     // at most; unset: as many as the output shows well
};

struct Rendered {
  std::string output;
  std::optional<std::string> png;                    // bytes of the file, if it was asked for
  std::optional<std::string> folded = std::nullopt;  // stacks, if they were asked for
  StreamEnd end;  // how the file ended; the output covers all before
};

struct View {
  std::string_view name;
  std::string_view description;             // one line
  std::span<const std::string_view> reads;  // names of the options that it reads
  bool has_png = false;
  bool by_memory = false;   // it can rank by accesses to memory
  bool by_evidence = true;  // its option `by`, if it reads that, is ViewOptions::by
  // The function for its input, a trace or a ledger. One of them is set.
  std::function<Result<Rendered>(const Trace& trace, const ViewOptions& options, Format format,
                                 bool with_png)>
      render = nullptr;
  std::function<Result<Rendered>(LedgerReader& ledger, const ViewOptions& options, Format format)>
      render_ledger = nullptr;
};

// The views that every build has. Optional components have more, which a program adds to its list.
std::span<const View> Views();
// Returns the options that any of the views reads, each once.
std::vector<std::string_view> OptionsOfViews(std::span<const View> views = Views());
// The names of the views that read `option`: "hot, heatmap, cdf".
std::string ViewsThatRead(std::string_view option, std::span<const View> views = Views());
Result<const View*> FindView(std::string_view name, std::span<const View> views = Views());

// Refuses a picture of a view that has none.
Status RequirePicture(const View& view);

// Refuses a view of ledgers and a picture of a view that has none. Also refuses epochs, a process,
// addresses or object profiles of which the trace has nothing.
Result<Rendered> RenderView(const View& view, const Trace& trace, const ViewOptions& options,
                            Format format, bool with_png = false);
// RenderView() of one of Views().
Result<Rendered> RenderView(std::string_view name, const Trace& trace, const ViewOptions& options,
                            Format format, bool with_png = false);

// Reads the rest of the ledger. Refuses a view of traces, and epochs that the ledger does not have.
Result<Rendered> RenderLedgerView(std::string_view name, LedgerReader& ledger,
                                  const ViewOptions& options, Format format);

// Replaces `path` whole, or leaves it unchanged (ReplacedFile).
Status WriteFile(const std::filesystem::path& path, std::string_view bytes);

}  // namespace tmprof

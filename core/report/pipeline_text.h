// Views of a pipeline: its stages as a table, its clock ticks as a chart.
#ifndef GSHARD_CORE_REPORT_PIPELINE_TEXT_H_
#define GSHARD_CORE_REPORT_PIPELINE_TEXT_H_

#include <string>

#include "core/cost/pipeline_report.h"
#include "core/json.h"

namespace gshard {

// "4 stages, 8 micro-batches, 1f1b: ..": bubble, recompute, imbalance, transfers, in two lines that
// begin with `indent`; `step_s` is the whole step.
std::string PipelineHeadline(const PipelineReport& pipeline, double step_s,
                             std::string_view indent = "");
// A row a stage (text, or a GitHub table).
std::string PipelineTable(const PipelineReport& pipeline, bool markdown = false);
// A row a stage over time: digits are micro-batches forward, letters backward, + gradients of
// weights alone, dots idle, ~ padding.
std::string PipelineGantt(const PipelineReport& pipeline, int width = 72);
// The value of "pipeline" in gshard.cost/1. `most_ticks`: of more, the first only.
Json PipelineAsJson(const PipelineReport& pipeline, size_t most_ticks = 1000);

// "forward", "backward", "weights", "idle", "padding", or "pass" for branches of other names.
std::string_view PassKindName(const PipelinePass& pass);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_PIPELINE_TEXT_H_

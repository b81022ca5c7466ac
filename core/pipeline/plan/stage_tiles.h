// How the rows of a stack of layers' weights lie over the stages between steps.
//
// Tiles of a sharding are equal but for the last: 103 rows on 8 devices are 13 each, the last device
// has 12 and one row of padding. Stages that begin where tiles do have their weights already.
#ifndef GSHARD_CORE_PIPELINE_PLAN_STAGE_TILES_H_
#define GSHARD_CORE_PIPELINE_PLAN_STAGE_TILES_H_

#include <cstdint>

namespace gshard::pipeline {

inline int64_t RowsOfTile(int64_t rows, int64_t stages) { return (rows + stages - 1) / stages; }

// Has every device some of the rows?
inline bool FillsTiles(int64_t rows, int64_t stages) {
  return rows > 0 && (stages - 1) * RowsOfTile(rows, stages) < rows;
}

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_STAGE_TILES_H_

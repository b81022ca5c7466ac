// See sharding_picture.h.

#include "core/report/sharding_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/analysis/axis_text.h"
#include "core/report/quantity_text.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

constexpr size_t kMaxShownRows = 12;  // else the first ones and the last
constexpr size_t kMaxTiles = 24;      // of a dim that is cut alone, which is folded into lines

int64_t TileSize(int64_t size, int64_t tiles) { return (size + tiles - 1) / tiles; }

// "0:512", "1536:2000 +48" where the tile is longer than what is left, "- +512" where nothing is.
std::string RangeText(int64_t size, int64_t tiles, int64_t i) {
  const int64_t length = TileSize(size, tiles);
  const int64_t begin = std::min(i * length, size), end = std::min(begin + length, size);
  const int64_t padding = length - (end - begin);
  std::string text = begin == end && length > 0 ? "-" : fmt::format("{}:{}", begin, end);
  if (padding > 0) text += fmt::format(" +{}", padding);
  return text;
}

// Indices shown of `count`, -1 for those left out.
std::vector<int64_t> Shown(int64_t count, size_t most) {
  std::vector<int64_t> shown;
  const auto limit = static_cast<int64_t>(std::max<size_t>(most, 3));
  for (int64_t i = 0; i < count; ++i) {
    if (count <= limit || i < limit - 2 || i == count - 1) {
      shown.push_back(i);
    } else if (shown.back() != -1) {
      shown.push_back(-1);
    }
  }
  return shown;
}

class Picture {
 public:
  Picture(const Shape* shape, const Sharding* sharding, std::vector<ShardingTile> tiles,
          const ShardingPictureOptions& options)
      : shape_(shape), tiles_(std::move(tiles)), options_(options) {
    for (int64_t dim = 0; dim < shape->rank(); ++dim) counts_.push_back(sharding->TileCount(dim));
    std::vector<int64_t> dims(counts_.size());
    std::iota(dims.begin(), dims.end(), 0);
    std::stable_sort(dims.begin(), dims.end(),
                     [&](int64_t a, int64_t b) { return Count(a) > Count(b); });
    dims.resize(std::min<size_t>(dims.size(), 2));
    std::sort(dims.begin(), dims.end());
    if (dims.size() == 2) row_dim_ = dims[0];
    if (!dims.empty()) column_dim_ = dims.back();
  }

  std::string Text() {
    if (row_dim_ >= 0 && Count(column_dim_) == 1) std::swap(row_dim_, column_dim_);
    std::string text = AxesText();
    const bool alone = row_dim_ < 0 || Count(row_dim_) == 1;
    if (alone && Count(column_dim_) > 8) return text + Folded();
    return text + Grid();
  }

 private:
  int64_t Count(int64_t dim) const { return dim < 0 ? 1 : counts_[static_cast<size_t>(dim)]; }

  // The tile at a row and column; the first along all other dims.
  const ShardingTile& At(int64_t row, int64_t column) const {
    int64_t flat = 0;
    for (int64_t dim = 0; dim < shape_->rank(); ++dim) {
      const int64_t i = dim == row_dim_ ? row : dim == column_dim_ ? column : 0;
      flat = flat * Count(dim) + i;
    }
    return tiles_[static_cast<size_t>(flat)];
  }

  std::string AxesText() const {
    std::string text;
    auto describe = [&](int64_t dim, const char* where) {
      if (dim < 0 || Count(dim) == 1) return;
      text += fmt::format("{}dim {} {} ({} in {})", text.empty() ? "" : ", ", dim, where,
                          shape_->dim(dim), Count(dim));
    };
    describe(row_dim_, "down");
    describe(column_dim_, "across");
    for (int64_t dim = 0; dim < shape_->rank(); ++dim) {
      if (dim == row_dim_ || dim == column_dim_ || Count(dim) == 1) continue;
      text += fmt::format("; the first of {} tiles of dim {}", Count(dim), dim);
    }
    return text.empty() ? text : text + "\n";
  }

  // One dim in many tiles: "0:1 on 0   1:2 on 1 ..", as one reads.
  std::string Folded() const {
    const int64_t count = Count(column_dim_), size = shape_->dim(column_dim_);
    std::vector<std::string> cells;
    for (const int64_t i :
         Shown(count, options_.full ? static_cast<size_t>(count) : 2 * kMaxTiles)) {
      cells.push_back(i < 0 ? ".."
                            : fmt::format("{} on {}", RangeText(size, count, i),
                                          DeviceListText(At(0, i).devices)));
    }
    size_t widest = 0;
    for (const std::string& cell : cells) widest = std::max(widest, cell.size());
    const size_t columns = std::max<size_t>(1, (options_.width - 2) / (widest + 3));
    std::string text;
    for (size_t i = 0; i < cells.size(); ++i) {
      const bool last = (i + 1) % columns == 0 || i + 1 == cells.size();
      text += i % columns == 0 ? "  " : "   ";
      text += last ? cells[i] + "\n" : fmt::format("{:<{}}", cells[i], widest);
    }
    return text;
  }

  std::string Grid() const {
    const int64_t rows = Count(row_dim_), columns = Count(column_dim_);
    std::vector<int64_t> shown_rows =
        Shown(rows, options_.full ? static_cast<size_t>(rows) : kMaxShownRows);
    std::vector<int64_t> shown_columns = Shown(columns, static_cast<size_t>(columns));
    std::vector<std::vector<std::string>> cells;
    std::vector<size_t> widths;
    // Columns are left out until the grid is no wider than the terminal.
    for (size_t most = static_cast<size_t>(columns);; --most) {
      shown_columns = Shown(columns, most);
      Fill(shown_rows, shown_columns, cells, widths);
      size_t width = 2;
      for (const size_t column : widths) width += column + 3;
      if (options_.full || width <= options_.width || most <= 3) break;
      most = std::min(most, shown_columns.size());
    }
    std::string rule = fmt::format("  {:>{}} +", "", widths[0]);
    for (size_t i = 1; i < widths.size(); ++i) rule += std::string(widths[i] + 2, '-') + "+";
    std::string text = Line(cells[0], widths, ' ') + rule + "\n";
    for (size_t i = 1; i < cells.size(); ++i) text += Line(cells[i], widths, '|') + rule + "\n";
    return text;
  }

  // First a line of column titles, then the rows, each with its title first.
  void Fill(const std::vector<int64_t>& rows, const std::vector<int64_t>& columns,
            std::vector<std::vector<std::string>>& cells, std::vector<size_t>& widths) const {
    cells.assign(1, {""});
    for (const int64_t column : columns) {
      cells[0].push_back(column < 0 ? ".."
                         : column_dim_ < 0
                             ? ""
                             : RangeText(shape_->dim(column_dim_), Count(column_dim_), column));
    }
    for (const int64_t row : rows) {
      std::vector<std::string>& line = cells.emplace_back();
      line.push_back(row < 0        ? ".."
                     : row_dim_ < 0 ? ""
                                    : RangeText(shape_->dim(row_dim_), Count(row_dim_), row));
      for (const int64_t column : columns) {
        line.push_back(row < 0 || column < 0 ? ".." : DeviceListText(At(row, column).devices));
      }
    }
    widths.assign(columns.size() + 1, 0);
    for (const std::vector<std::string>& line : cells) {
      for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
    }
  }

  static std::string Line(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
                          char border) {
    std::string line = fmt::format("  {:>{}} {}", cells[0], widths[0], border);
    for (size_t i = 1; i < cells.size(); ++i) {
      line += fmt::format(" {:<{}} {}", cells[i], widths[i], border);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
  }

  const Shape* shape_;
  std::vector<ShardingTile> tiles_;
  ShardingPictureOptions options_;
  std::vector<int64_t> counts_;
  int64_t row_dim_ = -1, column_dim_ = -1;
};

}  // namespace

std::vector<ShardingTile> TilesOf(const Shape* shape, const Sharding* sharding, int64_t devices) {
  std::vector<ShardingTile> tiles;
  const int64_t rank = shape->rank();
  auto whole = [&](std::vector<int64_t> holders) {
    ShardingTile tile{std::vector<int64_t>(static_cast<size_t>(rank), 0), {}, std::move(holders)};
    for (int64_t dim = 0; dim < rank; ++dim) tile.end.push_back(shape->dim(dim));
    tiles.push_back(std::move(tile));
  };
  if (sharding->IsReplicated()) {
    std::vector<int64_t> all(static_cast<size_t>(devices));
    std::iota(all.begin(), all.end(), 0);
    whole(std::move(all));
  } else if (sharding->IsMaximal()) {
    whole({sharding->device});
  }
  if (!sharding->IsTiled() || sharding->data_rank() != rank) return tiles;
  const int64_t count = sharding->TileCount(), copies = sharding->device_count() / count;
  for (int64_t flat = 0; flat < count; ++flat) {
    ShardingTile tile{std::vector<int64_t>(static_cast<size_t>(rank)),
                      std::vector<int64_t>(static_cast<size_t>(rank)),
                      {}};
    int64_t rest = flat;
    for (int64_t dim = rank - 1; dim >= 0; --dim) {
      const int64_t size = shape->dim(dim), length = TileSize(size, sharding->TileCount(dim));
      const int64_t begin = std::min(rest % sharding->TileCount(dim) * length, size);
      rest /= sharding->TileCount(dim);
      tile.begin[static_cast<size_t>(dim)] = begin;
      tile.end[static_cast<size_t>(dim)] = std::min(begin + length, size);
    }
    for (int64_t copy = 0; copy < copies; ++copy) {
      tile.devices.push_back(sharding->tiles.DeviceAtFlat(flat * copies + copy));
    }
    tiles.push_back(std::move(tile));
  }
  return tiles;
}

std::string DeviceListText(std::vector<int64_t> devices) {
  constexpr size_t kMaxParts = 6;
  std::sort(devices.begin(), devices.end());
  std::vector<std::string> parts;
  for (size_t i = 0; i < devices.size();) {
    const int64_t step = i + 1 < devices.size() ? devices[i + 1] - devices[i] : 1;
    size_t end = i + 1;
    while (end < devices.size() && devices[end] - devices[end - 1] == step) ++end;
    if (step == 1 && end - i > 2) {
      parts.push_back(fmt::format("{}-{}", devices[i], devices[end - 1]));
    } else if (end - i > 3) {
      parts.push_back(fmt::format("{},{}..{}", devices[i], devices[i + 1], devices[end - 1]));
    } else {
      end = i + 1;
      parts.push_back(fmt::format("{}", devices[i]));
    }
    i = end;
  }
  if (parts.size() <= kMaxParts) return fmt::format("{}", fmt::join(parts, ","));
  parts.resize(kMaxParts - 1);
  return fmt::format("{},.. {} in all", fmt::join(parts, ","), devices.size());
}

std::string ShardingPicture(Context& ctx, const Shape* shape, const Sharding* sharding,
                            const Mesh* mesh, int64_t devices,
                            const ShardingPictureOptions& options) {
  const std::string shape_text = ToString(shape, false), words = AxisText(ctx, sharding, mesh);
  if (!shape->IsArray()) return fmt::format("{}, {}\n", shape_text, words);
  std::vector<ShardingTile> tiles = TilesOf(shape, sharding, devices);
  if (tiles.empty()) return fmt::format("{}, {}: no tiles to draw\n", shape_text, words);
  if (tiles.size() == 1) {
    const size_t copies = tiles[0].devices.size();
    return fmt::format("{}, {}: {} hold{} all of it\n", shape_text, words,
                       copies == 1 ? fmt::format("device {}", tiles[0].devices[0])
                                   : fmt::format("all {} devices", copies),
                       copies == 1 ? "s" : "");
  }
  std::string text = fmt::format("{}, {}: {} of {}", shape_text, words,
                                 Counted(static_cast<int64_t>(tiles.size()), "tile"),
                                 ToString(ShardShape(ctx, shape, sharding), false));
  const auto copies = static_cast<int64_t>(tiles[0].devices.size());
  text += copies == 1 ? ", each on one device" : fmt::format(", each on {} devices", copies);
  const std::string free = FreeAxesText(ctx, sharding, mesh);
  if (!free.empty()) text += fmt::format(" (copies along {})", free);
  double elements = 1, padded = 1;
  for (int64_t dim = 0; dim < shape->rank(); ++dim) {
    elements *= static_cast<double>(shape->dim(dim));
    padded *= static_cast<double>(TileSize(shape->dim(dim), sharding->TileCount(dim)) *
                                  sharding->TileCount(dim));
  }
  if (padded > elements) text += fmt::format("; {:.1f}% is padding", 100 * (1 - elements / padded));
  return text + "\n" + Picture(shape, sharding, std::move(tiles), options).Text();
}

}  // namespace gshard

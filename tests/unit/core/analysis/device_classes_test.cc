#include "core/analysis/device_classes.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace gshard {
namespace {

std::vector<uint32_t> ClassesOf(const DeviceClasses* classes) {
  return {classes->class_of().begin(), classes->class_of().end()};
}

TEST_CASE("classes are numbered by their first device and interned", "[analysis]") {
  DeviceClassTable table(6);
  const std::vector<uint64_t> labels{9, 9, 2, 7, 2, 9};
  const DeviceClasses* classes = table.Intern(labels);
  CHECK(ClassesOf(classes) == std::vector<uint32_t>{0, 0, 1, 2, 1, 0});
  CHECK(classes->count() == 3);
  CHECK(classes->first_device(1) == 2);
  const std::vector<uint64_t> renamed{1, 1, 0, 5, 0, 1};
  CHECK(table.Intern(renamed) == classes);
  CHECK(table.Uniform()->count() == 1);
  CHECK(table.Distinct()->count() == 6);
}

TEST_CASE("the join is the coarsest common refinement", "[analysis]") {
  DeviceClassTable table(8);
  const std::vector<uint64_t> rows{0, 0, 0, 0, 1, 1, 1, 1}, columns{0, 1, 2, 3, 0, 1, 2, 3};
  const DeviceClasses* r = table.Intern(rows);
  const DeviceClasses* c = table.Intern(columns);
  CHECK(table.Join(r, c) == table.Distinct());
  CHECK(table.Join(c, r) == table.Distinct());
  CHECK(table.Join(r, table.Uniform()) == r);
  CHECK(table.Join(table.Distinct(), c) == table.Distinct());
  const std::vector<uint64_t> halves{0, 0, 1, 1, 2, 2, 3, 3};
  CHECK(table.Join(r, table.Intern(halves)) == table.Intern(halves));
  CHECK(table.Refines(table.Intern(halves), r));
  CHECK_FALSE(table.Refines(r, table.Intern(halves)));
}

TEST_CASE("merging classes is interning the labels of their devices", "[analysis]") {
  std::mt19937 random(5);
  const uint32_t devices = 48;
  DeviceClassTable table(devices);
  for (int round = 0; round < 60; ++round) {
    std::vector<uint64_t> labels(devices), of_devices;
    for (uint64_t& label : labels) label = random() % 7;
    const DeviceClasses* fine = round % 9 == 0 ? table.Distinct() : table.Intern(labels);
    std::vector<uint64_t> merged(fine->count());
    for (uint64_t& label : merged) label = uint64_t{random() % 3} << (round % 2 * 40);
    for (uint32_t d = 0; d < devices; ++d) of_devices.push_back(merged[fine->class_of(d)]);
    const DeviceClasses* expected = table.Intern(of_devices);
    CHECK(table.Merge(fine, merged) == expected);
    for (uint64_t& label : merged) label = 9 - label;  // other names, asked again
    CHECK(table.Merge(fine, merged) == expected);
  }
}

TEST_CASE("joins of random partitions separate exactly the pairs that either separates",
          "[analysis]") {
  std::mt19937 random(7);
  const uint32_t devices = 40;
  DeviceClassTable table(devices);
  for (int round = 0; round < 50; ++round) {
    std::vector<uint64_t> a(devices), b(devices);
    for (uint32_t d = 0; d < devices; ++d) {
      a[d] = random() % 5;
      b[d] = random() % 4;
    }
    const DeviceClasses* join = table.Join(table.Intern(a), table.Intern(b));
    for (uint32_t d = 0; d < devices; ++d) {
      for (uint32_t e = 0; e < devices; ++e) {
        REQUIRE((join->class_of(d) == join->class_of(e)) == (a[d] == a[e] && b[d] == b[e]));
      }
    }
    const ClassMap* map = table.MapOf(join, table.Intern(a));
    for (uint32_t d = 0; d < devices && map != nullptr; ++d) {
      REQUIRE((*map)[join->class_of(d)] == table.Intern(a)->class_of(d));
    }
  }
}

}  // namespace
}  // namespace gshard

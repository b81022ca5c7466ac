#include <cstdio>

#include "core/partition/partitioner.h"
#include "core/propagation/propagation.h"
#include "ir/parser.h"
#include "ir/printer.h"

int main(int, char** argv) {
  auto module = gshard::ParseModule(*gshard::SourceText::Open(argv[1]));
  if (!module || !PropagateShardings(**module) || !PartitionModule(**module)) return 1;
  std::puts(PrintModule(**module).c_str());
}

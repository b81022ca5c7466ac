// The main function of every unit test binary. Catch2 2 (Debian 12) is header-only: its
// implementation is compiled here once, so that test files only pay for the macros of
// <catch2/catch.hpp>.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>

#include "model/stream_conditioning.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "config/result.hpp"
#include "tests/cache/throws.hpp"

namespace tutti {
namespace {

const std::vector<StreamStateSpec> states{
    {.name = "memory", .shape = {2}},
    {.name = "prompt", .shape = {}, .persistent = true, .dtype = DType::i32}};

void require(const std::vector<StreamConditioning>& conditioning, bool carried = true) {
  require_conditioning(states, conditioning, "paged runtime", carried);
}

TEST(StreamConditioning, IsAValueForEachPersistentState) {
  require({{"prompt", 1}});
  expect_throws<SetupError>([] { require({}); }, "'prompt'", "no conditioning");
  expect_throws<SetupError>([] { require({{"prompt", 1}, {"memory", 1}}); }, "'memory'", "persistent");
  expect_throws<SetupError>([] { require({{"prompt", 1}, {"accent", 1}}); }, "'accent'");
}

TEST(StreamConditioning, IsRefusedByARuntimeThatWouldNotWriteIt) {
  expect_throws<SetupError>([] { require({{"prompt", 1}}, false); }, "paged runtime", "'prompt'");
  require_conditioning(std::span(states).first(1), {}, "paged runtime", false);
}

}  // namespace
}  // namespace tutti

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine_fixture.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "tests/gpu/every_target.hpp"

namespace tutti {
namespace {

TEST(Level, AStreamsFinalsAreTheSameBitsAloneAndInACrowdOnEveryLevelAndItsWordsOnAll) {
  const std::vector<std::string> names{"ocean-26.flac", "ocean-27.flac", "ocean-31.flac"};
  on_every_target([&] {
    const auto model = load_bundled_model();
    Engine engine(model, make_cpu_ops(), greedy_config());
    std::vector<Said> alone;
    for (const std::string& name : names) alone.push_back(recognize_alone(engine, clip(name), 10240));

    std::vector<StreamKey> keys;
    std::vector<Said> crowd(2 * names.size() + 1);  // of an odd number of streams
    for (size_t i = 0; i < crowd.size(); ++i) {
      keys.push_back(engine.admit({}).value());
      must(engine.feed(keys.back(), clip(names[i % names.size()])));
      must(engine.finish(keys.back()));
    }
    run_until_idle(engine, [&](const Update& update) {
      for (size_t i = 0; i < keys.size(); ++i) {
        if (keys[i] == update.key) crowd[i].add(update);
      }
    });
    for (size_t i = 0; i < crowd.size(); ++i) {
      const std::string& name = names[i % names.size()];
      EXPECT_EQ(crowd[i].finals(), alone[i % names.size()].finals()) << name;
      EXPECT_THAT(crowd[i].final_texts(), testing::ElementsAre(expected_text(name)));
    }
  });
}

}  // namespace
}  // namespace tutti

#include "model/model_identity.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "model/bundle.hpp"
#include "model/model_loader.hpp"
#include "tests/config/temp_directory.hpp"

namespace tutti {
namespace {

/// As small as one can be made of: nothing is run.
Checkpoint checkpoint() {
  Checkpoint made{.name = "a", .spec = {}, .weights = WeightMap("test"), .units = {"<blank>", "a", "bc"}};
  made.weights.add("x", host_tensor({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}));
  made.weights.add("y", host_tensor({1}, std::vector<float>{7}));
  return made;
}

TEST(ModelIdentity, IsThatOfAnyCopy) {
  EXPECT_EQ(identify_model(checkpoint()), identify_model(checkpoint()));
  EXPECT_EQ(to_string(identify_model(checkpoint())).size(), 64U);
}

TEST(ModelIdentity, DoesNotDependOnWhatAModelIsCalledAndWhereItIs) {
  Checkpoint renamed = checkpoint();
  renamed.name = "b";
  EXPECT_EQ(identify_model(renamed), identify_model(checkpoint()));

  test::TempDirectory directory;
  const Checkpoint source = load_model(std::filesystem::path(TUTTI_MODELS) / "tutti-en-mini");
  (void)save_bundle(directory.path() / "copy", source, WeightType::bf16);  // as it is stored
  EXPECT_EQ(identify_model(load_model(directory.path() / "copy")), identify_model(source));
}

TEST(ModelIdentity, ChangesWithEverythingThatDecidesResults) {
  const std::vector<std::function<void(Checkpoint&)>> changes = {
      [](Checkpoint&) {},
      [](Checkpoint& made) { made.spec.attention_heads = 8; },
      [](Checkpoint& made) { made.spec.fbank.preemphasis = 0.5F; },
      [](Checkpoint& made) { made.units[1] = "b"; },
      // The same characters, divided otherwise.
      [](Checkpoint& made) {
        made.units = {"<blank>", "ab", "c"};
      },
      [](Checkpoint& made) { made.weights.views().at("x").f32()[5] = 6.0000005F; },
      [](Checkpoint& made) { made.weights.add("z", host_tensor({1}, std::vector<float>{0})); },
      [](Checkpoint& made) {
        made.weights = WeightMap("test");
        made.weights.add("x", host_tensor({3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6}));
        made.weights.add("y", host_tensor({1}, std::vector<float>{7}));
      },
  };
  std::set<std::string> identities;
  for (const auto& change : changes) {
    Checkpoint made = checkpoint();
    change(made);
    identities.insert(to_string(identify_model(made)));
  }
  EXPECT_EQ(identities.size(), changes.size());
}

}  // namespace
}  // namespace tutti

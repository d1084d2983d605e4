#include "config/config_changes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/options.hpp"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ConfigChanges, AreNoneBetweenEqualConfigurations) {
  const ConfigChanges changes = compare_configs({}, {});
  EXPECT_THAT(changes.at_once, IsEmpty());
  EXPECT_THAT(changes.with_model, IsEmpty());
  EXPECT_THAT(changes.at_restart, IsEmpty());
  EXPECT_FALSE(changes.loads_model());
}

TEST(ConfigChanges, AreSortedByWhenTheyApply) {
  ServerConfig wanted;
  wanted.bind = "127.0.0.1:9999";
  wanted.max_sessions = 7;
  wanted.log_level = "debug";
  wanted.model = "/models/other";
  wanted.engine.weights = "int8";
  wanted.engine.owners = 3;
  const ConfigChanges changes = compare_configs({}, wanted);
  EXPECT_THAT(changes.at_once, ElementsAre("server.max_sessions", "server.log_level"));
  EXPECT_THAT(changes.with_model, ElementsAre("server.model", "engine.weights"));
  EXPECT_THAT(changes.at_restart, ElementsAre("server.bind", "engine.owners"));
  EXPECT_TRUE(changes.loads_model());
}

TEST(ConfigChanges, OfWhatNeedsARestartLeaveTheRunningValue) {
  const ServerConfig running;
  for (const ConfigOption& option : config_options()) {
    ServerConfig wanted;
    // Any other value, whether or not it would be accepted.
    if (const auto* number = std::get_if<WholeNumberField>(&option.value)) number->field(wanted) += 1;
    if (const auto* weight = std::get_if<WeightField>(&option.value)) weight->field(wanted) = 0.5F;
    if (const auto* on = std::get_if<SwitchField>(&option.value)) on->field(wanted) = !on->field(wanted);
    if (const auto* choice = std::get_if<ChoiceField>(&option.value)) choice->field(wanted) += "x";
    if (const auto* text = std::get_if<TextField>(&option.value)) text->field(wanted) += "x";
    if (const auto* list = std::get_if<ListField>(&option.value)) list->field(wanted) = {"x"};
    const ConfigChanges changes = compare_configs(running, wanted);
    const bool is_tls = option.name == "server.tls_certificate";
    const bool restarts = option.applies == Applies::at_start || is_tls;
    EXPECT_EQ(changes.at_restart.size(), restarts ? 1U : 0U) << option.name;
    EXPECT_EQ(option.to_toml(changes.config), option.to_toml(restarts ? running : wanted)) << option.name;
    EXPECT_EQ(changes.loads_model(), option.applies == Applies::with_model) << option.name;
  }
}

TEST(ConfigChanges, RenewACertificateButNeitherTakeTlsUpNorGiveItUp) {
  ServerConfig plain;
  ServerConfig secure;
  secure.tls_certificate = "a.pem";
  secure.tls_key = "a.key";
  EXPECT_THAT(compare_configs(plain, secure).at_restart,
              ElementsAre("server.tls_certificate", "server.tls_key"));
  EXPECT_EQ(compare_configs(plain, secure).config.tls_key, "");
  EXPECT_THAT(compare_configs(secure, plain).at_restart,
              ElementsAre("server.tls_certificate", "server.tls_key"));
  EXPECT_EQ(compare_configs(secure, plain).config.tls_key, "a.key");
  ServerConfig renewed = secure;
  renewed.tls_certificate = "b.pem";
  EXPECT_THAT(compare_configs(secure, renewed).at_once, ElementsAre("server.tls_certificate"));
  EXPECT_EQ(compare_configs(secure, renewed).config.tls_certificate, "b.pem");
}

TEST(ConfigChanges, AreNamedAsInASentence) {
  EXPECT_EQ(join_names({}), "");
  EXPECT_EQ(join_names({"a"}), "a");
  EXPECT_EQ(join_names({"a", "b"}), "a and b");
  EXPECT_EQ(join_names({"a", "b", "c"}), "a, b and c");
}

}  // namespace
}  // namespace tutti

#include "config/options.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace tutti {
namespace {

const ConfigOption& option(std::string_view name) {
  const ConfigOption* found = find_option(name);
  EXPECT_NE(found, nullptr) << name;
  return *found;
}

TEST(ConfigOptions, NamesFlagsAndVariablesAreUnique) {
  std::set<std::string> names;
  std::set<std::string> flags;
  std::set<std::string> variables;
  for (const ConfigOption& each : config_options()) {
    EXPECT_TRUE(names.insert(std::string(each.name)).second) << each.name;
    EXPECT_TRUE(flags.insert(each.flag()).second) << each.flag();
    EXPECT_TRUE(variables.insert(each.environment()).second) << each.environment();
  }
}

TEST(ConfigOptions, DeriveTheirOtherNames) {
  EXPECT_EQ(option("engine.max_streams").flag(), "--max-streams");
  EXPECT_EQ(option("callback.max_queued").flag(), "--callback-max-queued");
  EXPECT_EQ(option("engine.max_streams").environment(), "TUTTI_ENGINE_MAX_STREAMS");
  EXPECT_EQ(option("server.bind").environment(), "TUTTI_SERVER_BIND");
  EXPECT_EQ(find_option("server.nothing"), nullptr);
}

TEST(ConfigOptions, EveryDefaultIsAccepted) {
  for (const ConfigOption& each : config_options()) {
    ServerConfig config;
    std::string spelled = each.to_toml(config);
    if (spelled == "[]") spelled = "";
    if (spelled.starts_with('"')) spelled = spelled.substr(1, spelled.size() - 2);
    EXPECT_TRUE(each.parse(config, spelled)) << each.name << " = " << spelled;
    EXPECT_EQ(each.to_toml(config), each.to_toml(ServerConfig{}));
  }
}

TEST(ConfigOptions, EachReachesAFieldOfItsOwn) {
  for (const ConfigOption& each : config_options()) {
    ServerConfig config;
    if (const auto* number = std::get_if<WholeNumberField>(&each.value)) {
      const std::string before = each.to_toml(config);
      const int other = std::to_string(number->min) == before ? number->min + 1 : number->min;
      ASSERT_TRUE(each.set_number(config, other)) << each.name;
    } else if (std::holds_alternative<WeightField>(each.value)) {
      ASSERT_TRUE(each.set_weight(config, 0.25)) << each.name;
    } else if (const auto* on = std::get_if<SwitchField>(&each.value)) {
      on->field(config) = !on->field(config);
    } else if (const auto* choice = std::get_if<ChoiceField>(&each.value)) {
      choice->field(config) = "changed";
    } else if (const auto* list = std::get_if<ListField>(&each.value)) {
      list->field(config) = {"changed"};
    } else {
      std::get<TextField>(each.value).field(config) = "changed";
    }
    for (const ConfigOption& other : config_options()) {
      EXPECT_EQ(other.to_toml(config) != other.to_toml(ServerConfig{}), &other == &each)
          << each.name << " and " << other.name;
    }
  }
}

TEST(ConfigOptions, AListIsSeparatedByCommasAndSetAsAWhole) {
  ServerConfig config;
  const auto& ports = option("server.dialect_at");
  EXPECT_TRUE(ports.parse(config, "2700=vosk, 6006=sherpa"));
  EXPECT_THAT(config.dialect_at, testing::ElementsAre("2700=vosk", "6006=sherpa"));
  EXPECT_EQ(ports.to_toml(config), R"(["2700=vosk", "6006=sherpa"])");
  for (const auto* spelled :
       {"2700", "=vosk", "2700=", "65536=vosk", "-1=vosk", "2700=Vosk", "1=a,,2=b", ","}) {
    EXPECT_FALSE(ports.parse(config, spelled)) << spelled;
  }
  EXPECT_FALSE(ports.set_text(config, "2700=vosk"));
  EXPECT_EQ(config.dialect_at.size(), 2U);
  EXPECT_TRUE(ports.parse(config, ""));
  EXPECT_TRUE(config.dialect_at.empty());
}

TEST(ConfigOptions, AudioSocketHasAnAddressOrNone) {
  ServerConfig config;
  const auto& address = option("server.audiosocket");
  EXPECT_TRUE(address.parse(config, "127.0.0.1:9092"));
  EXPECT_EQ(config.audiosocket, "127.0.0.1:9092");
  EXPECT_FALSE(address.parse(config, "9092"));
  EXPECT_TRUE(address.parse(config, ""));
  EXPECT_EQ(config.audiosocket, "");
}

TEST(ConfigOptions, NumbersAreWholeAndWithinTheirRange) {
  ServerConfig config;
  const auto& streams = option("engine.max_streams");
  for (const auto* spelled :
       {"0", "100001", "-1", "", " 5", "5 ", "5.0", "0x10", "+5", "99999999999999999999"}) {
    EXPECT_FALSE(streams.parse(config, spelled)) << spelled;
  }
  EXPECT_EQ(config.engine.max_streams, EngineConfig{}.max_streams);
  EXPECT_TRUE(streams.parse(config, "100000"));
  EXPECT_EQ(config.engine.max_streams, 100000);
  EXPECT_FALSE(streams.set_text(config, "5"));
  EXPECT_FALSE(option("server.bind").set_number(config, 5));
}

TEST(ConfigOptions, AWeightIsANumberOrLeftToTheModel) {
  ServerConfig config;
  const auto& weight = option("engine.reverse_weight");
  EXPECT_EQ(weight.accepted(), "-1, or a number from 0 to 1");
  EXPECT_EQ(weight.to_toml(config), "-1");
  for (const auto* spelled : {"0", "0.3", "1", "1e-1", "-1"}) {
    EXPECT_TRUE(weight.parse(config, spelled)) << spelled;
  }
  EXPECT_TRUE(weight.parse(config, "0.3"));
  EXPECT_EQ(config.engine.reverse_weight, 0.3F);
  EXPECT_EQ(weight.to_toml(config), "0.3");
  for (const auto* spelled : {"", "-0.5", "1.5", "nan", "auto", "0.3x", "-2"}) {
    EXPECT_FALSE(weight.parse(config, spelled)) << spelled;
  }
  EXPECT_EQ(config.engine.reverse_weight, 0.3F);
  EXPECT_FALSE(weight.set_number(config, 1));
  EXPECT_FALSE(weight.set_text(config, "1"));
  EXPECT_FALSE(option("engine.beam").set_weight(config, 1));
}

TEST(ConfigOptions, UploadsHaveLimits) {
  ServerConfig config;
  EXPECT_EQ(config.max_uploads, 4);
  EXPECT_EQ(config.max_upload_bytes, 64 * 1024 * 1024);
  EXPECT_EQ(config.max_upload_seconds, 4 * 60 * 60);
  EXPECT_FALSE(option("server.max_uploads").parse(config, "0"));
  EXPECT_FALSE(option("server.max_upload_bytes").parse(config, "1023"));
  EXPECT_TRUE(option("server.max_upload_seconds").parse(config, "60"));
  EXPECT_EQ(config.max_upload_seconds, 60);
}

TEST(ConfigOptions, AddressesHaveAHostAndAPort) {
  ServerConfig config;
  const auto& bind = option("server.bind");
  for (const auto* spelled : {"127.0.0.1:8080", "0.0.0.0:0", "localhost:65535", "[::1]:80", "[::]:8080"}) {
    EXPECT_TRUE(bind.parse(config, spelled)) << spelled;
    EXPECT_EQ(config.bind, spelled);
  }
  for (const auto* spelled : {"", "8080", ":8080", "host", "host:", "host:65536", "host:-1", "::1:80",
                              "[]:80", "a b:1", "host:80x"}) {
    EXPECT_FALSE(bind.parse(config, spelled)) << spelled;
  }
}

TEST(ConfigOptions, DevicesAreNamedExactly) {
  ServerConfig config;
  const auto& device = option("engine.device");
  for (const auto* spelled : {"auto", "cpu", "cuda:0", "cuda:15", "cuda:all", "cuda:0,cuda:2"})
    EXPECT_TRUE(device.parse(config, spelled)) << spelled;
  for (const auto* spelled : {"", "gpu", "CPU", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1000", "cuda:0,",
                              "cuda:0,1", "cuda:0,cpu", "cuda:all,cuda:0"}) {
    EXPECT_FALSE(device.parse(config, spelled)) << spelled;
  }
}

TEST(ConfigOptions, AChoiceIsOneOfItsWords) {
  ServerConfig config;
  const auto& level = option("server.log_level");
  EXPECT_EQ(level.accepted(), "one of trace, debug, info, warn, error");
  EXPECT_TRUE(level.parse(config, "warn"));
  EXPECT_EQ(config.log_level, "warn");
  EXPECT_FALSE(level.parse(config, "warning"));
  EXPECT_FALSE(level.parse(config, ""));
}

TEST(ConfigOptions, TheNearestNameForgivesLettersAndSections) {
  EXPECT_EQ(nearest_option("engine.max_stream").name, "engine.max_streams");
  EXPECT_EQ(nearest_option("servr.bind").name, "server.bind");
  EXPECT_EQ(nearest_option("bind").name, "server.bind");
  EXPECT_EQ(nearest_option("engine.log_level").name, "server.log_level");
  EXPECT_EQ(nearest_option("engine.max_batchsize").name, "engine.max_batch_size");
}

TEST(ConfigOptions, ASwitchIsTrueOrFalse) {
  ServerConfig config;
  const auto& insecure = option("server.insecure");
  EXPECT_EQ(insecure.accepted(), "true or false");
  EXPECT_TRUE(insecure.parse(config, "true"));
  EXPECT_TRUE(config.insecure);
  EXPECT_EQ(insecure.to_toml(config), "true");
  for (const auto* spelled : {"", "1", "yes", "True"})
    EXPECT_FALSE(insecure.parse(config, spelled)) << spelled;
  EXPECT_FALSE(insecure.set_text(config, "false"));
  EXPECT_FALSE(option("server.bind").set_switch(config, true));
  EXPECT_TRUE(insecure.parse(config, "false"));
  EXPECT_FALSE(config.insecure);
}

TEST(RenderToml, IsWhatTheRepositoryShowsAsAnExample) {
  std::ifstream file(TUTTI_DEPLOY "/tutti.toml");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(text, render_toml(ServerConfig{}))
      << "write it with: tutti serve --print-config > deploy/tutti.toml";
}

TEST(RenderToml, SaysEachOptionOnceWithItsNames) {
  const std::string text = render_toml(ServerConfig{});
  EXPECT_THAT(text, ::testing::StartsWith("[server]\n# "));
  EXPECT_THAT(text, ::testing::HasSubstr("\n\n[engine]\n# "));
  EXPECT_THAT(
      text, ::testing::HasSubstr("--max-streams; TUTTI_ENGINE_MAX_STREAMS: a whole number from 1 to 100000. "
                                 "Reloaded with the model.\nmax_streams = 64\n"));
}

}  // namespace
}  // namespace tutti
